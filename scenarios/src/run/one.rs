//! One run: a variant at a point, over its seeds.

use std::cell::OnceCell;
use std::sync::Arc;

use rayon::prelude::*;
use reports::summary::{LastStep, RunSummary, Spread};
use sim_core::fold::{Folded, fold};
use sim_core::id::StreamId;
use sim_core::observe::{Observer, Several, Unobserved};
use sim_core::outcome::{End, Run};
use sim_core::validate::ProgramError;
use sim_core::{Options as Engine, simulate_observed};
use workloads::lower::Lowered;
use workloads::plan::{Built, PlanError};

use super::allocation::{Judged, Verdict};
use super::choice::{self, Decided};
use super::footprint::Footprint;
use super::lasting::{self, BucketUse, Found};
use super::measure::Measured;
use super::outcomes::Outcomes;
use super::tally::Tally;
use super::window::Window;
use super::words::Words;
use super::{
    Options, Progress, Refusal, failure, in_parallel, measure, notes, picture, programmed, replayed,
};
use crate::experiment::{Experiment, Point};
use crate::plans::{self, Room};
use crate::schema::{Fold, Scenario, Segments};

/// Rounds in which a plan that fills the memory of GPUs is decided and simulated again, and those
/// after which it is given up if none of them fits.
const ROUNDS_MAX: u64 = 6;
const ROUNDS_EVER: u64 = 12;
/// Rounds of them in which less is left free than was enough.
const HALVINGS_MAX: u32 = 1;
/// Events per activity at most: an activity begins, waits and ends.
const EVENTS_PER_ACTIVITY: u64 = 8;

/// Why a scenario was not built: something to report about the run, or a mistake of ours.
pub(crate) enum Unbuilt {
    Reported(Box<RunSummary>),
    Broken(String),
}

impl Unbuilt {
    /// The summary of a run that ends here.
    ///
    /// # Errors
    /// A mistake in foretrain, in words.
    pub(crate) fn told(self) -> Result<RunSummary, String> {
        match self {
            Self::Reported(run) => Ok(*run),
            Self::Broken(reason) => Err(reason),
        }
    }
}

/// A run that has ended; its outcome may be shared with others of the same scenario.
pub(super) struct Ended {
    pub(super) variant: String,
    pub(super) point: Point,
    pub(super) outcome: Arc<RunSummary>,
}

/// Runs variants at points, in their order whatever the order in which they end; of a run that is
/// stopped only those whose outcome is known.
///
/// # Errors
/// A mistake in foretrain.
pub(super) fn run_all(
    experiment: &Experiment,
    options: &Options,
    pairs: &[(&Point, &str)],
    outcomes: &Outcomes<'_>,
    progress: &dyn Progress,
) -> Result<Vec<Ended>, Refusal> {
    progress.begin(pairs.len() as u64);
    let run = |&pair: &(&Point, &str)| {
        let run = run(experiment, pair, outcomes, progress);
        progress.done();
        run.transpose()
    };
    let runs = in_parallel(options.jobs, || pairs.par_iter().map(run).collect::<Vec<_>>());
    runs.into_iter().flatten().collect()
}

/// Runs a variant at a point. `None`: it was stopped before.
fn run(
    experiment: &Experiment,
    (point, variant): (&Point, &str),
    outcomes: &Outcomes<'_>,
    progress: &dyn Progress,
) -> Result<Option<Ended>, Refusal> {
    let ended = |outcome| Some(Ended { variant: variant.to_owned(), point: point.clone(), outcome });
    let scenario = match experiment.resolve(variant, point) {
        Ok(resolved) => resolved.scenario,
        Err(infeasible) => return Ok(ended(Arc::new(failure::impossible(infeasible)))),
    };
    if progress.stop() && !outcomes.knows(&scenario) {
        return Ok(None);
    }
    let broken = |reason| Refusal::Broken { variant: variant.to_owned(), point: point.values(), reason };
    Ok(ended(outcomes.of(&scenario).map_err(broken)?))
}

