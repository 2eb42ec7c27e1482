//! Scenarios that search for the best plan of a model on a machine, or for the last that fits, from
//! their names.

use hw_models::catalogue::look_up;
use indexmap::IndexMap;

use crate::catalogue::{devices, presets};

/// Tokens of a step where nothing is said: what language models of some ten billion parameters
/// are trained with.
const TOKENS: u64 = 4 << 20;
/// Sequences of a step for each node where nothing is said and any batch fits in micro-batches.
const SEQUENCES: u64 = 64;
/// The same where memory alone is asked for: a longer step would hold no more.
const FEW_SEQUENCES: u64 = 16;
/// Tokens of a sequence where nothing is said, unless the model has fewer positions.
const SEQUENCE: u64 = 4096;

/// A model, a machine to train it on, and a batch.
#[derive(Clone, Copy, Debug, Default)]
pub struct BestPlan<'a> {
    /// A published model, or the path of a Hugging Face config.json.
    pub model: &'a str,
    /// Nodes of the machine: `dgx-h100`, or `8xdgx-h100` for several.
    pub machine: &'a str,
    /// Network between the nodes. `None`: that of the machine.
    pub fabric: Option<&'a str>,
    /// Sequences of a step. `None`: those of four million tokens.
    pub global_batch: Option<u64>,
    /// Tokens of a sequence. `None`: as the model has positions, at most 4,096.
    pub sequence: Option<u64>,
    /// Positions of a model that a config.json describes. `None`: at least 4,096.
    pub positions: Option<u64>,
}

impl BestPlan<'_> {
    /// Writes the scenario; what is assumed has a comment that says so.
    ///
    /// # Errors
    /// A name that the catalogue does not have, with what may have been meant.
    pub fn scenario(&self) -> Result<String, String> {
        let model = self.described()?;
        let batch = self.batch(&model).to_string();
        let training = format!(
            "  sequence: {sequence}{of_sequence}
  global_batch: {batch}{of_batch}
",
            sequence = self.tokens(&model),
            of_sequence = assumed(self.sequence),
            of_batch = assumed(self.global_batch),
        );
        Ok(format!(
            "{head}search:
  over: {{ parallelism: auto, training.micro_batch: auto, techniques: [recompute, activation_offload] }}
  minimise: step_time
  keep: 10
  gap: 1 %
  budget: 2 min   # then the best so far; without it until the gap is proven
",
            head = self.head("Best plan of", &model, &training)?,
        ))
    }

    fn described(&self) -> Result<Model, String> {
        let model = Model::read(self.model)?;
        Ok(Model { positions: self.positions.unwrap_or(model.positions), ..model })
    }

    /// Everything but the search, with lines of `training`.
    fn head(&self, title: &str, model: &Model, training: &str) -> Result<String, String> {
        let Machine { node, count } = Machine::read(self.machine)?;
        let machine = match (count, self.fabric) {
            (1, None) => format!("{{ node: {{ name: {node} }} }}"),
            (_, None) => format!("{{ cluster: {{ node: {node}, count: {count} }} }}"),
            (_, Some(fabric)) => {
                known(&devices().fabrics, "fabric", fabric)?;
                format!("{{ cluster: {{ node: {node}, count: {count}, fabric: {fabric} }} }}")
            }
        };
        Ok(format!(
            "name: {title} {model_title} on {machine_title}
machine: {machine}
model: {{ transformer: {{ {settings} }} }}
training:
{training}  precision: bf16-mixed
software: {{ attention: flash }}
",
            model_title = model.title,
            machine_title = self.machine,
            settings = model.settings,
        ))
    }

    /// Tokens of a sequence.
    fn tokens(&self, model: &Model) -> u64 {
        self.sequence.unwrap_or(SEQUENCE.min(model.positions))
    }

    /// Sequences of a step.
    fn batch(&self, model: &Model) -> u64 {
        self.global_batch.unwrap_or((TOKENS / self.tokens(model).max(1)).max(1))
    }
}

/// Comment behind a value that nobody gave.
fn assumed(given: Option<u64>) -> &'static str {
    if given.is_none() { "   # assumed" } else { "" }
}

/// The last value of a quantity with which a model trains on a machine.
#[derive(Clone, Copy, Debug)]
pub struct LastFit<'a> {
    /// The model and the machine.
    pub plan: BestPlan<'a>,
    /// The quantity.
    pub asked: Asked,
    /// Most time of a step. `None`: it may take as long as it does.
    pub within: Option<&'a str>,
}

