//! Plans as configurations of DeepSpeed.

use scenarios::interchange::{Given, Options, Target, import};

use super::{come_back, each_comes_back, no_text_panics, owned};

const TARGET: Target = Target::DEEPSPEED;

const BASE: &str = "
name: plan
machine: { cluster: { node: dgx-h100, count: 4 } }
model: { transformer: { layers: 8, hidden: 1024, heads: 16, vocabulary: 32000, max_positions: 4096 } }
training: { global_batch: 128, micro_batch: 1, sequence: 2048 }
software: { attention: flash }
parallelism: { sharding: optimizer }
";

/// Alternatives that there are keys for.
const CHOICES: [&[&str]; 14] = [
    &["parallelism.tensor=2", "parallelism.tensor=4"],
    &["parallelism.pipeline=2"],
    &["parallelism.context=2"],
    &[
        "parallelism.overlap_gradient_reduce={}",
        "parallelism.overlap_gradient_reduce={ bucket: 1 GB }",
        "parallelism.sharding=gradients; parallelism.overlap_gradient_reduce={ bucket: 500 MB }",
        "parallelism.sharding=parameters; parallelism.overlap_gradient_reduce={ bucket: 1 GB }",
        "parallelism.sharding=none; training.precision=fp16-mixed; memory.bytes_per_parameter=20",
    ],
    &["training.micro_batch=2", "training.micro_batch=4"],
    &["training.precision=fp16-mixed", "training.precision=fp32; software.attention=materialised"],
    &["memory.bytes_per_parameter=18", "memory.bytes_per_parameter=20"],
    &["techniques.recompute={ mode: full }", "techniques.recompute={ mode: selective }"],
    &["software.layers=hugging-face; software.products_add_to=none", "software.attention=materialised"],
    &["model.transformer.mlp=swiglu", "model.transformer.kv_heads=4"],
    &[
        "techniques.presets=[deepspeed-cpu-checkpointing]",
        "techniques.recompute={ mode: full }; techniques.activation_offload={ synchronous: true, smallest: 1 B }",
    ],
    &[
        "techniques.zero_offload={ overlap: false }; parallelism.pipeline=2",
        "techniques.zero_offload={}; parallelism.overlap_gradient_reduce={ bucket: 1 GB }; parallelism.pipeline=2",
        "techniques.zero_offload={ pinned: false }; parallelism.sharding=gradients; \
         parallelism.overlap_gradient_reduce={ bucket: 1 GB }",
    ],
    &[
        "techniques.presets=[deepspeed-offload-param]; parallelism.sharding=parameters; \
         parallelism.overlap_gradient_reduce={ bucket: 1 GB }",
        "techniques.presets=[deepspeed-twin-flow]; parallelism.sharding=parameters; \
         parallelism.overlap_gradient_reduce={ bucket: 1 GB }",
        "techniques.zero_infinity={ parameters: gpu, states: host, group: 500000000, ratio: 40 % }; \
         parallelism.sharding=parameters; parallelism.overlap_gradient_reduce={ bucket: 1 GB }",
    ],
    &[
        "parallelism.sharding=parameters; parallelism.sharding_group=8; parallelism.overlap_gradient_reduce={ bucket: 1 GB }",
    ],
];

#[test]
fn plans_come_back() {
    come_back(TARGET, BASE, &owned(&CHOICES), 0.15);
}

#[test]
fn each_choice_comes_back_alone() {
    each_comes_back(TARGET, BASE, &CHOICES);
}

#[cfg(feature = "soak")]
#[test]
fn random_scenarios_are_refused_or_come_back() {
    super::random_scenarios_come_back(TARGET);
}

/// Settings of a configuration with `auto`, and why those are assumed that it leaves open.
#[test]
fn auto_is_resolved_or_assumed() {
    let text = r#"{ "train_batch_size": "auto", "train_micro_batch_size_per_gpu": 2, // both known
        "gradient_accumulation_steps": 4, "bf16": { "enabled": "auto" }, "fp16": { "enabled": false },
        "zero_optimization": { "stage": 3, "reduce_bucket_size": "auto" } }"#;
    let set = ["training.sequence=2048".to_owned()];
    let options =
        Options { machine: Some("dgx-h100"), model: Some("llama-2-7b"), set: &set, ..Options::default() };
    let imported = import(TARGET, Given::Text { name: "ds.json", text }, &options).expect("a scenario");
    let because = |setting: &str| {
        let assumed = imported.assumed.iter().find(|assumed| assumed.setting == setting);
        assumed.map(|assumed| (assumed.value.clone(), assumed.because.as_str()))
    };
    assert_eq!(
        because("training.global_batch"),
        Some((None, "`train_batch_size` is `auto`: left to other settings"))
    );
    assert_eq!(because("training.precision"), Some((Some("bf16-mixed".into()), "`bf16.enabled` is `auto`")));
    assert_eq!(
        because("parallelism.overlap_gradient_reduce.bucket"),
        Some((Some("1000 MB".into()), "`zero_optimization.reduce_bucket_size` is `auto`"))
    );
}

/// Pieces of configurations.
const PIECES: [&str; 38] = [
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\"train_batch_size\": 64,",
    "\"train_micro_batch_size_per_gpu\": \"auto\",",
    "\"gradient_accumulation_steps\": 2,",
    "\"bf16\": { \"enabled\": true },",
    "\"fp16\": { \"enabled\": \"auto\" },",
    "\"zero_optimization\": {",
    "\"stage\": 3,",
    "\"stage\": 1,",
    "\"overlap_comm\":",
    "\"reduce_bucket_size\":",
    "\"offload_optimizer\": { \"device\": \"cpu\" },",
    "\"offload_param\": {",
    "\"device\": \"nvme\",",
    "\"ratio\": 0.3",
    "\"pipeline\": { \"stages\":",
    "\"tensor_parallel\": { \"autotp_size\":",
    "\"data_types\": { \"grad_accum_dtype\": \"fp32\" }",
    "\"activation_checkpointing\": { \"cpu_checkpointing\": true },",
    "\"auto\"",
    "true",
    "null",
    "1e999",
    "5e8",
    "-1",
    "99999999999999999999",
    "// ",
    "/* ",
    "*/",
    "\"",
    "\\u12",
    "'",
    "é",
];

#[test]
fn no_configuration_panics() {
    no_text_panics(TARGET, &PIECES);
    let deep = "[".repeat(200_000);
    assert!(import(TARGET, Given::Text { name: "deep", text: &deep }, &Options::default()).is_err());
}
