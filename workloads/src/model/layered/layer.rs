//! The layers that a list is made of, as a file says them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A model as a list of layers, with the shape of what goes in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LayerList {
    /// Shape of a sample.
    pub input: Input,
    /// Layers, one after the other.
    #[schemars(extend("examples" = [["flatten", { "linear": { "outputs": 10 } }, "cross_entropy"]]))]
    pub list: Vec<Layer>,
    /// Layers that start from other tokens and attend to the result of `list`.
    pub decoder: Option<DecoderList>,
}

/// Decoder of an encoder-decoder model; its attention with `cross: true` reads the encoder's
/// output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DecoderList {
    /// Tokens of a sample; those of the encoder when absent.
    pub tokens: Option<u32>,
    /// Layers, one after the other, of which an `embedding` comes first.
    #[schemars(extend("examples" = [[{ "embedding": { "vocabulary": 100, "width": 64 } }, "cross_entropy"]]))]
    pub list: Vec<Layer>,
}

/// Shape of a sample: `channels`, `height` and `width` of an image, `channels` and `length` of a
/// signal, `tokens` of a vocabulary, or `tokens` and `width` of vectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("examples" = [{ "channels": 3, "height": 224, "width": 224 }]))]
pub struct Input {
    /// Channels of an image or a signal.
    pub channels: Option<u32>,
    /// Rows of an image.
    pub height: Option<u32>,
    /// Columns of an image; with `tokens`, values of each.
    pub width: Option<u32>,
    /// Values of a signal in each channel.
    pub length: Option<u32>,
    /// Entries of a vocabulary, or vectors where they have a `width`.
    pub tokens: Option<u32>,
}

/// A layer, or several as one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(extend("examples" = ["relu"]))]
pub enum Layer {
    /// Convolution over an image.
    Conv2d(Convolution),
    /// Convolution over a signal.
    Conv1d(Convolution),
    /// Convolution over an image with a filter of its own for every channel.
    DepthwiseConv2d(Depthwise),
    /// Convolution over a signal with a filter of its own for every channel.
    DepthwiseConv1d(Depthwise),
    /// Normalisation of every channel over the batch.
    BatchNorm,
    /// Normalisation over the channels of every place.
    LayerNorm,
    /// Root-mean-square normalisation over the channels of every place, without bias.
    RmsNorm,
    /// Normalisation over groups of channels.
    GroupNorm(Groups),
    /// max(x, 0), in place where nothing else needs x.
    Relu,
    /// x Phi(x).
    Gelu,
    /// x sigmoid(x), also called swish.
    Silu,
    /// x relu6(x + 3) / 6.
    Hardswish,
    /// 1 / (1 + exp(-x)).
    Sigmoid,
    /// Hyperbolic tangent.
    Tanh,
    /// Half of the channels, times the sigmoid of the others.
    Glu,
    /// Largest of a window.
    MaxPool(Pool),
    /// Mean of a window.
    AveragePool(Pool),
    /// Mean over all places.
    GlobalAveragePool,
    /// Matrix product over the channels of every place.
    Linear(Linear),
    /// Some elements become 0, as a stored mask says.
    Dropout,
    /// Some samples become 0.
    StochasticDepth,
    /// Every channel times a parameter.
    LayerScale,
    /// Everything times a constant.
    Scale,
    /// All elements of a sample in one row.
    Flatten,
    /// Places of an image or a signal as tokens, channels as their width.
    ToTokens,
    /// Rows of an image as tokens, channels and columns together as their width.
    RowsToTokens,
    /// Tokens as places of a signal.
    ToSignal,
    /// All places of a signal but the last.
    DropLast,
    /// Square patches of an image as tokens.
    PatchEmbedding(PatchEmbedding),
    /// A learned token before the others.
    ClassToken,
    /// The first token alone.
    FirstToken,
    /// A learned vector for every place, added.
    PositionEmbedding,
    /// Rows of a table, one for every token.
    Embedding(Embedding),
    /// A state that each token changes: a recurrent network.
    Recurrent(Recurrent),
    /// Multi-head attention.
    Attention(Attention),
    /// Two matrix products with an activation between them.
    Mlp(Mlp),
    /// A mixture of experts: each token goes through one of several MLPs.
    Experts(Experts),
    /// Channels are weighted by a small network over their means.
    SqueezeExcite(SqueezeExcite),
    /// Residual connection: the result of the body is added to its input.
    Residual(Residual),
    /// Branches of one input, whose channels are concatenated.
    Concat(Concat),
    /// Layers several times, each time with parameters of their own.
    Repeat(Repeat),
    /// The loss against one class for every row.
    CrossEntropy,
}

