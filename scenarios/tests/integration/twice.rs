//! One model said in two ways, as dimensions of a transformer and as a list of layers, gives one answer.

use reports::summary::RunSummary;

use crate::support::run_of;

/// A model said in both ways.
struct Twice {
    /// As dimensions, its vocabulary padded by nobody.
    dimensions: &'static str,
    /// The settings of the list.
    list: &'static str,
    /// Sequences of a micro-batch.
    micro_batch: u32,
    /// Tokens of a sequence.
    sequence: u32,
    /// Parameters that the list cannot say.
    unsaid: u64,
}

const MODELS: [Twice; 2] = [
    Twice {
        dimensions: "layers: 12, hidden: 768, heads: 12, vocabulary: 50304, max_positions: 1024",
        list: include_str!("../../../workloads/tests/twice/gpt2.yaml"),
        micro_batch: 8,
        sequence: 1_024,
        unsaid: 0,
    },
    Twice {
        dimensions: "preset: bert-base",
        list: include_str!("../../../workloads/tests/twice/bert-base.yaml"),
        micro_batch: 16,
        sequence: 512,
        // Embeddings of two token types.
        unsaid: 2 * 768,
    },
];

impl Twice {
    /// A step on one A100, with flash attention and the layers that frameworks write by hand: by dimensions, and as a list.
    fn steps(&self) -> [RunSummary; 2] {
        let Self { dimensions, list, micro_batch, sequence, .. } = self;
        let layers = "software: { attention: flash, layers: hugging-face, vocabulary_multiple: 1 }";
        let training = format!("micro_batch: {micro_batch}, accumulate: 1, precision: bf16-mixed");
        [
            format!(
                "model: {{ transformer: {{ {dimensions} }} }}\ntraining: {{ {training}, sequence: {sequence} }}\n{layers}"
            ),
            format!(
                "model:\n  layers:\n    {}\ntraining: {{ {training} }}\nsoftware: {{ attention: flash }}",
                list.replace('\n', "\n    ")
            ),
        ]
        .map(|settings| step(&settings))
    }
}

fn step(settings: &str) -> RunSummary {
    let text = format!(
        "name: twice\nmachine: {{ node: dgx-a100-80g }}\nparallelism: {{ data: 1, idle: allow }}\n{settings}"
    );
    run_of(&text, &[])
}

/// States by kind and FLOPs are equal. Steps differ by kernels that the two libraries of operators
/// cut differently, and by the norm and the clipping of gradients, which lists of layers do
/// without.
#[test]
fn a_model_said_in_two_ways_has_one_answer() {
    for twice in MODELS {
        let [dimensions, list] = twice.steps();
        let held = |run: &RunSummary, kind: &str| run.peak_memory_bytes[0].by_kind_bytes[kind];
        for (kind, bytes) in [("parameters", 2), ("gradients", 4), ("optimizer states", 12), ("reserved", 0)]
        {
            let unsaid = bytes * twice.unsaid;
            assert_eq!(held(&dimensions, kind), held(&list, kind) + unsaid, "{}: {kind}", twice.dimensions);
        }
        let time = |run: &RunSummary| run.step_time_s.expect("it fits");
        let flops = |run: &RunSummary| run.mfu.expect("it multiplies") * time(run);
        assert!((flops(&dimensions) / flops(&list) - 1.0).abs() < 1e-12);
        let ratio = time(&list) / time(&dimensions);
        assert!((0.96..1.03).contains(&ratio), "{}: {ratio}", twice.dimensions);
    }
}

/// A model takes the step of the program that runs it and reads its loss, whoever issues it. As one
/// graph it takes the gaps of a stream where its gradients and its update begin; compiled, its
/// program enters regions.
#[test]
fn a_program_that_reads_its_loss_takes_the_step_of_its_model() {
    let of = |layers: &str, settings: &str, micro_batch: u32, execution: &str| {
        let training = format!(
            "training: {{ micro_batch: {micro_batch}, accumulate: 1, precision: fp16-mixed{settings} }}"
        );
        let software = format!("software: {{ execution: {execution} }}");
        let plan = step(&format!("model: {{ {layers} }}\n{training}\n{software}"));
        let iteration = "[{ run: [forward, backward, update] }, { fetch: { tensor: loss } }]";
        let program = format!(
            "name: twice\nmachine: {{ node: dgx-a100-80g }}\nmodel: {{ program: {{ base: {{ {layers} }}, iteration: {iteration} }} }}
{training}\n{software}\nrun: {{ iterations: 20 }}"
        );
        let program = run_of(&program, &[]);
        program.step_time_s.expect("it fits") / plan.step_time_s.expect("it fits")
    };
    for micro_batch in [1, 16] {
        for (layers, settings) in [
            ("layers: { preset: resnet-50 }", ""),
            ("transformer: { preset: bert-large, layers: 4 }", ", sequence: 128"),
        ] {
            for (execution, within) in [("eager", 0.001), ("cuda-graphs", 0.02), ("compiled", 0.012)] {
                let ratio = of(layers, settings, micro_batch, execution);
                assert!((ratio - 1.0).abs() < within, "{layers} x {micro_batch}, {execution}: {ratio}");
            }
        }
    }
}
