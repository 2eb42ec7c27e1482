//! Running an experiment: every variant at every point, in parallel, into one summary.

mod allocation;
mod asked;
mod choice;
mod communication;
mod constants;
mod detail;
mod drawing;
mod drives;
mod epoch_parts;
mod explain;
mod failure;
mod first;
mod footprint;
mod fused;
mod headline;
mod host_power;
mod idle;
mod journal;
mod kept;
mod kernels;
mod lane_trace;
mod lanes;
mod lasting;
mod measure;
mod notes;
mod one;
mod outcomes;
mod path;
mod picture;
mod plan;
mod power;
mod programmed;
mod ranks;
mod recorded;
mod remedy;
mod replanned;
mod replayed;
mod search;
mod shard;
mod spent;
pub mod step_spreads;
mod summarise;
mod swapped;
mod tally;
mod tensors;
mod tracing;
mod uncertainty;
mod virtualised;
mod what_if;
mod window;
mod words;

use indexmap::IndexMap;
use reports::summary::{RunSummary, Summary};
use thiserror::Error;

use crate::experiment::{Experiment, Point};
use journal::Simulations;
use one::{Drawn, Ended};
use outcomes::Outcomes;

pub use explain::{Explaining, explain};
pub use first::{First, first};
pub use fused::{FusedGroup, fused};
pub use journal::{Journal, Key, Knowledge};
pub use kernels::{KernelRow, kernels};
pub use lane_trace::trace_replay;
pub(crate) use one::prepare;
pub use picture::best;
pub(crate) use plan::MAX_STAGES;
pub use plan::{MAX_RUNS, Plan, Reason, plan, plan_of};
pub use shard::{Done, MAX_SHARDS, Shard, lacking, work};
pub use tensors::tensors;
pub use tracing::trace;

/// How to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The root of all randomness.
    pub seed: u64,
    /// Simulations at a time. `None`: one for each processor.
    pub jobs: Option<usize>,
    /// Only these variants; empty: all.
    pub variants: Vec<String>,
    /// A command line that gives the same results again, for the report.
    pub reproduce: String,
}

/// How an experiment gets smaller.
const NARROW: &str =
    "leave out values of an axis, narrow the sweep with `where`, or choose variants with `--variant`";

/// Why nothing was run.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// A variant that the experiment does not have.
    #[error("the experiment has no variant `{name}`: it has {}", known.join(", "))]
    UnknownVariant {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// More runs than are simulated at once.
    #[error(
        "{points} points of the sweep, for each of the variants ({variants}), are {runs} runs, more than the limit of {limit}: {NARROW}"
    )]
    TooManyRuns {
        /// Points of the sweep.
        points: u64,
        /// Variants chosen.
        variants: usize,
        /// Their product.
        runs: u64,
        /// The limit.
        limit: u64,
    },
    /// More stages in all runs together than results are kept of.
    #[error("the runs have {stages} stages together, more than the limit of {limit}: {NARROW}")]
    TooManyStages {
        /// Stages of all runs.
        stages: u64,
        /// The limit.
        limit: u64,
    },
    /// A run with more activities than `run.limit`; of several the largest.
    #[error(
        "variant `{variant}` has about {activities} activities, more than the limit of {limit}: make the plan smaller, \
         or allow it with `--set run.limit={activities}`"
    )]
    TooLarge {
        /// The variant.
        variant: String,
        /// Activities estimated.
        activities: u64,
        /// The limit.
        limit: u64,
    },
    /// Shards of a search for the last value of a quantity.
    #[error(
        "values of a quantity are searched one after the other, which no shards can: run the file as a whole"
    )]
    OneAfterTheOther,
    /// No run whose settings go together.
    #[error("{}", nothing_runs(reasons))]
    NothingRuns {
        /// Reasons, the most frequent first; empty where no point of the sweep meets `where`.
        reasons: Vec<Reason>,
    },
    /// A variant of which no run is possible.
    #[error("`{variant}` has no run to show: {reason}")]
    NothingToShow {
        /// The variant.
        variant: String,
        /// Why its last run is impossible.
        reason: String,
    },
    /// A mistake in foretrain.
    #[error("variant `{variant}`{} could not be simulated, which is a bug in foretrain: {reason}", at(point))]
    Broken {
        /// The variant.
        variant: String,
        /// The point of the sweep or the settings of the plan, by path.
        point: IndexMap<String, String>,
        /// What went wrong.
        reason: String,
    },
}

/// ` with a.b=1, c=2`, as `--set` takes them; empty without sweep.
fn at(point: &IndexMap<String, String>) -> String {
    let settings: Vec<String> = point.iter().map(|(path, value)| format!("{path}={value}")).collect();
    if settings.is_empty() { String::new() } else { format!(" with {}", settings.join(", ")) }
}

fn nothing_runs(reasons: &[Reason]) -> String {
    let lines: Vec<String> =
        reasons.iter().map(|Reason { reason, runs }| format!("\n  {runs} x {reason}")).collect();
    match lines[..] {
        [] => "no point of the sweep meets `where`: relax its conditions, or sweep other values".to_owned(),
        _ => format!("no run is possible: change what makes them so{}", lines.concat()),
    }
}

/// Looks on while an experiment is sized up, and while it runs.
pub trait Progress: Sync {
    /// Announces the number of runs that will be sized up, or simulated.
    fn begin(&self, runs: u64);
    /// One of them is done.
    fn done(&self);
    /// Tells seconds of one core that all runs take together, roughly.
    fn expect(&self, _core_s: f64, _runs: u64) {}
    /// Whether to begin no further run; those that have ended are summarised.
    fn stop(&self) -> bool {
        false
    }
}

