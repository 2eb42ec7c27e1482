//! One model said in two ways, as dimensions of a transformer and as a list of layers, gives one answer.

use reports::summary::RunSummary;

use crate::support::{read, run};

/// A step of a model on one A100, with flash attention and the layers that frameworks write by hand.
fn step(settings: &str) -> RunSummary {
    let text = format!(
        "name: twice\nmachine: {{ node: dgx-a100-80g }}\nparallelism: {{ data: 1, idle: allow }}\n{settings}"
    );
    let experiment = read(&text, &[]).unwrap_or_else(|failure| panic!("{failure}"));
    run(&experiment).variants.swap_remove(0)
}

/// GPT-2 with 12 layers, its vocabulary padded by whoever says it.
const GPT: [&str; 2] = [
    "
model: { transformer: { layers: 12, hidden: 768, heads: 12, vocabulary: 50304, max_positions: 1024 } }
training: { micro_batch: 8, accumulate: 1, sequence: 1024, precision: bf16-mixed }
software: { attention: flash, layers: hugging-face, vocabulary_multiple: 1 }
",
    "
model:
  layers:
    input: { tokens: 1024 }
    list:
      - embedding: { vocabulary: 50304, width: 768 }
      - position_embedding
      - dropout
      - repeat:
          count: 12
          layers:
            - residual: { body: [layer_norm, { attention: { heads: 12, causal: true } }, dropout] }
            - residual: { body: [layer_norm, { mlp: { width: 3072 } }, dropout] }
      - layer_norm
      - linear: { outputs: 50304, bias: false, tied: true }
      - cross_entropy
training: { micro_batch: 8, accumulate: 1, precision: bf16-mixed }
software: { attention: flash }
",
];

/// States by kind and FLOPs are equal. Steps differ by kernels that the two libraries of operators cut differently, at most by 3 %.
#[test]
fn a_model_said_in_two_ways_has_one_answer() {
    let [dimensions, list] = GPT.map(step);
    let states = |run: &RunSummary| {
        let held = &run.peak_memory_bytes[0].by_kind_bytes;
        ["parameters", "gradients", "optimizer states", "reserved"].map(|kind| held[kind])
    };
    assert_eq!(states(&dimensions), states(&list));
    let time = |run: &RunSummary| run.step_time_s.expect("it fits");
    let flops = |run: &RunSummary| run.mfu.expect("it multiplies") * time(run);
    assert!((flops(&dimensions) / flops(&list) - 1.0).abs() < 1e-12);
    let ratio = time(&list) / time(&dimensions);
    assert!((0.97..1.03).contains(&ratio), "{ratio}");
}
