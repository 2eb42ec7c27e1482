//! Models that are lists of layers: convolutional networks, vision and speech transformers, encoders with decoders.
//!
//! ```text
//!   LayerList        layers as a file says them, with the shape of a sample
//!      |  LayeredExecution: micro-batch, precision, attention, optimizer
//!   Tape             values and their shapes from layer to layer; operators forward, and backward as autograd has them
//!      |
//!   LayeredModel     blocks of the same kind as those of transformers, with their parameters
//! ```
//!
//! Operators and what they keep are those of PyTorch run eagerly; each file of layers says where it is otherwise.

mod attention;
mod convolution;
mod cut;
mod execution;
mod experts;
mod gelu;
mod layer;
mod linear;
mod loss;
mod model;
mod normalisation;
mod pointwise;
mod pooling;
mod presets;
mod read;
mod recurrent;
mod rms;
mod scores;
mod shape;
mod tape;
mod tokens;
mod update;

pub use execution::{LayeredExecution, Optimizer};
pub use layer::{
    Activation, Attention, Cell, Concat, Convolution, DecoderList, Depthwise, Distances, Embedding, Experts,
    Groups, Input, Layer, LayerList, Linear, Mlp, PatchEmbedding, Pool, Recurrent, Repeat, Residual,
    SqueezeExcite,
};
pub use model::{LayeredModel, ModelBlock};
pub use presets::{LAYERED_PRESETS, LayeredPreset};
pub use read::Misfit;
pub use shape::Shape;
pub(crate) use update::updated;