/// A convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Convolution {
    /// Channels of the output.
    #[schemars(extend("examples" = [64]))]
    pub channels: u32,
    /// Extent of the filter in each direction.
    #[schemars(extend("examples" = [3]))]
    pub kernel: u32,
    /// Step of the filter.
    #[serde(default = "one")]
    pub stride: u32,
    /// Zeros on each side.
    #[serde(default)]
    pub padding: u32,
    /// Distance of the filter's elements.
    #[serde(default = "one")]
    pub dilation: u32,
    /// Groups of channels, each with filters over its own.
    #[serde(default = "one")]
    pub groups: u32,
    /// True if a parameter is added to every channel.
    #[serde(default = "yes")]
    pub bias: bool,
    /// True if filters are made of a direction and, for each of their elements, a length (Salimans
    /// and Kingma, 2016).
    #[serde(default)]
    pub weight_norm: bool,
}

/// A convolution with a filter for every channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Depthwise {
    /// Extent of the filter in each direction.
    #[schemars(extend("examples" = [3]))]
    pub kernel: u32,
    /// Step of the filter.
    #[serde(default = "one")]
    pub stride: u32,
    /// Zeros on each side.
    #[serde(default)]
    pub padding: u32,
    /// True if a parameter is added to every channel.
    #[serde(default = "yes")]
    pub bias: bool,
}

/// Groups of channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Groups {
    /// How many.
    #[schemars(extend("examples" = [32]))]
    pub groups: u32,
}

/// A window that pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// Extent of the window in each direction.
    #[schemars(extend("examples" = [2]))]
    pub kernel: u32,
    /// Step of the window; its extent when absent.
    pub stride: Option<u32>,
    /// Places without value on each side.
    #[serde(default)]
    pub padding: u32,
}

/// A linear layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Linear {
    /// Width of the output.
    #[schemars(extend("examples" = [1000]))]
    pub outputs: u32,
    /// True if a parameter is added to every column.
    #[serde(default = "yes")]
    pub bias: bool,
    /// Shares the parameters of an embedding, whose table the matrix is.
    #[serde(default)]
    pub tied: bool,
}

/// Patches of an image as tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PatchEmbedding {
    /// Rows and columns of a patch.
    #[schemars(extend("examples" = [16]))]
    pub patch: u32,
    /// Width of a token.
    #[schemars(extend("examples" = [768]))]
    pub width: u32,
}

/// A table with a row for every entry of a vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Embedding {
    /// Rows.
    #[schemars(extend("examples" = [32128]))]
    pub vocabulary: u32,
    /// Width of a row.
    #[schemars(extend("examples" = [768]))]
    pub width: u32,
    /// Shares the parameters of the embedding before it.
    #[serde(default)]
    pub tied: bool,
}

/// A recurrent layer of one direction, in cuDNN's standard algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Recurrent {
    /// Rule by which a token changes the state.
    #[serde(default)]
    pub cell: Cell,
    /// Width of the state.
    #[schemars(extend("examples" = [1024]))]
    pub width: u32,
    /// True if gates have a bias of the input and one of the state.
    #[serde(default = "yes")]
    pub bias: bool,
    /// True if inputs, as wide as the state, are added to every gate without a matrix product
    /// (`CUDNN_SKIP_INPUT`).
    #[serde(default)]
    pub skip_input: bool,
}

/// Rules of recurrent layers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cell {
    /// tanh of one sum (Elman, 1990), or ReLU.
    Simple,
    /// Four gates and a second state (Hochreiter and Schmidhuber, 1997).
    #[default]
    Lstm,
    /// Three gates (Cho et al., 2014).
    Gru,
}

