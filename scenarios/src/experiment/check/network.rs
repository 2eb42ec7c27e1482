//! Rules of a graph network on a machine.

use std::sync::Arc;

use graphs::{GraphSource, Problem};
use workloads::feed::{Sampling, SamplingPlace};
use workloads::model::network::{Asked, NetworkKind};
use workloads::passes::ModelKind;

use super::layered::NO_PLACEHOLDERS;
use super::{Check, batches};
use crate::plans;
use crate::schema::{AnyLayer, Count, GraphData, GraphNetwork, Scenario, Step, Steps, UpdateRule};

const MODEL: &str = "model.graph";
const DATA: &str = "model.graph.data";
const NETWORK: &str = "model.graph.network";
/// Most layers of a network.
const LAYERS_MAX: usize = 64;
const SAMPLING: &str = "model.graph.sampling";
const FAN_OUT: &str = "model.graph.sampling.fan_out";
const SYSTEM: &str = "model.graph.system";
const INPUTS: &str = "features.width";

/// Settings that mean nothing for a graph network.
const FOREIGN: [(&str, &str); 13] = [
    ("training.fp8", "its products are in `precision`; remove it"),
    ("training.adapters", "its weights are trained; remove it"),
    ("training.sequence", "nodes have no tokens; remove it"),
    ("training.global_batch", "write `model.graph.sampling.batch`: the seeds of a mini-batch"),
    ("training.micro_batch", "write `model.graph.sampling.batch`: the seeds of a mini-batch"),
    ("training.accumulate", "each mini-batch is a step; remove it"),
    batches::OF_PIPELINES,
    ("parallelism.stage_layers", "layers of a network are on one stage; remove it"),
    ("parallelism.sequence_parallel", "layers of a network are not split over ranks; remove it"),
    ("parallelism.asynchronous_tensor", "layers of a network are not split over ranks; remove it"),
    ("parallelism.scatter_gather", "layers of a network are not split over ranks; remove it"),
    ("software.vocabulary_multiple", "a network has no vocabulary; remove it"),
    NO_PLACEHOLDERS,
];