impl Ended {
    /// What it found, under its own name.
    pub(super) fn summary(self) -> RunSummary {
        let mut summary = Arc::unwrap_or_clone(self.outcome);
        (summary.variant, summary.point) = (self.variant, self.point.values());
        summary
    }
}

/// Simulates a variant at a point.
pub(super) fn simulated_at(
    experiment: &Experiment,
    variant: &str,
    point: &Point,
    seed: u64,
) -> Result<RunSummary, Refusal> {
    let outcome =
        match experiment.resolve(variant, point) {
            Ok(resolved) => outcome(&resolved.scenario, seed, Drawn::No).map_err(|reason| {
                Refusal::Broken { variant: variant.to_owned(), point: point.values(), reason }
            })?,
            Err(infeasible) => failure::impossible(infeasible),
        };
    Ok(RunSummary { variant: variant.to_owned(), point: point.values(), ..outcome })
}

/// Whether a run gets its pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Drawn {
    Yes,
    No,
}

/// Builds and simulates a scenario.
///
/// # Errors
/// A mistake in foretrain, in words.
pub(super) fn outcome(scenario: &Scenario, seed: u64, drawn: Drawn) -> Result<RunSummary, String> {
    if let Some(trace) = scenario.model.trace() {
        return replayed::outcome(trace, drawn);
    }
    if scenario.model.program().is_some() {
        return programmed::outcome(scenario, seed, drawn);
    }
    let (mut summary, planned) = planned(scenario, seed)?;
    if drawn == Drawn::Yes
        && let Some(Planned { scenario, prepared }) = planned
    {
        picture::draw(&Simulation::of(&scenario, &prepared.built, seed), &mut summary)?;
    }
    Ok(summary)
}

/// A scenario that leaves nothing open, and the plan that was simulated for it.
pub(super) struct Planned {
    pub(super) scenario: Scenario,
    pub(super) prepared: Prepared,
}

/// The outcome of a plan on a machine or of a profiled pipeline, and the plan if one was simulated.
///
/// # Errors
/// A mistake in foretrain, in words.
pub(super) fn planned(scenario: &Scenario, seed: u64) -> Result<(RunSummary, Option<Planned>), String> {
    let Found { run: Decision { scenario, ran }, state, .. } = in_state(scenario, seed)?;
    let Ran { prepared, mut summary, window, .. } = match ran {
        Ok(ran) => ran,
        Err(unbuilt) => {
            let notes = scenario.model.not_modelled().to_vec();
            return Ok((RunSummary { notes, ..unbuilt.told()? }, None));
        }
    };
    if !summary.fits {
        summary.notes = scenario.model.not_modelled().to_vec();
    }
    summary.drive_state = state;
    summary.last_step = window.map(LastStep::from);
    Ok((summary, Some(Planned { scenario, prepared })))
}

/// A scenario that leaves nothing open, and its run.
struct Decision {
    scenario: Scenario,
    ran: Result<Ran, Unbuilt>,
}

/// Runs a scenario with its drives in the state that it asks for.
fn in_state(scenario: &Scenario, seed: u64) -> Result<Found<Decision>, String> {
    lasting::found(scenario, |scenario| run_from(scenario, seed), |run| run.ran.as_ref().ok())
}

/// Runs a scenario from the levels that its drives are at.
fn run_from(scenario: &Scenario, seed: u64) -> Result<Decision, String> {
    let Decided { scenario, note, tried } = choice::decided(scenario, seed)?;
    let ran = || prepare(&scenario).and_then(|first| settled(first, &scenario, seed));
    let mut ran = tried.map_or_else(ran, Ok);
    if let Ok(ran) = &mut ran {
        ran.summary.notes.extend(note);
    }
    Ok(Decision { scenario: scenario.into_owned(), ran })
}

