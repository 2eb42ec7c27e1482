//! Published models as lists of layers.

use serde::{Deserialize, Serialize};

use super::LayerList;

/// The texts of the presets, by family: YAML maps from names to [`LayeredPreset`]s.
pub const LAYERED_PRESETS: [&str; 11] = [
    include_str!("../../../presets/layered/vgg.yaml"),
    include_str!("../../../presets/layered/resnet.yaml"),
    include_str!("../../../presets/layered/densenet.yaml"),
    include_str!("../../../presets/layered/convnext.yaml"),
    include_str!("../../../presets/layered/efficientnet.yaml"),
    include_str!("../../../presets/layered/vit.yaml"),
    include_str!("../../../presets/layered/speech.yaml"),
    include_str!("../../../presets/layered/detr.yaml"),
    include_str!("../../../presets/layered/t5.yaml"),
    include_str!("../../../presets/layered/switch.yaml"),
    include_str!("../../../presets/layered/recurrent.yaml"),
];

/// A published model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayeredPreset {
    /// Where its layers are from.
    pub source: String,
    /// Its layers.
    pub model: LayerList,
}
