//! Modules that recompute: what they save and repeat, and where.

use std::collections::BTreeSet;

use workloads::model::transformer::{
    AttentionKernel, Block, CollectiveKind, Dtype, Execution, Operator, Phase, ShardedTransformer, Work,
};
use workloads::passes::recompute::RecomputeModule::{
    self, Activation, CoreAttention, LayerNorm, MlaUpProjection, Mlp, Moe, MoeActivation, SharedExperts,
};
use workloads::passes::recompute::{Mode, recomputed};

use super::{flash, materialised, preset, ranks, shard};

/// Micro-batch and sequence of all layers here.
const BATCH: u64 = 2;
const SEQUENCE: u64 = 512;

fn with(block: &Block, modules: &[RecomputeModule]) -> Block {
    recomputed(block, Mode::Modules(modules.iter().copied().collect()))
}

/// The layer of the 22B model on four ranks with sequence parallelism, hidden 6,144.
fn megatron() -> Block {
    shard(&preset("megatron-22b"), &materialised(BATCH as u32, SEQUENCE as u32, ranks(4, true))).layer()
}

fn again(block: &Block) -> Vec<&Operator> {
    block.backward.iter().filter(|op| op.phase == Phase::Recompute).collect()
}

fn names<'a>(operators: &[&'a Operator]) -> Vec<&'a str> {
    operators.iter().map(|op| &*op.name).collect()
}

/// The operator right after those that are repeated last.
fn followed_by(block: &Block) -> &str {
    let last = block.backward.iter().rposition(|op| op.phase == Phase::Recompute).expect("it recomputes");
    &block.backward[last + 1].name
}

/// Every module that some layer has, on layers of every kind.
fn layers() -> Vec<(Block, Vec<RecomputeModule>)> {
    let dense = [CoreAttention, Mlp, Activation, LayerNorm].to_vec();
    let mut layers = Vec::new();
    for name in ["megatron-22b", "llama-3-8b", "gpt-neox-20b"] {
        for tensor in [1, 4] {
            for attention in [AttentionKernel::Materialised, AttentionKernel::Flash] {
                let split = ranks(tensor, true);
                let execution = Execution::new(2, 512, split, Dtype::Bf16, attention);
                layers.push((shard(&preset(name), &execution).layer(), dense.clone()));
            }
        }
    }
    for (name, more) in [("mixtral-8x7b", &[][..]), ("deepseek-v2", &[SharedExperts, MlaUpProjection])] {
        let modules = [&[CoreAttention, Moe, MoeActivation, LayerNorm], more].concat();
        layers.push((shard(&preset(name), &flash(1, 512, ranks(1, false))).expert_layer(), modules));
    }
    layers
}

#[test]
fn core_attention_alone_is_selective_recomputation() {
    for (block, _) in layers() {
        assert_eq!(with(&block, &[CoreAttention]), recomputed(&block, Mode::Selective));
    }
}

/// Korthikanti et al. 2023, section 4.1: inputs of both linear layers and of GeLU take 2, 8 and 8
/// bytes for each sequence, batch and hidden element; of these the input of the first stays.
#[test]
fn an_mlp_keeps_its_input_and_runs_to_its_end() {
    let block = megatron();
    let saving = with(&block, &[Mlp]);
    assert_eq!(block.saved_bytes() - saving.saved_bytes(), 16 * SEQUENCE * BATCH * 6_144 / 4);
    let repeated = again(&saving);
    let forward: Vec<_> = block.forward.iter().filter(|op| op.name.contains("mlp")).collect();
    let of_mlp = |op: &&&Operator| op.name != "mlp norm" && !op.name.contains("residual");
    assert_eq!(names(&repeated), names(&forward.iter().filter(of_mlp).copied().collect::<Vec<_>>()));
    let last = repeated.last().map(|op| op.work);
    assert!(matches!(last, Some(Work::Collective(sum)) if sum.kind == CollectiveKind::ReduceScatter));
    assert_eq!(followed_by(&saving), "gather mlp down output gradient");
}

/// Its output, 8 bytes for each of the elements above, is discarded: GeLU runs again, and no
/// product does.
#[test]
fn an_activation_is_discarded_until_the_second_layer_needs_it() {
    let block = megatron();
    let saving = with(&block, &[Activation]);
    assert_eq!(block.saved_bytes() - saving.saved_bytes(), 8 * SEQUENCE * BATCH * 6_144 / 4);
    assert!(again(&saving).iter().all(|op| matches!(op.work, Work::Stream(_))));
    assert_eq!(followed_by(&saving), "gather mlp down output gradient");
}

