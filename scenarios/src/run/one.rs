//! One run: a variant at a point, over its seeds.

use reports::summary::{RunSummary, Spread};
use sim_core::fold::fold;
use sim_core::id::StreamId;
use sim_core::observe::{Observer, Unobserved};
use sim_core::outcome::{End, Run};
use sim_core::validate::ProgramError;
use sim_core::{Options as Engine, simulate_observed};
use workloads::lower::Lowered;
use workloads::plan::{Built, PlanError};

use super::measure::Measured;
use super::tally::Tally;
use super::words::Words;
use super::{Options, Refusal, allocation, failure, kept, measure, remedy, swapped};
use crate::experiment::{Experiment, Point};
use crate::plans;
use crate::schema::{Fold, Scenario, Segments};

/// Events per activity at most: an activity begins, waits and ends.
const EVENTS_PER_ACTIVITY: u64 = 8;

/// Why a scenario was not built: something to report about the run, or a mistake of ours.
pub(super) enum Unbuilt {
    Reported(Box<RunSummary>),
    Broken(String),
}

/// Runs a variant at a point; where it does not fit, looks for what would.
pub(super) fn run(
    experiment: &Experiment,
    variant: &str,
    point: &Point,
    options: &Options,
) -> Result<RunSummary, Refusal> {
    let (mut summary, scenario) = simulated_at(experiment, variant, point, options.seed, |_| {})?;
    if let Some(scenario) = scenario {
        remedy::suggest(&scenario, &mut summary, options.seed);
    }
    Ok(summary)
}

/// Simulates a variant at a point, with streams that `others` adds; with its scenario if its sizes multiply.
pub(super) fn simulated_at(
    experiment: &Experiment,
    variant: &str,
    point: &Point,
    seed: u64,
    others: impl FnOnce(&mut Lowered),
) -> Result<(RunSummary, Option<Scenario>), Refusal> {
    let identity = RunSummary { variant: variant.to_owned(), point: point.values(), ..RunSummary::default() };
    let scenario = match experiment.resolve(variant, point) {
        Ok(resolved) => resolved.scenario,
        Err(infeasible) => return Ok((failure::infeasible(identity, infeasible.reason), None)),
    };
    let broken = |reason| Refusal::Broken { variant: variant.to_owned(), reason };
    Ok((with_others(&scenario, identity, seed, others).map_err(broken)?, Some(scenario)))
}

/// Builds and simulates a scenario.
///
/// # Errors
/// A mistake in foretrain, in words.
pub(super) fn outcome(scenario: &Scenario, identity: RunSummary, seed: u64) -> Result<RunSummary, String> {
    with_others(scenario, identity, seed, |_| {})
}

fn with_others(
    scenario: &Scenario,
    identity: RunSummary,
    seed: u64,
    others: impl FnOnce(&mut Lowered),
) -> Result<RunSummary, String> {
    match prepare(scenario, identity.clone()) {
        Ok(mut built) => {
            others(&mut built.lowered);
            simulated(scenario, &built, identity, seed)
        }
        Err(Unbuilt::Reported(run)) => Ok(*run),
        Err(Unbuilt::Broken(reason)) => Err(reason),
    }
}

/// Builds the program of a scenario.
pub(super) fn prepare(scenario: &Scenario, identity: RunSummary) -> Result<Built, Unbuilt> {
    let mut built = match plans::built(scenario) {
        Ok(built) => built,
        Err(PlanError::Broken(problems)) => {
            return Err(Unbuilt::Broken(PlanError::Broken(problems).to_string()));
        }
        Err(PlanError::DoesNotFit(shortfalls)) => {
            return Err(Unbuilt::Reported(Box::new(failure::too_small(identity, &shortfalls))));
        }
        Err(PlanError::BuffersDoNotFit(short)) => {
            return Err(Unbuilt::Reported(Box::new(failure::buffers_too_small(identity, &short))));
        }
        Err(PlanError::HostDoesNotFit(hosts)) => {
            return Err(Unbuilt::Reported(Box::new(failure::host_too_small(identity, &hosts))));
        }
        Err(error) => {
            return Err(Unbuilt::Reported(Box::new(failure::infeasible(identity, error.to_string()))));
        }
    };
    built.lowered.program.noise = measure::noise(scenario);
    Ok(built)
}

