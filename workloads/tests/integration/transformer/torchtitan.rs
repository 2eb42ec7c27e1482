//! torchtitan's layers: three projections and a gate of its own, norms and positions in operators, checkpoints by operator.

use workloads::model::transformer::{
    Block, CollectiveKind, Execution, Fusion, Operator, Phase, Split, StreamClass, Work,
};
use workloads::passes::recompute::{Mode, recomputed};

use super::{flash, preset, ranks, shard};

/// Llama 3 8B on two sequences of 8,192 tokens, compiled or not.
fn layer(split: Split, compiled: bool, recompute: Mode) -> Block {
    let fusion = Fusion { activation: compiled, residual: compiled, norm: compiled, ..Fusion::TORCHTITAN };
    let common = flash(2, 8_192, split);
    let execution = Execution { fusion, gathers_again: false, reduces_beside: false, ..common };
    recomputed(&shard(&preset("llama-3-8b"), &execution).layer(), recompute)
}

const TOKENS: u64 = 2 * 8_192;
const ONE: Split = Split::NONE;

fn flops<'a>(operators: impl IntoIterator<Item = &'a Operator>) -> f64 {
    operators.into_iter().filter(|op| matches!(op.work, Work::Gemm(_))).map(|op| op.work.flops()).sum()
}

fn again(block: &Block) -> impl Iterator<Item = &Operator> {
    block.backward.iter().filter(|op| op.phase == Phase::Recompute)
}

/// Bytes that streaming kernels whose name has `part` move, by token.
fn streamed(operators: &[Operator], part: &str) -> u64 {
    let bytes = operators.iter().filter(|op| op.name.contains(part)).map(|op| match op.work {
        Work::Stream(stream) => stream.bytes_read + stream.bytes_written,
        _ => 0,
    });
    bytes.sum::<u64>() / TOKENS
}

/// Products as those of Megatron-LM's layer, in other pieces.
#[test]
fn what_is_multiplied_is_the_same_however_it_is_cut() {
    let megatron = shard(&preset("llama-3-8b"), &flash(2, 8_192, ONE)).layer();
    let ours = layer(ONE, true, Mode::None);
    let products =
        |operators: &[Operator]| operators.iter().filter(|op| matches!(op.work, Work::Gemm(_))).count();
    assert_eq!([products(&megatron.forward), products(&ours.forward)], [4, 7]);
    assert_eq!([products(&megatron.backward), products(&ours.backward)], [8, 14]);
    assert_eq!(flops(&ours.forward), flops(&megatron.forward));
    assert_eq!(flops(&ours.backward), flops(&megatron.backward));
}

/// Every second product of wq, wk, wv, wo, w1, w3, w2 is kept, and attention: 4,096 + 1,024 + 14,336 columns and 4,096 of
/// its context with a number a head; beside them only the input of the layer. wk, wo and w3 are multiplied again.
#[test]
fn checkpoints_by_operator_keep_every_second_product() {
    let block = layer(ONE, true, Mode::Operators);
    assert_eq!(block.saved_bytes(), TOKENS * (2 * (4_096 + 4_096 + 1_024 + 4_096 + 14_336) + 4 * 32));
    assert_eq!(flops(again(&block)), 2.0 * TOKENS as f64 * 4_096.0 * (1_024 + 4_096 + 14_336) as f64);
    assert!(again(&block).all(|op| !matches!(op.work, Work::Attention(_))));
    // Megatron-LM's layer has four products, of which the first and the third are kept; positions turn in place, once.
    let fused = recomputed(&shard(&preset("llama-3-8b"), &flash(2, 8_192, ONE)).layer(), Mode::Operators);
    let repeated: Vec<_> = again(&fused).filter(|op| matches!(op.work, Work::Gemm(_))).collect();
    assert_eq!(repeated.iter().map(|op| &op.name).collect::<Vec<_>>(), ["projection"]);
    assert!(again(&fused).all(|op| !op.name.contains("rotary")));
}

/// With sequence parallelism the sums that go out in parts are kept, and inputs gathered again by recomputation.
#[test]
fn checkpoints_by_operator_gather_again_and_keep_what_was_scattered() {
    let block = layer(ranks(8, true), true, Mode::Operators);
    let collectives: Vec<_> = again(&block)
        .filter_map(|op| match op.work {
            Work::Collective(collective) => Some((&*op.name, collective.kind)),
            _ => None,
        })
        .collect();
    let gather = CollectiveKind::AllGather;
    assert_eq!(collectives, [("gather query input", gather), ("gather mlp gate input", gather)]);
    assert!(block.saved().into_iter().any(|id| block.tensor(id).name == "projection output, scattered"));
}

/// Three projections gather their input once and sum its gradient once, after their own sum; nothing runs beside.
#[test]
fn projections_share_what_ranks_exchange() {
    let block = layer(ranks(8, true), true, Mode::None);
    let count = |operators: &[Operator], kind| {
        let is =
            |op: &&Operator| matches!(op.work, Work::Collective(c) if c.kind == kind && !c.overlaps_next);
        operators.iter().filter(is).count()
    };
    assert_eq!(
        [CollectiveKind::AllGather, CollectiveKind::ReduceScatter].map(|kind| count(&block.forward, kind)),
        [2, 2]
    );
    assert_eq!(
        [CollectiveKind::AllGather, CollectiveKind::ReduceScatter].map(|kind| count(&block.backward, kind)),
        [2, 2]
    );
    let sums: Vec<_> =
        block.backward.iter().map(|op| &op.name).filter(|name| name.ends_with(", added")).collect();
    assert_eq!(
        sums,
        ["mlp up input gradient, added", "key input gradient, added", "value input gradient, added"]
    );
}

/// 36 bytes an element forward and 92 backward with fp32 in between, against 4 and 10 of a kernel, and statistics.
#[test]
fn norms_in_operators_move_fp32() {
    let (eager, compiled) = (layer(ONE, false, Mode::None), layer(ONE, true, Mode::None));
    let norm = "attention norm";
    let width = 4_096;
    assert_eq!(streamed(&compiled.forward, norm), 4 * width + 4);
    assert_eq!(streamed(&eager.forward, norm), 36 * width + 2 * 4);
    assert_eq!(streamed(&compiled.backward, norm), 10 * width + 2 * 4);
    assert_eq!(streamed(&eager.backward, norm), 92 * width + 3 * 4);
}

/// Queries and keys, 5,120 columns, are cast, turned and cast back: 20 bytes an element. Keys and values, 1,024 columns each,
/// are read and written four times over.
#[test]
fn positions_turn_in_fp32_and_keys_are_repeated() {
    let block = layer(ONE, true, Mode::None);
    let turned = |operators: &[Operator]| {
        let (casts, turns) = (streamed(operators, "cast "), streamed(operators, "rotate "));
        casts + turns
    };
    assert_eq!(turned(&block.forward), 20 * 5_120);
    assert_eq!(turned(&block.backward), 20 * 5_120);
    assert_eq!(streamed(&block.forward, "repeat"), 2 * 1_024 * 2 * (1 + 4));
    let class = block.forward.iter().find(|op| op.name == "repeat key").map(|op| op.work);
    assert!(matches!(class, Some(Work::Stream(stream)) if stream.class == StreamClass::Elementwise));
    let attention = block.forward.iter().find_map(|op| match op.work {
        Work::Attention(attention) => Some(attention),
        _ => None,
    });
    assert_eq!(attention.map(|attention| attention.kv_heads), Some(32));
}
