//! Ranks that do the same are folded, stretches that meet nobody run as one: the result is the same to the picosecond.

use hw_models::settings::Count;
use sim_core::fold::fold;
use sim_core::outcome::Run;
use sim_core::{Options, simulate};
use workloads::order::PipelineSchedule;
use workloads::passes::bpipe::{Bpipe, EvictionPolicy};
use workloads::passes::realise::messages::SendMode;
use workloads::passes::recompute::Mode;

use super::exchanged::overlaps;
use super::{Placement, Sharding, TransformerPlan, World, every_layer, gpt, plan, schedule};
use crate::plans::interleaved;

pub(super) fn assert_same(world: &World, plan: &TransformerPlan, what: &str) {
    let lowered = world.build(plan).unwrap_or_else(|error| panic!("{what}: {error}")).lowered;
    let folded = fold(&lowered.platform, &lowered.program, &lowered.start);
    let options = |segments| Options { segments, ..Options::default() };
    let whole =
        |segments| simulate(&lowered.platform, &lowered.program, &lowered.start, &options(segments)).unwrap();
    let small =
        |segments| simulate(&folded.platform, &folded.program, &folded.start, &options(segments)).unwrap();
    let plain = whole(false);
    assert_eq!(plain.end, sim_core::outcome::End::Completed, "{what}");
    assert_runs(&plain, &whole(true), &format!("{what}, with segments"));
    assert_runs(&plain, &folded.expand(&small(true)), &format!("{what}, folded"));
    assert_runs(&plain, &folded.expand(&small(false)), &format!("{what}, folded without segments"));
    let ranks = lowered.ranks.len() / lowered.stages.len();
    assert!(
        ranks == 1 || folded.program.streams.len() < lowered.program.streams.len(),
        "{what}: nothing folds"
    );
}

/// All but the numbers of events and activities, which are those of the smaller program.
fn assert_runs(ours: &Run, other: &Run, what: &str) {
    assert_eq!(ours.time, other.time, "{what}");
    for (n, (a, b)) in ours.streams.iter().zip(&other.streams).enumerate() {
        assert_eq!(a, b, "{what}: stream {n}");
    }
    for (n, (a, b)) in ours.stores.iter().zip(&other.stores).enumerate() {
        assert_eq!(
            (a.peak.bytes, a.peak.at, &a.held),
            (b.peak.bytes, b.peak.at, &b.held),
            "{what}: store {n}"
        );
    }
    assert_eq!(ours.fluids, other.fluids, "{what}");
}

#[test]
fn every_split_of_one_to_four_nodes() {
    let splits: [(u32, [u32; 3]); 7] = [
        (1, [8, 1, 1]),
        (1, [1, 1, 8]),
        (1, [2, 2, 2]),
        (1, [1, 8, 1]),
        (2, [4, 4, 1]),
        (2, [8, 1, 2]),
        (4, [2, 4, 4]),
    ];
    for (nodes, split) in splits {
        for sequence_parallel in [false, split[0] > 1] {
            let mut plan = plan(gpt(8), split, 6);
            plan.execution.split.sequence_parallel = sequence_parallel;
            let what = format!("{nodes} nodes, {split:?}, sequence parallel {sequence_parallel}");
            assert_same(&World::dgx_a100(nodes), &plan, &what);
        }
    }
}

#[test]
fn every_schedule_and_send_mode() {
    let schedules = [PipelineSchedule::Gpipe, interleaved(2), PipelineSchedule::ZbH1, PipelineSchedule::ZbV];
    for (which, recompute) in
        schedules.into_iter().zip([Mode::Full, Mode::Selective, Mode::None, Mode::Selective])
    {
        for send in [SendMode::Latency, SendMode::Eager] {
            let mut plan = plan(gpt(8), [2, 4, 2], 8);
            schedule(&mut plan, which);
            plan.deployment.pipelining.techniques.recompute = every_layer(recompute);
            plan.deployment.pipelining.send = send;
            plan.deployment.pipelining.steps = 2;
            assert_same(&World::dgx_a100(2), &plan, &format!("{which:?}, {send:?}, {recompute:?}"));
        }
    }
}

#[test]
fn balanced_and_sharded() {
    for sharding in [Sharding::None, Sharding::Optimizer] {
        let mut plan = plan(gpt(8), [2, 4, 2], 8);
        plan.sharding = sharding;
        plan.deployment.placement = Placement::PairAdjacent;
        plan.deployment.pipelining.techniques.bpipe =
            Some(Bpipe { policy: EvictionPolicy::EveryMicroBatch, bound: Count::new(2), transfer: None });
        assert_same(&World::dgx_a100(2), &plan, &format!("bpipe, {sharding:?}"));
    }
}

#[test]
fn placed_in_every_order() {
    // The first and the last copy change places, tensor ranks stay together.
    let listed =
        (0..16).map(|rank| if rank % 4 < 2 { rank } else { (rank + 8) % 16 }).map(Count::literal).collect();
    for placement in [Placement::PairAdjacent, Placement::CopyAfterCopy, Placement::Listed(listed)] {
        let what = format!("{placement:?}");
        let mut plan = plan(gpt(8), [2, 4, 2], 8);
        plan.deployment.placement = placement;
        assert_same(&World::dgx_a100(2), &plan, &what);
    }
}

#[test]
fn exchanged_beside_passes() {
    for (sharding, overlap) in overlaps() {
        for split in [[1, 1, 8], [2, 2, 2]] {
            let mut plan = plan(gpt(4), split, 4);
            (plan.sharding, plan.overlap) = (sharding, overlap);
            plan.deployment.pipelining.steps = 2;
            assert_same(&World::dgx_a100(1).roomy(), &plan, &format!("{split:?}, {sharding:?}, {overlap:?}"));
        }
    }
}
