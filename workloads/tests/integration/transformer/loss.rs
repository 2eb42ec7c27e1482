//! The loss over a vocabulary: what it moves and keeps for every logit.

use workloads::model::transformer::{
    Block, CollectiveKind, CrossEntropy, Execution, Fusion, Operator, Phase, Work,
};

use super::{flash, preset, ranks, shard};

const TOKENS: u64 = 2_048;
/// Llama 3's vocabulary.
const WORDS: u64 = 128_256;

fn head(tensor: u32, cross_entropy: CrossEntropy) -> Block {
    let common = flash(1, TOKENS as u32, ranks(tensor, false));
    shard(&preset("llama-3-8b"), &Execution { fusion: Fusion { cross_entropy, ..Fusion::ALL }, ..common })
        .head()
}

/// Bytes that passes of the loss move by logit of a rank, forward and backward; norms and what is less than a byte are not.
fn moved(head: &Block, tensor: u64) -> [u64; 2] {
    let bytes = |operators: &[Operator]| {
        let streams = operators
            .iter()
            .filter(|op| !op.name.starts_with("final norm") && op.phase != Phase::BackwardWeight);
        let each = streams.map(|op| match op.work {
            Work::Stream(stream) => stream.bytes_read + stream.bytes_written,
            _ => 0,
        });
        each.sum::<u64>() / (TOKENS * WORDS / tensor)
    };
    [bytes(&head.forward), bytes(&head.backward)]
}

/// Bytes by logit of the largest tensor that the backward pass waits for, all with as many elements.
fn kept(head: &Block, tensor: u64) -> u64 {
    head.saved().iter().map(|tensor| tensor.bytes).max().unwrap() / (TOKENS * WORDS / tensor)
}

/// A cast of 2 to 4 bytes; log-softmax reads and writes 4. Backward: zeros, then the gradient of two, a cast.
#[test]
fn operators_each_have_a_result_of_their_own() {
    let alone = head(1, CrossEntropy::Operators);
    assert_eq!(moved(&alone, 1), [6 + 8, 4 + 12 + 6]);
    assert_eq!(kept(&alone, 1), 4);
    // Loss gradient, log-softmax and the gradient of the logits are there at once; what was saved counts as held to the end.
    assert_eq!(alone.transient_backward() / (TOKENS * WORDS), 8);
}

/// `loss_parallel`: largest, shifted, exponentials, their sum, log-softmax; zeros, probabilities, sum, product, cast.
#[test]
fn tensor_ranks_share_the_vocabulary() {
    let shared = head(8, CrossEntropy::Operators);
    assert_eq!(moved(&shared, 8), [6 + 4 + 8 + 8 + 4 + 8, 4 + 8 + 12 + 8 + 6]);
    assert_eq!(kept(&shared, 8), 4);
    let sums = shared.forward.iter().filter(|op| match op.work {
        Work::Collective(sum) => sum.kind == CollectiveKind::AllReduce && sum.bytes == 4 * TOKENS,
        _ => false,
    });
    assert_eq!(sums.count(), 3);
}

/// Megatron-LM works in one copy; a kernel each way reads what is there.
#[test]
fn others_move_and_keep_less() {
    for (how, both, each) in
        [(CrossEntropy::Passes, [6 + 4 + 8 + 8 + 4 + 8, 8 + 6], 4), (CrossEntropy::Fused, [2, 4], 2)]
    {
        let head = head(1, how);
        assert_eq!((moved(&head, 1), kept(&head, 1)), (both, each), "{how:?}");
    }
}
