//! Conversions between words and settings that several targets have.

use serde_json::Value as Json;

use workloads::model::transformer::Transformer;

use super::rules::{Conversion, Lookup, plain};
use crate::catalogue::presets;
use crate::schema::{Bytes, Share};

pub(super) type ToWords = fn(&Json, Lookup<'_>) -> Option<Vec<String>>;
pub(super) type ToValue = fn(&[&str], Lookup<'_>) -> Option<Json>;

/// A share as a decimal number.
pub(super) const SHARE: Conversion =
    Conversion { words: share_word, value: |words, _| number(words).map(Json::from) };

/// Gradients of a bucket, which scenarios measure in bytes.
pub(super) const GRADIENTS: Conversion = Conversion { words: gradients_word, value: gradients };

/// A conversion that only reads.
pub(super) const fn read_only(value: ToValue) -> Conversion {
    Conversion { words: |_, _| None, value }
}

pub(super) fn one(word: &impl ToString) -> Option<Vec<String>> {
    Some(vec![word.to_string()])
}

pub(super) fn setting(settings: Lookup<'_>, path: &str) -> Option<u64> {
    settings(path)?.as_u64()
}

/// The published model that is named.
pub(super) fn preset(settings: Lookup<'_>) -> Option<&'static Transformer> {
    let name = settings("model.transformer.preset")?;
    presets().get(name.as_str()?).map(|preset| &preset.model)
}

/// Positions of a published model: rotary ones reach as far as sequences are long.
pub(super) fn positions(_: &[&str], settings: Lookup<'_>) -> Option<Json> {
    let most = preset(settings).map_or(u64::MAX, |model| u64::from(model.max_positions));
    let sequence = setting(settings, "training.sequence").filter(|tokens| *tokens > most);
    Some(sequence.map_or(Json::Null, Json::from))
}

pub(super) fn count(words: &[&str]) -> Option<u64> {
    words.first()?.parse().ok()
}

fn number(words: &[&str]) -> Option<f64> {
    words.first()?.parse().ok().filter(|number: &f64| number.is_finite())
}

fn share_word(share: &Json, _: Lookup<'_>) -> Option<Vec<String>> {
    one(&Share::parse(&plain(share)?).ok()?.as_f64())
}

fn gradients_word(bucket: &Json, settings: Lookup<'_>) -> Option<Vec<String>> {
    let (bytes, each) = (Bytes::parse(bucket.as_str()?).ok()?.bytes(), gradient_bytes(settings));
    bytes.is_multiple_of(each).then(|| vec![(bytes / each).to_string()])
}

fn gradients(words: &[&str], settings: Lookup<'_>) -> Option<Json> {
    bucket(count(words)?, settings)
}

/// A number of gradients as bytes.
pub(super) fn bucket(gradients: u64, settings: Lookup<'_>) -> Option<Json> {
    let bytes = gradients.checked_mul(gradient_bytes(settings))?;
    let text = match bytes % 1_000_000 {
        0 => format!("{} MB", bytes / 1_000_000),
        _ => format!("{bytes} B"),
    };
    Some(Json::from(text))
}

/// Bytes of a gradient: 4 where they are summed in fp32.
fn gradient_bytes(settings: Lookup<'_>) -> u64 {
    let mixed = settings("training.precision").is_none_or(|precision| precision != "fp32");
    let single = !mixed || setting(settings, "memory.bytes_per_parameter") == Some(18);
    if single { 4 } else { 2 }
}
