//! What cannot be split as asked says so, with the values that would do.

use proptest::prelude::*;
use workloads::diagnostic::Diagnostic;
use workloads::model::transformer::{
    AttentionKernel, DataParallel, Dtype, Execution, ShardedTransformer, Sharding, SoftmaxFusion, Split,
    States, Transformer,
};

use super::{alive, flash, materialised, preset, ranks};

fn problems(model: &Transformer, execution: &Execution) -> Vec<String> {
    match ShardedTransformer::new(model, execution) {
        Ok(_) => Vec::new(),
        Err(found) => found.iter().map(Diagnostic::to_string).collect(),
    }
}

fn with(split: Split) -> Execution {
    materialised(1, 2_048, split)
}

#[test]
fn heads_name_the_divisors_around() {
    // 104 heads, ffn 39936 and 2048 tokens.
    let gpt = preset("gpt3-96b");
    assert_eq!(problems(&gpt, &with(ranks(4, true))), Vec::<String>::new());
    // Heads of keys and values are as many: one mistake.
    assert_eq!(
        problems(&gpt, &with(ranks(16, true))),
        ["tensor: 104 heads cannot be split evenly over 16 ranks: 8 would do"]
    );
    assert_eq!(
        problems(&gpt, &with(ranks(16, false))),
        ["tensor: 104 heads cannot be split evenly over 16 ranks: 13 or 26 would do"]
    );
    let gqa = problems(&preset("llama-3-70b"), &with(ranks(16, true)));
    assert_eq!(gqa, ["tensor: 8 heads of keys and values cannot be split evenly over 16 ranks: 8 would do"]);
}

#[test]
fn layers_name_the_stages_and_chunks_around() {
    let gpt = preset("gpt3-96b");
    let pipeline =
        |stages, chunks| problems(&gpt, &with(Split { stages, chunks, ..ranks(4, true) })).join("\n");
    assert_eq!(pipeline(8, 1), "");
    assert_eq!(
        pipeline(6, 1),
        "pipeline: 80 layers cannot be split evenly over 6 stages: 5 or 8 stages would do, or a list (`stage_layers`)"
    );
    assert_eq!(
        pipeline(8, 3),
        "pipeline: 80 layers cannot be split evenly over 8 stages of 3 chunks: 2 or 5 chunks would do, or a list (`stage_layers`)"
    );
    assert_eq!(
        pipeline(6, 2),
        "pipeline: 80 layers cannot be split evenly over 6 stages of 2 chunks: 5 or 8 stages would do, or a list (`stage_layers`)"
    );
    assert_eq!(
        pipeline(6, 3),
        "pipeline: 80 layers cannot be split evenly over 6 stages of 3 chunks: 5 or 8 stages of one chunk would do, or a list (`stage_layers`)"
    );
    assert_eq!(
        pipeline(160, 1),
        "pipeline: 80 layers cannot be split evenly over 160 stages: 80 stages would do, or a list (`stage_layers`)"
    );
    assert_eq!(pipeline(0, 1), "pipeline: 0 stages of 1 chunks: there must be at least one of each");
}

#[test]
fn listed_layers_are_all_of_the_model() {
    let gpt = preset("gpt3-96b");
    let listed = |chunks, layers: &[u32]| {
        let split = Split { stages: 4, chunks, layers: Some(layers.to_vec()), ..ranks(4, true) };
        problems(&gpt, &with(split)).join("\n")
    };
    assert_eq!(listed(1, &[19, 21, 21, 19]), "");
    assert_eq!(listed(1, &[40, 40]), "stage_layers: 2 numbers of layers are not for 4 stages: list 4");
    assert_eq!(
        listed(2, &[19, 21, 21, 19]),
        "stage_layers: 4 numbers of layers are not for 4 stages of 2 chunks: list 8"
    );
    assert_eq!(listed(1, &[0, 40, 40, 0]), "stage_layers: a chunk has no layers: give each at least one");
    assert_eq!(
        listed(1, &[20, 20, 20, 21]),
        "stage_layers: the numbers add up to 81 layers: list all 80 of the model"
    );
    assert_eq!(
        listed(1, &[u32::MAX; 4]),
        "stage_layers: the numbers add up to 17179869180 layers: list all 80 of the model"
    );
}

#[test]
fn sequences_must_fit() {
    let gpt = preset("gpt3-96b");
    assert_eq!(
        problems(&gpt, &materialised(1, 2_046, ranks(4, true))),
        [
            "tensor: 2046 tokens of a sequence (`sequence_parallel`) cannot be split evenly over 4 ranks: 2 would do"
        ]
    );
    assert!(
        problems(&gpt, &materialised(1, 4_096, ranks(4, true)))[0]
            .starts_with("sequence: 4096 tokens are more than the 2048")
    );
    // Sequences longer than the window of every layer.
    assert!(ShardedTransformer::new(&preset("mistral-7b"), &flash(1, 8_192, ranks(4, true))).is_ok());
}

