//! Published models by name.

use serde::{Deserialize, Serialize};

use super::Transformer;

/// The presets, a YAML map from names to [`Preset`]s.
pub const PRESETS: &str = include_str!("../../../presets/transformers.yaml");

/// A published model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// Where its dimensions are from.
    pub source: String,
    /// Its dimensions.
    pub model: Transformer,
}
