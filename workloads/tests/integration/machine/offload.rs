//! Activations that are in host memory between the passes.

use hw_models::allocator::Request;
use hw_models::machine::Cluster;
use hw_models::settings::{Bytes, Count};
use proptest::prelude::*;
use sim_core::outcome::End;
use sim_core::time::Time;
use workloads::memory::{Framework, Placeholder};
use workloads::model::transformer::AttentionKernel;
use workloads::names::kind;
use workloads::order::PipelineSchedule;
use workloads::passes::offload::adaptive::Kept;
use workloads::passes::offload::{ActivationOffload, Keep, Store};
use workloads::passes::recompute::Mode;
use workloads::plan::{DriveArray, Drives, Launch, PlanError};
use workloads::transfer::Outside;

use super::drives::{self, array};
use super::tensors::rank_of;
use super::{Ran, TransformerPlan, World, every_layer, gpt, plan, schedule};
use crate::plans::interleaved;

/// All that is saved leaves.
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

fn box_of_eight() -> World {
    box_with_links(1.0)
}

/// Eight GPUs below one link of a host, which gives each direction what it has whatever the other does; all links are so many
/// times as fast as they are.
pub(super) fn box_with_links(factor: f64) -> World {
    let mut world = World::of(Cluster::new("supermicro-4029gp-trt3", 1));
    let link = world.catalogue.links.get_mut("pcie3").unwrap().copies.as_mut().unwrap();
    for way in [&mut link.to_device, &mut link.from_device] {
        way.alone *= factor;
        way.against = way.alone;
    }
    world.catalogue.nodes.values_mut().for_each(|node| node.host_memory.gb_per_s = 1e5);
    world.roomy()
}

pub(super) fn offloading(
    technique: Option<ActivationOffload>,
    data: u32,
    micro_batches: u32,
) -> TransformerPlan {
    let mut plan = plan(gpt(3), [1, 1, data], micro_batches);
    plan.execution.attention = AttentionKernel::Flash;
    plan.deployment.pipelining.techniques.activation_offload = technique;
    plan
}

/// Bytes of the first rank's host memory at most, and bytes from all GPUs to it and back.
pub(super) fn moved(ran: &Ran) -> (u64, [u128; 2]) {
    let store =
        ran.lowered.platform.stores.iter().position(|store| store.name == "node[0].memory[0]").unwrap();
    let served = |name: &str| {
        let fluid = ran.lowered.platform.fluids.iter().position(|fluid| fluid.name == name);
        ran.run.fluids[fluid.unwrap_or_else(|| panic!("no {name}"))].served
    };
    let ways = ["node[0].switch[0] -> node[0].socket[0]", "node[0].socket[0] -> node[0].switch[0]"];
    (ran.run.stores[store].peak.bytes, ways.map(served))
}

/// The same where copies get so little of the links that each byte takes the time of several.
fn moved_slowly(ran: &Ran, factor: f64) -> (u64, [u64; 2]) {
    let (most, [out, back]) = moved(ran);
    let bytes = |served: u128, rate: f64| (served as f64 * rate * factor / 12.0).round() as u64;
    (most, [bytes(out, 13.78), bytes(back, 12.1)])
}

#[test]
fn what_stays_costs_nothing_and_is_as_large_tensor_by_tensor_as_block_by_block() {
    for recompute in [Mode::None, Mode::Selective, Mode::Full] {
        let mut without = offloading(None, 1, 2);
        without.deployment.pipelining.techniques.recompute = every_layer(recompute);
        let mut with = without.clone();
        with.deployment.pipelining.techniques.activation_offload =
            Some(ActivationOffload { smallest: Some(Bytes::new_bytes(u64::MAX)), ..ALL });
        let [without, with] = [&without, &with].map(|plan| box_of_eight().completed(plan));
        assert_eq!(without.run.time, with.run.time);
        assert_eq!(without.activations(0), with.activations(0));
        assert_eq!(moved(&with), (0, [0, 0]));
    }
}

