//! Dimensions from a `config.json` of Hugging Face Transformers.

mod architectures;
mod fields;
mod reported;

use std::io::Read;

use serde_json::{Map, Value};
use thiserror::Error;

use super::Transformer;
use architectures::ARCHITECTURES;
use fields::Fields;

/// A model as a `config.json` describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// Its dimensions.
    pub model: Transformer,
    /// Parts of the file that change the computation and are not modelled, a sentence each.
    pub not_modelled: Vec<String>,
}

/// A `config.json` that is not understood, and why.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("config.json: {0}")]
pub struct HuggingFaceError(String);

/// Longest file that is read; real ones have a few kilobytes.
const BYTES_MAX: u64 = 1 << 20;

/// Architectures that are lists of layers, with presets of their own.
const LISTS: [&str; 7] =
    ["convnext", "efficientnet", "resnet", "t5", "vit", "wav2vec2", "wav2vec2-conformer"];

impl Configuration {
    /// Reads a `config.json`.
    ///
    /// # Errors
    /// When it is no such file, or all that is missing or not supported in it.
    pub fn from_hugging_face(reader: impl Read) -> Result<Self, HuggingFaceError> {
        let mut text = Vec::new();
        let unreadable = |error: std::io::Error| HuggingFaceError(error.to_string());
        reader.take(BYTES_MAX + 1).read_to_end(&mut text).map_err(unreadable)?;
        if text.len() as u64 > BYTES_MAX {
            return Err(HuggingFaceError(format!(
                "longer than {BYTES_MAX} bytes: not a model configuration"
            )));
        }
        let fields = match serde_json::from_slice(&text) {
            Ok(Value::Object(fields)) => fields,
            Ok(_) => {
                return Err(HuggingFaceError("expected an object, `{ \"model_type\": ... }`".to_owned()));
            }
            Err(error) => return Err(HuggingFaceError(error.to_string())),
        };
        let name = fields.get("model_type").and_then(Value::as_str).map(str::to_owned);
        let Some((_, read)) = ARCHITECTURES.iter().find(|(known, _)| Some(*known) == name.as_deref()) else {
            let list = name
                .as_deref()
                .filter(|name| LISTS.contains(name))
                .map_or("", |_| " (a list of layers: see `model.layers`)");
            let found = name.map_or_else(|| "missing".to_owned(), |name| format!("`{name}`{list}"));
            let names = ARCHITECTURES.map(|(name, _)| name).join(", ");
            return Err(HuggingFaceError(format!("`model_type` is {found}; supported are {names}")));
        };
        let mut fields = Fields::new(of_text(fields));
        let model = read(&mut fields);
        if fields.is_right() {
            let invalid = model.validate().err().into_iter().flatten();
            invalid.for_each(|invalid| fields.problem(invalid.to_string()));
        }
        if !fields.is_right() {
            return Err(HuggingFaceError(fields.into_problems().join("; ")));
        }
        Ok(Self { model, not_modelled: reported::not_modelled(&fields) })
    }
}

/// The fields of a model of texts: with those of `text_config` in the place of their like.
fn of_text(mut fields: Map<String, Value>) -> Map<String, Value> {
    if let Some(Value::Object(nested)) = fields.remove("text_config") {
        fields.extend(nested.into_iter().filter(|(name, _)| name != "model_type"));
    }
    fields
}
