//! Weights that are gathered one by one, each for its products.

use workloads::graph::Phase;
use workloads::model::transformer::{Gather, GatherUnit, ShardedTransformer, Work};
use workloads::plan::build_layered_on;

use super::exchanged::{Recorded, eight, fsdp, parameters, sent, words};
use super::*;
use crate::layered::memory::plan as layered_plan;
use crate::layered::{execution, yaml};

/// A GPT on eight ranks, whose words are few.
fn by(unit: GatherUnit, prefetch: u64, micro_batches: u32) -> TransformerPlan {
    let overlap = fsdp(prefetch, prefetch, true);
    let gather = overlap.gather.map(|gather| Gather { unit, ..gather });
    let mut plan = eight(Sharding::Parameters, Overlap { gather, ..overlap }, micro_batches);
    plan.model.vocabulary = 1_024;
    plan
}

/// Weights of a layer.
fn weights(plan: &TransformerPlan) -> Vec<u64> {
    let block = ShardedTransformer::new(&plan.model, &plan.execution).unwrap().layer();
    let gradients = block.backward.iter().filter(|op| op.phase == Phase::BackwardWeight);
    let weight = |work: Work| match work {
        Work::Gemm(gemm) => Some(gemm.m * gemm.n),
        _ => None,
    };
    gradients.filter_map(|op| weight(op.work)).collect()
}

/// Most that is whole at a time: the largest weight and what is no weight of its layer; with one
/// weight ahead both of the MLP.
#[test]
fn one_weight_is_whole_at_a_time() {
    for (prefetch, count) in [(0, 1), (1, 2)] {
        let plan = by(GatherUnit::Module, prefetch, 2);
        let (weights, (all, root)) = (weights(&plan), parameters(&plan));
        let rest = (all - root) / 4 - weights.iter().sum::<u64>();
        let largest = weights.iter().max().unwrap();
        let most = Recorded::of(&World::dgx_a100(1).roomy(), &plan).most(kind::GATHERED);
        // Ahead of a layer's first weight is the rest of the next one.
        let expected = 2 * (count * largest + rest);
        assert!((expected..=expected + 2 * rest).contains(&most), "{most} of {expected}");
    }
}

/// Layers are gathered as often as by blocks, but for weights that recomputation multiplies once
/// more; words for both of their ends in both passes.
#[test]
fn weights_are_gathered_for_every_product() {
    let world = World::dgx_a100(1).roomy();
    for (recompute, more) in [(None, 0), (every_layer(Mode::Full), 1)] {
        let sent = |unit| {
            let mut plan = by(unit, 1, 1);
            plan.deployment.pipelining.techniques.recompute = recompute.clone();
            (sent(&world.build(&plan).unwrap()), plan)
        };
        let ((by_block, plan), (by_module, _)) = (sent(GatherUnit::Block), sent(GatherUnit::Module));
        let root = parameters(&plan).1;
        let again = more * 4 * weights(&plan).iter().sum::<u64>();
        let expected = 2 * (again + 2 * (root + words(&plan)) - root) * 7 / 8;
        assert!(
            by_module - by_block <= expected + 64 && expected <= by_module - by_block + 64,
            "{}",
            by_module - by_block
        );
    }
}

/// A recurrent layer is one call of a module each way, which multiplies weights token by token: all
/// parameters are gathered twice, and gradients summed.
#[test]
fn weights_of_a_recurrent_layer_are_gathered_once_each_way() {
    let world = World::dgx_a100(1).roomy();
    let list = "{ input: { tokens: 6, width: 32 },
        list: [{ recurrent: { cell: lstm, width: 48 } }, { linear: { outputs: 8 } }, cross_entropy] }";
    let mut plan = layered_plan(&yaml(list), &execution(4), 8, None);
    plan.sharding = Sharding::Parameters;
    let overlap = fsdp(1, 1, true);
    let gather = overlap.gather.map(|gather| Gather { unit: GatherUnit::Module, ..gather });
    plan.overlap = Overlap { gather, ..overlap };
    let machine = world.machine();
    let built = build_layered_on(&plan, &world.hardware(&machine)).unwrap();
    assert_eq!(sent(&built), 3 * 4 * plan.model.parameters() * 7 / 8);
}