/// Nobody who looks on.
pub struct Unwatched;

impl Progress for Unwatched {
    fn begin(&self, _: u64) {}
    fn done(&self) {}
}

/// What sizing up shows of itself where runs follow: nothing, but it can be stopped.
struct Sizing<'a>(&'a dyn Progress);

impl Progress for Sizing<'_> {
    fn begin(&self, _: u64) {}
    fn done(&self) {}
    fn stop(&self) -> bool {
        self.0.stop()
    }
}

/// The run that a summary shows, as a scenario to be kept elsewhere: the first that can be resolved,
/// if any can; of a search the best. Hardware files are called as `place` calls them.
///
/// # Errors
/// A variant that the experiment does not have.
pub fn shown(
    experiment: &Experiment,
    options: &Options,
    summary: &Summary,
    place: &dyn Fn(&str) -> String,
) -> Result<String, Refusal> {
    let resolved = match experiment.search() {
        Some(_) => summarise::best(experiment, &summary.variants),
        None => summarise::first(experiment, &selected(experiment, options)?),
    };
    let settings = resolved.map(|resolved| experiment.explain_elsewhere(&resolved, place));
    Ok(experiment.titled(&settings.unwrap_or_default()))
}

/// Runs an experiment.
///
/// # Errors
/// See [`Refusal`]; what a run finds, be it that it does not fit, is no error.
pub fn execute(
    experiment: &Experiment,
    options: &Options,
    progress: &dyn Progress,
) -> Result<Summary, Refusal> {
    resume(experiment, options, progress, None)
}

/// Runs an experiment but for simulations whose outcome a journal knows; the others are kept there.
///
/// # Errors
/// As [`execute`].
pub fn resume(
    experiment: &Experiment,
    options: &Options,
    progress: &dyn Progress,
    journal: Option<&dyn Journal>,
) -> Result<Summary, Refusal> {
    let Plan { estimated_s, runs, .. } = plan(experiment, options, &Sizing(progress))?;
    progress.expect(estimated_s, runs);
    let variants = selected(experiment, options)?;
    let simulations = Simulations::new(experiment, options.seed, journal);
    if let Some(search) = experiment.search() {
        let (runs, proof) = search::best(experiment, search, &variants, options, &simulations, progress)?;
        let runs = picture::add(experiment, options, runs, progress)?;
        return Ok(summarise::searched(experiment, options, &variants, proof, runs));
    }
    let points: Vec<Point> = experiment.points().collect();
    let pairs: Vec<(&Point, &str)> = pairs(&points, &variants).collect();
    // Where there is but one point it is the one that is shown.
    let drawn = if points.len() == 1 { Drawn::Yes } else { Drawn::No };
    let outcomes = Outcomes::new(simulations, drawn);
    let ended = one::run_all(experiment, options, &pairs, &outcomes, progress)?;
    let remedies = in_parallel(options.jobs, || remedy::find(experiment, &ended, &outcomes, progress));
    // Summaries are shared with it.
    drop(outcomes);
    let mut runs: Vec<RunSummary> = ended.into_iter().map(Ended::summary).collect();
    for (place, remedies) in remedies {
        runs[place].failure.iter_mut().for_each(|failure| failure.remedies.extend(remedies.iter().cloned()));
    }
    let runs = picture::add(experiment, options, runs, progress)?;
    Ok(summarise::summary(experiment, options, &variants, pairs.len(), runs))
}

/// Every run of an experiment, points outermost.
fn pairs<'a>(points: &'a [Point], variants: &'a [&'a str]) -> impl Iterator<Item = (&'a Point, &'a str)> {
    points.iter().flat_map(move |point| variants.iter().map(move |&variant| (point, variant)))
}

/// Runs the first variant of an experiment at its first point, without looking for remedies if it does not fit.
///
/// # Errors
/// As [`execute`].
pub fn alone(experiment: &Experiment, seed: u64) -> Result<RunSummary, Refusal> {
    let options = Options { seed, jobs: None, variants: Vec::new(), reproduce: String::new() };
    plan(experiment, &options, &Unwatched)?;
    let (variants, mut points) = (selected(experiment, &options)?, experiment.points());
    let (Some(variant), Some(point)) = (variants.first(), points.next()) else {
        return Ok(RunSummary::default());
    };
    one::simulated_at(experiment, variant, &point, seed)
}

/// Does something with so many threads; one per processor if none is given.
pub(crate) fn in_parallel<T: Send>(jobs: Option<usize>, work: impl FnOnce() -> T + Send) -> T {
    match rayon::ThreadPoolBuilder::new().num_threads(jobs.unwrap_or(0)).build() {
        Ok(threads) => threads.install(work),
        Err(_) => work(),
    }
}

/// The variants to run, in the order of the file.
fn selected<'e>(experiment: &'e Experiment, options: &Options) -> Result<Vec<&'e str>, Refusal> {
    let known: Vec<&str> = experiment.variants().collect();
    if let Some(name) = options.variants.iter().find(|name| !known.contains(&name.as_str())) {
        let known = known.into_iter().map(str::to_owned).collect();
        return Err(Refusal::UnknownVariant { name: name.clone(), known });
    }
    let wanted =
        |name: &&str| options.variants.is_empty() || options.variants.iter().any(|wanted| wanted == name);
    Ok(known.into_iter().filter(wanted).collect())
}