/// Builds and simulates a scenario that is only tried; `None`: it does not fit.
///
/// # Errors
/// A mistake in foretrain, in words.
pub(super) fn tried(scenario: &Scenario, seed: u64) -> Result<Option<RunSummary>, String> {
    let tried = |scenario: &Scenario| {
        let decided = choice::decided(scenario, seed)?;
        decided.tried.map_or_else(|| attempt(&decided.scenario, seed), |ran| Ok(Some(ran)))
    };
    let Found { run, state, .. } = lasting::found(scenario, tried, Option::as_ref)?;
    let summary = |ran: Ran| {
        let last_step = ran.window.map(LastStep::from);
        RunSummary { drive_state: state, last_step, ..ran.summary }
    };
    Ok(run.map(summary))
}

/// Tries a scenario that leaves nothing open. `None`: it does not fit.
///
/// # Errors
/// A mistake in foretrain, in words.
pub(super) fn attempt(scenario: &Scenario, seed: u64) -> Result<Option<Ran>, String> {
    let first = match prepare(scenario) {
        Ok(first) if first.verdict.refuses(scenario, &first.built)? => return Ok(None),
        prepared => prepared,
    };
    match first.and_then(|first| settled(first, scenario, seed)) {
        Ok(ran) => Ok(Some(ran).filter(|ran| ran.summary.step_time().is_some())),
        Err(Unbuilt::Reported(_)) => Ok(None),
        Err(Unbuilt::Broken(reason)) => Err(reason),
    }
}

/// Simulates the first plan of a scenario. Techniques that fill the memory of GPUs do not know how
/// much of it fragments take: a run tells, and what was lacking is left free in the next. Of plans
/// that fit the fastest is taken: what is decided otherwise leaves other gaps. What has failed in
/// the end is told by the first.
pub(super) fn settled(first: Prepared, scenario: &Scenario, seed: u64) -> Result<Ran, Unbuilt> {
    let (again, Judged { summary, mut lacking, buckets, window, .. }) = first.judged(scenario, seed)?;
    let mut too_little = vec![0; lacking.len()];
    let mut enough: Option<Vec<u64>> = None;
    let mut best: Option<Ran> = None;
    let mut halvings = 0;
    for round in 0..ROUNDS_EVER {
        if round >= ROUNDS_MAX && best.is_some() {
            break;
        }
        // Each round leaves half as much again as the one before.
        let more = zip(&too_little, &lacking, |left, lacking| (left + lacking) * (2 + round) / 2);
        let fragments = match &enough {
            None if lacking.iter().all(|&bytes| bytes == 0) => break,
            None => more,
            Some(_) if halvings == HALVINGS_MAX => break,
            Some(enough) => zip(&too_little, enough, u64::midpoint),
        };
        halvings += u32::from(best.is_some());
        let room = Room { fragments: fragments.clone(), ..first.room.clone() };
        let next = match prepared(scenario, room) {
            Ok(next) => Prepared { note: first.note.clone(), ..next },
            // Nothing can be planned in what is left.
            Err(Unbuilt::Reported(_)) => {
                enough = Some(fragments);
                continue;
            }
            Err(broken) => return Err(broken),
        };
        let judged = next.simulated_once(scenario, seed)?;
        if judged.summary.fits {
            enough = Some(fragments);
            let least = best.as_ref().and_then(|ran| ran.summary.step_time());
            let is_faster = |judged: &Judged| {
                least.is_none_or(|least| judged.summary.step_time().is_some_and(|time| time < least))
            };
            // What memory that is returned takes makes no step faster.
            if is_faster(&judged) {
                let (again, judged) = next.with_retries(judged, scenario, seed)?;
                if is_faster(&judged) {
                    let prepared = again.unwrap_or(next);
                    let Judged { summary, buckets, window, .. } = judged;
                    best = Some(Ran { prepared, summary, buckets, window });
                }
            }
        } else if judged.lacking.is_empty() {
            // It does not end in what is left, whatever the allocator would say.
            enough = Some(fragments);
        } else {
            (too_little, lacking) = (fragments, judged.lacking);
        }
    }
    Ok(best.unwrap_or_else(|| Ran { prepared: again.unwrap_or(first), summary, buckets, window }))
}

