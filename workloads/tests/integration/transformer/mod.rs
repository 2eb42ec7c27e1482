//! Transformers: what they execute, hold and count, against published formulas and figures.

mod adapters;
mod alive;
mod classes;
mod collectives;
mod compiled;
mod configurations;
mod context;
mod dataflow;
mod embedding;
mod flops;
mod fused;
mod halves;
mod hugging_face;
mod joined;
mod loss;
mod memory;
mod mixture;
mod modules;
mod narrow;
mod parameters;
mod pieces;
mod routing;
mod softmax;
mod splits;
mod torchtitan;
mod update;
mod windows;

use indexmap::IndexMap;
use workloads::model::transformer::{
    AttentionKernel, Dtype, Execution, PRESETS, Preset, ShardedTransformer, Split, Transformer,
};

/// A published model.
fn preset(name: &str) -> Transformer {
    presets()[name].model.clone()
}

pub(crate) fn presets() -> IndexMap<String, Preset> {
    serde_yaml::from_str(PRESETS).expect("the embedded presets")
}

/// Tensor ranks, with sequence parallelism or without.
fn ranks(tensor: u32, sequence_parallel: bool) -> Split {
    Split { tensor, sequence_parallel: sequence_parallel && tensor > 1, ..Split::NONE }
}

/// Half precision with scores in memory.
fn materialised(micro_batch: u32, sequence: u32, split: Split) -> Execution {
    Execution::new(micro_batch, sequence, split, Dtype::Fp16, AttentionKernel::Materialised)
}

/// bfloat16 with flash attention.
fn flash(micro_batch: u32, sequence: u32, split: Split) -> Execution {
    Execution::new(micro_batch, sequence, split, Dtype::Bf16, AttentionKernel::Flash)
}

fn shard(model: &Transformer, execution: &Execution) -> ShardedTransformer {
    ShardedTransformer::new(model, execution).unwrap_or_else(|problems| panic!("{problems:?}"))
}
