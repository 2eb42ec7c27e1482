//! A model as a list of layers: a preset, or the layers themselves.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use workloads::model::layered::{DecoderList, Input, Layer};

/// A list of layers. Without `preset` it needs `input` and `list`; with it `input` may be another.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("examples" = [{ "preset": "resnet-50" }]))]
pub struct LayerList {
    /// A published model; `foretrain list models` has them.
    #[schemars(extend("examples" = ["resnet-50"]))]
    pub preset: Option<String>,
    /// Shape of a sample.
    pub input: Option<Input>,
    /// Layers, one after the other.
    #[schemars(extend("examples" = [["flatten", { "linear": { "outputs": 10 } }, "cross_entropy"]]))]
    pub list: Option<Vec<Layer>>,
    /// Layers that start from other tokens and attend to the result of `list`.
    pub decoder: Option<DecoderList>,
}
