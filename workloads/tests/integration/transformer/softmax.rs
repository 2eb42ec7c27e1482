//! When Megatron-LM's kernel for scale, mask and softmax is used.

use workloads::graph::operator::Label;
use workloads::model::transformer::{Execution, Operator, SoftmaxFusion, Transformer, Work};

use super::{flash, materialised, preset, ranks, shard};

/// The operator that made the choice, and its reason.
fn choice(model: &Transformer, execution: &Execution) -> (Label, String) {
    let layer = shard(model, execution).layer();
    let mut chosen = layer.forward.iter().filter_map(|op| Some((op.name.clone(), op.choice.clone()?)));
    let choice = chosen.next().expect("materialised attention has a softmax");
    assert_eq!(chosen.next(), None);
    choice
}

/// GPT-3 96B has 26 heads a rank with 4 tensor ranks: one sequence does not fill blocks of 4, two do. LLaMA-65B has 16.
#[test]
fn sequences_times_heads_must_fill_blocks_of_four() {
    let split = ranks(4, true);
    let gpt = preset("gpt3-96b");
    assert_eq!(
        choice(&gpt, &materialised(1, 2_048, split.clone())),
        (
            "softmax".into(),
            "unfused: 26 matrices of scores (sequences x heads of a rank) are not a multiple of 4".to_owned()
        )
    );
    assert_eq!(
        choice(&gpt, &materialised(2, 2_048, split.clone())),
        ("scale, mask and softmax".into(), "fused: 52 matrices of scores, 2048 keys, fp16".to_owned())
    );
    for micro_batch in 1..=4 {
        assert_eq!(
            choice(&preset("llama-65b"), &materialised(micro_batch, 2_048, split.clone())).0,
            "scale, mask and softmax"
        );
    }
}

#[test]
fn keys_must_be_in_range_and_a_multiple_of_four() {
    let fused = |sequence, keys_max| {
        let mut model = Transformer::gpt(2, 1_024, 4, 51_200, 1 << 14);
        model.dropout = false;
        let mut execution = materialised(1, sequence, ranks(1, false));
        execution.fusion.softmax_keys = keys_max;
        choice(&model, &execution).1.starts_with("fused")
    };
    assert!(!fused(16, 4_096));
    assert!(!fused(128, 4_096), "4 matrices do not fill a block of 8 up to 128 keys");
    assert!(fused(132, 4_096) && !fused(134, 4_096));
    assert!(fused(4_096, 4_096) && !fused(4_096, 2_048) && !fused(4_100, 4_096));
}

#[test]
fn it_can_be_forced_and_forbidden() {
    let (model, mut execution) = (preset("gpt3-96b"), materialised(1, 2_048, ranks(4, true)));
    execution.fusion.softmax = SoftmaxFusion::On;
    assert_eq!(choice(&model, &execution), ("scale, mask and softmax".into(), "fused, as asked".to_owned()));
    execution.fusion.softmax = SoftmaxFusion::Off;
    assert_eq!(choice(&model, &execution), ("softmax".into(), "unfused, as asked".to_owned()));
    let layer = shard(&model, &flash(1, 2_048, ranks(4, true))).layer();
    assert!(layer.forward.iter().all(|op| op.choice.is_none()), "flash attention has no softmax of its own");
}

/// Bytes for every score: 4 as one kernel; cast 6, scale 8, mask 8, softmax 8 and cast 6 as five. Back 6, and 6, 12, 8,
/// 8, 6. Dropout takes 5 each way.
#[test]
fn passes_over_the_scores_cross_memory() {
    let bytes_per_score = |softmax| {
        let mut execution = materialised(2, 2_048, ranks(4, true));
        execution.fusion.softmax = softmax;
        let layer = shard(&preset("gpt3-96b"), &execution).layer();
        let scores = 2 * 26 * 2_048 * 2_048;
        let touches = |op: &&Operator| {
            let score_shaped = |bytes| bytes == 2 * scores || bytes == 4 * scores;
            op.writes.iter().any(|&id| score_shaped(layer.tensor(id).bytes))
                || op
                    .reads
                    .iter()
                    .map(|&id| &layer.tensor(id).name)
                    .any(|name| name.contains("scores") || name == "probabilities")
        };
        let sum = |operators: &[Operator]| {
            let streams = operators.iter().filter(touches).filter_map(|op| match op.work {
                Work::Stream(stream) => Some(stream.bytes_read + stream.bytes_written),
                _ => None,
            });
            streams.sum::<u64>() / scores
        };
        (sum(&layer.forward), sum(&layer.backward))
    };
    assert_eq!(bytes_per_score(SoftmaxFusion::On), (4 + 5, 6 + 5));
    // PyTorch multiplies output and gradient in a pass of its own: two reads and a write in fp32.
    assert_eq!(bytes_per_score(SoftmaxFusion::Off), (36 + 5, 40 + 12 + 5));
}