fn zip(a: &[u64], b: &[u64], both: impl Fn(u64, u64) -> u64) -> Vec<u64> {
    a.iter().zip(b).map(|(&a, &b)| both(a, b)).collect()
}

/// A plan and its run.
pub(super) struct Ran {
    pub(super) prepared: Prepared,
    pub(super) summary: RunSummary,
    /// Buckets of drives that it passed, if it ran to its end.
    pub(super) buckets: Vec<BucketUse>,
    /// The last step; `None`: nothing was simulated.
    pub(super) window: Option<Window>,
}

/// A plan ready to be simulated.
pub(crate) struct Prepared {
    pub(crate) built: Built,
    pub(super) verdict: Verdict,
    room: Room,
    /// What its results do not say.
    note: Option<String>,
}

impl Prepared {
    /// Simulates it; `scenario` is what it was prepared of.
    ///
    /// # Errors
    /// A mistake in foretrain, in words.
    pub(crate) fn simulated(&self, scenario: &Scenario, seed: u64) -> Result<RunSummary, String> {
        match self.judged(scenario, seed) {
            Ok((_, judged)) => Ok(judged.summary),
            Err(unbuilt) => unbuilt.told(),
        }
    }

    /// Simulates it as often as its allocator asks for.
    fn judged(&self, scenario: &Scenario, seed: u64) -> Result<(Option<Self>, Judged), Unbuilt> {
        let judged = self.simulated_once(scenario, seed)?;
        self.with_retries(judged, scenario, seed)
    }

    /// Its run; where its allocator returns memory in every step, once more as the plan that
    /// has what that takes of hosts, which then is returned too. Requests for memory hang on the
    /// order of the host, not on times, but for what a run tells to be lent: there is one round.
    fn with_retries(
        &self,
        mut judged: Judged,
        scenario: &Scenario,
        seed: u64,
    ) -> Result<(Option<Self>, Judged), Unbuilt> {
        let retries = judged.summary.allocator.iter().any(|stage| stage.retries > 0);
        let Some(driver) = judged.driver.take().filter(|_| retries && judged.summary.fits) else {
            return Ok((None, judged));
        };
        if driver.drained.is_empty() {
            judged.summary.retries_s = Some(0.0);
            return Ok((None, judged));
        }
        let room = Room { driver, ..self.room.clone() };
        let next = Self { note: self.note.clone(), ..prepared(scenario, room)? };
        let mut again = next.simulated_once(scenario, seed)?;
        if !again.summary.fits {
            return Ok((None, judged));
        }
        let times = [&again, &judged].map(|judged| judged.summary.step_time());
        again.summary.retries_s = times[0].zip(times[1]).map(|(with, without)| with - without);
        Ok((Some(next), again))
    }

    fn simulated_once(&self, scenario: &Scenario, seed: u64) -> Result<Judged, Unbuilt> {
        let simulation = Simulation::of(scenario, &self.built, seed);
        let mut judged = simulated(&simulation, &self.verdict).map_err(Unbuilt::Broken)?;
        if judged.summary.fits {
            judged.summary.notes.splice(0..0, self.note.clone());
        }
        Ok(judged)
    }
}

/// Builds the program of a scenario. Where the allocator says what fits the stores of GPUs only count.
pub(crate) fn prepare(scenario: &Scenario) -> Result<Prepared, Unbuilt> {
    let footprint = Footprint::of(scenario)?;
    let limit = footprint.as_ref().map(Footprint::limit);
    let mut prepared = prepared(scenario, Room { limit, ..Room::default() })?;
    prepared.note = footprint.and_then(|footprint| footprint.note(&prepared.built));
    Ok(prepared)
}