/// A quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Layers of the model.
    LargestModel,
    /// Tokens of a sequence.
    LargestSequence,
    /// Samples of a micro-batch.
    LargestMicroBatch,
    /// Samples of a step.
    LargestGlobalBatch,
    /// Nodes of the machine.
    FewestNodes,
}

impl LastFit<'_> {
    /// Writes the scenario; what is assumed has a comment that says so.
    ///
    /// # Errors
    /// A name that the catalogue does not have, or a question without an answer, with a remedy.
    pub fn scenario(&self) -> Result<String, String> {
        let model = self.plan.described()?;
        let nodes = Machine::read(self.plan.machine)?.count;
        if self.asked == Asked::FewestNodes && nodes == 1 {
            return Err(format!(
                "there are no fewer nodes than 1: name the most that there may be, such as `8x{}`",
                self.plan.machine
            ));
        }
        if self.asked == Asked::LargestGlobalBatch && self.within.is_none() {
            return Err(
                "any global batch fits in micro-batches: say how long a step may take, `--within '20 s'`"
                    .to_owned(),
            );
        }
        let plan = &self.plan;
        let sequence = format!("  sequence: {}{}\n", plan.tokens(&model), assumed(plan.sequence));
        let of_node = if let Asked::LargestModel = self.asked { FEW_SEQUENCES } else { SEQUENCES };
        let batch = plan.global_batch.unwrap_or(nodes.saturating_mul(of_node));
        let batch = format!("  global_batch: {batch}{}\n", assumed(plan.global_batch));
        // A step of one micro-batch on each copy: its batch hangs on how many copies there are.
        let one = "  accumulate: 1\n".to_owned();
        let (quantity, training) = match self.asked {
            // The largest model leaves no room for more than one sequence.
            Asked::LargestModel => {
                ("largest: model.transformer.layers", [sequence, batch + "  micro_batch: 1\n"])
            }
            Asked::LargestSequence => ("largest: training.sequence", ["  micro_batch: 1\n".to_owned(), one]),
            Asked::LargestMicroBatch => ("largest: training.micro_batch", [sequence, one]),
            Asked::LargestGlobalBatch => ("largest: training.global_batch", [sequence, String::new()]),
            Asked::FewestNodes => ("fewest: machine.cluster.count", [sequence, batch]),
        };
        let is_searched = matches!(self.asked, Asked::LargestGlobalBatch | Asked::FewestNodes);
        let micro_batch = if is_searched { "    training.micro_batch: [1, 2, 4]\n" } else { "" };
        let limit = self
            .within
            .map(|time| format!("  subject_to: [{}]\n", serde_json::json!(format!("step_time <= {time}"))));
        Ok(format!(
            "{head}search:
  {quantity}
  over:
    parallelism.tensor: auto
    parallelism.pipeline: auto
    parallelism.sharding: [optimizer, gradients, parameters]
{micro_batch}    techniques: [recompute, zero_offload, zero_infinity]
{limit}  minimise: time_per_sample
  keep: 3
  gap: 1 %
",
            head = plan.head("What fits of", &model, &training.concat())?,
            limit = limit.unwrap_or_default(),
        ))
    }
}

/// Nodes of one kind.
struct Machine<'a> {
    node: &'a str,
    count: u64,
}

impl<'a> Machine<'a> {
    /// Reads `dgx-h100` or `8xdgx-h100`.
    fn read(text: &'a str) -> Result<Self, String> {
        let counted = text.split_once('x').and_then(|(count, node)| Some((count.parse().ok()?, node)));
        let (count, node) = counted.filter(|(count, _)| *count > 0).unwrap_or((1, text));
        known(&devices().nodes, "node", node)?;
        Ok(Self { node, count })
    }
}

/// A model and its settings.
struct Model {
    title: String,
    settings: String,
    /// Most tokens of a sequence, where that is known.
    positions: u64,
}

impl Model {
    fn read(text: &str) -> Result<Self, String> {
        if text.ends_with(".json") {
            let settings = format!("config: {}", serde_json::json!(text));
            return Ok(Self { title: text.replace([':', '#'], " "), settings, positions: SEQUENCE });
        }
        let preset = known(presets(), "model", text)?;
        let positions = preset.model.max_positions.into();
        Ok(Self { title: text.to_owned(), settings: format!("preset: {text}"), positions })
    }
}

fn known<'a, T>(entries: &'a IndexMap<String, T>, noun: &'static str, name: &str) -> Result<&'a T, String> {
    look_up(entries, noun, name).map_err(|unknown| unknown.to_string())
}
