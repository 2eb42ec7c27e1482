//! Page-locked memory of hosts that is limited: what finds no buffer waits for one, stays, or is refused before anything runs.

use hw_models::copies::HostMemory;
use hw_models::settings::{Bytes, Count};
use proptest::prelude::*;
use sim_core::outcome::End;
use workloads::model::transformer::States;
use workloads::names::cause;
use workloads::order::PipelineSchedule;
use workloads::passes::host_buffers::ShortBuffers;
use workloads::passes::offload::{ActivationOffload, Keep, Store};
use workloads::passes::swap::{Coordination, Engine, Swap};
use workloads::passes::zero_offload::ZeroOffload;
use workloads::plan::PlanError;
use workloads::schedule::LaneKind;
use workloads::transfer::Outside;

use super::exchanged::parameters;
use super::offload::{box_with_links, moved, offloading};
use super::{Ran, TransformerPlan, World, schedule};

/// All that is saved leaves, and must.
const ALL: ActivationOffload = ActivationOffload {
    modules: None,
    in_flight: None,
    smallest: Some(Bytes::new_bytes(0)),
    keep: Keep::Bytes(Bytes::new_bytes(0)),
    prefetch: Some(Count::literal(2)),
    store: Store::LastUse,
    forwarding: false,
    synchronous: false,
    to: Outside::Host,
    arrays: Vec::new(),
    pinned: true,
};

fn with_buffers(mut plan: TransformerPlan, bytes: u64) -> TransformerPlan {
    plan.deployment.buffers.locked = Some(bytes);
    plan
}

/// What finds no room in so many buffers goes to other memory of the host.
fn overflowing(plan: TransformerPlan, bytes: u64) -> TransformerPlan {
    let mut plan = with_buffers(plan, bytes);
    plan.deployment.buffers.overflows = true;
    plan
}

fn short(world: &World, plan: &TransformerPlan) -> Vec<ShortBuffers> {
    match world.build(plan) {
        Err(PlanError::BuffersDoNotFit(short)) => short,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it is to be refused"),
    }
}

/// Most bytes of the buffers of the first rank.
fn buffered(ran: &Ran) -> u64 {
    let name = |name: &str| name.ends_with("gpu[0].page-locked");
    let store = ran.lowered.platform.stores.iter().position(|store| name(&store.name));
    ran.run.stores[store.expect("it has buffers")].peak.bytes
}

/// Bytes that a micro-batch saves.
fn saved(world: &World) -> u64 {
    world.completed(&offloading(None, 1, 1)).activations(0)
}

#[test]
fn as_many_buffers_as_leave_cost_nothing_and_a_byte_less_is_refused() {
    let world = box_with_links(1.0);
    let (saved, plan) = (saved(&world), offloading(Some(ALL), 1, 3));
    let ran = world.completed(&with_buffers(plan.clone(), saved));
    assert_eq!(ran.run.time, world.completed(&plan).run.time);
    assert_eq!(buffered(&ran), saved);
    let expected = ShortBuffers {
        stage: 0,
        moment: "backward of micro-batch 0".to_owned(),
        needed: saved,
        capacity: saved - 1,
    };
    assert_eq!(short(&world, &with_buffers(plan, saved - 1)), [expected]);
}

/// With all forward passes first, what one micro-batch gives free is another's: buffers for one are enough, and all bytes move.
#[test]
fn copies_wait_for_the_buffers_of_micro_batches_before_theirs() {
    let world = box_with_links(20.0);
    let saved = saved(&world);
    let mut plan = offloading(Some(ALL), 1, 3);
    schedule(&mut plan, PipelineSchedule::Gpipe);
    let free = world.completed(&plan);
    for buffers in [saved, 2 * saved] {
        let ran = world.completed(&with_buffers(plan.clone(), buffers));
        assert!(buffered(&ran) <= buffers && buffered(&ran) > buffers * 9 / 10, "{}", buffered(&ran));
        let [out, back] = moved(&ran).1;
        assert!(out == back && out == moved(&free).1[0]);
        assert!(ran.activations(0) > free.activations(0), "what waits is on the GPU");
        assert!(ran.run.time > free.run.time);
    }
    let few = short(&world, &with_buffers(plan, saved - 1));
    assert_eq!((few[0].needed, &*few[0].moment), (saved, "backward of micro-batch 0"));
}

