//! Megatron-Bridge: its table, and conversions between words and settings.

use std::sync::LazyLock;

use serde_json::{Map, Value as Json};

use super::conversions::{self, count, read_only, setting};
use super::megatron;
use super::rules::{Conversion, Lookup, Table, scalar};
use super::{Form, Target};

/// The YAML of a `ConfigContainer`, and overrides `section.key=value`.
pub(super) const MEGATRON_BRIDGE: Target =
    Target { name: "Megatron-Bridge", form: Form::Yaml, table, conversions };

fn table() -> &'static Table {
    static TABLE: LazyLock<Table> = LazyLock::new(|| {
        serde_yaml::from_str(include_str!("megatron_bridge.yaml")).expect("the embedded table is valid")
    });
    &TABLE
}

/// Most parts of a model.
const PARTS_MAX: u64 = 65_536;

/// Mixed precisions by name: the type of activations, and how products in 8 bits are scaled.
const RECIPES: [(&str, &str, Option<&str>); 7] = [
    ("bf16_mixed", "bf16-mixed", None),
    ("fp16_mixed", "fp16-mixed", None),
    ("bf16_with_fp8_delayed_scaling_mixed", "bf16-mixed", Some("delayed")),
    ("fp16_with_fp8_delayed_scaling_mixed", "fp16-mixed", Some("delayed")),
    ("bf16_with_fp8_current_scaling_mixed", "bf16-mixed", Some("tensorwise")),
    ("fp16_with_fp8_current_scaling_mixed", "fp16-mixed", Some("tensorwise")),
    ("nemotron_h_bf16_with_fp8_current_scaling_mixed", "bf16-mixed", Some("tensorwise")),
];

fn conversions(name: &str) -> Option<Conversion> {
    Some(match name {
        "ffn" => read_only(ffn),
        "positions" => read_only(positions),
        "length" => read_only(length),
        "window" => Conversion { words: window_words, value: window },
        "frequency" => Conversion { words: megatron::conversions(name)?.words, value: frequency },
        "recipe" => read_only(|words, _| recipe(words.first()?).map(|(_, precision, _)| (*precision).into())),
        "recipe_bytes" => read_only(recipe_bytes),
        "recipe_scaling" => read_only(recipe_scaling),
        "stages" => read_only(stages),
        "uneven" => read_only(|_, settings| uneven(settings)),
        "by_optimizer" => read_only(by_optimizer),
        "overlap" => read_only(overlap),
        _ => return megatron::conversions(name),
    })
}

/// Width of the MLP without `model.ffn_hidden_size`.
fn ffn(_: &[&str], settings: Lookup<'_>) -> Option<Json> {
    let hidden = setting(settings, "model.transformer.hidden");
    hidden.map_or(Some(Json::Null), |hidden| hidden.checked_mul(4).map(Json::from))
}

/// Positions of a model that keys describe: those of a sequence.
fn positions(words: &[&str], settings: Lookup<'_>) -> Option<Json> {
    let is_described = setting(settings, "model.transformer.layers").is_some();
    if !is_described || settings("model.transformer.max_positions").is_some() {
        return conversions::positions(words, settings);
    }
    Some(setting(settings, "training.sequence").map_or(Json::Null, Json::from))
}

/// Tokens of a sequence, which the model and the data set say alike.
fn length(words: &[&str], settings: Lookup<'_>) -> Option<Json> {
    let tokens = count(words)?;
    let said = ["@model.seq_length", "@dataset.seq_length"].map(|fact| setting(settings, fact));
    (said == [Some(tokens); 2]).then(|| Json::from(tokens))
}

/// `window_size: [4096, 0]`: tokens before and after.
fn window_words(window: &Json, _: Lookup<'_>) -> Option<Vec<String>> {
    Some(vec![window.as_u64()?.to_string(), "0".to_owned()])
}

fn window(words: &[&str], _: Lookup<'_>) -> Option<Json> {
    let [before, "0"] = words else { return None };
    Some(scalar(before))
}

/// Layers with one MLP before those with experts: `[0, 0, 1, 1]`, or in words.
fn frequency(words: &[&str], settings: Lookup<'_>) -> Option<Json> {
    let [_, _, ..] = words else { return (megatron::conversions("frequency")?.value)(words, settings) };
    let dense = words.iter().take_while(|word| **word == "0").count();
    let layers = setting(settings, "model.transformer.layers");
    let is_whole = words[dense..].iter().all(|word| *word == "1") && layers == Some(words.len() as u64);
    is_whole.then(|| Json::from(dense))
}

fn recipe(name: &str) -> Option<&'static (&'static str, &'static str, Option<&'static str>)> {
    let name = name.replace('-', "_");
    RECIPES.iter().find(|(known, ..)| *known == name)
}

/// Bytes of a parameter: gradients are summed in fp32 where activations are bf16.
fn recipe_bytes(_: &[&str], settings: Lookup<'_>) -> Option<Json> {
    let is_half = settings("@mixed_precision")?.as_str()?.starts_with("fp16");
    Some(Json::from(if is_half { 20 } else { 18 }))
}

fn recipe_scaling(_: &[&str], settings: Lookup<'_>) -> Option<Json> {
    let (_, _, scaling) = recipe(settings("@mixed_precision")?.as_str()?)?;
    scaling.map(Json::from)
}

/// Micro-batches of a round, which are as many as stages.
fn stages(words: &[&str], settings: Lookup<'_>) -> Option<Json> {
    let stages = setting(settings, "parallelism.pipeline").unwrap_or(1);
    (count(words)? == stages).then(|| Json::from(stages))
}

