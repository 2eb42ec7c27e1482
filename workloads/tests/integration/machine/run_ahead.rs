//! Memory that a host takes as far ahead of its device as it is, and what it costs to keep it from that.

use workloads::memory::{self, Ranks};
use workloads::model::transformer::{Gather, GatherLimit};

use super::exchanged::{Recorded, eight, parameters};
use super::tensors::NOTHING;
use super::*;
use crate::plans::interleaved;

fn limited(limit: GatherLimit, micro_batches: u32) -> TransformerPlan {
    let gather = Some(Gather { limit, ..Gather::default() });
    let mut plan =
        eight(Sharding::Parameters, Overlap { align: true, gather, ..Overlap::default() }, micro_batches);
    plan.deployment.launch = Launch::Eager;
    plan
}

/// The host issues a step in less time than the device takes for a layer: without a limit it takes memory for every layer,
/// forward and backward, before the first one is returned. With one, a forward pass has the layer it is in and the next, and
/// a backward pass, for which the host gathers before it issues the layer before, one more. The device keeps to one ahead.
#[test]
fn without_a_limit_the_host_takes_memory_for_the_whole_step() {
    let world = World::dgx_a100(1).roomy();
    for (limit, layers) in [(GatherLimit::Device, 2), (GatherLimit::Host, 3), (GatherLimit::None, 8)] {
        let plan = limited(limit, 1);
        let (all, root) = parameters(&plan);
        let layer = (all - root) / 4;
        assert_eq!(
            Recorded::of(&world, &plan).most(kind::GATHERED),
            2 * (root + layers * layer),
            "{limit:?}"
        );
    }
}

/// A host that has waited is not ahead any more, and gathers are not either: that is what the memory costs, whether a host is
/// fast or slow.
#[test]
fn a_limit_costs_time() {
    let world = World::dgx_a100(1).roomy();
    let ran = |limit, overhead_us| {
        let mut plan = limited(limit, 4);
        plan.deployment.host_overhead = Time::from_us(overhead_us);
        world.completed(&plan).run.time.as_secs()
    };
    for overhead in [0, 300] {
        let [host, nothing] = [GatherLimit::Host, GatherLimit::None].map(|limit| ran(limit, overhead));
        assert!(host > 1.01 * nothing && host < 1.05 * nothing, "{overhead} us: {host} s, {nothing} s");
    }
}

/// What is lent comes back when the device has used it: told how far that is, the allocator needs as many segments for what
/// is gathered as a run holds at a time; not told, one layer's.
#[test]
fn segments_follow_what_the_device_has_returned() {
    let world = World::dgx_a100(1).roomy();
    let plan = limited(GatherLimit::None, 1);
    let (all, root) = parameters(&plan);
    let layer = 2 * (all - root) / 4;
    let ranks = Ranks::of_transformer(&plan, None).unwrap();
    assert!(ranks.lends());
    let built = world.build(&plan).unwrap();
    let reserved = |returned: &[memory::Recorded]| {
        let used = ranks.usage(&built, returned, |_| NOTHING, &Default::default()).unwrap();
        used[0].usage.peak_reserved.reserved
    };
    let (nothing_returned, all_returned) =
        (reserved(&[memory::Recorded { gathers: vec![0; 9], ..Default::default() }]), reserved(&[]));
    let more = (nothing_returned - all_returned) as f64 / layer as f64;
    // Eight layers instead of the two of a backward pass that gathers one ahead.
    assert!((more - 6.0).abs() < 0.2, "{more}");
}

#[test]
fn a_host_that_issues_no_operators_cannot_limit() {
    let refused = |plan: &TransformerPlan| match World::dgx_a100(1).build(plan) {
        Err(PlanError::Invalid(found)) => found.iter().map(|invalid| invalid.path).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    let free = TransformerPlan { deployment: Deployment::new(1), ..limited(GatherLimit::Host, 1) };
    assert_eq!(refused(&free), ["parallelism.overlap_parameter_gather.limit"]);
    let optimizer = TransformerPlan { sharding: Sharding::Optimizer, ..limited(GatherLimit::None, 1) };
    assert_eq!(refused(&optimizer), ["parallelism.overlap_parameter_gather.limit"]);
}

/// Every schedule ends, whoever launches its gathers.
#[test]
fn every_schedule_ends() {
    let schedules = [PipelineSchedule::OneFOneB, interleaved(2), PipelineSchedule::ZbH1];
    for which in schedules {
        for limit in [GatherLimit::Host, GatherLimit::None] {
            for send in [SendMode::Eager, SendMode::Blocking] {
                let mut plan = plan(gpt(8), [2, 4, 2], 8);
                plan.overlap.gather = Some(Gather { limit, ..Gather::default() });
                (plan.sharding, plan.deployment.launch) = (Sharding::Parameters, Launch::Eager);
                plan.deployment.pipelining.send = send;
                schedule(&mut plan, which);
                World::dgx_a100(2).roomy().completed(&plan);
            }
        }
    }
}
