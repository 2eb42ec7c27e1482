//! Explaining a run: its critical path, and what faster parts would bring.

use reports::explanation::Explanation;
use reports::summary::{RunSummary, SCHEMA_VERSION};

use super::first::{First, first};
use super::one::{self, Drawn, Planned, Simulation};
use super::path::{self, Path};
use super::window::Window;
use super::{Progress, Refusal, what_if};
use crate::experiment::Experiment;

/// How a run is explained.
#[derive(Clone, Debug)]
pub struct Explaining<'a> {
    /// The variant. `None`: the first that has a step.
    pub variant: Option<&'a str>,
    /// The root of all randomness.
    pub seed: u64,
    /// Simulations at a time. `None`: one for each processor.
    pub jobs: Option<usize>,
}

/// Explains the first possible run of a variant.
///
/// # Errors
/// A variant that the experiment does not have, or a mistake in foretrain.
pub fn explain(
    experiment: &Experiment,
    how: &Explaining<'_>,
    progress: &dyn Progress,
) -> Result<Explanation, Refusal> {
    let (First { variant, point, resolved }, run, planned) = run_to_explain(experiment, how)?;
    let scenario = &resolved.scenario;
    let broken = |reason| Refusal::Broken { variant: variant.to_owned(), point: point.values(), reason };
    let Some(step_s) = run.step_time() else {
        return Ok(Explanation::of_failure(experiment.name(), &run));
    };
    let path = planned.map(|planned| critical_path(&planned, &run, how.seed)).transpose().map_err(broken)?;
    let used = path.as_ref().map(|path| &path.links);
    let what_if =
        what_if::what_ifs(scenario, (step_s, used), (how.seed, how.jobs), progress).map_err(broken)?;
    let other_lanes = path.as_ref().map(|path| path.others);
    let visits = path.map_or_else(Vec::new, |path| path.visits);
    Ok(Explanation {
        other_lanes,
        schema_version: SCHEMA_VERSION,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        name: experiment.name().to_owned(),
        ..Explanation::of(&run, visits, what_if)
    })
}

/// The run of the variant that is asked for, else of the first that has a step, or of the first, with
/// its plan. A program and a recording have none, as their lanes have no visits.
fn run_to_explain<'e>(
    experiment: &'e Experiment,
    how: &Explaining<'_>,
) -> Result<(First<'e>, RunSummary, Option<Planned>), Refusal> {
    let ran = |variant: Option<&str>| {
        let first = first(experiment, variant)?;
        let First { variant, point, resolved } = &first;
        let (variant, point) = ((*variant).to_owned(), point.values());
        let model = &resolved.scenario.model;
        let found = match model.trace().is_some() || model.program().is_some() {
            true => one::outcome(&resolved.scenario, how.seed, Drawn::No).map(|run| (run, None)),
            false => one::planned(&resolved.scenario, how.seed),
        };
        match found {
            Ok((run, planned)) => Ok((first, RunSummary { variant, point, ..run }, planned)),
            Err(reason) => Err(Refusal::Broken { variant, point, reason }),
        }
    };
    if how.variant.is_some() {
        return ran(how.variant);
    }
    let mut unfit = None;
    for variant in experiment.variants() {
        match ran(Some(variant)) {
            Ok(ran) if ran.1.step_time().is_some() => return Ok(ran),
            Ok(failed) => unfit = unfit.or(Some(failed)),
            Err(Refusal::NothingToShow { .. }) => {}
            Err(broken) => return Err(broken),
        }
    }
    unfit.map_or_else(|| ran(None), Ok)
}

/// The critical path of the plan that a run is of.
fn critical_path(planned: &Planned, run: &RunSummary, seed: u64) -> Result<Path, String> {
    let Planned { scenario, prepared } = planned;
    let longest = run.last_step.and_then(|step| Window::from(step).longest);
    path::path(&Simulation::of(scenario, &prepared.built, seed), longest)
}
