//! `foretrain plan`: a file that searches for the best plan of a model on a machine.

use hw_models::catalogue;
use indexmap::IndexMap;
use scenarios::catalogue::{devices, presets};

use super::Exit;
use super::printer::Printer;
use super::trouble::Trouble;

/// Tokens of a step where nothing is said: what language models of some ten billion parameters
/// are trained with.
const TOKENS: u64 = 4 << 20;
/// Tokens of a sequence where nothing is said, unless the model has fewer positions.
const SEQUENCE: u64 = 4096;

/// A model, and a machine to train it on.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// A published model (`foretrain list models`), or a Hugging Face config.json
    model: String,
    /// Nodes of the machine (`foretrain list machines`): `dgx-h100`, or `8xdgx-h100` for several
    machine: String,
    /// Network between the nodes (`foretrain list fabrics`)
    #[arg(long, value_name = "NAME")]
    fabric: Option<String>,
    /// Sequences of a step
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    global_batch: Option<u64>,
    /// Tokens of a sequence
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u64).range(1..=1 << 24))]
    sequence: Option<u64>,
}

/// Prints the file.
pub(super) fn plan(arguments: &Arguments, printer: &Printer) -> Result<Exit, Trouble> {
    let Machine { node, count } = Machine::read(&arguments.machine)?;
    let model = Model::read(&arguments.model)?;
    let machine = match (count, &arguments.fabric) {
        (1, None) => format!("{{ node: {{ name: {node} }} }}"),
        (_, None) => format!("{{ cluster: {{ node: {node}, count: {count} }} }}"),
        (_, Some(fabric)) => {
            look_up(&devices().fabrics, "fabric", fabric)?;
            format!("{{ cluster: {{ node: {node}, count: {count}, fabric: {fabric} }} }}")
        }
    };
    let assumed = |given: Option<u64>| if given.is_none() { "   # assumed" } else { "" };
    let sequence = arguments.sequence.unwrap_or(SEQUENCE.min(model.positions));
    let batch = arguments.global_batch.unwrap_or((TOKENS / sequence).max(1));
    printer.print(&format!(
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
        machine_title = arguments.machine,
        settings = model.settings,
        of_sequence = assumed(arguments.sequence),
        of_batch = assumed(arguments.global_batch),
    ))
}

/// Nodes of one kind.
struct Machine<'a> {
    node: &'a str,
    count: u64,
}

impl<'a> Machine<'a> {
    /// Reads `dgx-h100` or `8xdgx-h100`.
    fn read(text: &'a str) -> Result<Self, Trouble> {
        let counted = text.split_once('x').and_then(|(count, node)| Some((count.parse().ok()?, node)));
        let (count, node) = counted.filter(|(count, _)| *count > 0).unwrap_or((1, text));
        look_up(&devices().nodes, "node", node)?;
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
    fn read(text: &str) -> Result<Self, Trouble> {
        if text.ends_with(".json") {
            let settings = format!("config: {}", serde_json::json!(text));
            return Ok(Self { title: text.replace([':', '#'], " "), settings, positions: SEQUENCE });
        }
        let preset = look_up(presets(), "model", text)?;
        let positions = preset.model.max_positions.into();
        Ok(Self { title: text.to_owned(), settings: format!("preset: {text}"), positions })
    }
}

fn look_up<'a, T>(known: &'a IndexMap<String, T>, noun: &'static str, name: &str) -> Result<&'a T, Trouble> {
    catalogue::look_up(known, noun, name).map_err(|unknown| Trouble::Mistake(unknown.to_string()))
}
