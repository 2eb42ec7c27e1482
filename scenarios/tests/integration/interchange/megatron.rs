//! Plans as arguments of Megatron-LM.

use scenarios::interchange::Target;

use super::{come_back, no_text_panics, there_and_back};

const TARGET: Target = Target::MEGATRON;

const BASE: &str = "
name: plan
machine: { cluster: { node: dgx-h100, count: 4 } }
model: { transformer: { layers: 8, hidden: 1024, heads: 16, vocabulary: 32000, max_positions: 4096 } }
training: { global_batch: 128, micro_batch: 1, sequence: 2048 }
software: { attention: flash }
";

/// Settings, each with values that there are arguments for.
const CHOICES: [(&str, &[&str]); 35] = [
    ("parallelism.tensor", &["2", "4"]),
    ("parallelism.pipeline", &["2", "4"]),
    ("parallelism.context", &["2"]),
    ("parallelism.context_exchange", &["ring", "all-to-all", "all-gather"]),
    ("parallelism.sequence_parallel", &["true"]),
    ("parallelism.schedule", &["1f1b", "{ interleaved: { chunks: 2 } }"]),
    ("parallelism.sharding", &["optimizer", "optimizer", "parameters"]),
    ("parallelism.overlap_gradient_reduce", &["{}", "{ bucket: 100 MB }", "{ align: false }"]),
    ("parallelism.overlap_parameter_gather", &["{}", "{ align: false }"]),
    ("parallelism.placement", &["copy-after-copy"]),
    ("parallelism.send", &["blocking"]),
    ("parallelism.scatter_gather", &["false"]),
    ("parallelism.overlap_tensor_reduce", &["false"]),
    ("model.transformer.kv_heads", &["4", "8"]),
    ("model.transformer.mlp", &["swiglu"]),
    ("model.transformer.ffn", &["4096", "2816"]),
    ("model.transformer.norm", &["rms"]),
    ("model.transformer.bias", &["none", "qkv"]),
    ("model.transformer.positions", &["rotary"]),
    ("model.transformer.dropout", &["false"]),
    ("model.transformer.tied_embedding", &["false"]),
    ("model.transformer.window", &["2048"]),
    ("model.transformer.query_key_norm", &["weighted", "plain"]),
    ("model.transformer.global_every", &["2"]),
    (
        "model.transformer.experts",
        &[
            "{ count: 8, top_k: 2, ffn: 2048 }",
            "{ count: 8, top_k: 4, ffn: 512, shared_ffn: 1024, dense_layers: 1, capacity_factor: 1.25 }",
            "{ count: 4, top_k: 1, ffn: 512, capacity_factor: 2, pad_to_capacity: true, balance_loss: false, z_loss: true }",
        ],
    ),
    ("parallelism.expert", &["2"]),
    ("training.precision", &["fp16-mixed", "bf16-mixed", "fp32"]),
    ("memory.bytes_per_parameter", &["18", "20"]),
    ("training.fp8", &["{ scaling: delayed }", "{ scaling: tensorwise }"]),
    ("software.vocabulary_multiple", &["64"]),
    ("software.attention", &["materialised", "cudnn"]),
    ("software.cross_entropy", &["compiled", "transformer-engine"]),
    ("software.products_add_to", &["none"]),
    (
        "techniques.recompute",
        &[
            "{}",
            "{ mode: selective }",
            "{ mode: full, layers: 1 }",
            "{ modules: [core-attention, layer-norm] }",
        ],
    ),
    ("techniques.zero_offload", &["{}", "{ ratio: 40 % }"]),
];

#[test]
fn plans_come_back() {
    let choices =
        CHOICES.map(|(path, values)| values.iter().map(|value| format!("{path}={value}")).collect());
    come_back(TARGET, BASE, &choices, 0.15);
}

#[test]
fn each_choice_comes_back_alone() {
    for (path, values) in CHOICES {
        for value in values {
            let mut set = vec![format!("{path}={value}")];
            match path {
                "parallelism.context_exchange" => set.push("parallelism.context=2".to_owned()),
                "parallelism.schedule" => set.push("parallelism.pipeline=2".to_owned()),
                "model.transformer.global_every" => set.push("model.transformer.window=2048".to_owned()),
                "parallelism.sequence_parallel" => set.push("parallelism.tensor=2".to_owned()),
                "parallelism.overlap_parameter_gather" | "techniques.zero_offload" => {
                    set.push("parallelism.sharding=optimizer".to_owned());
                    set.push(if path.starts_with('t') {
                        "parallelism.pipeline=2".to_owned()
                    } else {
                        "parallelism.overlap_gradient_reduce={}".to_owned()
                    });
                }
                "parallelism.sharding" if *value == "parameters" => {
                    set.push("software.products_add_to=none".to_owned());
                }
                "parallelism.expert" | "model.transformer.experts" => {
                    set.push("model.transformer.bias=none".to_owned());
                    if path == "parallelism.expert" {
                        set.push("model.transformer.experts={ count: 8, top_k: 2, ffn: 2048 }".to_owned());
                    }
                }
                "training.precision" if *value == "fp32" => {
                    set.push("software.attention=materialised".to_owned());
                }
                "memory.bytes_per_parameter" => set.push("training.precision=fp16-mixed".to_owned()),
                _ => {}
            }
            let found = there_and_back(TARGET, BASE, &set);
            let (there, back, script) = found.unwrap_or_else(|| panic!("{set:?} is refused"));
            assert_eq!(there, back, "{script}");
        }
    }
}

#[cfg(feature = "soak")]
#[test]
fn random_scenarios_are_refused_or_come_back() {
    let count = super::random_scenarios_come_back(TARGET);
    assert!(count > 1, "{count} of 900 come back");
}

/// Pieces of texts that importers read.
const PIECES: [&str; 40] = [
    "--num-layers",
    "--hidden-size",
    "--bf16",
    "--fp16",
    "--swiglu",
    "--moe-layer-freq",
    "--num-experts",
    "--pipeline-model-parallel-layout",
    "--lr",
    "--data-path",
    "--unknown",
    "--seq-length=",
    "=",
    "2",
    "0",
    "-1",
    "1e400",
    "99999999999999999999",
    "Et*3|tL",
    "([0]*1+[1]*7)",
    "A=",
    "A=(",
    ")",
    "A+=",
    "$A",
    "${A[@]}",
    "${A:-",
    "}",
    "$(",
    "`",
    "'",
    "\"",
    "\\",
    "\n",
    " ",
    "#",
    "<<EOF",
    "torchrun pretrain_gpt.py ",
    "if ",
    "é",
];

#[test]
fn no_script_panics() {
    no_text_panics(TARGET, &PIECES);
}
