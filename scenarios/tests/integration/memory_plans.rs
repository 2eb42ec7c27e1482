//! Random training plans that are short of memory, with techniques that make room.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reports::summary::RunSummary;
use scenarios::run::alone;

use crate::support::read;

/// Single techniques with their plain settings.
pub(crate) const TECHNIQUES: [&str; 11] = [
    "recompute={ mode: selective }",
    "recompute={ mode: operators }",
    "recompute={ mode: full }",
    "bpipe={}",
    "activation_offload={}",
    "swap={}",
    "swap={ engine: greedy }",
    "zero_offload={}",
    "zero_infinity={ states: host }",
    "paged_states={}",
    "activation_offload={ prefetch: 8 }",
];

/// Random cases of a test: `FORETRAIN_CASES`, or its own number.
pub(crate) fn cases(own: usize) -> usize {
    std::env::var("FORETRAIN_CASES").map_or(own, |cases| cases.parse().expect("a number"))
}

/// A transformer on a node whose memory is too small for it.
fn plan(number: u64) -> String {
    let mut random = ChaCha8Rng::seed_from_u64(number);
    let mut one = |choices: &[&'static str]| choices[random.random_range(0..choices.len())];
    let node = one(&["dgx-1v-16g", "epyc-pcie-8x", "dgx-a100-40g", "supermicro-4029gp-trt3"]);
    let (layers, hidden) = (one(&["4", "8"]), one(&["1024", "2048", "4096"]));
    let (micro_batch, batch) = (one(&["2", "4", "8"]), one(&["64", "128"]));
    let (tensor, pipeline) = (one(&["1", "1", "2"]), one(&["1", "1", "2"]));
    let (sequence, attention) = (one(&["512", "1024"]), one(&["flash", "standard"]));
    let sharding = one(&["none", "none", "optimizer", "gradients", "parameters"]);
    let ratio = one(&["1.1", "1.25", "1.5", "2"]);
    format!(
        "name: plan {number}
machine: {{ node: {{ name: {node} }} }}
model: {{ transformer: {{ layers: {layers}, hidden: {hidden}, heads: 16, vocabulary: 32000, max_positions: 1024 }} }}
training: {{ micro_batch: {micro_batch}, global_batch: {batch}, sequence: {sequence}, precision: fp16-mixed }}
parallelism: {{ tensor: {tensor}, pipeline: {pipeline}, sharding: {sharding} }}
memory: {{ footprint_ratio: {ratio} }}
software: {{ attention: {attention} }}
"
    )
}

/// A plan that does not fit, with the memory that it has written in bytes, and those.
pub(crate) fn short(number: u64) -> Option<(String, u64)> {
    let text = plan(number);
    let capacity = told(&text, &[])?.failure?.capacity_bytes?;
    let (before, ratio) = text.split_once("footprint_ratio: ")?;
    let (_, after) = ratio.split_once(" }")?;
    Some((format!("{before}limit: {capacity} B }}{after}"), capacity))
}

/// A run with settings as the command line has them; `None`: they do not go together.
pub(crate) fn told(text: &str, settings: &[&str]) -> Option<RunSummary> {
    let ended = alone(&read(text, settings).ok()?, 1);
    Some(ended.unwrap_or_else(|refusal| panic!("{refusal}\n{text}{settings:?}")))
}
