//! Megatron-LM: its table, and conversions between words and settings.

use std::sync::LazyLock;

use serde_json::{Value as Json, json};

use super::conversions::{GRADIENTS, SHARE, ToValue, ToWords, count, one, setting};
use super::layout::{layout, layout_word};
use super::rules::{Conversion, Lookup, Table, scalar};
use super::{Form, Target};

/// Arguments of `pretrain_gpt.py`.
pub(super) const MEGATRON: Target = Target { name: "Megatron-LM", form: Form::Arguments, table, conversions };

fn table() -> &'static Table {
    static TABLE: LazyLock<Table> = LazyLock::new(|| {
        serde_yaml::from_str(include_str!("megatron.yaml")).expect("the embedded table is valid")
    });
    &TABLE
}

/// Modules that recompute, in scenarios and in `--recompute-modules`.
const RECOMPUTED: [(&str, &str); 7] = [
    ("core-attention", "core_attn"),
    ("mlp", "mlp"),
    ("moe", "moe"),
    ("moe-activation", "moe_act"),
    ("shared-experts", "shared_experts"),
    ("layer-norm", "layernorm"),
    ("mla-up-projection", "mla_up_proj"),
];

/// Modules that offload, in scenarios and in `--offload-modules`.
const OFFLOADED: [(&str, &str); 5] = [
    ("attention-norm", "attn_norm"),
    ("core-attention", "core_attn"),
    ("mlp-norm", "mlp_norm"),
    ("experts", "expert_fc1"),
    ("moe-activation", "moe_act"),
];

/// Conversions of Megatron Core, which Megatron-Bridge has too.
pub(super) fn conversions(name: &str) -> Option<Conversion> {
    let (words, value): (ToWords, ToValue) = match name {
        "ffn" => (|_, _| None, ffn),
        "window" => (window_word, window),
        "frequency" => (frequency_word, frequency),
        "share" => return Some(SHARE),
        "chunks" => (|_, _| None, chunks),
        "layout" => (layout_word, layout),
        "tensor" => (|_, _| None, tensor),
        "gradients" => return Some(GRADIENTS),
        "kept" => (kept_word, kept),
        "recomputed" => {
            (|value, _| modules_words(value, &RECOMPUTED), |words, _| modules(words, &RECOMPUTED))
        }
        "offloaded" => (|value, _| modules_words(value, &OFFLOADED), |words, _| modules(words, &OFFLOADED)),
        _ => return None,
    };
    Some(Conversion { words, value })
}

/// Width of the MLP without `--ffn-hidden-size`: as many parameters with a gate as without.
fn ffn(_: &[&str], settings: Lookup<'_>) -> Option<Json> {
    if let Some(ffn) = settings("model.transformer.ffn") {
        return Some(ffn);
    }
    let Some(hidden) = setting(settings, "model.transformer.hidden") else { return Some(Json::Null) };
    let has_gate = settings("model.transformer.mlp")? == "swiglu";
    let width = hidden.checked_mul(4)?;
    Some(Json::from(if has_gate { width.checked_mul(2)? / 3 / 64 * 64 } else { width }))
}

/// `--window-size 4096,0`: tokens before and after.
fn window_word(window: &Json, _: Lookup<'_>) -> Option<Vec<String>> {
    one(&format!("{},0", window.as_u64()?))
}

fn window(words: &[&str], _: Lookup<'_>) -> Option<Json> {
    let bare = words.first()?.trim_matches(['(', ')', '[', ']']);
    let (before, after) = bare.split_once(',')?;
    (after.trim() == "0").then(|| scalar(before.trim()))
}

/// `--moe-layer-freq ([0]*3+[1]*58)`: layers with one MLP before those with experts.
fn frequency_word(dense: &Json, settings: Lookup<'_>) -> Option<Vec<String>> {
    let (dense, layers) = (dense.as_u64()?, setting(settings, "model.transformer.layers")?);
    one(&format!("([0]*{dense}+[1]*{})", layers.checked_sub(dense)?))
}

