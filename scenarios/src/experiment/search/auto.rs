//! Values that a scenario implies for settings of a search: divisors of GPUs, heads, layers and
//! samples.

use std::collections::BTreeSet;

use workloads::model::transformer::Transformer as Dimensions;
use workloads::passes::Techniques;

use crate::experiment::sweep::Axis;
use crate::plans;
use crate::schema::{Count, Machine, Scenario, Transformer};
use crate::text::node::{Layer, Node, Value};
use crate::text::source::{Mark, Sources};
use crate::text::yaml;

/// Settings that `parallelism: auto` stands for.
pub(super) const PARALLELISM: [&str; 6] = [
    "parallelism.tensor",
    "parallelism.sequence_parallel",
    "parallelism.pipeline",
    "parallelism.schedule",
    "parallelism.sharding",
    "parallelism.expert",
];
/// Layers of stages: one of those, too, where GPUs are of several kinds.
pub(super) const STAGE_LAYERS: &str = "parallelism.stage_layers";
const MICRO_BATCH: &str = "training.micro_batch";
const GLOBAL_BATCH: &str = "training.global_batch";
const SEQUENCE: &str = "training.sequence";
const LAYERS: &str = "model.transformer.layers";
const NODES: &str = "machine.cluster.count";
const PIPELINE: &str = "parallelism.pipeline";
/// Settings of which the largest or the fewest may be asked for without a list of values.
pub(super) const QUANTITIES: [&str; 5] = [LAYERS, SEQUENCE, MICRO_BATCH, GLOBAL_BATCH, NODES];
const CONTEXT: &str = "parallelism.context";
const TECHNIQUES: &str = "techniques.";

/// Samples of the largest micro-batch that is tried.
const MICRO_BATCH_MAX: u64 = 64;
/// Tokens of the shortest part of a sequence on a rank.
const PART_LEAST: u64 = 1024;
/// Tokens that sequences of a model are multiples of, while the longest is looked for.
const SEQUENCE_STEP: u64 = 1024;
/// Stages that layers of a model are multiples of at most, while the largest is looked for.
const STAGES_MAX: u64 = 8;
/// Values of a quantity of which the last is looked for.
const VALUES_MAX: u64 = 4096;
/// Chunks of the model that a stage has at most in what is tried.
const CHUNKS_MAX: u64 = 8;

/// Settings beside techniques whose values a scenario implies.
pub(super) fn known() -> impl Iterator<Item = &'static str> {
    PARALLELISM.into_iter().chain([STAGE_LAYERS, CONTEXT, MICRO_BATCH])
}

pub(super) fn is_known(path: &str) -> bool {
    known().any(|known| known == path) || techniques().any(|name| path == technique(name))
}

/// True if the GPUs of any of the scenarios are of several kinds.
pub(super) fn is_mixed(scenarios: &[Scenario]) -> bool {
    let mut machines = scenarios.iter().filter_map(|scenario| plans::machine::of(scenario).ok());
    machines.any(|machine| machine.gpu_kinds().len() > 1)
}

/// Names of techniques that leave more memory free.
pub(super) fn techniques() -> impl Iterator<Item = &'static str> {
    let names: BTreeSet<&str> = Techniques::savings(1).into_iter().map(|saving| saving.technique).collect();
    names.into_iter()
}

/// The path of a technique.
pub(super) fn technique(name: &str) -> String {
    format!("{TECHNIQUES}{name}")
}

/// Values of a setting that any of the scenarios implies, written at `mark`.
pub(super) fn values(path: &str, scenarios: &[Scenario], mark: Mark) -> Vec<Node> {
    let node = |value| Node { mark, layer: Layer::Sweep, value };
    let texts = |all: &[&str]| all.iter().map(|&text| node(Value::Text(text.to_owned()))).collect();
    if let Some(name) = path.strip_prefix(TECHNIQUES) {
        let savings = Techniques::savings(1).into_iter().filter(|saving| saving.technique == name);
        let settings = savings.flat_map(|saving| saving.settings);
        let settings = settings.filter_map(|settings| parsed(&settings, mark));
        return [node(Value::Text("none".to_owned()))].into_iter().chain(settings).collect();
    }
    let implied = scenarios.iter().filter_map(Sizes::of);
    match path {
        "parallelism.sequence_parallel" => [false, true].map(|value| node(Value::Bool(value))).to_vec(),
        "parallelism.sharding" => texts(&["none", "optimizer", "gradients", "parameters"]),
        STAGE_LAYERS => texts(&["even", "balanced"]),
        "parallelism.schedule" => {
            let chunks: BTreeSet<u64> = implied.flat_map(|sizes| sizes.chunks()).collect();
            let interleaved = chunks
                .iter()
                .filter_map(|chunks| parsed(&format!("{{ interleaved: {{ chunks: {chunks} }} }}"), mark));
            [node(Value::Text("1f1b".to_owned()))].into_iter().chain(interleaved).collect()
        }
        _ => {
            let numbers: BTreeSet<u64> = implied.flat_map(|sizes| sizes.numbers(path)).collect();
            numbers.into_iter().map(|number| node(Value::Integer(number.into()))).collect()
        }
    }
}