/// The list that the caching allocator replays is made from the names of tensors, without storages.
#[test]
fn tensors_live_as_long_as_in_the_list_of_the_allocator() {
    let nothing = Framework { workspace: 0, placeholder: Placeholder::None };
    for recompute in [Mode::None, Mode::Selective, Mode::Full] {
        for (tensor, micro_batches) in [(1, 1), (1, 2), (2, 1)] {
            let mut plan = plan(gpt(3), [tensor, 1, 1], micro_batches);
            plan.deployment.pipelining.techniques.recompute = every_layer(recompute);
            plan.deployment.pipelining.techniques.activation_offload =
                Some(ActivationOffload { smallest: Some(Bytes::new_bytes(u64::MAX)), ..ALL });
            let ran = box_of_eight().completed(&plan);
            let tensors = [kind::ACTIVATIONS, kind::WORKSPACE, kind::RECOMPUTED];
            assert_eq!(ran.at_peak(0, &tensors), most(&rank_of(&plan, 0, &nothing).requests), "{plan:?}");
        }
    }
}

/// Most bytes of tensors at once, without those that are there throughout.
fn most(requests: &[Request]) -> u64 {
    let (mut sizes, mut now, mut most) = (Vec::new(), 0, 0);
    for request in requests {
        match *request {
            Request::Allocate { bytes, .. } => {
                let bytes = if sizes.len() < 4 { 0 } else { bytes };
                sizes.push(bytes);
                now += bytes;
                most = most.max(now);
            }
            Request::Free(tensor) => now -= sizes[tensor as usize],
            Request::Lend(_) | Request::Done(_) => {}
        }
    }
    most
}

/// Every byte that is saved crosses the link once out and once back, and all of it is at the host before the backward pass.
#[test]
fn what_leaves_crosses_the_link_once_each_way() {
    let world = box_of_eight();
    let saved = world.completed(&offloading(None, 1, 1)).activations(0);
    for micro_batches in [1, 3] {
        let (most, [out, back]) = moved(&world.completed(&offloading(Some(ALL), 1, micro_batches)));
        let all = u128::from(saved) * u128::from(micro_batches);
        assert_eq!(most, saved, "one micro-batch is away at a time");
        assert_eq!([out, back], [all; 2]);
    }
    let kept = ActivationOffload { keep: Keep::Bytes(Bytes::new_bytes(saved / 2)), ..ALL };
    let (most, _) = moved(&world.completed(&offloading(Some(kept), 1, 1)));
    assert!(most >= saved / 2 && most < saved * 6 / 10, "{most} of {saved}");
}

/// Where the link is far too slow a step takes all bytes out, and then all back: what is needed first left last. Two GPUs below one
/// switch take turns with it. Of eight, four are behind a second switch, whose port has one turn in five: the others have all out
/// earlier, and come back on the other way meanwhile.
#[test]
fn a_step_takes_what_the_link_takes() {
    let factor = 0.002;
    let world = box_with_links(factor);
    let saved = world.completed(&offloading(None, 1, 1)).activations(0) as f64;
    let [out, back] = [13.78e9, 12.1e9].map(|rate| saved / (rate * factor));
    let step = |gpus| world.completed(&offloading(Some(ALL), gpus, 1)).seconds();
    for gpus in [1, 2] {
        let expected = f64::from(gpus) * (out + back);
        let step = step(gpus);
        assert!(
            expected < step && step < 1.02 * expected,
            "{gpus}: {step} s, of which {expected} s of copies"
        );
    }
    let (eight, last_out) = (step(8), 8.0 * out);
    assert!(
        last_out + 4.0 * back < eight && eight < 8.0 * (out + back),
        "{eight}: all are out after {last_out} s"
    );
}

/// Passes that wait for each copy take as long as kernels and copies one after the other, however
/// fast the link is.
#[test]
fn passes_that_wait_for_each_copy_hide_none() {
    for factor in [0.2, 1.0, 20.0] {
        let world = box_with_links(factor);
        let ran = |technique| world.completed(&offloading(technique, 1, 1));
        let waits = ActivationOffload { synchronous: true, store: Store::Produced, prefetch: None, ..ALL };
        let [kept, beside, waits] = [None, Some(ALL), Some(waits)].map(ran);
        assert_eq!(moved(&waits), moved(&beside));
        let saved = kept.activations(0) as f64;
        let copies = saved / (13.78e9 * factor) + saved / (12.1e9 * factor);
        let longer = waits.seconds() - kept.seconds();
        assert!((longer / copies - 1.0).abs() < 0.05, "{factor}: {longer} s for {copies} s of copies");
        assert!(beside.seconds() < waits.seconds());
        assert!(waits.activations(0) <= beside.activations(0));
    }
}