/// The engine's options for a scenario.
pub(super) fn engine(scenario: &Scenario, seed: u64) -> Engine {
    Engine {
        seed,
        segments: scenario.run.segments == Segments::On,
        events_max: scenario.run.limit.get().saturating_mul(EVENTS_PER_ACTIVITY),
        path_from: Some(measure::first_mark(scenario)),
        ..Engine::default()
    }
}

/// Simulates a scenario over its seeds; the first seed's run is described, the others only timed.
fn simulated(
    scenario: &Scenario,
    built: &Built,
    mut summary: RunSummary,
    seed: u64,
) -> Result<RunSummary, String> {
    let (run, tally) = match &built.accounts {
        Some(accounts) => {
            let tally = |streams: &[StreamId]| Tally::new(scenario, &built.lowered, accounts, streams);
            let (run, tally) = once(scenario, built, seed, tally)?;
            (run, Some(tally))
        }
        None => (once(scenario, built, seed, |_| Unobserved)?.0, None),
    };
    let words = Words::new(&built.lowered, plans::micro_batches_per_flush(scenario));
    summary.activities = Some(run.activities);
    summary.unsettled = Some(run.unsettled).filter(|&count| count > 0);
    summary.swap = swapped::plans(built);
    summary.kept = kept::told(built, &words);
    if run.end != End::Completed {
        return Ok(failure::describe(summary, scenario, built, &words, &run));
    }
    summary = allocation::add(summary, scenario, built, seed)?;
    if summary.failure.is_some() {
        return Ok(summary);
    }
    let measured = Measured { scenario, built, words: &words, run: &run, tally: tally.as_ref() };
    measured.describe(&mut summary);
    let seeds = scenario.run.seeds.get();
    if seeds > 1 {
        let mut times = vec![measured.step_time_s()];
        let mut paths = vec![measured.critical_path()];
        for further in 1..seeds {
            let (run, _) = once(scenario, built, seed.wrapping_add(further), |_| Unobserved)?;
            let measured = Measured { run: &run, ..measured };
            times.push(measured.step_time_s());
            paths.push(measured.critical_path());
        }
        let mean_s = times.iter().sum::<f64>() / times.len() as f64;
        summary.critical_path_s = measure::mean_by_cause(&paths);
        measured.set_step_time(&mut summary, mean_s);
        summary.step_time_spread = Some(Spread {
            min_s: times.iter().copied().fold(f64::INFINITY, f64::min),
            mean_s,
            max_s: times.iter().copied().fold(0.0, f64::max),
            seeds,
        });
    }
    Ok(summary)
}

/// Simulates a scenario once; `observe` makes an observer from the simulated stream that stands for each stream.
fn once<O: Observer>(
    scenario: &Scenario,
    built: &Built,
    seed: u64,
    observe: impl FnOnce(&[StreamId]) -> O,
) -> Result<(Run, O), String> {
    let Lowered { platform, program, start, .. } = &built.lowered;
    let engine = engine(scenario, seed);
    let words = |errors: Vec<_>| errors.iter().map(ProgramError::to_string).collect::<Vec<_>>().join("; ");
    if scenario.run.fold == Fold::Never {
        let all: Vec<StreamId> = (0..program.streams.len()).map(StreamId::from).collect();
        let mut observer = observe(&all);
        let run = simulate_observed(platform, program, start, &engine, &mut observer).map_err(words)?;
        return Ok((run, observer));
    }
    let folded = fold(platform, program, start);
    let mut observer = observe(&folded.streams);
    let run = simulate_observed(&folded.platform, &folded.program, &folded.start, &engine, &mut observer)
        .map_err(words)?;
    Ok((folded.expand(&run), observer))
}
