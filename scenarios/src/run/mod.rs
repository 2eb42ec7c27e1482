//! Running an experiment: every variant at every point, in parallel, into one summary.

mod failure;
mod measure;
mod one;
mod picture;
mod plan;
mod remedy;
mod summarise;
mod words;

use rayon::prelude::*;
use reports::summary::{RunSummary, Summary};
use thiserror::Error;

use crate::experiment::{Experiment, Point};

pub use plan::{Plan, plan};

/// How to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The root of all randomness.
    pub seed: u64,
    /// Simulations at a time; none: one per processor.
    pub jobs: Option<usize>,
    /// Only these variants; empty: all.
    pub variants: Vec<String>,
    /// A command line that gives the same results again, for the report.
    pub reproduce: String,
}

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
    /// A run with more activities than `run.limit`.
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
    /// A mistake in foretrain.
    #[error("variant `{variant}` could not be simulated, which is a bug in foretrain: {reason}")]
    Broken {
        /// The variant.
        variant: String,
        /// What went wrong.
        reason: String,
    },
}

/// Looks on while an experiment runs.
pub trait Progress: Sync {
    /// So many runs will follow.
    fn begin(&self, runs: u64);
    /// One of them has ended.
    fn done(&self);
    /// Whether to begin no further run; those that have ended are summarised.
    fn stop(&self) -> bool {
        false
    }
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
    let plan = plan(experiment, options)?;
    let variants = selected(experiment, options)?;
    let points: Vec<Point> = experiment.points().collect();
    progress.begin(plan.points * variants.len() as u64);
    let pairs: Vec<(&Point, &str)> =
        points.iter().flat_map(|point| variants.iter().map(move |&variant| (point, variant))).collect();
    let run = |&(point, variant): &(&Point, &str)| -> Option<Result<RunSummary, Refusal>> {
        if progress.stop() {
            return None;
        }
        let run = one::run(experiment, variant, point, options);
        progress.done();
        Some(run)
    };
    let all = || pairs.par_iter().map(run).collect::<Vec<_>>();
    let threads = rayon::ThreadPoolBuilder::new().num_threads(options.jobs.unwrap_or(0)).build();
    let runs = match threads {
        Ok(threads) => threads.install(all),
        Err(_) => all(),
    };
    // In the order of the pairs, whatever the order in which they ended.
    let runs = runs.into_iter().flatten().collect::<Result<Vec<_>, _>>()?;
    let runs = picture::add(experiment, options, runs)?;
    Ok(summarise::summary(experiment, options, &variants, runs))
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