/// Two outputs of 2 bytes an element, and mean and deviation of every token, 8 bytes.
#[test]
fn norms_are_discarded_until_the_backward_pass_of_what_follows() {
    let block = megatron();
    let saving = with(&block, &[LayerNorm]);
    let tokens = SEQUENCE * BATCH / 4;
    assert_eq!(block.saved_bytes() - saving.saved_bytes(), 2 * tokens * (2 * 6_144 + 8));
    assert_eq!(names(&again(&saving)), ["mlp norm", "attention norm"]);
    assert_eq!(followed_by(&saving), "gather projection output gradient");
    // An MLP that is repeated reads what its norm fills again.
    let both = with(&block, &[Mlp, LayerNorm]);
    assert_eq!(block.saved_bytes() - both.saved_bytes(), 2 * tokens * (2 * 6_144 + 8) + 16 * tokens * 6_144);
    assert_eq!(names(&again(&both)[..1]), ["mlp norm"]);
}

#[test]
fn experts_recompute_as_a_whole_or_in_part() {
    let model = preset("deepseek-v2");
    let block = shard(&model, &flash(1, 512, ranks(1, false))).expert_layer();
    let activation = with(&block, &[MoeActivation]);
    assert_eq!(names(&again(&activation)), ["weighted swiglu"]);
    let shared = with(&block, &[SharedExperts]);
    assert!(again(&shared).iter().all(|op| op.name.contains("shared expert")));
    let whole = with(&block, &[Moe]);
    assert!(whole.saved_bytes() < shared.saved_bytes().min(activation.saved_bytes()));
    let up = with(&block, &[MlaUpProjection]);
    let products: Vec<_> = again(&up).into_iter().filter(|op| matches!(op.work, Work::Gemm(_))).collect();
    assert_eq!(names(&products), ["query up", "key value up"]);
    assert_eq!(followed_by(&up), "flash attention gradient");
}

/// Any set of modules: operators read what is there, the more recompute the less is saved, and a
/// layer that recomputes wholly saves least and repeats most.
#[test]
fn whole_layers_save_least_and_repeat_most() {
    for (block, modules) in layers() {
        let full = recomputed(&block, Mode::Full);
        let mut saved: Vec<u64> = Vec::new();
        for set in 0..1_usize << modules.len() {
            let chosen: Vec<_> =
                (0..modules.len()).filter(|n| set >> n & 1 == 1).map(|n| modules[n]).collect();
            let some = with(&block, &chosen);
            assert_reads_what_is_there(&some);
            assert!(full.saved_bytes() <= some.saved_bytes(), "{chosen:?}");
            let less = (0..modules.len()).filter(|n| set >> n & 1 == 1).map(|n| saved[set & !(1 << n)]);
            assert!(less.min().is_none_or(|less| some.saved_bytes() <= less), "{chosen:?}");
            saved.push(some.saved_bytes());
            let count = |name: &str, block| again(block).iter().filter(|op| op.name == name).count();
            for op in again(&some) {
                let has = |module| chosen.contains(&module);
                // Settings refuse a module within another.
                let nested =
                    has(Mlp) && has(Activation) || has(Moe) && (has(MoeActivation) || has(SharedExperts));
                assert!(
                    nested || count(&op.name, &some) <= count(&op.name, &full),
                    "{chosen:?}: {}",
                    op.name
                );
            }
        }
    }
}

fn assert_reads_what_is_there(block: &Block) {
    let mut there: BTreeSet<_> = [block.input].into_iter().chain(block.output_gradient).collect();
    let sized = |id: &workloads::graph::operator::TensorId| block.tensor(*id).bytes > 0;
    for op in block.forward.iter().chain(&block.backward) {
        let missing = op.reads.iter().find(|id| sized(id) && !there.contains(id));
        assert_eq!(missing.map(|id| &block.tensor(*id).name), None, "{} reads it", op.name);
        there.extend(&op.writes);
    }
}

/// Sets of modules do not depend on the order in which they are named.
#[test]
fn modules_are_a_set() {
    let block = megatron();
    let (one, other) = ([LayerNorm, Mlp, CoreAttention], [CoreAttention, LayerNorm, Mlp]);
    assert_eq!(with(&block, &one), with(&block, &other));
    assert_eq!(with(&block, &[]), block);
    let unlike = ShardedTransformer::new(&preset("bert-base"), &materialised(2, 512, ranks(1, false)));
    let encoder = unlike.expect("an encoder").layer();
    assert_eq!(with(&encoder, &[Moe]), encoder);
}
