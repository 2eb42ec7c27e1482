//! What a reader wants to know of a scenario before its results.

use indexmap::IndexMap;
use reports::quantity;
use reports::summary::{Assumption, RunSummary};
use workloads::model::layered::Shape;

use crate::plans;
use crate::schema::{
    Bytes, BytesPerParameter, Count, FRAMEWORK, GraphNetwork, Launch, LayerList, Model, ProfiledPipeline,
    ProgramBase, Programmed, Scenario, Software, Trace, Transformer, word,
};

/// The few numbers a reader wants first; those that a sweep changes are in the table.
pub(super) fn parameters(scenario: &Scenario, runs: &[RunSummary]) -> IndexMap<String, String> {
    let of_model = match &scenario.model {
        Model::ProfiledPipeline(pipeline) => profiled(scenario, pipeline),
        Model::Transformer(model) => transformer(scenario, model),
        Model::Layers(model) => layers(scenario, model),
        Model::Graph(model) => network(scenario, model),
        Model::Program(program) => programmed(scenario, program),
        Model::Trace(trace) => return replayed(trace),
    };
    let seeds = Some(scenario.run.seeds.get()).filter(|&seeds| seeds > 1);
    let of_run = [
        (".measured", "steps measured", Some(scenario.run.steps.measured.get().to_string())),
        (".seeds", "seeds", seeds.map(|seeds| seeds.to_string())),
    ];
    let swept = |path: &str| runs.iter().any(|run| run.point.keys().any(|axis| axis.ends_with(path)));
    let shown = of_model.into_iter().chain(of_run).filter(|(path, ..)| !swept(path));
    shown.filter_map(|(_, words, value)| Some((words.to_owned(), value?))).collect()
}

/// A setting, in words, and its value.
type Parameter = (&'static str, &'static str, Option<String>);

fn profiled(scenario: &Scenario, pipeline: &ProfiledPipeline) -> Vec<Parameter> {
    let memory = plans::profiled::memory_per_stage(scenario, pipeline).map(quantity::bytes);
    vec![
        (".stages", "stages", number(Some(pipeline.stages))),
        (".micro_batches", "micro-batches per step", Some(scenario.training.micro_batches().to_string())),
        (".micro_batch", "samples per micro-batch", number(scenario.training.micro_batch)),
        (".memory", "memory per stage", memory),
    ]
}

fn transformer(scenario: &Scenario, model: &Transformer) -> Vec<Parameter> {
    let (training, parallelism) = (&scenario.training, &scenario.parallelism);
    let several = |count: Option<Count<1, 131_072>>| number(count.filter(|count| count.get() > 1));
    vec![
        (".preset", "model", model.preset.clone()),
        (".layers", "layers", number(model.layers)),
        (".hidden", "hidden", number(model.hidden)),
        ("machine", "GPUs", Some(plans::ranks(scenario).to_string())),
        (".tensor", "tensor", several(parallelism.tensor)),
        (".pipeline", "pipeline", number(parallelism.pipeline.filter(|count| count.get() > 1))),
        (".context", "context", several(parallelism.context)),
        (".data", "data", several(parallelism.data)),
        (".expert", "expert", number(parallelism.expert.filter(|count| count.get() > 1))),
        (".global_batch", "samples per step", number(training.global_batch)),
        (".micro_batch", "samples per micro-batch", number(training.micro_batch)),
        (".accumulate", "micro-batches per step", number(training.accumulate)),
        (".sequence", "tokens per sample", number(training.sequence)),
    ]
}

fn layers(scenario: &Scenario, model: &LayerList) -> Vec<Parameter> {
    let parameters = plans::layered::read(scenario, model).ok().map(|model| model.parameters());
    let (training, parallelism) = (&scenario.training, &scenario.parallelism);
    vec![
        (".preset", "model", model.preset.clone()),
        (".list", "parameters", parameters.map(|count| quantity::count(count as f64))),
        ("machine", "GPUs", Some(plans::ranks(scenario).to_string())),
        (".pipeline", "pipeline", number(parallelism.pipeline.filter(|count| count.get() > 1))),
        (".data", "data", number(parallelism.data.filter(|count| count.get() > 1))),
        (".global_batch", "samples per step", number(training.global_batch)),
        (".micro_batch", "samples per micro-batch", number(training.micro_batch)),
        (".accumulate", "micro-batches per step", number(training.accumulate)),
    ]
}