/// Values of a quantity that a scenario implies, in order, beside the axes of a space; none where it
/// has no such quantity. `is_written` tells of settings whether the file says them.
pub(super) fn quantity(
    path: &str,
    scenario: &Scenario,
    axes: &[Axis],
    is_written: impl Fn(&str) -> bool,
) -> Vec<u64> {
    let multiples = |step: u64| (1..=VALUES_MAX).map(|number| number * step).collect();
    let Some(sizes) = Sizes::of(scenario) else { return Vec::new() };
    match path {
        LAYERS => {
            let layers = multiples(stages(scenario, axes));
            if sizes.model.is_some() { below(layers, VALUES_MAX) } else { Vec::new() }
        }
        SEQUENCE => multiples(SEQUENCE_STEP),
        MICRO_BATCH if is_written(GLOBAL_BATCH) => sizes.batch.map_or_else(Vec::new, divisors),
        MICRO_BATCH => multiples(1),
        GLOBAL_BATCH => multiples(sizes.gpus),
        NODES => match &scenario.machine {
            Some(Machine::Cluster(cluster)) => below(multiples(1), cluster.count.get()),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// The least value of a quantity that scenarios can do without until it is asked for.
pub(super) fn least(path: &str) -> Option<u64> {
    match path {
        SEQUENCE => Some(SEQUENCE_STEP),
        MICRO_BATCH => Some(1),
        _ => None,
    }
}

fn below(mut numbers: Vec<u64>, most: u64) -> Vec<u64> {
    numbers.retain(|number| *number <= most);
    numbers
}

/// Stages that layers are multiples of, so that no number of them keeps a plan out.
fn stages(scenario: &Scenario, axes: &[Axis]) -> u64 {
    let axis = axes.iter().find(|axis| axis.paths[..] == [PIPELINE]);
    let count = |node: Node| match node.value {
        Value::Integer(stages) => u64::try_from(stages).ok(),
        _ => None,
    };
    let Some(axis) = axis else { return scenario.stages() as u64 };
    let counts = (0..axis.len()).flat_map(|digit| axis.value(digit)).filter_map(count);
    counts.filter(|stages| (1..=STAGES_MAX).contains(stages)).max().unwrap_or(1)
}

/// True of a setting of which the largest or the fewest may be asked for without values.
pub(super) fn is_quantity(path: &str) -> bool {
    QUANTITIES.contains(&path)
}

/// A value as it would be written in a file.
fn parsed(text: &str, mark: Mark) -> Option<Node> {
    let mut sources = Sources::default();
    let source = sources.add("auto", text);
    let mut node = yaml::parse(&sources, source, &mut Vec::new())?.on(Layer::Sweep);
    node.remark(&|_| mark);
    Some(node)
}

/// Sizes that values are divisors of.
struct Sizes {
    gpus: u64,
    batch: Option<u64>,
    sequence: u64,
    model: Option<Dimensions>,
}

impl Sizes {
    fn of(scenario: &Scenario) -> Option<Self> {
        Some(Self {
            gpus: plans::machine::of(scenario).ok()?.gpus().into(),
            batch: scenario.training.global_batch.map(Count::get),
            sequence: scenario.training.sequence.map_or(1, Count::get),
            model: scenario.model.transformer().map(Transformer::dimensions),
        })
    }

    fn numbers(&self, path: &str) -> Vec<u64> {
        let of_gpus = || divisors(self.gpus);
        match (path, &self.model) {
            (MICRO_BATCH, _) => {
                let batch = self.batch.map_or_else(Vec::new, divisors);
                batch.into_iter().filter(|&size| size <= MICRO_BATCH_MAX).collect()
            }
            ("parallelism.tensor", Some(model)) => {
                of_gpus().into_iter().filter(|&ranks| u64::from(model.heads).is_multiple_of(ranks)).collect()
            }
            ("parallelism.pipeline", Some(model)) => of_gpus()
                .into_iter()
                .filter(|&stages| u64::from(model.layers).is_multiple_of(stages))
                .collect(),
            ("parallelism.pipeline", None) => of_gpus(),
            ("parallelism.expert", Some(model)) => {
                let experts: u64 = model.experts.as_ref().map_or(1, |experts| experts.count.into());
                of_gpus().into_iter().filter(|&ranks| experts.is_multiple_of(ranks)).collect()
            }
            (CONTEXT, Some(_)) => {
                let parts = |ranks: &u64| {
                    self.sequence.is_multiple_of(2 * ranks) && self.sequence / ranks >= PART_LEAST
                };
                of_gpus().into_iter().filter(|ranks| *ranks == 1 || parts(ranks)).collect()
            }
            _ => vec![1],
        }
    }

    fn chunks(&self) -> Vec<u64> {
        let layers = self.model.as_ref().map_or(1, |model| model.layers.into());
        divisors(layers).into_iter().filter(|chunks| (2..=CHUNKS_MAX).contains(chunks)).collect()
    }
}

fn divisors(number: u64) -> Vec<u64> {
    let small = (1..).take_while(|it| it * it <= number).filter(|it| number.is_multiple_of(*it));
    let all: BTreeSet<u64> = small.flat_map(|it| [it, number / it]).collect();
    all.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::divisors;

    #[test]
    fn divisors_are_in_order() {
        assert_eq!(divisors(1), [1]);
        assert_eq!(divisors(24), [1, 2, 3, 4, 6, 8, 12, 24]);
    }
}
