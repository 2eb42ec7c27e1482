//! From runs to the summary of an experiment.

use indexmap::IndexMap;
use reports::Winners;
use reports::campaign;
use reports::finding::{Headline, finding};
use reports::summary::{Interrupted, Ratio, RunSummary, SCHEMA_VERSION, SearchProof, Summary};

use super::Options;
use super::constants::{calibrations, constants};
use super::drawing::drawing;
use super::headline::{assumptions, parameters};
use crate::experiment::{Experiment, Resolved, Variant};
use crate::schema::Scenario;

/// The summary of an experiment's runs, in their order; fewer than `planned` have ended if it was
/// interrupted.
pub(super) fn summary(
    experiment: &Experiment,
    options: &Options,
    variants: &[&str],
    planned: usize,
    mut runs: Vec<RunSummary>,
) -> Summary {
    let axes: Vec<String> = experiment.swept().map(str::to_owned).collect();
    reports::note_ties(&mut runs, &axes, experiment.cases());
    let shown = first(experiment, variants);
    showing(shown.as_ref(), (experiment, options, variants), planned, runs)
}

/// The summary of runs, of which one is shown.
fn showing(
    shown: Option<&Resolved>,
    (experiment, options, variants): (&Experiment, &Options, &[&str]),
    planned: usize,
    mut runs: Vec<RunSummary>,
) -> Summary {
    relate(&mut runs, variants);
    let axes: Vec<String> = experiment.swept().map(str::to_owned).collect();
    let cases = experiment.cases().to_vec();
    let ended = runs.len();
    let interrupted =
        (ended < planned).then_some(Interrupted { ended: ended as u64, planned: planned as u64 });
    let resolved = resolved(experiment, variants);
    let settings = resolved.iter().map(|(name, it)| ((*name).to_owned(), experiment.settings(it))).collect();
    let all: Vec<(&str, Scenario)> = resolved.into_iter().map(|(name, it)| (name, it.scenario)).collect();
    let calibrated =
        all.iter().map(|(_, scenario)| scenario).find(|scenario| !scenario.calibration.is_empty());
    let known = |names: Vec<&str>| names.iter().all(|name| variants.contains(name));
    let promises = experiment.promises().iter().filter(|promise| known(promise.variants()));
    let citations = experiment.citations().iter().filter(|citation| known(citation.variants()));
    let Headline { verdict, conditions } = found(&runs, (&axes, &cases), interrupted);
    let resolved_scenario = shown.map_or_else(String::new, |resolved| experiment.explain(resolved));
    Summary {
        schema_version: SCHEMA_VERSION,
        name: experiment.name().to_owned(),
        description: experiment.description().map(str::to_owned),
        finding: verdict,
        conditions,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        seed: options.seed,
        reproduce: options.reproduce.clone(),
        scenario_digest: experiment.digest(),
        winners: Winners::of(&runs, &axes, &cases),
        axes,
        cases,
        search: None,
        interrupted,
        expectations: promises.map(|promise| promise.check(&runs, experiment.sources())).collect(),
        published: citations.map(|citation| citation.cite(&runs)).collect(),
        parameters: shown.map_or_else(IndexMap::new, |resolved| parameters(&resolved.scenario, &runs)),
        assumptions: shown.map_or_else(Vec::new, |resolved| assumptions(&resolved.scenario)),
        machine: drawing(&all),
        calibrations: calibrations(&all),
        constants: calibrated.or(shown.map(|shown| &shown.scenario)).map_or_else(Vec::new, constants),
        resolved_scenario,
        settings,
        variants: runs,
    }
}

/// The answer, with a sentence on campaigns where runs have them.
fn found(
    runs: &[RunSummary],
    (axes, cases): (&[String], &[String]),
    interrupted: Option<Interrupted>,
) -> Headline {
    let Headline { verdict, conditions } = finding(runs, axes, cases, interrupted).headline();
    let sentences = [conditions].into_iter().chain(campaign::finding(runs, axes));
    let sentences: Vec<String> = sentences.filter(|text| !text.is_empty()).collect();
    Headline { verdict, conditions: sentences.join(" ") }
}

/// The summary of a search: its best plans, the best first, and the proof.
pub(super) fn searched(
    experiment: &Experiment,
    options: &Options,
    variants: &[&str],
    proof: SearchProof,
    runs: Vec<RunSummary>,
) -> Summary {
    let Headline { verdict: finding, conditions } = reports::searched::finding(&proof, &runs);
    let (best, planned) = (best(experiment, &runs), runs.len());
    let mut summary = showing(best.as_ref(), (experiment, options, variants), planned, runs);
    if let Some((best, others)) = summary.variants.split_first_mut() {
        others.iter_mut().for_each(|run| run.relative_to_first = Ratio::of(run, best));
    }
    Summary { search: Some(proof), finding, conditions, ..summary }
}

/// The best plan of a search.
pub(super) fn best(experiment: &Experiment, runs: &[RunSummary]) -> Option<Resolved> {
    let best = runs.first()?;
    experiment.resolve(&best.variant, &experiment.point_of(&best.point)?).ok()
}

/// Tells of every run but those of the first variant how its time relates to that one's at the same point.
fn relate(runs: &mut [RunSummary], variants: &[&str]) {
    for of_point in runs.chunk_by_mut(|a, b| a.point == b.point) {
        let Some((first, others)) = of_point.split_first_mut() else { continue };
        if variants.first() != Some(&first.variant.as_str()) {
            continue;
        }
        for run in others {
            run.relative_to_first = Ratio::of(run, first);
        }
    }
}

/// The variants, each at the first point where it is possible.
fn resolved<'v>(experiment: &Experiment, variants: &[&'v str]) -> Vec<(&'v str, Resolved)> {
    let resolved = |&name: &&'v str| {
        let variant = experiment.variant(name);
        Some((name, experiment.points().find_map(|point| variant.at(&point).ok())?))
    };
    variants.iter().filter_map(resolved).collect()
}

/// The first run that is possible, to show what was simulated.
pub(super) fn first(experiment: &Experiment, variants: &[&str]) -> Option<Resolved> {
    let variants: Vec<Variant<'_>> = variants.iter().map(|name| experiment.variant(name)).collect();
    experiment.points().find_map(|point| variants.iter().find_map(|variant| variant.at(&point).ok()))
}