fn frequency(words: &[&str], settings: Lookup<'_>) -> Option<Json> {
    let word: String = words.first()?.chars().filter(|char| !char.is_whitespace()).collect();
    if word == "1" {
        return Some(Json::from(0));
    }
    let (dense, rest) = word.strip_prefix("([0]*")?.split_once("+[1]*")?;
    let (dense, rest): (u64, u64) = (dense.parse().ok()?, rest.strip_suffix(')')?.parse().ok()?);
    let layers = setting(settings, "model.transformer.layers")?;
    (dense.checked_add(rest) == Some(layers)).then(|| Json::from(dense))
}

/// Chunks of each stage, by the number of layers of a chunk.
fn chunks(words: &[&str], settings: Lookup<'_>) -> Option<Json> {
    let stages = setting(settings, "parallelism.pipeline").unwrap_or(1);
    let round = count(words)?.checked_mul(stages).filter(|layers| *layers > 0)?;
    let layers = setting(settings, "model.transformer.layers")?;
    layers.is_multiple_of(round).then(|| Json::from(layers / round))
}

/// Tensor ranks of experts, which are those of all layers.
fn tensor(words: &[&str], settings: Lookup<'_>) -> Option<Json> {
    let tensor = setting(settings, "parallelism.tensor").unwrap_or(1);
    (count(words)? == tensor).then(|| Json::from(tensor))
}

/// Layers that leave, of which scenarios say how many stay.
fn kept_word(kept: &Json, settings: Lookup<'_>) -> Option<Vec<String>> {
    let layers = setting(settings, "model.transformer.layers")?;
    one(&layers.checked_sub(kept.as_u64()?)?)
}

fn kept(words: &[&str], settings: Lookup<'_>) -> Option<Json> {
    let layers = setting(settings, "model.transformer.layers")?;
    layers.checked_sub(count(words)?).map(Json::from)
}

fn modules_words(modules: &Json, names: &[(&str, &str)]) -> Option<Vec<String>> {
    let word = |module: &Json| {
        let found = names.iter().find(|(ours, _)| module.as_str() == Some(ours));
        found.map(|(_, theirs)| (*theirs).to_owned())
    };
    modules.as_array()?.iter().map(word).collect()
}

fn modules(words: &[&str], names: &[(&str, &str)]) -> Option<Json> {
    let module = |word: &&str| names.iter().find(|(_, theirs)| theirs == word).map(|(ours, _)| json!(ours));
    words.iter().map(module).collect::<Option<Vec<Json>>>().map(Json::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_values_are_each_others_inverse() {
        let model = |path: &str| match path {
            "model.transformer.layers" => Some(json!(61)),
            "memory.bytes_per_parameter" => Some(json!(18)),
            _ => None,
        };
        for (name, value, word) in [
            ("window", json!(4096), "4096,0"),
            ("frequency", json!(3), "([0]*3+[1]*58)"),
            ("layout", json!([15, 16, 30]), "Et*15|t*16|t*30L"),
            ("gradients", json!("160 B"), "40"),
            ("kept", json!(1), "60"),
            ("recomputed", json!(["core-attention"]), "core_attn"),
            ("offloaded", json!(["moe-activation"]), "moe_act"),
        ] {
            let Conversion { words, value: back } = conversions(name).expect("a conversion");
            assert_eq!(words(&value, &model), Some(vec![word.to_owned()]), "{name}");
            assert_eq!(back(&[word], &model), Some(value), "{name}");
        }
    }

    #[test]
    fn a_gate_makes_the_mlp_narrower() {
        let with = |mlp: &'static str| {
            move |path: &str| match path {
                "model.transformer.hidden" => Some(json!(4096)),
                "model.transformer.mlp" => Some(json!(mlp)),
                _ => None,
            }
        };
        assert_eq!(ffn(&[], &with("swiglu")), Some(json!(10_880)));
        assert_eq!(ffn(&[], &with("gelu")), Some(json!(16_384)));
    }
}
