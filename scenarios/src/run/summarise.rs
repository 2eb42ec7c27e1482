//! From runs to the summary of an experiment.

use indexmap::IndexMap;
use reports::finding::finding;
use reports::summary::{Assumption, RunSummary, SCHEMA_VERSION, Summary};

use super::Options;
use crate::experiment::{Experiment, Resolved};
use crate::schema::{Model, Scenario};

/// The summary of an experiment's runs, in their order.
pub(super) fn summary(
    experiment: &Experiment,
    options: &Options,
    variants: &[&str],
    runs: Vec<RunSummary>,
) -> Summary {
    let axes: Vec<String> = experiment.swept().map(str::to_owned).collect();
    let shown = first(experiment, variants);
    let known = |names: Vec<&str>| names.iter().all(|name| variants.contains(name));
    let promises = experiment.promises().iter().filter(|promise| known(promise.variants()));
    let citations = experiment.citations().iter().filter(|citation| known(citation.variants()));
    let resolved_scenario = shown.as_ref().map_or_else(String::new, |resolved| experiment.explain(resolved));
    Summary {
        schema_version: SCHEMA_VERSION,
        name: experiment.name().to_owned(),
        description: experiment.description().map(str::to_owned),
        finding: finding(&runs, &axes),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        seed: options.seed,
        reproduce: options.reproduce.clone(),
        scenario_digest: digest(experiment),
        axes,
        expectations: promises.map(|promise| promise.check(&runs, experiment.sources())).collect(),
        published: citations.map(|citation| citation.cite(&runs)).collect(),
        parameters: shown
            .as_ref()
            .map_or_else(IndexMap::new, |resolved| parameters(&resolved.scenario, &runs)),
        assumptions: shown.as_ref().map_or_else(Vec::new, |resolved| assumptions(&resolved.scenario)),
        resolved_scenario,
        variants: runs,
    }
}

/// The first run that can be resolved, to show what was simulated.
fn first(experiment: &Experiment, variants: &[&str]) -> Option<Resolved> {
    let point = experiment.points().next().unwrap_or_default();
    variants.iter().find_map(|variant| experiment.resolve(variant, &point).ok())
}

/// The few numbers a reader wants first; those that a sweep changes are in the table.
fn parameters(scenario: &Scenario, runs: &[RunSummary]) -> IndexMap<String, String> {
    let mut parameters = IndexMap::new();
    let swept = |path: &str| runs.iter().any(|run| run.point.keys().any(|axis| axis.ends_with(path)));
    let mut say = |path: &str, words: &str, value: Option<String>| {
        if let Some(value) = value.filter(|_| !swept(path)) {
            parameters.insert(words.to_owned(), value);
        }
    };
    let Model::ProfiledPipeline(pipeline) = &scenario.model;
    say(".stages", "stages", Some(pipeline.stages.get().to_string()));
    say(".micro_batches", "micro-batches per step", Some(scenario.training.micro_batches().to_string()));
    say(
        ".micro_batch",
        "samples per micro-batch",
        scenario.training.micro_batch.map(|size| size.get().to_string()),
    );
    let memory = scenario.memory_per_stage().map(reports::quantity::bytes);
    say(".memory", "memory per stage", memory);
    say(".measured", "steps measured", Some(scenario.run.steps.measured.get().to_string()));
    say(
        ".seeds",
        "seeds",
        Some(scenario.run.seeds.get()).filter(|&seeds| seeds > 1).map(|seeds| seeds.to_string()),
    );
    parameters
}

/// What the file leaves open and matters.
fn assumptions(scenario: &Scenario) -> Vec<Assumption> {
    let Model::ProfiledPipeline(pipeline) = &scenario.model;
    let assumption = |what: &str, value: String, origin: &str| Assumption {
        what: what.to_owned(),
        value,
        origin: origin.to_owned(),
    };
    let mut assumptions = vec![assumption(
        "parallelism.send",
        format!("{:?}", scenario.parallelism.send).to_lowercase(),
        "how messages are sent: with `latency` they occupy nobody",
    )];
    if pipeline.activation_kept_for_weight.is_none() {
        assumptions.push(assumption(
            "model.profiled_pipeline.activation_kept_for_weight",
            "16/17 of `activation`".to_owned(),
            "estimate: 32 of 34 s b h bytes of a transformer layer without attention scores (arXiv 2401.10241, section 3.2)",
        ));
    }
    if scenario.run.noise.is_none() {
        let origin = "default: every step takes the same time; real ones vary";
        assumptions.push(assumption("run.noise", "none".to_owned(), origin));
    }
    assumptions
}

/// 64-bit FNV-1a over the text of every source, in hexadecimal.
fn digest(experiment: &Experiment) -> String {
    let bytes = experiment.sources().iter().flat_map(|source| source.text.bytes().chain([0]));
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{hash:016x}")
}
