//! No whole number, however small or large, makes `check` run away with memory or work, or panic.
//!
//! Every integer setting of the JSON Schema is set to its least and its greatest value and to others that break arithmetic, in
//! files that have a use for it; each is loaded and sized up under an allocator that counts. Any answer is right, as long as it
//! comes.

#![allow(unsafe_code, reason = "an allocator that counts is one")]

mod allocator;
mod settings;

use std::collections::BTreeMap;

use scenarios::load;
use scenarios::run::{Options, Unwatched, plan};

use allocator::Counting;
use settings::{Setting, integers};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes that a check may hold at a time, and those that it may ask for in all: a measure of its work that does not depend on the
/// machine. The largest case, a mixture of experts of 4,096 layers, holds 54 MB and asks for 7.3 GB.
const HELD_MAX: usize = 256 << 20;
const ASKED_MAX: usize = 16 << 30;
/// Settings that are right in none of the files with any of the numbers: layers over images in a
/// decoder of tokens, links of parts that have none, cores of parts that are no sockets, reads of link classes without the rest, drives
/// described in place of GPUs and network interfaces, sizes that 1 does not divide, lists of one
/// where a file needs more, statistics of graphs that go with others, networks that no file has, the
/// queue of a trace.
const USELESS_MAX: usize = 147;

/// Files that have a use for the settings: those of each kind of model.
const BASES: [(&str, &str); 16] = [
    (
        "profile",
        "name: profile
model: { profiled_pipeline: { stages: 4, forward: 10 ms, backward_input: 10 ms, backward_weight: 5 ms, transfer: 1 ms, activation: 1 GB } }
training: { micro_batches: 8 }
",
    ),
    (
        "dense",
        "name: dense
machine: { cluster: { node: dgx-a100-80g, count: 1 } }
model: { transformer: { preset: megatron-22b } }
training: { micro_batch: 1, accumulate: 4, sequence: 1024 }
parallelism: { tensor: 8 }
",
    ),
    (
        "copies",
        "name: copies
machine: { cluster: { node: dgx-a100-80g, count: 2 } }
model: { transformer: { preset: gpt2-xl, window: 512 } }
training: { micro_batch: 1, accumulate: 4, sequence: 1024 }
parallelism: { tensor: 1, pipeline: 2, sharding: optimizer, idle: allow }
",
    ),
    (
        "mixture",
        "name: mixture
machine: { cluster: { node: dgx-h100, count: 4 } }
model: { transformer: { layers: 8, hidden: 1024, heads: 16, vocabulary: 32000, max_positions: 4096, norm: rms, mlp: swiglu, bias: none,
  latent: { kv_rank: 128, rotary_dim: 32, value_dim: 64 },
  experts: { count: 8, top_k: 2, ffn: 2048, load: { drawn: { concentration: 1 } } } } }
training: { micro_batch: 1, accumulate: 4, sequence: 1024 }
parallelism: { pipeline: 4, idle: allow, sharding: parameters }
",
    ),
    (
        "images",
        "name: images
machine: { node: { name: dgx-a100-80g } }
model: { layers: { input: { channels: 8, height: 64, width: 64 }, list: [global_average_pool, { linear: { outputs: 10 } }, cross_entropy] } }
training: { micro_batch: 8, accumulate: 2 }
",
    ),
    (
        "signals",
        "name: signals
machine: { node: { name: dgx-a100-80g } }
model: { layers: { input: { channels: 8, length: 1000 }, list: [global_average_pool, { linear: { outputs: 10 } }, cross_entropy] } }
training: { micro_batch: 8, accumulate: 2 }
",
    ),
    (
        "tokens",
        "name: tokens
machine: { node: { name: dgx-a100-80g } }
model: { layers: { input: { tokens: 64 }, list: [{ embedding: { vocabulary: 1000, width: 64 } }, { linear: { outputs: 1000 } }, cross_entropy] } }
training: { micro_batch: 8, accumulate: 2 }
",
    ),
    (
        "translation",
        "name: translation
machine: { node: { name: dgx-a100-80g } }
model: { layers: { input: { tokens: 64 }, list: [{ embedding: { vocabulary: 1000, width: 64 } }],
  decoder: { tokens: 16, list: [{ embedding: { vocabulary: 1000, width: 64 } }, { linear: { outputs: 1000 } }, cross_entropy] } } }
training: { micro_batch: 8, accumulate: 2 }
",
    ),
    (
        "described",
        "name: described
machine:
  cluster:
    node: dgx-a100-80g
    count: 1
    gpu: { like: a100-sxm4-80gb }
    set: { ssd: { model: { like: samsung-pm9a3-u2-3840gb } } }
model: { transformer: { preset: gpt2 } }
training: { micro_batch: 1, accumulate: 4, sequence: 1024 }
",
    ),
    (
        "idle-nodes",
        "name: idle nodes
machine: { cluster: { node: dgx-a100-80g, count: 1 } }
model: { transformer: { preset: gpt2 } }
training: { micro_batch: 1, accumulate: 4, sequence: 1024 }
parallelism: { data: 1, idle: allow }
",
    ),
    (
        "described-node",
        "name: described
machine: { node: { name: dgx-a100-80g, gpu: { like: a100-sxm4-80gb }, set: { ssd: { model: { like: samsung-pm9a3-u2-3840gb } } } } }
model: { transformer: { preset: gpt2 } }
training: { micro_batch: 1, accumulate: 4, sequence: 1024 }
",
    ),
    (
        "described-parts",
        "name: described
machine:
  parts:
    gpus: { nvme: { like: rtx-3090 } }
    ssds: { nvme0: samsung-pm9a3-u2-3840gb }
    sockets: [cpu]
    memories: { dram: { socket: cpu, memory: 128 GiB, rate: 40 GB/s } }
    links: [{ between: [nvme, cpu], class: pcie4, lanes: 16 }]
model: { transformer: { preset: gpt2 } }
training: { micro_batch: 1, accumulate: 4, sequence: 1024 }
",
    ),
    (
        "parts",
        "name: parts
machine:
  parts:
    gpus: { g0: rtx-3090, g1: rtx-3090 }
    sockets: [cpu]
    memories: { dram: { socket: cpu, memory: 128 GiB, rate: 40 GB/s } }
    links:
      - { between: [g0, cpu], class: pcie4, lanes: 16 }
      - { between: [g1, cpu], class: pcie4, lanes: 16 }
model: { transformer: { preset: gpt2 } }
training: { micro_batch: 1, accumulate: 4, sequence: 1024 }
",
    ),
    (
        "sampled",
        "name: sampled
machine: { node: { name: dgx-a100-80g } }
model:
  graph:
    data: { statistics: { nodes: 100000, edges: 2000000, training_nodes: 5000 } }
    network: { gat: { layers: 1, hidden: 64, heads: 4, outputs: 64 } }
    sampling: { batch: 100, fan_out: [5] }
features: { width: 64 }
training: { precision: fp32 }
",
    ),
    (
        "typed",
        "name: typed
machine: { node: { name: dgx-a100-80g } }
model:
  graph:
    data: { preset: aifb }
    network: { rgat: { layers: 1, hidden: 64 } }
features: { width: 64 }
training: { precision: fp32 }
",
    ),
    (
        "program",
        "name: program
machine: { node: dgx-a100-80g }
model:
  program:
    base: { transformer: { preset: bert-base, layers: 2 } }
    fragments: { nvme: { operators: 1, bytes: 1 MB } }
    loader: { time: 20 ms, bytes: 1 KB }
    iteration:
      - feed: { batch: true }
      - run: [forward, nvme, backward, update]
training: { micro_batch: 1, sequence: 128, accumulate: 1 }
software: { framework: pytorch-2, execution: co-execution }
run: { iterations: 4 }
",
    ),
];