/// What may stay does where it finds no buffer: the fewer there are the more.
#[test]
fn what_finds_no_buffer_stays_where_it_may() {
    let world = box_with_links(1.0);
    let technique = ActivationOffload {
        forwarding: true,
        store: Store::Produced,
        smallest: Some(Bytes::new_bytes(1 << 20)),
        keep: Keep::Layers(Count::literal(0)),
        ..ALL
    };
    let plan = offloading(Some(technique), 1, 1);
    let saved = saved(&world);
    let at_most = |buffers: u64| {
        let ran = world.completed(&with_buffers(plan.clone(), buffers));
        assert!(buffered(&ran) <= buffers);
        (ran.activations(0), moved(&ran).1[1])
    };
    let [quarter, half, all] = [saved / 4, saved / 2, saved].map(at_most);
    assert_eq!(all, {
        let free = world.completed(&plan);
        (free.activations(0), moved(&free).1[1])
    });
    assert!(quarter.0 > half.0 && half.0 >= all.0, "{quarter:?} {half:?} {all:?}");
    assert!(quarter.1 < half.1 && half.1 < all.1, "{quarter:?} {half:?} {all:?}");
    // A tensor that is to leave has no room whatever else is there; or the GPU has none for what finds none.
    let few = short(&world, &with_buffers(plan.clone(), 1 << 20));
    let input = 16 << 20;
    assert_eq!((few[0].needed, &*few[0].moment), (input, "forward of micro-batch 0"));
    let free = world.completed(&offloading(None, 1, 1));
    let peak = free.run.stores[free.lowered.stages[0].memory.index()].peak.bytes;
    let mut tight = with_buffers(plan, saved / 4);
    tight.deployment.limit = Some(peak - saved / 2);
    let few = short(&world, &tight);
    let beyond = saved / 2;
    assert!(few[0].needed <= beyond && beyond - few[0].needed < saved / 50, "{few:?} of {saved}");
}

/// What hosts exchange with their GPUs has its buffers from the start; the rest is for what comes and goes.
#[test]
fn gradients_and_activations_share_the_buffers() {
    let world = box_with_links(1.0);
    let mut plan = offloading(Some(ALL), 1, 1);
    plan.execution.states = States::HalfGradients;
    plan.deployment.pipelining.techniques.zero_offload =
        Some(ZeroOffload { group: Count::literal(1_000_000_000_000), ..ZeroOffload::default() });
    let (gradients, saved) = (2 * parameters(&plan).0, saved(&world));
    let ran = world.completed(&with_buffers(plan.clone(), gradients + saved));
    assert_eq!(buffered(&ran), gradients + saved);
    let few = short(&world, &with_buffers(plan.clone(), gradients + saved - 1));
    assert_eq!((few[0].needed, few[0].capacity), (saved, saved - 1));
    plan.deployment.pipelining.techniques.activation_offload = None;
    let Err(PlanError::HostDoesNotFit(full)) = world.build(&with_buffers(plan, gradients - 1)) else {
        panic!("gradients do not fit")
    };
    assert_eq!((&*full[0].memory, full[0].needed), ("node[0].gpu[0].page-locked", gradients));
}

/// Pages that are locked for ranks are no others': those of all have to fit.
#[test]
fn locked_pages_are_taken_of_the_memory() {
    let mut world = box_with_links(1.0);
    world.catalogue.nodes.values_mut().for_each(|node| node.host_memory.gib = 16.0);
    let plan = offloading(Some(ALL), 2, 1);
    world.completed(&with_buffers(plan.clone(), 4 << 30));
    let Err(PlanError::HostDoesNotFit(full)) = world.build(&with_buffers(plan, (4 << 30) + 1)) else {
        panic!("two ranks lock more than 8 GiB")
    };
    assert_eq!((full[0].ranks, full[0].needed, full[0].capacity), (2, (8 << 30) + 2, 8 << 30));
}