impl Check<'_> {
    pub(super) fn network(&mut self, scenario: &mut Scenario) {
        self.foreign(&FOREIGN, "a graph network");
        let split = [
            ("parallelism.tensor", scenario.parallelism.tensor.map_or(1, Count::get)),
            ("parallelism.context", scenario.parallelism.context.map_or(1, Count::get)),
            ("parallelism.expert", scenario.parallelism.expert.map_or(1, Count::get)),
            ("parallelism.pipeline", scenario.parallelism.pipeline.map_or(1, Count::get)),
        ];
        for (path, ranks) in split {
            if ranks > 1 {
                let message =
                    format!("`{path}` has no meaning for a graph network, which each rank holds whole");
                self.report(&[(path, String::new())], message, "use `data` for more copies");
                return;
            }
        }
        scenario.techniques.fill(ModelKind::Layers);
        scenario.training.optimizer.get_or_insert(UpdateRule::Adam);
        scenario.training.step.get_or_insert_default();
        self.without_backward(scenario);
        let Some(settings) = scenario.model.graph_mut() else { return };
        match self.graph_of(settings) {
            Ok(graph) => settings.graph = Some(Arc::new(graph)),
            Err(problems) => {
                for Problem { setting, fault, remedy } in problems {
                    let within = if setting == "preset" { "" } else { ".statistics" };
                    let path = format!("{DATA}{within}.{setting}");
                    let message = format!("`{setting}` {fault}");
                    self.report(&[(&path, String::new())], message, remedy);
                }
            }
        }
        let settings = settings.clone();
        self.steps(scenario);
        let batch = settings.sampling.as_ref().map_or(Count::literal(1), |sampling| sampling.batch);
        scenario.training.micro_batch = Some(batch);
        scenario.training.accumulate = Some(Count::literal(1));
        self.on_machine(scenario, MODEL, "a graph network");
        self.allocator(scenario);
        self.sized(scenario, &settings);
        self.hops(&settings);
        self.samplers(&settings);
        self.features(scenario, &settings);
    }

    /// Steps that find the lanes before them as they leave them, or all of an epoch.
    fn steps(&mut self, scenario: &mut Scenario) {
        let Some(batches) = plans::network::batches(scenario) else {
            if scenario.training.epoch.is_some() {
                let message = "a step of the whole graph is an epoch";
                self.report_with("training.epoch", &[MODEL], message, "remove it, or add `sampling`");
            }
            return;
        };
        let steps = &mut scenario.run.steps;
        if scenario.training.epoch == Some(true) {
            let all = batches.min(1_000);
            *steps =
                Steps { warm_up: Count::literal(0), measured: Count::new(all).unwrap_or(steps.measured) };
        } else if *steps == Steps::default() {
            *steps = Steps { warm_up: Count::literal(8), measured: Count::literal(8) };
        }
    }

    /// The graph that settings name.
    fn graph_of(&mut self, settings: &GraphNetwork) -> Result<graphs::Graph, Vec<Problem>> {
        let source = match &settings.data {
            GraphData::Preset(name) => GraphSource::Preset(name.clone()),
            GraphData::Statistics(statistics) => GraphSource::Statistics(statistics.clone()),
            GraphData::File(path) => {
                let mark = self.tree.nearest_mark(&self.keys("model.graph.data.file"));
                match self.named.graphs.get(mark, path) {
                    Ok(statistics) => GraphSource::Statistics(Box::new(statistics)),
                    Err(fault) => {
                        let help = "write one with `foretrain import graph EDGES --out graph.yaml`";
                        self.report(&[("model.graph.data.file", String::new())], fault, help);
                        return Err(Vec::new());
                    }
                }
            }
        };
        let problems = source.problems();
        if problems.is_empty() { source.graph().map_err(|problem| vec![problem]) } else { Err(problems) }
    }

    /// Widths that are known and whole.
    fn sized(&mut self, scenario: &Scenario, settings: &GraphNetwork) {
        if settings.graph.is_some() && plans::network::inputs(scenario, settings).is_none() {
            let message = "the width of the features is not known";
            self.report_with(
                INPUTS,
                &[DATA, NETWORK],
                message,
                "write for example `features: { width: 128 }`",
            );
        }
        let layers = settings.network.layers();
        if layers.is_empty() || layers.len() > LAYERS_MAX {
            let message = format!("a network has 1 to {LAYERS_MAX} layers, not {}", layers.len());
            self.report(
                &[("model.graph.network.list", String::new())],
                message,
                "write for example `- sage: { width: 64 }`",
            );
            return;
        }
        let place = |(at, layer)| format!("{NETWORK}.{}", settings.network.place(at, layer));
        let places: Vec<String> = layers.iter().enumerate().map(place).collect();
        let uneven =
            layers.iter().zip(&places).enumerate().find(|(_, (layer, _))| layer.width % layer.heads != 0);
        if let Some((at, (AnyLayer { width, heads, .. }, place))) = uneven {
            let key = match settings.network.alike() {
                None => "width",
                Some((_, alike)) if at + 1 == layers.len() && alike.last_width().is_some() => "outputs",
                Some(_) => "hidden",
            };
            let message = format!("{heads} heads do not share a width of {width}");
            let help = format!("make it a multiple of {heads}");
            self.report_with(&format!("{place}.{key}"), &[place], message, help);
        }
        if let Some((kind, alike)) = settings.network.alike().filter(|(kind, _)| *kind != NetworkKind::Hgt)
            && alike.complete
        {
            let message = format!("`{}` has nothing around its layers", kind.name());
            self.report_with(&format!("{}.complete", places[0]), &[&places[0]], message, "remove it");
        }
        let trained = scenario.training.step.unwrap_or_default() != Step::Forward;
        let unsupported = layers.iter().zip(&places).find_map(|(&AnyLayer { kind, heads, .. }, place)| {
            settings.system.supports(Asked { kind, trained, heads }).err().map(|fault| (place, fault))
        });
        if let Some((place, (fault, remedy))) = unsupported {
            let before = self.findings.len();
            self.report_with(SYSTEM, &[place], fault, remedy);
            self.findings[before..].iter_mut().for_each(|found| found.problem.unsupported = true);
        }
    }

    /// One fan-out for each layer.
    fn hops(&mut self, settings: &GraphNetwork) {
        let Some(sampling) = &settings.sampling else { return };
        let (hops, layers) = (sampling.fan_out.len(), settings.network.layers().len());
        if hops != layers {
            let message = format!("a network of {layers} layers reads {layers} hops, not {hops}");
            let help = "write a number of neighbours for each layer, from the seeds outwards";
            self.report_with(FAN_OUT, &[NETWORK], message, help);
        }
        if settings.graph.as_ref().is_some_and(|graph| graph.training_nodes == Some(0)) {
            self.report(
                &[(DATA, String::new())],
                "the graph has no nodes to train on",
                "write `training_nodes`",
            );
        }
    }

    /// Threads that go with the place where neighbours are drawn.
    fn samplers(&mut self, settings: &GraphNetwork) {
        let on_gpu = |sampling: &Sampling| sampling.place != SamplingPlace::Host;
        if settings.sampling.as_ref().is_some_and(|it| on_gpu(it) && it.workers.get() > 1) {
            let message = "the GPU draws neighbours by itself";
            self.report_with("model.graph.sampling.workers", &[SAMPLING], message, "remove `workers`");
        }
    }
}