/// A link that is fast enough hides copies behind kernels, but for those of what the last kernels of the forward pass leave, which
/// would hardly be away.
#[test]
fn copies_hide_behind_kernels_where_the_link_is_fast() {
    let world = box_with_links(20.0);
    let step = |technique| world.completed(&offloading(technique, 1, 1)).seconds();
    let [stays, all, last_stays] =
        [None, Some(ALL), Some(ActivationOffload { keep: Keep::Bytes(Bytes::new_bytes(1 << 30)), ..ALL })]
            .map(step);
    assert!(1.01 * stays < all, "{all} and {stays}");
    assert!(stays < last_stays && last_stays < 1.002 * stays, "{last_stays} and {stays}");
}

/// When the operators of a rank end.
fn computed(ran: &Ran) -> Time {
    *ran.run.streams[ran.lowered.ranks[0].compute.index()].marks.last().unwrap()
}

/// A tensor that is read again and again leaves when the first copy allows, not when it is read last.
#[test]
fn what_is_copied_when_it_is_produced_is_away_sooner() {
    let world = box_with_links(1.0);
    let ran = |store| world.completed(&offloading(Some(ActivationOffload { store, ..ALL }), 1, 2));
    let [produced, last_use] = [Store::Produced, Store::LastUse].map(ran);
    assert_eq!(moved(&produced), moved(&last_use));
    assert!(produced.activations(0) < last_use.activations(0));
    assert!(computed(&produced) < computed(&last_use));
}

/// Over a link that takes longer for one tensor than the step: its copy is under way when it is asked for, so that it stays, and those
/// of all others are left out. The operators wait for nothing, and the step ends with that copy.
#[test]
fn what_is_asked_for_while_it_is_copied_stays() {
    let smallest = 1 << 20;
    let technique = ActivationOffload {
        smallest: Some(Bytes::new_bytes(smallest)),
        forwarding: true,
        store: Store::Produced,
        ..ALL
    };
    let kept = box_with_links(1.0).completed(&offloading(None, 1, 1));
    let factor = 1e-4;
    let stays = box_with_links(factor).completed(&offloading(Some(technique), 1, 1));
    assert_eq!(computed(&stays), computed(&kept));
    assert_eq!(stays.activations(0), kept.activations(0));
    let input = 16 << 20;
    assert_eq!(
        moved_slowly(&stays, factor),
        (input, [input, 0]),
        "the first tensor is the input of the first layer"
    );
}

/// Where the link is too slow for all, some leave and the rest stays: what is moved is as much both ways, but for what was on its way
/// out when it was asked for, and the step is shorter than with all of it.
#[test]
fn what_the_link_cannot_take_in_time_stays() {
    let factor = 0.2;
    let world = box_with_links(factor);
    let ran = |forwarding| {
        let technique = ActivationOffload { forwarding, store: Store::Produced, ..ALL };
        world.completed(&offloading(Some(technique), 1, 1))
    };
    let [all, some] = [false, true].map(ran);
    let [(_, [all_out, all_back]), (_, [out, back])] = [&all, &some].map(|ran| moved_slowly(ran, factor));
    assert!(all_out.abs_diff(all_back) < all_out / 10_000, "{all_out} and {all_back}");
    assert!(0 < back && back < out && out < all_out, "{back} and {out} of {all_out}");
    assert!(some.seconds() < 0.9 * all.seconds(), "{} and {}", some.seconds(), all.seconds());
}

/// What the head saves stays, and the last so many layers: of what leaves, as much less goes as those layers save.
#[test]
fn layers_that_stay_do_not_cross_the_link() {
    let world = box_of_eight();
    let out = |keep, micro_batches| {
        let technique = ActivationOffload { keep, ..ALL };
        moved(&world.completed(&offloading(Some(technique), 1, micro_batches))).1[0]
    };
    let [none, one, two, three] = [0, 1, 2, 3].map(|layers| out(Keep::Layers(Count::literal(layers)), 1));
    assert_eq!(none - one, one - two);
    assert!(three > 0, "what the embedding saves leaves");
    assert!(none < out(Keep::Bytes(Bytes::new_bytes(0)), 1), "what the head saves stays");
    // On one stage each backward pass follows its forward pass.
    assert_eq!(out(Keep::LastLayer, 2), 2 * one);
}