/// Loads and sizes up, as `check` does; a refusal is given in words.
fn check(text: &str, change: Option<&str>) -> Result<(), String> {
    let files = BTreeMap::from([("limits.yaml".to_owned(), text.as_bytes().to_vec())]);
    let changes: Vec<String> = change.iter().map(|&change| change.to_owned()).collect();
    let experiment = load(&files, "limits.yaml", &changes).map_err(|failure| failure.to_string())?;
    let options = Options { seed: 1, jobs: Some(1), variants: Vec::new(), reproduce: String::new() };
    plan(&experiment, &options, &Unwatched).map(drop).map_err(|refusal| refusal.to_string())
}

#[test]
#[expect(clippy::print_stdout, reason = "names the case that panics, or is given no more memory")]
fn no_whole_number_takes_all_memory() {
    let settings = integers();
    assert!(settings.len() > 140, "only {} integer settings", settings.len());
    // Settings that are right in some file with some number.
    let mut useful = vec![false; settings.len()];
    for (base, text) in BASES {
        assert_eq!(check(text, None), Ok(()), "{base}");
        for (setting, useful) in settings.iter().zip(&mut useful) {
            for number in numbers(setting) {
                let change = setting.change(base, number);
                println!("{base}: {change}");
                let (checked, usage) = allocator::of(|| check(text, Some(&change)));
                assert!(usage.held <= HELD_MAX, "{base}: {change} holds {} B: {checked:?}", usage.held);
                assert!(usage.asked <= ASKED_MAX, "{base}: {change} asks for {} B: {checked:?}", usage.asked);
                *useful |= checked.is_ok();
            }
        }
    }
    let useless: Vec<String> = settings
        .iter()
        .zip(&useful)
        .filter(|(_, useful)| !**useful)
        .map(|(setting, _)| setting.change("", 1))
        .collect();
    assert!(useless.len() <= USELESS_MAX, "{} settings are never right: {useless:#?}", useless.len());
}

/// Values of a setting: its ends, and those at which sums, products and floating-point numbers break.
fn numbers(setting: &Setting) -> Vec<u64> {
    let mut numbers: Vec<u64> =
        setting.ends.iter().flatten().copied().chain([0, 1, 1 << 31, 1 << 53, u64::MAX]).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}
