//! What tensor ranks exchange, by the rules of Korthikanti et al. 2023, sections 4.1 and 4.2.

use workloads::model::transformer::{
    Block, Collective, CollectiveKind, Group, Operator, ShardedTransformer, Work, beside,
};
use workloads::passes::recompute::{Mode, recomputed};

use super::{materialised, preset, ranks, shard};

const TOKENS: u64 = 4 * 2_048;
const HIDDEN: u64 = 6_144;

fn gpt(tensor: u32, sequence_parallel: bool) -> ShardedTransformer {
    shard(&preset("megatron-22b"), &materialised(4, 2_048, ranks(tensor, sequence_parallel)))
}

/// Kinds of the collectives of a list, and whether they run beside others.
fn exchanged(operators: &[Operator]) -> Vec<(CollectiveKind, bool)> {
    let collectives = operators.iter().filter_map(|op| match op.work {
        Work::Collective(collective) => Some(collective),
        _ => None,
    });
    collectives
        .map(|Collective { kind, group, bytes, overlaps_next, .. }| {
            assert_eq!(
                (group, bytes),
                (Group::Tensor, 2 * TOKENS * HIDDEN),
                "2 s b h bytes among tensor ranks"
            );
            (kind, overlaps_next)
        })
        .collect()
}

/// Names of the operators that run beside the collectives of a list.
fn covers(block: &Block) -> Vec<&str> {
    let operators = &block.backward;
    let beside = (0..operators.len()).map(|n| &operators[n + 1..][..beside(&operators[n..])]);
    beside.flatten().map(|op| &*op.name).collect()
}

#[test]
fn one_rank_exchanges_nothing() {
    let layer = recomputed(&gpt(1, false).layer(), Mode::Full);
    assert_eq!(exchanged(&layer.forward), []);
    assert_eq!(exchanged(&layer.backward), []);
}

#[test]
fn tensor_ranks_sum_twice_forward_and_twice_backward_beside_weight_gradients() {
    use CollectiveKind::AllReduce;
    let layer = gpt(8, false).layer();
    assert_eq!(exchanged(&layer.forward), [(AllReduce, false); 2]);
    assert_eq!(exchanged(&layer.backward), [(AllReduce, true); 2]);
    assert_eq!(covers(&layer), ["mlp up weight gradient", "qkv weight gradient", "qkv bias gradient"]);
}

/// The sums of the forward pass that full recomputation repeats are waited for: rule 5 of why it takes 39 % and not 33.
#[test]
fn recomputed_sums_are_waited_for() {
    use CollectiveKind::AllReduce;
    let full = exchanged(&recomputed(&gpt(8, false).layer(), Mode::Full).backward);
    assert_eq!(full, [(AllReduce, false), (AllReduce, false), (AllReduce, true), (AllReduce, true)]);
    let selective = exchanged(&recomputed(&gpt(8, false).layer(), Mode::Selective).backward);
    assert_eq!(selective, [(AllReduce, true); 2]);
}

/// Each sum becomes a reduce-scatter and an all-gather; what is kept in shards is gathered again for weight gradients.
#[test]
fn sequence_parallelism_scatters_and_gathers() {
    use CollectiveKind::{AllGather, ReduceScatter};
    let layer = gpt(8, true).layer();
    let (gather, scatter) = ((AllGather, false), (ReduceScatter, false));
    assert_eq!(exchanged(&layer.forward), [gather, scatter, gather, scatter]);
    let block = [gather, (AllGather, true), (ReduceScatter, true)];
    assert_eq!(exchanged(&layer.backward), [block, block].concat());
    assert_eq!(
        covers(&layer),
        [
            "mlp up input gradient",
            "reduce mlp up input gradient",
            "mlp up weight gradient",
            "qkv input gradient",
            "reduce qkv input gradient",
            "qkv weight gradient",
            "qkv bias gradient",
        ]
    );
}

#[test]
fn stages_send_what_a_rank_holds_or_its_part() {
    let whole = 2 * TOKENS * HIDDEN;
    let plain = gpt(8, false);
    assert_eq!((plain.boundary(false).bytes, plain.boundary(false).receive.operators.len()), (whole, 0));
    let scattered = plain.boundary(true);
    assert_eq!(scattered.bytes, whole / 8);
    assert_eq!(exchanged(&scattered.receive.operators), [(CollectiveKind::AllGather, false)]);
    let parallel = gpt(8, true).boundary(true);
    assert_eq!((parallel.bytes, parallel.receive.operators.len()), (whole / 8, 0));
}

#[test]
fn a_shared_vocabulary_takes_three_numbers_a_token() {
    let head = gpt(8, false).head();
    let small = head.forward.iter().filter(
        |op| matches!(op.work, Work::Collective(collective) if collective.bytes == 4 * TOKENS && collective.kind == CollectiveKind::AllReduce),
    );
    assert_eq!(small.count(), 3);
    let embedding = gpt(8, false).embedding();
    assert_eq!(exchanged(&embedding.forward), [(CollectiveKind::AllReduce, false)]);
}