fn network(scenario: &Scenario, model: &GraphNetwork) -> Vec<Parameter> {
    let graph = model.graph.as_ref();
    let count = |count: u64| quantity::count(count as f64);
    let sampling = model.sampling.as_ref();
    let layers = model.network.layers();
    let mut kinds: Vec<&str> = layers.iter().map(|layer| layer.kind.name()).collect();
    kinds.dedup();
    let hidden = model.network.alike().map(|(_, alike)| alike.hidden.get().to_string());
    vec![
        (".data", "graph", graph.map(|graph| graph.name.clone())),
        (".nodes", "nodes", graph.map(|graph| count(graph.nodes()))),
        (".edges", "edges", graph.map(|graph| count(graph.edges()))),
        (".network", "network", Some(kinds.join(", "))),
        (".layers", "layers", Some(layers.len().to_string())),
        (".hidden", "hidden", hidden),
        (".system", "system", Some(model.system.name().to_owned())),
        ("machine", "GPUs", Some(plans::ranks(scenario).to_string())),
        (".batch", "seeds per mini-batch", sampling.map(|sampling| sampling.batch.get().to_string())),
    ]
}

/// Estimates among the statistics of a graph.
fn of_network(model: &GraphNetwork) -> Vec<Assumption> {
    let graph = model.graph.as_ref().filter(|graph| graph.is_estimate());
    let origin = "degrees, or edges of types, follow a law: no count of them was published";
    graph.map(|graph| assumption("model.graph.data", graph.name.clone(), origin)).into_iter().collect()
}

/// The model of a program, and what is executed how.
fn programmed(scenario: &Scenario, program: &Programmed) -> Vec<Parameter> {
    let mut told = match &program.base {
        Some(ProgramBase::Transformer(model)) => transformer(scenario, model),
        Some(ProgramBase::Layers(model)) => layers(scenario, model),
        None => Vec::new(),
    };
    told.insert(0, (".program.preset", "program", program.preset.clone()));
    let software = scenario.software.clone().unwrap_or_default();
    told.push((".iterations", "iterations", Some(plans::iterations(scenario).to_string())));
    told.push((".framework", "framework", Some(software.framework.unwrap_or(FRAMEWORK.to_owned()))));
    told
}

/// The trace, its devices and its rank.
fn replayed(trace: &Trace) -> IndexMap<String, String> {
    let traced = trace.recorded.as_ref().map(|recorded| &recorded.traced);
    let devices = traced.map(|traced| traced.device_names().join(", ")).filter(|names| !names.is_empty());
    let rank = traced.and_then(|traced| traced.rank).map(|(rank, ranks)| format!("{rank} of {ranks}"));
    let steps = traced.map(|traced| traced.recorded_steps.len().max(1).to_string());
    let told =
        [("trace", Some(trace.file.clone())), ("device", devices), ("rank", rank), ("steps recorded", steps)];
    told.into_iter().filter_map(|(what, value)| Some((what.to_owned(), value?))).collect()
}

fn number<const MIN: u64, const MAX: u64>(count: Option<Count<MIN, MAX>>) -> Option<String> {
    count.map(|count| count.get().to_string())
}