/// Drives of a node that all of its GPUs write to: what they write together is no more than the drives take, and what does not fit is
/// told with the array's name.
#[test]
fn activations_can_be_on_drives() {
    let mut world = World::of(Cluster::new("dgx-a100-80g", 1));
    let mut plan = offloading(Some(ActivationOffload { store: Store::Produced, ..ALL }), 8, 1);
    let saved = world.completed(&offloading(None, 1, 1)).activations(0);
    for path in ["gpu-direct", "bounce"] {
        let nvme = DriveArray { to_gpu: drives::path(path), ..array("nvme", None) };
        plan.deployment.drives = Drives { arrays: vec![nvme], activations: vec![0], ..Drives::NONE };
        let ran = world.completed(&plan);
        let peak = |name: &str| {
            let store = ran.lowered.platform.stores.iter().position(|store| store.name == name);
            ran.run.stores[store.unwrap_or_else(|| panic!("no {name}"))].peak.bytes
        };
        assert_eq!(peak("node[0].nvme"), 8 * saved);
        let drive = world.catalogue.ssds["samsung-pm9a3-u2-3840gb"].clone();
        let least = 8.0 * saved as f64 / (8e9 * drive.write_gb_per_s.unwrap());
        assert!(ran.seconds() > least, "{path}: {} s, of which {least} s of writing", ran.seconds());
    }
    world.catalogue.ssds.get_mut("samsung-pm9a3-u2-3840gb").unwrap().capacity_tb = Some(1e-4);
    let End::OutOfMemory(short) = world.run(&plan).run.end else { panic!("eight drives of 100 MB hold it") };
    assert_eq!(short.capacity, 800_000_000);
}

#[test]
fn folded_ranks_that_share_a_host_do_what_they_do_apart() {
    for gpus in [2, 8] {
        let technique = ActivationOffload { forwarding: true, store: Store::Produced, ..ALL };
        let folded = box_of_eight().completed(&offloading(Some(technique), gpus, 2));
        folded.does_what_it_does_apart();
    }
}

/// What each rank keeps, and the run, with links so many times as fast as they are.
fn kept_adaptively(factor: f64, plan: &TransformerPlan) -> (Vec<Kept>, Ran) {
    let built = box_with_links(factor).build(plan).unwrap_or_else(|error| panic!("{error}"));
    let ran = Ran::of(built.lowered);
    assert_eq!(ran.run.end, End::Completed);
    (built.decided.kept, ran)
}

fn adaptive() -> ActivationOffload {
    ActivationOffload { keep: Keep::Adaptive, store: Store::Produced, forwarding: true, ..ALL }
}

#[test]
fn all_leaves_where_links_are_fast_and_nothing_where_they_are_slow() {
    let plan = offloading(Some(adaptive()), 1, 1);
    let (kept, fast) = kept_adaptively(20.0, &plan);
    let nothing_kept = ActivationOffload { keep: Keep::Layers(Count::literal(0)), ..adaptive() };
    let all = box_with_links(20.0).completed(&offloading(Some(nothing_kept), 1, 1));
    assert_eq!((kept[0].from.as_deref(), kept[0].bytes[0]), (None, 0));
    assert!(kept[0].needed < kept[0].measured.unwrap());
    assert_eq!((fast.run.time, moved(&fast)), (all.run.time, moved(&all)));

    let (kept, slow) = kept_adaptively(1e-4, &plan);
    let stays = box_with_links(1e-4).completed(&offloading(None, 1, 1));
    assert_eq!(kept[0].bytes[0], kept[0].bytes[1]);
    assert_eq!((slow.run.time, moved(&slow)), (stays.run.time, (0, [0, 0])));
    assert_eq!(slow.activations(0), stays.activations(0));
}

/// Where the link is busy throughout, its rate is measured. What would not be away in time stays, all else leaves and comes back, and
/// the step is shorter than where all does: no longer than where all stays if loads follow each other from the beginning of the
/// backward pass on, as the rule has it.
#[test]
fn what_would_not_be_away_in_time_stays() {
    let factor = 1.4;
    let adaptive = ActivationOffload { forwarding: false, ..adaptive() };
    let (kept, ran) = kept_adaptively(factor, &offloading(Some(adaptive.clone()), 1, 1));
    let Kept { from: Some(from), bytes: [stays, all], needed, measured: Some(measured) } = &kept[0] else {
        panic!("{kept:?}")
    };
    assert!(from.contains("layer"), "{from}");
    assert!(0 < *stays && stays < all && needed > measured);
    assert!((measured / (13.78e9 * factor) - 1.0).abs() < 0.01, "{measured} B/s");
    assert_eq!(moved(&ran).1, [u128::from(all - stays); 2], "{stays} of {all} stay");
    let all_leaves = ActivationOffload { keep: Keep::Layers(Count::literal(0)), ..adaptive.clone() };
    let all_leaves = box_with_links(factor).completed(&offloading(Some(all_leaves), 1, 1));
    assert!(ran.run.time < all_leaves.run.time, "{:?} and {:?}", ran.run.time, all_leaves.run.time);
    let ahead = ActivationOffload { prefetch: Some(Count::literal(1_000)), ..adaptive };
    let (_, ahead) = kept_adaptively(factor, &offloading(Some(ahead), 1, 1));
    let stays = box_with_links(factor).completed(&offloading(None, 1, 1));
    assert!(ahead.seconds() < 1.002 * stays.seconds(), "{} and {}", ahead.seconds(), stays.seconds());
    assert!(ran.seconds() > 1.02 * stays.seconds(), "{} and {}", ran.seconds(), stays.seconds());
}