/// The same with so much room.
fn prepared(scenario: &Scenario, room: Room) -> Result<Prepared, Unbuilt> {
    let mut built = build(scenario, &room)?;
    let verdict = Verdict::of(scenario, &built);
    match &verdict {
        Verdict::Allocator(_) => built.lowered.count_memory(),
        Verdict::Stores(_) if built.shortfalls.is_empty() => {}
        Verdict::Stores(_) => {
            let failed = failure::too_small(&built.shortfalls);
            return Err(Unbuilt::Reported(Box::new(failed)));
        }
    }
    built.lowered.program.noise = measure::noise(scenario);
    Ok(Prepared { built, verdict, room, note: None })
}

fn build(scenario: &Scenario, room: &Room) -> Result<Built, Unbuilt> {
    let failed = match plans::built(scenario, room) {
        Ok(built) => return Ok(built),
        Err(PlanError::Broken(problems)) => {
            return Err(Unbuilt::Broken(PlanError::Broken(problems).to_string()));
        }
        Err(PlanError::DoesNotFit(shortfalls)) => failure::too_small(&shortfalls),
        Err(PlanError::BuffersDoNotFit(short)) => failure::buffers_too_small(&short),
        Err(PlanError::HostDoesNotFit(hosts)) => failure::host_too_small(&hosts),
        Err(error) => failure::infeasible(error.to_string()),
    };
    Err(Unbuilt::Reported(Box::new(failed)))
}

/// A built scenario, folded where its ranks may be: what is simulated, as often as somebody looks on.
pub(super) struct Simulation<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) built: &'a Built,
    seed: u64,
    /// The program that the engine executes, once it is asked for.
    folded: OnceCell<Folded>,
}

impl<'a> Simulation<'a> {
    pub(super) fn of(scenario: &'a Scenario, built: &'a Built, seed: u64) -> Self {
        Self { scenario, built, seed, folded: OnceCell::new() }
    }

    /// The program that the engine executes.
    pub(super) fn folded(&self) -> &Folded {
        let Lowered { platform, program, start, .. } = &self.built.lowered;
        self.folded.get_or_init(|| match self.scenario.run.fold {
            Fold::Never => Folded::unfolded(platform, program, start),
            Fold::Auto => fold(platform, program, start),
        })
    }

    /// Executes it; ids of what `observer` sees are those of the folded program.
    ///
    /// # Errors
    /// A mistake in foretrain, in words.
    pub(super) fn observed(&self, observer: &mut dyn Observer) -> Result<Run, String> {
        self.simulated((self.seed, None), observer)
    }

    /// Executes it, and tells the critical path of a stream.
    ///
    /// # Errors
    /// A mistake in foretrain, in words.
    pub(super) fn with_path(
        &self,
        path_of: Option<StreamId>,
        observer: &mut dyn Observer,
    ) -> Result<Run, String> {
        self.simulated((self.seed, path_of), observer)
    }

    /// Executes it unobserved, and tells the critical path of a stream where that is asked for.
    ///
    /// # Errors
    /// A mistake in foretrain, in words.
    pub(super) fn quiet(&self, path_of: Option<StreamId>) -> Result<Run, String> {
        self.with_path(path_of, &mut Unobserved)
    }

    fn simulated(
        &self,
        (seed, path_of): (u64, Option<StreamId>),
        observer: &mut dyn Observer,
    ) -> Result<Run, String> {
        let events_max = self.scenario.run.limit.get().saturating_mul(EVENTS_PER_ACTIVITY);
        let segments = self.scenario.run.segments == Segments::On;
        let path_from = Some(measure::first_mark(self.scenario));
        let path_of = path_of.map(|stream| self.folded().streams[stream.index()]);
        let engine = Engine { seed, segments, events_max, path_from, path_of, ..Engine::default() };
        let Folded { platform, program, start, .. } = self.folded();
        let words =
            |errors: Vec<_>| errors.iter().map(ProgramError::to_string).collect::<Vec<_>>().join("; ");
        let run = simulate_observed(platform, program, start, &engine, observer).map_err(words)?;
        Ok(self.folded().expand(&run))
    }
}

