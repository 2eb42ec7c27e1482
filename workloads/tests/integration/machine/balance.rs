//! BPipe over the links of a machine.

use std::collections::BTreeSet;

use hw_models::settings::Count;
use sim_core::fixed::Rate;
use sim_core::id::{CauseId, RouteId};
use sim_core::platform::Demand;
use workloads::lower::Lowered;
use workloads::model::transformer::Transformer;
use workloads::names::{cause, kind};
use workloads::passes::bpipe::{Bpipe, EvictionPolicy};
use workloads::placement::{Extent, Placement};
use workloads::schedule::LaneKind;

use super::{Ran, SendMode, TransformerPlan, World, gpt, plan, sum};

const NEWEST: Option<Bpipe> =
    Some(Bpipe { policy: EvictionPolicy::EvictNewest, bound: None, transfer: None });
const EVERY: Option<Bpipe> =
    Some(Bpipe { policy: EvictionPolicy::EveryMicroBatch, bound: None, transfer: None });

/// Layers as wide as those of the GPT-3 of 96 billion parameters, one fifth as many; four nodes of eight GPUs.
fn gpt3(bpipe: Option<Bpipe>) -> TransformerPlan {
    let mut plan = plan(Transformer::gpt(16, 9_984, 104, 51_200, 2_048), [4, 8, 1], 24);
    plan.execution.micro_batch = 2;
    plan.deployment.placement = Placement::PairAdjacent;
    plan.deployment.pipelining.techniques.bpipe = bpipe;
    plan
}

fn world() -> World {
    World::dgx_a100(4).roomy()
}

fn lowered(plan: &TransformerPlan) -> Lowered {
    world().build(plan).unwrap().lowered
}

/// The routes that storages travel on between partners.
fn copies(lowered: &Lowered) -> Vec<RouteId> {
    let program = &lowered.program;
    let lanes = program.streams.iter().zip(&lowered.streams);
    let moving = lanes.filter(|(_, role)| matches!(role.kind, LaneKind::Evict | LaneKind::Load));
    let routes = moving.flat_map(|(stream, _)| {
        let binding = &program.bindings[stream.binding.index()];
        let costs = &program.costs[binding.costs.expect("lowering gives costs").index()];
        costs
            .activities
            .iter()
            .filter_map(|copy| copy.route)
            .map(|slot| RouteId(binding.slots[slot as usize]))
    });
    let mut routes: Vec<RouteId> = routes.collect();
    routes.sort_unstable();
    routes.dedup();
    routes
}

#[test]
fn hidden_copies_cost_less_than_a_percent() {
    let without = Ran::of(lowered(&gpt3(None)));
    for bpipe in [NEWEST, EVERY] {
        let with = Ran::of(lowered(&gpt3(bpipe)));
        assert!(with.run.time > without.run.time, "copies take bandwidth of memories and NVLinks");
        assert!(with.seconds() < 1.01 * without.seconds(), "{} s, {} s", with.seconds(), without.seconds());
    }
}

/// Where each stage is one GPU and messages occupy nothing, only copies are on the NVLinks; at twice their rate copies take
/// more of the memory than kernels leave. A vocabulary that hardly counts leaves all stages equally busy, so that none has
/// time to spare.
#[test]
fn hidden_copies_that_need_no_memory_bandwidth_cost_nothing() {
    let mut world = World::dgx_a100(1).roomy();
    let nvlink = world.catalogue.links.get_mut("nvlink3").unwrap();
    nvlink.nominal_gb_per_s *= 2.0;
    nvlink.effective_gb_per_s *= 2.0;
    let build = |bpipe| {
        let mut plan = plan(Transformer::gpt(16, 4_096, 32, 128, 2_048), [1, 8, 1], 24);
        plan.deployment.placement = Placement::PairAdjacent;
        plan.deployment.pipelining.send = SendMode::Latency;
        plan.deployment.pipelining.techniques.bpipe = bpipe;
        world.build(&plan).unwrap().lowered
    };
    let without = Ran::of(build(None));
    for bpipe in [NEWEST, EVERY] {
        let with = Ran::of(build(bpipe));
        assert!(with.run.time > without.run.time && with.seconds() < 1.01 * without.seconds());
        let mut free = build(bpipe);
        for route in copies(&free) {
            free.platform.routes[route.index()].demands.retain(|demand| !demand.prior);
        }
        assert_eq!(Ran::of(free).run.time, without.run.time, "{bpipe:?}");
    }
}