/// A thread copies 5 GB/s beside a link of PCIe 3, which alone carries 13.78 away from the GPU; each byte passes the memory thrice.
#[test]
fn a_thread_limits_copies_that_are_not_page_locked() {
    let world = box_with_links(1.0);
    let mut plan = offloading(Some(ALL), 1, 1);
    let saved = saved(&world) as f64;
    let ran = |plan: &TransformerPlan| {
        let ran = world.completed(plan);
        let memory = ran.lowered.platform.fluids.iter().position(|fluid| fluid.name.contains("memory[0]"));
        (leaving(&ran), ran.run.fluids[memory.unwrap()].served as f64, ran.seconds())
    };
    let close = |found: f64, expected: f64| {
        assert!((found / expected - 1.0).abs() < 0.01, "{found}, not {expected}");
    };
    let (out, passed, locked) = ran(&plan);
    close(out, saved / 13.78e9);
    close(passed, 2.0 * saved);
    plan.deployment.buffers.activations = HostMemory::Pageable;
    let (out, passed, pageable) = ran(&plan);
    close(out, saved / 5e9);
    close(passed, 6.0 * saved);
    // Most of both ways is waited for.
    let longer = saved * (2.0 / 5e9 - 1.0 / 13.78e9 - 1.0 / 12.1e9);
    let found = pageable - locked;
    assert!(0.8 * longer < found && found < 1.01 * longer, "{found} s longer, not {longer}");
}

/// Time of copies out of the first rank.
fn leaving(ran: &Ran) -> f64 {
    ran.spent_by(0, 0, LaneKind::Offload, cause::TRANSFER).as_secs()
}

/// To eight GPUs that copy at once a memory of 60 GB/s leaves 2.5 GB/s each, less than a thread copies.
#[test]
fn copies_that_are_not_page_locked_fill_a_memory_thrice_as_soon() {
    let mut world = box_with_links(20.0);
    world.catalogue.nodes.values_mut().for_each(|node| node.host_memory.gb_per_s = 60.0 / 0.8);
    let saved = saved(&world) as f64;
    for (memory, passes) in [(HostMemory::Pinned, 1.0), (HostMemory::Pageable, 3.0)] {
        let mut plan = offloading(Some(ALL), 8, 1);
        plan.deployment.buffers.activations = memory;
        let (found, expected) = (leaving(&world.completed(&plan)), saved / (60e9 / 8.0 / passes));
        assert!((found / expected - 1.0).abs() < 0.05, "{found} s, not {expected}");
    }
}

/// Half of what leaves is page-locked, the rest is not: all of it leaves, nobody waits for a buffer, and a step takes a time between the two.
#[test]
fn what_finds_no_buffer_may_go_elsewhere() {
    let world = box_with_links(1.0);
    let (saved, plan) = (saved(&world), offloading(Some(ALL), 1, 1));
    let step = |plan: &TransformerPlan| {
        let ran = world.completed(plan);
        assert_eq!(moved(&ran).1, [u128::from(saved); 2]);
        ran.seconds()
    };
    let [none, half, all] = [0, saved / 2, saved].map(|buffers| step(&overflowing(plan.clone(), buffers)));
    assert!(all < half && half < none, "{all} {half} {none}");
    assert_eq!(all, step(&plan));
    let mut pageable = plan;
    pageable.deployment.buffers.activations = HostMemory::Pageable;
    assert_eq!(none, step(&pageable));
}