/// A host asks as it issues operators, ahead of the GPU: loads follow each other, and the step
/// takes as long as if all were asked for at once. It asks for two modules at a time, and waits for
/// what it needs before it goes on.
#[test]
fn hosts_ask_ahead_of_the_gpu() {
    let factor = 1.4;
    let step = |prefetch: Option<u64>, launch| {
        let technique = ActivationOffload { prefetch: prefetch.map(Count::literal), ..adaptive() };
        let mut plan = offloading(Some(technique), 1, 1);
        plan.deployment.launch = launch;
        box_with_links(factor).completed(&plan).seconds()
    };
    for launch in [Launch::Eager, Launch::Graph, Launch::Free] {
        let [host, at_once, near] = [None, Some(1_000), Some(2)].map(|prefetch| step(prefetch, launch));
        assert!((host / at_once - 1.0).abs() < 0.002, "{launch:?}: {host} and {at_once} s");
        assert!(near > 1.02 * host, "{launch:?}: {near} and {host} s");
    }
}

/// A profile takes as many steps as its micro-batch is in; on one stage each is like the other.
#[test]
fn the_third_micro_batch_is_measured_however_many_a_step_has() {
    let kept = |micro_batches| kept_adaptively(1.4, &offloading(Some(adaptive()), 1, micro_batches)).0;
    let three = kept(3);
    assert!(three[0].from.is_some());
    for micro_batches in [1, 2, 4] {
        assert_eq!(kept(micro_batches), three);
    }
}

#[test]
fn each_stage_keeps_by_its_own_profile() {
    let mut plan = offloading(Some(adaptive()), 1, 4);
    plan.model.layers = 6;
    plan.execution.split.stages = 2;
    for order in [PipelineSchedule::OneFOneB, PipelineSchedule::Gpipe] {
        schedule(&mut plan, order);
        let (kept, ran) = kept_adaptively(1.4, &plan);
        let [first, last] = &kept[..] else { panic!("{kept:?}") };
        assert!(first.measured.is_some() && last.measured.is_some());
        assert!(
            last.from
                .as_ref()
                .is_some_and(|from| ["layer 4", "layer 5", "layer 6"].iter().any(|l| from.ends_with(l))),
            "{last:?}"
        );
        ran.does_what_it_does_apart();
    }
    plan.execution.split.chunks = 3;
    schedule(&mut plan, interleaved(3));
    let refused = box_with_links(1.4).build(&plan).unwrap_err().to_string();
    assert!(refused.contains("one forward pass of a stage"), "{refused}");
}

