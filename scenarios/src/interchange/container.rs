//! Keys of a `ConfigContainer` of Megatron-Bridge: its YAML, and overrides as on its command line.

use super::command::Given;
use super::document::joined;
use super::shell::Word;
use crate::experiment::leads_to;
use crate::text::node::{Map, Node, Value, shorten};
use crate::text::problem::Problem;
use crate::text::source::{Mark, SourceId, Sources};
use crate::text::yaml;

/// Keys of YAML with their paths, a list as several values. Keys without a value are left out.
///
/// # Errors
/// Where the text is not YAML, and which keys it has twice.
pub(super) fn keys(sources: &Sources, source: SourceId) -> Result<Vec<Given>, Vec<Problem>> {
    let mut problems = Vec::new();
    let mut found = Vec::new();
    match yaml::parse(sources, source, &mut problems) {
        Some(Node { value: Value::Map(map), .. }) => read("", &map, &mut found),
        Some(other) => {
            let message = format!("the text is {}, not a map of sections", other.value.describe());
            let help = "give a ConfigContainer: `model: { num_layers: 32, ... }`, `train: ...`";
            problems.push(Problem::new(other.mark, message).help(help));
        }
        None => {}
    }
    if problems.is_empty() { Ok(found) } else { Err(problems) }
}

/// Lays lines `key=value` over the keys of a document. `+` or `++` before a key says that it is
/// new, and `~key` removes it.
///
/// # Errors
/// Every word that is none of these.
pub(super) fn overridden(
    mut keys: Vec<Given>,
    lines: &[String],
    source: SourceId,
) -> Result<Vec<Given>, Vec<Problem>> {
    let mut problems = Vec::new();
    let mut new = Vec::new();
    for (at, line) in (1..).zip(lines) {
        match change(line, source.at(at, 1), &mut new) {
            Ok(path) => keys.retain(|key| !leads_to(path, &key.name) && !leads_to(&key.name, path)),
            Err(problem) => problems.push(*problem),
        }
    }
    keys.extend(new);
    if problems.is_empty() { Ok(keys) } else { Err(problems) }
}

/// Reads an override, and gives the path that it replaces.
fn change<'l>(line: &'l str, mark: Mark, keys: &mut Vec<Given>) -> Result<&'l str, Box<Problem>> {
    let refusal = |message: String, help: &str| Box::new(Problem::new(mark, message).help(help));
    let no_key = |text: &str| {
        refusal(
            format!("`{}` is no key", shorten(text)),
            "write `section.key=value`, or `~section.key` to remove it",
        )
    };
    let is_path = |path: &str| {
        path.split('.').all(|key| !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || c == '_'))
    };
    if let Some(path) = line.strip_prefix('~') {
        return if is_path(path) { Ok(path) } else { Err(no_key(line)) };
    }
    let (path, value) = line.trim_start_matches('+').split_once('=').ok_or_else(|| no_key(line))?;
    if !is_path(path) {
        return Err(no_key(path));
    }
    let mut sources = Sources::default();
    let text = sources.add(path, value);
    let mut problems = Vec::new();
    let node = yaml::parse(&sources, text, &mut problems);
    let Some(node) = node.filter(|_| problems.is_empty()) else {
        let help = "write a number, a word, or a list: `[core_attn, mlp]`";
        return Err(refusal(format!("`{}` is no value", shorten(value)), help));
    };
    if node.as_map().is_some() {
        let help = format!("write its keys one by one: `{}.key=value`", shorten(path));
        return Err(refusal(format!("`{}` is set to a map", shorten(path)), &help));
    }
    let mut read = Vec::new();
    push(path, mark, &node, &mut read);
    for Given { mark: place, values, .. } in &mut read {
        *place = mark;
        *values = values.iter().map(|word| Word::placed(&word.text(), mark)).collect();
    }
    keys.append(&mut read);
    Ok(path)
}

/// Keys of a map. `_target_` and its like name Python classes.
fn read(above: &str, map: &Map, keys: &mut Vec<Given>) {
    for (name, entry) in map.iter().filter(|(name, _)| !name.starts_with('_')) {
        push(&joined(above, name), entry.key, &entry.node, keys);
    }
}

fn push(path: &str, mark: Mark, node: &Node, keys: &mut Vec<Given>) {
    let word = |node: &Node| Word::placed(&written(node), node.mark);
    let values = match &node.value {
        Value::Null => return,
        Value::Map(map) if object(map).is_none() => return read(path, map, keys),
        Value::List(items) => items.iter().map(word).collect(),
        _ => vec![word(node)],
    };
    keys.push(Given { written: path.to_owned(), name: path.to_owned(), mark, values });
}

/// A scalar, or the name of a Python object.
fn written(node: &Node) -> String {
    match &node.value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Integer(value) => value.to_string(),
        Value::Float(value) => value.to_string(),
        Value::Text(text) => text.clone(),
        Value::List(_) => "[...]".to_owned(),
        Value::Map(map) => object(map).unwrap_or("{...}").to_owned(),
    }
}

/// Name of a member of an enumeration, of a function or of a type, such as `silu` of
/// `torch.nn.functional.silu`. `None`: a map with keys of its own.
fn object(map: &Map) -> Option<&str> {
    let text = |key: &str| map.get(key).and_then(|entry| entry.node.as_text());
    let target = text("_target_").filter(|_| map.keys().all(|key| key.starts_with('_')))?;
    text("_name_").or_else(|| target.rsplit('.').next())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(keys: &[Given]) -> Vec<String> {
        let values = |key: &Given| key.values.iter().map(Word::text).collect::<Vec<_>>().join(",");
        keys.iter().map(|key| format!("{}={}", key.name, values(key))).collect()
    }

    #[test]
    fn python_objects_are_their_names() {
        let text = "
_target_: megatron.bridge.training.config.ConfigContainer
model:
  _target_: megatron.bridge.models.gpt_provider.GPTModelProvider
  activation_func: { _target_: torch.nn.functional.silu, _call_: false }
  attention_backend: { _target_: AttnBackend, _call_: true, _args_: [1], _name_: flash }
  window_size: [128, 0]
  moe_z_loss_coeff: null
mixed_precision: bf16_mixed
";
        let mut sources = Sources::default();
        let source = sources.add("x", text);
        let found = keys(&sources, source).expect("keys");
        let wanted = [
            "model.activation_func=silu",
            "model.attention_backend=flash",
            "model.window_size=128,0",
            "mixed_precision=bf16_mixed",
        ];
        assert_eq!(shown(&found), wanted);
        let words = ["mixed_precision.fp8=hybrid", "++model.window_size=[64, 0]", "~model.activation_func"];
        let found = overridden(found, &words.map(str::to_owned), source).expect("keys");
        assert_eq!(
            shown(&found),
            ["model.attention_backend=flash", "mixed_precision.fp8=hybrid", "model.window_size=64,0"]
        );
        let wrong = ["--recipe", "a..b=1", "x=[1", "y={ a: 1 }"].map(str::to_owned);
        assert_eq!(overridden(Vec::new(), &wrong, source).expect_err("four").len(), 4);
    }
}