/// Gradients leave and parameters come back as fast as a thread copies them, if they are not page-locked, or have no room.
#[test]
fn hosts_exchange_with_their_gpus_what_is_page_locked_or_not() {
    let world = box_with_links(1.0);
    let mut plan = offloading(None, 1, 1);
    plan.execution.states = States::HalfGradients;
    plan.deployment.pipelining.techniques.zero_offload =
        Some(ZeroOffload { group: Count::literal(1_000_000_000_000), ..ZeroOffload::default() });
    let bytes = 2 * parameters(&plan).0;
    let step = |plan: &TransformerPlan| world.completed(plan).seconds();
    let mut pageable = plan.clone();
    pageable.deployment.buffers.exchanged = HostMemory::Pageable;
    // All of what comes back is waited for, and of what leaves what the backward pass does not hide.
    let of = |rate: f64| bytes as f64 * (1.0 / 5e9 - 1.0 / rate);
    let longer = step(&pageable) - step(&plan);
    assert!(0.99 * of(12.1e9) < longer && longer < of(12.1e9) + of(13.78e9), "{longer} s");
    assert_eq!(step(&overflowing(plan.clone(), bytes - 1)), step(&pageable));
    assert_eq!(step(&overflowing(plan.clone(), bytes)), step(&plan));
}

/// Random techniques for random buffers.
fn techniques() -> impl Strategy<Value = (Option<ActivationOffload>, Option<Swap>)> {
    let stores = prop_oneof![Just(Store::Produced), Just(Store::LastUse)];
    let offload = (stores, 0_u64..12, any::<bool>(), prop_oneof![Just(0_u64), Just(16 << 20)]);
    let offload = offload.prop_map(|(store, prefetch, forwarding, smallest)| {
        let (prefetch, smallest) = (Some(Count::literal(prefetch)), Some(Bytes::new_bytes(smallest)));
        (Some(ActivationOffload { store, prefetch, forwarding, smallest, ..ALL }), None)
    });
    let engines = prop_oneof![Just(Engine::Online), Just(Engine::Greedy)];
    let coordination = prop_oneof![Just(Coordination::Oblivious), Just(Coordination::Disjoint)];
    let swap = (engines, coordination, 0_u64..12, any::<bool>()).prop_map(
        |(engine, coordination, prefetch, recompute)| {
            (
                None,
                Some(Swap {
                    engine,
                    coordination,
                    prefetch: Count::literal(prefetch),
                    recompute,
                    ..Swap::default()
                }),
            )
        },
    );
    prop_oneof![offload, swap]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// However few buffers there are: a step ends with no more of them in use, or it is told before anything runs what is short, which is
    /// nothing where other memory will do. Nobody waits for ever.
    #[test]
    fn a_step_ends_or_is_refused(
        (offload, swap) in techniques(),
        hundredths in 0_u64..250,
        overflows: bool,
        (data, micro_batches) in (1_u32..3, 1_u32..4),
        order in prop_oneof![Just(PipelineSchedule::OneFOneB), Just(PipelineSchedule::Gpipe)],
        stages in 1_u32..3,
        links in prop_oneof![Just(0.05), Just(1.0), Just(20.0)],
    ) {
        let mut plan = offloading(offload, data, micro_batches);
        plan.execution.split.stages = stages;
        plan.model.layers = 4;
        plan.deployment.pipelining.techniques.swap = swap;
        schedule(&mut plan, order);
        if swap.is_some() {
            super::swap::limit(&mut plan, 1.33);
        }
        let world = box_with_links(links);
        let buffers = saved(&world) * hundredths / 100;
        plan.deployment.buffers.overflows = overflows;
        match world.build(&with_buffers(plan, buffers)) {
            Err(PlanError::BuffersDoNotFit(short)) => {
                prop_assert!(!overflows && short.iter().all(|s| s.needed > s.capacity));
            }
            Err(PlanError::DoesNotFit(short)) => prop_assert!(short.iter().all(|s| s.needed > s.capacity)),
            Err(other) => prop_assert!(false, "{other}"),
            Ok(built) => {
                let ran = Ran::of(built.lowered);
                prop_assert_eq!(&ran.run.end, &End::Completed);
                prop_assert!(buffered(&ran) <= buffers);
            }
        }
    }
}
