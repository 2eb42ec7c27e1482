//! What a step computes by convention, and what frameworks add to a model.

use reports::summary::RunSummary;

use crate::support::{read, run_of};

/// One run of settings on one A100, with samples of 256 tokens.
fn alone(settings: &str) -> RunSummary {
    let text = format!(
        "name: test\nmachine: {{ cluster: {{ node: dgx-a100-80g, count: 1 }} }}\n\
         parallelism: {{ data: 1, idle: allow }}\n{settings}"
    );
    run_of(&text, &[])
}

const TRAINING: &str =
    "training: { global_batch: 4, micro_batch: 4, sequence: 256, precision: bf16-mixed }\n";

const GPT: &str =
    "model: { transformer: { layers: 2, hidden: 256, heads: 4, vocabulary: 1000, max_positions: 256 } }\n";

/// The same as a list of layers.
const GPT_IN_LAYERS: &str = "
model:
  layers:
    input: { tokens: 256 }
    list:
      - embedding: { vocabulary: 1000, width: 256 }
      - position_embedding
      - dropout
      - repeat:
          count: 2
          layers:
            - residual: { body: [layer_norm, { attention: { heads: 4, causal: true } }, dropout] }
            - residual: { body: [layer_norm, { mlp: { width: 1024 } }, dropout] }
      - layer_norm
      - linear: { outputs: 1000, bias: false, tied: true }
      - cross_entropy
";

/// Utilisation is FLOPs over time and peak, so that both kinds of model must count the same, however attention is computed.
#[test]
fn one_model_said_in_two_ways_has_the_same_flops() {
    let flops = |model: &str, attention: &str, step: &str| {
        let step = TRAINING.replace(" }", &format!(", step: {step} }}"));
        let run = alone(&format!("{model}{step}software: {{ attention: {attention} }}\n"));
        run.mfu.unwrap() * run.step_time_s.unwrap()
    };
    let one = flops(GPT, "flash", "full");
    for attention in ["flash", "materialised"] {
        for (step, part) in [("full", 1.0), ("forward", 1.0 / 3.0)] {
            for model in [GPT, GPT_IN_LAYERS] {
                let same = flops(model, attention, step) / (part * one);
                assert!((same - 1.0).abs() < 1e-12, "{attention} {step}: {same} of {model}");
            }
        }
    }
}

#[test]
fn padding_of_the_vocabulary_is_the_frameworks() {
    let shown = |software: &str| {
        let text = format!(
            "name: test\nmachine: {{ cluster: {{ node: dgx-a100-80g, count: 1 }} }}\n\
             parallelism: {{ tensor: 4, data: 1, idle: allow }}\n{GPT}{TRAINING}{software}"
        );
        let experiment = read(&text, &[]).unwrap_or_else(|failure| panic!("{failure}"));
        let resolved = experiment.resolve("base", &experiment.points().next().unwrap()).unwrap();
        let lines = experiment.explain(&resolved);
        let line = lines.lines().find(|line| line.contains("vocabulary_multiple")).unwrap_or_default();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(shown(""), "vocabulary_multiple: 128 # derived: Megatron-LM's `make_vocab_size_divisible_by`");
    assert_eq!(
        shown("software: { layers: torchtitan }\n"),
        "vocabulary_multiple: 1 # derived: torchtitan does not pad the vocabulary"
    );
    assert_eq!(shown("software: { vocabulary_multiple: 64 }\n"), "vocabulary_multiple: 64 # test.yaml:6");
}

/// 1,000 entries of 256 parameters, padded to 1,024: 24 rows more, at 18 bytes each with optimizer states.
#[test]
fn padding_takes_memory() {
    let held = |software: &str| {
        let run = alone(&format!("{GPT}{TRAINING}{software}"));
        let device = &run.peak_memory_bytes[0].by_kind_bytes;
        ["parameters", "gradients", "optimizer states"].map(|kind| device[kind]).iter().sum::<u64>()
    };
    let (padded, whole) = (held(""), held("software: { vocabulary_multiple: 1 }\n"));
    assert_eq!(padded - whole, 24 * 256 * 18);
}

/// VGG-16 with 256 images needs 22.1 GB, and the Titan X has 12.9.
#[test]
fn a_footprint_ratio_that_memory_caps_is_told() {
    let notes = |memory: &str| {
        let text = format!(
            "name: test\nmachine: {{ node: {{ name: supermicro-4029gp-trt, gpu: titan-x, set: {{ gpu: {{ memory: {memory} }} }} }} }}\n\
             model: {{ layers: {{ preset: vgg-16 }} }}\nsoftware: {{ launch: free }}\n\
             training: {{ precision: fp32, micro_batch: 256, accumulate: 1 }}\n\
             parallelism: {{ data: 1, idle: allow }}\nmemory: {{ footprint_ratio: 1.2, allocator: {{ expandable_segments: true }} }}\ntechniques: {{ swap: {{}} }}\n"
        );
        let notes = run_of(&text, &[]).notes;
        // Winograd kernels multiply less than counts, which is another note.
        notes.into_iter().filter(|note| note.contains("footprint_ratio")).collect::<Vec<_>>()
    };
    assert_eq!(notes("48 GiB"), Vec::<String>::new());
    let capped =
        "`memory.footprint_ratio: 1.2` leaves a GPU 18.4 GB, but it has only 12.9 GB: the ratio is 1.717";
    assert_eq!(notes("12 GiB"), [capped]);
}