/// Layers of all parts where the ends have fewer. `None`: nothing says so.
fn uneven(settings: Lookup<'_>) -> Option<Json> {
    let stages = setting(settings, "parallelism.pipeline").unwrap_or(1).max(1);
    let chunks = setting(settings, "@model.virtual_pipeline_model_parallel_size").unwrap_or(1).max(1);
    let parts = stages.checked_mul(chunks).filter(|parts| *parts <= PARTS_MAX)?;
    let of_preset = || conversions::preset(settings).map(|model| u64::from(model.layers));
    let layers = setting(settings, "model.transformer.layers").or_else(of_preset)?;
    let ends = Ends::of(settings)?;
    // An end with a number of its own holds that many; the embedding and the loss count as a layer.
    let fixed = [ends.first, ends.last].into_iter().flatten().try_fold(0_u64, u64::checked_add)?;
    let stages_left = stages.checked_sub([ends.first, ends.last].iter().flatten().count() as u64)?;
    let middle = stages_left.checked_mul(chunks).filter(|parts| *parts > 0)?;
    let counted = layers.checked_sub(fixed)?.checked_add(ends.embedding + ends.loss)?;
    let each = counted.is_multiple_of(middle).then_some(counted / middle)?;
    let part = |at: u64| {
        let (stage, is_first, is_last) = (at % stages, at == 0, at + 1 == parts);
        let own = if stage == 0 { ends.first } else { ends.last.filter(|_| stage + 1 == stages) };
        let own = own.map(|layers| layers.is_multiple_of(chunks).then_some(layers / chunks));
        let less = if is_first { ends.embedding } else { 0 } + if is_last { ends.loss } else { 0 };
        own.unwrap_or_else(|| each.checked_sub(less))
    };
    (0..parts).map(part).collect::<Option<Vec<u64>>>().map(Json::from)
}

/// Layers that the ends of a pipeline have less, or layers that they have.
struct Ends {
    embedding: u64,
    loss: u64,
    first: Option<u64>,
    last: Option<u64>,
}

impl Ends {
    /// Ends as keys describe them. `None`: no key does.
    fn of(settings: Lookup<'_>) -> Option<Self> {
        let counts = |name: &str| {
            let fact = settings(&format!("@model.account_for_{name}_in_pipeline_split"));
            u64::from(fact.is_some_and(|fact| fact == "true"))
        };
        let layers = |end: &str| setting(settings, &format!("@model.num_layers_in_{end}_pipeline_stage"));
        let ends = Self {
            embedding: counts("embedding"),
            loss: counts("loss"),
            first: layers("first"),
            last: layers("last"),
        };
        let is_said = ends.embedding + ends.loss > 0 || ends.first.or(ends.last).is_some();
        is_said.then_some(ends)
    }
}

/// Sharing that the optimizer alone says.
fn by_optimizer(_: &[&str], settings: Lookup<'_>) -> Option<Json> {
    let said = settings("@optimizer.use_distributed_optimizer")?;
    (said == "true").then(|| Json::from("optimizer"))
}

/// Overlap with passes, which `comm_overlap` switches on where copies share optimizer states.
fn overlap(_: &[&str], settings: Lookup<'_>) -> Option<Json> {
    let is_there = settings("@comm_overlap.tp_comm_overlap").is_some();
    (is_there && settings("parallelism.sharding").is_some()).then(|| Json::Object(Map::new()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ends_of_pipelines_have_fewer_layers() {
        // Llama 3.1 405B on 8 stages of 8 chunks: two layers each, at the ends one.
        let of = |facts: Json| {
            uneven(&|path: &str| match path {
                "model.transformer.layers" => Some(json!(126)),
                "parallelism.pipeline" => Some(json!(8)),
                path => facts.get(path.strip_prefix("@model.")?).cloned(),
            })
        };
        let both = json!({ "account_for_embedding_in_pipeline_split": "true",
            "account_for_loss_in_pipeline_split": "true", "virtual_pipeline_model_parallel_size": 8 });
        let found = of(both).expect("it divides");
        let layers: Vec<u64> = found.as_array().expect("a list").iter().filter_map(Json::as_u64).collect();
        assert_eq!((layers.len(), layers[0], layers[1], layers[63]), (64, 1, 2, 1));
        let first = json!({ "num_layers_in_first_pipeline_stage": 14 });
        assert_eq!(of(first), Some(json!([14, 16, 16, 16, 16, 16, 16, 16])));
        assert_eq!(of(json!({ "num_layers_in_last_pipeline_stage": 13 })), None);
        let both = json!({ "num_layers_in_first_pipeline_stage": 1, "num_layers_in_last_pipeline_stage": 1 });
        assert!(uneven(&|path: &str| both.get(path.strip_prefix("@model.")?).cloned()).is_none());
        assert_eq!(of(json!({})), None);
    }

    #[test]
    fn dense_layers_are_listed_or_in_words() {
        let model = |path: &str| (path == "model.transformer.layers").then(|| json!(4));
        assert_eq!(frequency(&["0", "1", "1", "1"], &model), Some(json!(1)));
        assert_eq!(frequency(&["([0]*1+[1]*3)"], &model), Some(json!(1)));
        assert_eq!(frequency(&["0", "1", "0", "1"], &model), None);
    }

    #[test]
    fn precisions_have_names_with_either_line() {
        assert_eq!(recipe("bf16-mixed").map(|found| found.1), Some("bf16-mixed"));
        assert_eq!(recipe("bf16_with_mxfp8_mixed"), None);
    }
}