/// What the file leaves open and matters.
pub(super) fn assumptions(scenario: &Scenario) -> Vec<Assumption> {
    let mut assumptions = match &scenario.model {
        Model::ProfiledPipeline(pipeline) => of_profile(scenario, pipeline),
        Model::Transformer(_) => of_transformer(scenario),
        Model::Layers(model) => of_layers(scenario, model),
        Model::Graph(model) => of_network(model),
        Model::Program(program) => of_program(scenario, program),
        Model::Trace(trace) => return of_trace(trace),
    };
    if scenario.run.noise.is_none() {
        let origin = "default: every step takes the same time; real ones vary";
        assumptions.push(assumption("run.noise", "none", origin));
    }
    assumptions.extend(of_hosts(scenario));
    assumptions
}

fn assumption(what: &str, value: impl Into<String>, origin: &str) -> Assumption {
    Assumption { what: what.to_owned(), value: value.into(), origin: origin.to_owned() }
}

/// Assumptions of a program's model.
fn of_program(scenario: &Scenario, program: &Programmed) -> Vec<Assumption> {
    match &program.base {
        Some(ProgramBase::Transformer(_)) => of_transformer(scenario),
        Some(ProgramBase::Layers(model)) => of_layers(scenario, model),
        None => Vec::new(),
    }
}

/// The framework that is assumed, where hosts issue operators.
fn of_hosts(scenario: &Scenario) -> Option<Assumption> {
    let software = scenario.software.as_ref();
    let issues = match scenario.model {
        Model::Program(_) => true,
        Model::Transformer(_) | Model::Layers(_) | Model::Graph(_) => {
            software.map_or(Launch::default(), Software::launched) == Launch::Eager
        }
        Model::ProfiledPipeline(_) | Model::Trace(_) => false,
    };
    let origin =
        "default: most of its host's costs are of a recorded program; `calibrate --with-torch` measures them";
    let is_named = software.is_some_and(|software| software.framework.is_some());
    (issues && !is_named).then(|| assumption("software.framework", FRAMEWORK, origin))
}

fn of_profile(scenario: &Scenario, pipeline: &ProfiledPipeline) -> Vec<Assumption> {
    let mut assumptions = vec![assumption(
        "parallelism.send",
        word(&scenario.parallelism.send),
        "how messages are sent: with `latency` they occupy nobody",
    )];
    if pipeline.activation_kept_for_weight.is_none() {
        assumptions.push(assumption(
            "model.profiled_pipeline.activation_kept_for_weight",
            "16/17 of `activation`",
            "estimate: 32 of 34 s b h bytes of a transformer layer without attention scores (arXiv 2401.10241, section 3.2)",
        ));
    }
    assumptions
}

fn of_transformer(scenario: &Scenario) -> Vec<Assumption> {
    let bytes = scenario.memory.bytes_per_parameter.map_or(0, BytesPerParameter::bytes);
    vec![
        assumption(
            "memory.bytes_per_parameter",
            bytes.to_string(),
            "parameter, gradient and optimizer state; whether a plan fits can hang on it",
        ),
        reserved(scenario),
        assumption(
            "software.attention",
            word(&scenario.software.as_ref().map(|s| s.attention)),
            "how attention is computed",
        ),
    ]
}

fn of_layers(scenario: &Scenario, model: &LayerList) -> Vec<Assumption> {
    let mut assumptions = vec![
        assumption(
            "training.optimizer",
            word(&scenario.training.optimizer),
            "what updates the parameters, and how many moments of each it holds",
        ),
        reserved(scenario),
    ];
    let list = plans::layered::layers(scenario, model);
    if let Some(input) = Shape::of(&list.input) {
        assumptions.push(assumption("model.layers.input", input.to_string(), "the shape of a sample"));
    }
    assumptions
}

fn of_trace(trace: &Trace) -> Vec<Assumption> {
    vec![assumption(
        "model.trace.launch_queue",
        trace.launch_queue.get().to_string(),
        "launches that a stream may have waiting; the default is an estimate of where CUDA's driver blocks",
    )]
}

fn reserved(scenario: &Scenario) -> Assumption {
    assumption(
        "memory.reserved",
        quantity::bytes(scenario.memory.reserved.map_or(0, Bytes::bytes)),
        "kept back on each GPU beyond what the catalogue says of driver and context",
    )
}