/// Of two ranks of one stage the one with few drives keeps what the one with many has away.
#[test]
fn each_rank_keeps_by_its_own_profile() {
    let world = World::of_node("dgx-a100-80g").roomy();
    let mut plan = offloading(Some(adaptive()), 2, 1);
    plan.deployment.drives = Drives {
        arrays: vec![array("one", drives::drives(0, 1)), array("seven", drives::drives(1, 8))],
        activations: vec![0, 1],
        ..Drives::NONE
    };
    let built = world.build(&plan).unwrap();
    let [few, many] = &built.decided.kept[..] else { panic!("{:?}", built.decided.kept) };
    assert!(few.bytes[0] > many.bytes[0] && few.measured < many.measured, "{few:?} {many:?}");
    let ran = Ran::of(built.lowered);
    assert_eq!(ran.run.end, End::Completed);
    ran.does_what_it_does_apart();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// A step that fits without offloading fits with it. With less memory it ends, or says what it lacks: one that waits for
    /// ever waits for memory. More memory is never slower, nor worse but with forwarding: with more room tensors are asked for
    /// earlier, so that more of them stay than the rest leaves room for.
    #[test]
    fn more_memory_is_never_worse(
        smallest in prop_oneof![Just(0), Just(16 << 20), Just(64 << 20)],
        keep in prop_oneof![Just(Keep::Bytes(Bytes::new_bytes(0))), Just(Keep::Bytes(Bytes::new_bytes(300 << 20))), Just(Keep::Layers(Count::literal(2))), Just(Keep::LastLayer), Just(Keep::Adaptive)],
        prefetch in proptest::option::of(0_u64..12),
        store in prop_oneof![Just(Store::Produced), Just(Store::LastUse)],
        forwarding: bool,
        micro_batches in 1_u32..4,
        order in prop_oneof![Just(PipelineSchedule::OneFOneB), Just(PipelineSchedule::Gpipe)],
    ) {
        let world = box_of_eight();
        let mut plan = offloading(None, 1, micro_batches);
        schedule(&mut plan, order);
        let free = world.completed(&plan);
        let (all, saved) = (free.run.stores[free.lowered.stages[0].memory.index()].peak.bytes, free.activations(0));
        plan.deployment.pipelining.techniques.activation_offload = Some(ActivationOffload {
            smallest: Some(Bytes::new_bytes(smallest)),
            keep,
            prefetch: prefetch.map(Count::literal),
            store,
            forwarding,
            ..ALL
        });
        let mut before: Option<Time> = None;
        for tenths in 1..=12 {
            plan.deployment.limit = Some(all - saved + saved * tenths / 10);
            let time = match world.build(&plan) {
                Err(PlanError::DoesNotFit(shortfalls)) => {
                    prop_assert!(shortfalls.iter().all(|s| s.needed > s.capacity));
                    None
                }
                Err(other) => return Err(TestCaseError::fail(other.to_string())),
                Ok(built) => {
                    let ran = Ran::of(built.lowered);
                    match &ran.run.end {
                        End::Completed => Some(ran.run.time),
                        End::Deadlock(waiting) => {
                            let for_memory = waiting.iter().any(|waiting| waiting.for_what.contains("bytes of store"));
                            prop_assert!(for_memory, "{waiting:?}");
                            None
                        }
                        end => return Err(TestCaseError::fail(format!("{end:?}"))),
                    }
                }
            };
            prop_assert!(tenths < 10 || time.is_some(), "{tenths} tenths of what it saves are not enough");
            if let Some(before) = before.filter(|_| time.is_some() || !forwarding) {
                prop_assert!(time.is_some_and(|time| time <= before), "{tenths} tenths: {time:?} after {before:?}");
            }
            before = time.or(before);
        }
    }

    /// A plan that fits if tensors come back one by one as they are needed fits with any prefetch
    /// distance, and where hosts ask ahead: what comes early leaves room for the operators before
    /// it.
    #[test]
    fn asking_ahead_needs_no_more_memory(
        launch in prop_oneof![Just(Launch::Eager), Just(Launch::Graph), Just(Launch::Free)],
        store in prop_oneof![Just(Store::Produced), Just(Store::LastUse)],
        forwarding: bool,
        micro_batches in 1_u32..4,
        order in prop_oneof![Just(PipelineSchedule::OneFOneB), Just(PipelineSchedule::Gpipe)],
        tenths in 1_u64..9,
        factor in prop_oneof![Just(0.05), Just(1.0), Just(20.0)],
    ) {
        let world = box_with_links(factor);
        let mut plan = offloading(None, 1, micro_batches);
        plan.deployment.launch = launch;
        schedule(&mut plan, order);
        let free = world.completed(&plan);
        let (all, saved) = (free.run.stores[free.lowered.stages[0].memory.index()].peak.bytes, free.activations(0));
        plan.deployment.limit = Some(all - saved + saved * tenths / 10);
        let mut ends = |prefetch: Option<u64>| {
            let technique = ActivationOffload { store, forwarding, prefetch: prefetch.map(Count::literal), ..ALL };
            plan.deployment.pipelining.techniques.activation_offload = Some(technique);
            world.build(&plan).ok().map(|built| Ran::of(built.lowered).run.end)
        };
        if ends(Some(0)) == Some(End::Completed) {
            for prefetch in [None, Some(1), Some(16), Some(1_000)] {
                let end = ends(prefetch);
                prop_assert_eq!(&end, &Some(End::Completed), "{:?}", prefetch);
            }
        }
    }
}
