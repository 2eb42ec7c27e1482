//! Settings of techniques as real systems have them, by name.

use serde::Deserialize;

/// The list, as YAML: a [`TechniquePreset`] by name.
pub const PRESETS: &str = include_str!("presets.yaml");

/// Settings of techniques as a real system has them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TechniquePreset {
    /// The system and its settings, in a sentence.
    pub description: String,
    /// Code or paper that says so.
    pub source: String,
    /// YAML that a scenario would have as `techniques`.
    pub settings: String,
    /// Things that the system refuses beside them.
    #[serde(default)]
    pub without: Vec<Refused>,
}

/// Something that a system refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Refused {
    /// Several stages.
    Pipeline,
    /// Recomputation.
    Recompute,
    /// Captured CUDA graphs.
    Graphs,
}
