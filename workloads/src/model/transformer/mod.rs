//! Decoder transformers of the GPT, Llama, Mixtral, DeepSeek, Qwen, Gemma and gpt-oss families and
//! the encoders BERT and RoBERTa, as one rank executes them.
//!
//! ```text
//!   Transformer        dimensions: a preset, a scenario, a Hugging Face config.json
//!      |  Execution: micro-batch, sequence, Split, precision, attention, fusion
//!   ShardedTransformer   checked: everything divides, no size overflows
//!      |
//!   Block              operators of a layer, the embedding, the head: forward and backward, with the tensors they
//!                      read and write; what is saved for the backward pass follows from who reads it
//! ```
//!
//! Operators and their order are those of Megatron-LM (Shoeybi et al. 2019; Narayanan et al., SC 2021; Korthikanti et
//! al., MLSys 2023), down to the passes over memory between the matrix products. Nothing here says how long anything
//! takes.
//!
//! ```
//! use workloads::model::transformer::{AttentionKernel, Dtype, Execution, ShardedTransformer, Split, Transformer};
//! use workloads::passes::recompute::{Mode, recomputed};
//!
//! let model = Transformer::gpt(96, 12_288, 96, 51_200, 2_048);
//! let split = Split { tensor: 8, sequence_parallel: true, stages: 8, chunks: 3, ..Split::NONE };
//! let execution = Execution::new(1, 2_048, split, Dtype::Fp16, AttentionKernel::Materialised);
//! let gpt = ShardedTransformer::new(&model, &execution)?;
//! // 34 s b h / t (Korthikanti et al. 2023, table 2) and 8 bytes of statistics a token and norm.
//! let saved = recomputed(&gpt.layer(), Mode::Selective).saved_bytes();
//! assert_eq!(saved, 2_048 * (34 * 12_288 + 2 * 8) / 8);
//! # Ok::<(), Vec<workloads::diagnostic::Diagnostic>>(())
//! ```

mod accumulate;
mod adapters;
mod apart;
mod attention;
mod cap;
mod classes;
mod context;
mod cut;
mod data;
mod embedding;
mod encoder;
mod execution;
mod experts;
mod flops;
mod gelu;
mod head;
mod hugging_face;
mod joined;
mod latent;
mod layer;
mod linear;
mod loss;
mod mixture;
mod mlp;
mod names;
mod narrow;
mod norm;
mod parameters;
mod pieces;
mod presets;
mod query_key_norm;
mod residual;
mod rms;
mod rotary;
mod router;
mod routing;
mod settings;
mod shape;
mod softmax;
mod split;
mod states;
mod update;
mod windows;

use crate::model::draft;

pub use crate::graph::Phase;
pub use crate::graph::block::{Block, beside};

pub use crate::graph::operator::{
    Attention, Collective, CollectiveKind, Dtype, Gemm, Group, GroupedGemm, HostWork, HostWorkKind, Layout,
    Operator, Pass, Stream, StreamClass, Tensor, Work,
};
pub use adapters::{Adapted, AdapterParameters, Adapters};
pub use context::ContextExchange;
pub(crate) use data::Held;
pub use data::{DataParallel, Gather, GatherLimit, GatherUnit, Overlap};
pub use encoder::Encoder;
pub(crate) use execution::GATHER_RECEIVED;
pub use execution::{
    AddedTo, AttentionKernel, Boundary, Execution, Fusion, Parts, ShardedTransformer, SoftmaxFusion, Step,
};
pub use experts::Experts;
pub use hugging_face::{Configuration, HuggingFaceError};
pub use latent::LatentAttention;
pub use loss::CrossEntropy;
pub use narrow::{Fp8, Scaling};
pub use parameters::RankParameters;
pub use presets::{PRESETS, Preset};
pub use query_key_norm::QueryKeyNorm;
pub use rotary::Rotary;
pub use routing::{Capacity, Dealt, DrawnLoad, Load, Routing};
pub use settings::{ExpertSettings, LatentSettings, Sequence, TransformerSettings};
pub use shape::{Bias, LayerKind, Layers, Mlp, Norm, Positions, Transformer};
pub use split::Split;
pub use states::{Sharding, StateBytes, States};
pub(crate) use update::MOMENTS;
pub use windows::WindowForm;