/// Copies share a link of their own that is slower and slower.
#[test]
fn exposed_copies_cost_what_is_exposed() {
    let slow = |gigabytes: f64| {
        let mut lowered = lowered(&gpt3(NEWEST));
        for route in copies(&lowered) {
            let own = lowered.platform.fluid("partner link", gigabytes * 1e9, CauseId(0));
            lowered.platform.routes[route.index()].demands.push(Demand::on(own));
        }
        Ran::of(lowered)
    };
    let hidden = Ran::of(lowered(&gpt3(NEWEST)));
    let mut last = hidden.run.time;
    for gigabytes in [20.0, 8.0, 2.0] {
        let ran = slow(gigabytes);
        assert!(ran.run.time > last, "{gigabytes} GB/s");
        last = ran.run.time;
        // Nothing else takes longer, and the first stage, which lends most, has no time to spare.
        let exposed = |stage| sum([cause::TRANSFER, cause::MEMORY].map(|name| ran.spent(stage, 0, name)));
        let exposed: Vec<f64> = (0..4).map(|stage| exposed(stage).as_secs()).collect();
        let longer = ran.seconds() - hidden.seconds();
        assert!(longer <= exposed.iter().sum(), "{gigabytes} GB/s: {longer} s, {exposed:?}");
        assert!(1.05 * longer >= exposed[0], "{gigabytes} GB/s: {longer} s, {exposed:?}");
    }
}

/// The copies of each pair are as fast as the way between its stages.
#[test]
fn a_slow_way_slows_the_copies_of_its_pair() {
    let caps = |world: &World| -> Vec<Vec<Rate>> {
        let mut plan = plan(gpt(8), [1, 8, 1], 8);
        plan.deployment.placement = Placement::PairAdjacent;
        plan.deployment.pipelining.techniques.bpipe =
            Some(Bpipe { policy: EvictionPolicy::EveryMicroBatch, bound: Count::new(2), transfer: None });
        let ran = Ran::of(world.build(&plan).unwrap().lowered);
        let of_lane = |stage, lane| {
            let stream = &ran.lowered.program.streams[ran.lane(stage, 0, lane).index()];
            let costs = ran.lowered.program.bindings[stream.binding.index()].costs.unwrap();
            let copies = &ran.lowered.program.costs[costs.index()].activities;
            copies.iter().map(|copy| copy.cap).collect::<BTreeSet<_>>()
        };
        let lanes = [LaneKind::Evict, LaneKind::Load];
        (0..4).map(|stage| lanes.into_iter().flat_map(|lane| of_lane(stage, lane)).collect()).collect()
    };
    let world = World::dgx_a100(1).roomy();
    let even = caps(&world);
    assert!(even.iter().flatten().all(|cap| *cap == even[0][0]));
    // Stage 1 is on GPU 2, its partner on GPU 3; of the NVLinks of the first pair nothing is slow.
    let slow = caps(&world.slowed("{ part: 'node[0].gpu[3]', rate: 50 % }"));
    assert_eq!((&slow[0], &slow[2], &slow[3]), (&even[0], &even[2], &even[3]));
    assert!(slow[1].iter().all(|cap| 2 * cap.0 == even[1][0].0), "{slow:?}, {even:?}");
}

/// ceil((p + 2)/2) = 5 of 8; a pair holds p + 1 and has one in transit.
#[test]
fn no_stage_holds_more_than_the_bound() {
    let residents = |ran: &Ran| -> Vec<u64> {
        ran.lowered.stages.iter().map(|ids| ran.run.stores[ids.resident.index()].peak.bytes).collect()
    };
    let plain = Ran::of(lowered(&gpt3(None)));
    assert_eq!(residents(&plain), [8, 7, 6, 5, 4, 3, 2, 1]);
    for bpipe in [NEWEST, EVERY] {
        let ran = Ran::of(lowered(&gpt3(bpipe)));
        assert_eq!(residents(&ran), [5, 5, 5, 5, 4, 5, 5, 5], "{bpipe:?}");
        // At the peak the newest micro-batch has not filled all of its tensors, or the oldest has given some back.
        let share = |bytes: u64| 8.0 * bytes as f64 / plain.activations(0) as f64;
        assert!((share(ran.activations(0)) - 5.0).abs() < 0.05, "{bpipe:?}: {}", share(ran.activations(0)));
        let held = share(ran.at_peak(7, &[kind::HELD_FOR_PARTNER]));
        assert!((held - 4.0).abs() < 0.05, "{bpipe:?}: {held}");
    }
}

#[test]
fn pairs_are_on_one_node() {
    let extent = Extent::new(4, 1, 8);
    for (stage, replica) in (0..8).flat_map(|stage| (0..4).map(move |replica| (stage, replica))) {
        let nodes =
            |placement: Placement| [stage, 7 - stage].map(|stage| extent.gpu(&placement, stage, replica) / 8);
        let [own, partner] = nodes(Placement::PairAdjacent);
        assert_eq!(own, partner, "stage {stage}, replica {replica}");
        let [own, partner] = nodes(Placement::Sequential);
        assert_ne!(own, partner, "stage {stage}, replica {replica}");
    }
    let lowered = lowered(&gpt3(EVERY));
    for demand in copies(&lowered).iter().flat_map(|route| &lowered.platform.routes[route.index()].demands) {
        let name = &lowered.platform.fluids[demand.fluid.index()].name;
        assert!(name.contains("nvswitch") || name.contains("hbm"), "copies between partners cross {name}");
    }
}