#[test]
fn all_problems_come_at_once() {
    let gpt = preset("gpt3-96b");
    let execution = Execution {
        micro_batch: 0,
        dtype: Dtype::Fp32,
        attention: AttentionKernel::Flash,
        ..with(Split { stages: 7, ..ranks(3, false) })
    };
    let fields: Vec<_> =
        ShardedTransformer::new(&gpt, &execution).unwrap_err().iter().map(|problem| problem.path).collect();
    assert_eq!(fields, ["micro_batch", "attention", "states", "tensor", "pipeline"]);
    let mut broken = Transformer::gpt(0, 1 << 30, 0, 0, 0);
    broken.window = Some(0);
    assert!(broken.validate().unwrap_err().len() >= 7);
}

/// The largest sizes that are taken, against the formula of what a layer saves in 128 bits.
#[test]
fn the_largest_sizes_add_up() {
    let (layers, hidden, heads, sequence, micro_batch) = (1 << 12, 1 << 20, 1 << 10, 1 << 12, 1 << 16);
    let model = Transformer::gpt(layers, hidden, heads, 1 << 24, 1 << 24);
    let mut execution = materialised(micro_batch, sequence, Split::NONE);
    execution.fusion.softmax = SoftmaxFusion::On;
    let sharded = ShardedTransformer::new(&model, &execution).expect("within all limits");
    let [tokens, s, a, h] =
        [micro_batch as u128 * sequence as u128, sequence as u128, heads as u128, hidden as u128];
    let block = sharded.layer();
    assert_eq!(u128::from(block.saved_bytes()), tokens * (34 * h + 5 * a * s + 16));
    let logits = tokens << 24;
    assert_eq!(u128::from(sharded.head().saved_bytes()), 4 * logits + tokens * (4 * h + 8));
    for beyond in [
        Execution { micro_batch: 2 * micro_batch, ..execution.clone() },
        Execution { sequence: 2 * sequence, ..execution },
    ] {
        assert_ne!(problems(&model, &beyond), Vec::<String>::new());
    }
}

fn any_count() -> impl Strategy<Value = u32> {
    prop_oneof![1 => Just(0), 9 => 1..100_u32, 1 => any::<u32>(), 9 => (0..20_u32).prop_map(|log| 1 << log)]
}

fn small_count() -> impl Strategy<Value = u32> {
    prop_oneof![1 => Just(0), 20 => 1..9_u32, 1 => any::<u32>()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Whatever is asked is refused in words or has sizes that add up. Most counts are multiples of the ranks that share
    /// them.
    #[test]
    fn no_dimensions_overflow(
        (layers, heads, sequence) in (small_count(), small_count(), any_count()),
        (vocabulary, micro_batch, data) in (any_count(), any_count(), any_count()),
        head_dim in (0..13_u32).prop_map(|log| 1 << log),
        (tensor, stages, chunks) in (small_count(), small_count(), small_count()),
        (sequence_parallel, flash) in (any::<bool>(), any::<bool>()),
    ) {
        let layers = layers.saturating_mul(stages).saturating_mul(chunks);
        let (heads, sequence) = (heads.saturating_mul(tensor), sequence.saturating_mul(tensor));
        let model = Transformer::gpt(layers, heads.saturating_mul(head_dim), heads, vocabulary, u32::MAX >> 8);
        let split = Split { tensor, sequence_parallel, stages, chunks, ..Split::NONE };
        let attention = if flash { AttentionKernel::Flash } else { AttentionKernel::Materialised };
        let mut execution = Execution::new(micro_batch, sequence, split, Dtype::Fp16, attention);
        execution.states = States::CopiedGradients;
        if let Ok(sharded) = ShardedTransformer::new(&model, &execution) {
            for block in [sharded.layer(), sharded.embedding(), sharded.head()] {
                for bytes in [block.saved_bytes(), alive::in_forward(&block), alive::in_backward(&block)] {
                    prop_assert!(bytes > 0 && bytes < 1 << 62, "{bytes} bytes");
                }
            }
            let parameters = sharded.parameters(layers, true, true);
            prop_assert!(parameters.total() < 1 << 58);
            prop_assert!(!sharded.update(&parameters, &DataParallel::new(data, Sharding::Optimizer)).operators.is_empty());
        }
    }
}