/// Simulates a scenario over its seeds. Times are means over the seeds, memory, transfers and the bubble those of the first.
fn simulated(simulation: &Simulation<'_>, verdict: &Verdict) -> Result<Judged, String> {
    let &Simulation { scenario, built, seed, .. } = simulation;
    let words = Words::new(&built.lowered, plans::micro_batches_per_flush(scenario));
    let mut summary = RunSummary {
        swap: super::swapped::plans(built),
        kept: super::kept::told(built, &words),
        ..RunSummary::default()
    };
    let mut driver = None;
    let mut recorder = verdict.recorder(simulation);
    if recorder.is_none() {
        let judged = verdict.add(summary, simulation, &[])?;
        if judged.summary.failure.is_some() {
            return Ok(judged);
        }
        (summary, driver) = (judged.summary, judged.driver);
    }
    let mut tally = built
        .accounts
        .as_ref()
        .map(|accounts| Tally::new(scenario, &built.lowered, accounts, &simulation.folded().streams));
    let mut observers: Vec<&mut dyn Observer> = Vec::new();
    observers.extend(tally.as_mut().map(|tally| tally as &mut dyn Observer));
    observers.extend(recorder.as_mut().map(|recorder| recorder as &mut dyn Observer));
    let run = match &mut observers[..] {
        [observer] => simulation.observed(*observer)?,
        _ => simulation.observed(&mut Several(observers))?,
    };
    if run.end == End::Completed
        && let Some(recorder) = recorder
    {
        let judged = verdict.add(summary, simulation, &recorder.recorded())?;
        if judged.summary.failure.is_some() {
            return Ok(judged);
        }
        (summary, driver) = (judged.summary, judged.driver);
    }
    let window = Some(Window::of(simulation, &run));
    summary.activities = Some(run.activities);
    summary.unsettled = Some(run.unsettled).filter(|&count| count > 0);
    if run.end != End::Completed {
        let failed = failure::describe(summary, scenario, built, &words, &run);
        return Ok(Judged { window, ..Judged::of(failed) });
    }
    summary.allocator_unknown = verdict.unknown();
    let measured = Measured { scenario, built, words: &words, run: &run, tally: tally.as_ref() };
    measured.describe(&mut summary);
    let seeds = scenario.run.seeds.get();
    if seeds > 1 {
        let mut times = vec![measured.step_time_s()];
        let mut paths = vec![measured.critical_path()];
        let mut by_rank = vec![measured.by_rank()];
        for further in 1..seeds {
            let run = simulation.simulated((seed.wrapping_add(further), None), &mut Unobserved)?;
            let measured = Measured { run: &run, ..measured };
            times.push(measured.step_time_s());
            paths.push(measured.critical_path());
            by_rank.push(measured.by_rank());
        }
        let mean_s = times.iter().sum::<f64>() / times.len() as f64;
        summary.critical_path_s = measure::mean_by_cause(&paths);
        let over_seeds = |rank: usize| {
            let of_rank: Vec<_> = by_rank.iter().map(|ranks| ranks[rank].clone()).collect();
            measure::mean_by_cause(&of_rank)
        };
        let means = (0..by_rank[0].len()).map(over_seeds).collect();
        measured.set_breakdown(&mut summary, &measured.asked(), means);
        measured.set_step_time(&mut summary, mean_s);
        summary.step_time_spread = Some(Spread {
            min_s: times.iter().copied().fold(f64::INFINITY, f64::min),
            mean_s,
            max_s: times.iter().copied().fold(0.0, f64::max),
            seeds,
        });
        summary.seed_step_times_s = times;
    }
    summary.notes = notes::notes(scenario, &summary);
    summary.notes.extend(super::virtualised::notes(built));
    summary.notes.extend(super::fused::note(scenario));
    let buckets = lasting::buckets(&built.lowered, &run);
    Ok(Judged { buckets, driver, window, ..Judged::of(summary) })
}