/// Multi-head attention with its projections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Attention {
    /// Heads.
    #[schemars(extend("examples" = [12]))]
    pub heads: u32,
    /// Width of a head; that of the tokens over `heads` when absent.
    pub head_dim: Option<u32>,
    /// True if tokens attend to no later ones.
    #[serde(default)]
    pub causal: bool,
    /// True if keys and values come from the encoder's output.
    #[serde(default)]
    pub cross: bool,
    /// True if one product computes queries, keys and values.
    #[serde(default = "yes")]
    pub packed: bool,
    /// True if projections have a bias.
    #[serde(default = "yes")]
    pub bias: bool,
    /// Dropout of the attention weights.
    #[serde(default = "yes")]
    pub dropout: bool,
    /// How distances enter the scores.
    pub distances: Option<Distances>,
}

/// How distances of tokens enter attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Distances {
    /// A learned bias for each of 32 buckets of distances and each head, added to the scores (T5).
    Bias,
    /// The same bias as in the attention before, with no parameters of its own.
    SharedBias,
    /// Queries are multiplied with encodings of distances, too (Transformer-XL, Conformer).
    Encodings,
}

/// Two matrix products with an activation between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mlp {
    /// Inner width.
    #[schemars(extend("examples" = [3072]))]
    pub width: u32,
    /// Between the products.
    #[serde(default)]
    pub activation: Activation,
    /// Gated MLP: a second product of the input is multiplied with the activation.
    #[serde(default)]
    pub gated: bool,
    /// True if the products have a bias.
    #[serde(default = "yes")]
    pub bias: bool,
    /// Dropout after the activation.
    #[serde(default = "yes")]
    pub dropout: bool,
}

/// A mixture of experts (Fedus et al., JMLR 2022): a router sends each token to one of several MLPs, which take theirs one after
/// the other, as Hugging Face Transformers have it. `model.transformer.experts` has several experts a token, and experts on
/// several ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Experts {
    /// How many.
    #[schemars(extend("examples" = [8]))]
    pub count: u32,
    /// Inner width of each.
    #[schemars(extend("examples" = [3072]))]
    pub width: u32,
    /// Most tokens of a sample that an expert takes; later ones pass by. All when absent.
    pub capacity: Option<u32>,
    /// Number of experts that tokens choose, each by equally many; the others get none. All when
    /// absent.
    pub chosen: Option<u32>,
    /// Between the products.
    #[serde(default)]
    pub activation: Activation,
    /// Gated MLP: a second product of the input is multiplied with the activation.
    #[serde(default)]
    pub gated: bool,
    /// True if the products have a bias.
    #[serde(default = "yes")]
    pub bias: bool,
    /// Dropout after the activation.
    #[serde(default = "yes")]
    pub dropout: bool,
    /// Noise on the input of the router in training.
    #[serde(default)]
    pub jitter: bool,
}

impl Experts {
    /// One of them.
    pub(super) const fn mlp(&self) -> Mlp {
        let Self { width, activation, gated, bias, dropout, .. } = *self;
        Mlp { width, activation, gated, bias, dropout }
    }
}

/// Activations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// max(x, 0).
    Relu,
    /// x Phi(x).
    #[default]
    Gelu,
    /// x sigmoid(x).
    Silu,
    /// x relu6(x + 3) / 6.
    Hardswish,
    /// 1 / (1 + exp(-x)).
    Sigmoid,
    /// Hyperbolic tangent.
    Tanh,
}

/// Squeeze and excitation (Hu et al., CVPR 2018).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SqueezeExcite {
    /// Inner width.
    #[schemars(extend("examples" = [8]))]
    pub channels: u32,
    /// Between the two products; a sigmoid follows the second.
    #[serde(default = "silu")]
    pub activation: Activation,
}

/// A sum of a body and the input, or of a body and a shortcut.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Residual {
    /// Layers from the input to the sum.
    pub body: Vec<Layer>,
    /// Layers on the shortcut; none when absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shortcut: Vec<Layer>,
}

/// Branches from one input; one without layers is the input itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Concat {
    /// The branches.
    pub branches: Vec<Vec<Layer>>,
}

/// Layers several times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Repeat {
    /// How often.
    #[schemars(extend("examples" = [3]))]
    pub count: u32,
    /// Layers that are repeated.
    pub layers: Vec<Layer>,
}

const fn one() -> u32 {
    1
}

const fn yes() -> bool {
    true
}

const fn silu() -> Activation {
    Activation::Silu
}
