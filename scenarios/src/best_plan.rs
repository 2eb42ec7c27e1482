//! A scenario that searches for the best plan of a model on a machine, from their names.

use hw_models::catalogue::look_up;
use indexmap::IndexMap;

use crate::catalogue::{devices, presets};

/// Tokens of a step where nothing is said: what language models of some ten billion parameters
/// are trained with.
const TOKENS: u64 = 4 << 20;
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
}

impl BestPlan<'_> {
    /// Writes the scenario; what is assumed has a comment that says so.
    ///
    /// # Errors
    /// A name that the catalogue does not have, with what may have been meant.
    pub fn scenario(&self) -> Result<String, String> {
        let Machine { node, count } = Machine::read(self.machine)?;
        let model = Model::read(self.model)?;
        let machine = match (count, self.fabric) {
            (1, None) => format!("{{ node: {{ name: {node} }} }}"),
            (_, None) => format!("{{ cluster: {{ node: {node}, count: {count} }} }}"),
            (_, Some(fabric)) => {
                known(&devices().fabrics, "fabric", fabric)?;
                format!("{{ cluster: {{ node: {node}, count: {count}, fabric: {fabric} }} }}")
            }
        };
        let assumed = |given: Option<u64>| if given.is_none() { "   # assumed" } else { "" };
        let sequence = self.sequence.unwrap_or(SEQUENCE.min(model.positions));
        let batch = self.global_batch.unwrap_or((TOKENS / sequence.max(1)).max(1));
        Ok(format!(
            "name: Best plan of {title} on {machine_title}
machine: {machine}
model: {{ transformer: {{ {settings} }} }}
training:
  sequence: {sequence}{of_sequence}
  global_batch: {batch}{of_batch}
  precision: bf16-mixed
software: {{ attention: flash }}
search:
  over: {{ parallelism: auto, training.micro_batch: auto, techniques: [recompute, activation_offload] }}
  minimise: step_time
  keep: 10
  gap: 1 %
",
            title = model.title,
            machine_title = self.machine,
            settings = model.settings,
            of_sequence = assumed(self.sequence),
            of_batch = assumed(self.global_batch),
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
