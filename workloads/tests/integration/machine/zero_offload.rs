//! States of the optimizer that are with the hosts of their GPUs.

use hw_models::settings::{Count, Rate};
use proptest::prelude::*;
use sim_core::fixed::Ratio;
use sim_core::platform::{Demand, Route};
use workloads::model::transformer::{AttentionKernel, Sharding, States, Step};
use workloads::names::{cause, kind};
use workloads::passes::zero_offload::ZeroOffload;
use workloads::plan::PlanError;
use workloads::schedule::LaneKind;

use super::exchanged::parameters;
use super::offload::{box_with_links, moved};
use super::{TransformerPlan, World, gpt, plan};

pub(super) const WHOLE: ZeroOffload = ZeroOffload {
    delayed_update: false,
    overlap: true,
    group: Count::literal(1_000_000_000_000),
    ratio: None,
    rate: None,
    pinned: true,
};

/// Half precision, gradients too; one stage.
pub(super) fn hosted(technique: Option<ZeroOffload>, data: u32, micro_batches: u32) -> TransformerPlan {
    let mut plan = plan(gpt(3), [1, 1, data], micro_batches);
    plan.execution.attention = AttentionKernel::Flash;
    plan.execution.states = States::HalfGradients;
    plan.sharding = if data > 1 { Sharding::Gradients } else { Sharding::None };
    plan.deployment.pipelining.techniques.zero_offload = technique;
    plan
}

/// A host whose processors get so many bytes of its memory in a second.
fn updating_at(mut plan: TransformerPlan, bytes_per_s: f64) -> TransformerPlan {
    let technique = plan.deployment.pipelining.techniques.zero_offload.as_mut().unwrap();
    technique.rate = Some(Rate::new_bytes_per_second(bytes_per_s as u64));
    plan
}

fn all(plan: &TransformerPlan) -> u64 {
    parameters(plan).0
}

/// Gradients cross the link once, parameters come back, the host holds 12 bytes of each and its
/// gradient, and the GPU 2 (Ren et al., section 4: 14 and 2).
#[test]
fn what_crosses_the_link_and_where_states_are() {
    let world = box_with_links(1.0);
    let types = [(States::HalfGradients, 2), (States::CopiedGradients, 2), (States::FullGradients, 4)];
    for (data, (states, gradient)) in [1, 2].into_iter().flat_map(|data| types.map(|of| (data, of))) {
        let mut plan = hosted(Some(WHOLE), data, 1);
        plan.execution.states = states;
        let ran = world.completed(&plan);
        let of_rank = all(&plan).div_ceil(u64::from(data));
        let close = |bytes: u128, expected: u64| {
            let off = bytes.abs_diff(expected.into());
            assert!(off <= 1_000, "{bytes} B instead of {expected}");
        };
        let (held, [out, back]) = moved(&ran);
        close(held.into(), (12 + gradient) * of_rank * u64::from(data));
        close(out, gradient * all(&plan));
        close(back, 2 * all(&plan));
        assert_eq!(ran.at_peak(0, &[kind::PARAMETERS]), 2 * all(&plan));
        assert_eq!(ran.at_peak(0, &[kind::OPTIMIZER, kind::GRADIENTS]), 0);
    }
}

/// Every micro-batch but the first adds to what the host has.
#[test]
fn sums_come_back_to_be_added_to() {
    let world = box_with_links(1.0);
    let plan = hosted(Some(WHOLE), 1, 3);
    let (_, [out, back]) = moved(&world.completed(&plan));
    assert_eq!((out, back), (3 * 2 * u128::from(all(&plan)), (2 + 1) * 2 * u128::from(all(&plan))));
}

/// Bytes of a parameter that pass the host: two of the gradient read and written as it is
/// unscaled, then twelve of states and two of the gradient read, twelve of states and two of the
/// parameter written.
const UPDATED: f64 = 32.0;

/// The host passes all of that once. A step takes that longer than one that computes gradients,
/// but for groups that go back beside the next.
#[test]
fn a_step_waits_for_the_host() {
    let world = box_with_links(1e3);
    let free = hosted(Some(WHOLE), 1, 1);
    let bytes = UPDATED * all(&free) as f64;
    let [fast, slow] = [4e9, 1e9].map(|rate| world.completed(&updating_at(free.clone(), rate)).seconds());
    let longer = bytes / 1e9 - bytes / 4e9;
    assert!((slow - fast - longer).abs() < 1e-6 * longer, "{} s longer instead of {longer}", slow - fast);
    // Copies share the memory of a host: two do half each, in the same time.
    let both = hosted(Some(WHOLE), 2, 1);
    let mut world = box_with_links(1e3);
    world.catalogue.nodes.values_mut().for_each(|node| node.host_memory.gb_per_s = 10.0);
    let spent = |plan: &TransformerPlan| {
        world.completed(plan).spent_by(0, 0, LaneKind::HostUpdate, cause::TRANSFER).as_secs()
    };
    let [one, two] = [spent(&free), spent(&both)];
    assert!((one / two - 1.0).abs() < 1e-3 && (one / (bytes / 8e9) - 1.0).abs() < 1e-3, "{one} and {two} s");
}

/// Ranks beside one memory have equal parts of the processors there, which together are as strong
/// beside copies as those of one.
#[test]
fn ranks_beside_a_memory_divide_its_processors() {
    let world = box_with_links(1.0);
    let weights = |data: u32| {
        let mut plan = hosted(Some(WHOLE), data, 1);
        plan.execution.split.tensor = 1;
        let built = world.build(&plan).unwrap();
        let platform = &built.lowered.platform;
        let memory = platform.fluids.iter().position(|fluid| fluid.name.contains("memory[0]"));
        let on_memory = |demand: &Demand| Some(demand.fluid.index()) == memory;
        let of_route = |route: &Route| match route.demands[..] {
            [demand] if on_memory(&demand) => Some(f64::from(demand.weight.0) / f64::from(Ratio::ONE.0)),
            _ => None,
        };
        platform.routes.iter().filter_map(of_route).collect::<Vec<f64>>()
    };
    for ranks in [1, 2, 4] {
        let found = weights(ranks);
        assert_eq!(found.len(), ranks as usize);
        let expected = 77.0 / 42.0 / f64::from(ranks);
        assert!(found.iter().all(|weight| (weight / expected - 1.0).abs() < 1e-4), "{found:?}");
    }
}

/// Gradients that leave in the stream that computes take their time there: the step is longer by
/// all copies that were hidden.
#[test]
fn gradients_that_do_not_overlap_are_waited_for() {
    let world = box_with_links(1.0);
    let step = |overlap| {
        let plan = hosted(Some(ZeroOffload { overlap, ..WHOLE }), 1, 1);
        world.completed(&updating_at(plan, 20e9)).seconds()
    };
    let copies = 2.0 * all(&hosted(None, 1, 1)) as f64 / 13.78e9;
    let [beside, waits] = [true, false].map(step);
    assert!(beside < waits && waits - beside < copies, "{beside} and {waits} s, {copies} s of copies");
    // Those of the first blocks, which are the last to leave, are waited for anyhow.
    assert!(waits - beside > 0.3 * copies, "{beside} and {waits} s, {copies} s of copies");
}

/// Groups go back while others are updated: the last one alone is waited for.
#[test]
fn groups_go_back_while_others_are_updated() {
    let world = box_with_links(1.0);
    let step = |groups: u64| {
        let plan = hosted(None, 1, 1);
        let group = all(&plan).div_ceil(groups);
        let technique = ZeroOffload { group: Count::literal(group), ..WHOLE };
        let plan = updating_at(hosted(Some(technique), 1, 1), 20e9);
        world.completed(&plan).seconds()
    };
    let copy = 2.0 * all(&hosted(None, 1, 1)) as f64 / 12.1e9;
    let [one, ten] = [1, 10].map(step);
    assert!((one - ten - 0.9 * copy).abs() < 0.02 * copy, "{} s less of {copy} s", one - ten);
}

/// An update beside the next step costs nothing that takes less than its passes, and sets the pace
/// where it takes longer.
#[test]
fn a_delayed_update_hides_behind_the_next_step() {
    let world = box_with_links(1.0);
    let apart = |delayed: bool, rate: f64| {
        let technique = ZeroOffload { delayed_update: delayed, ..WHOLE };
        let mut plan = updating_at(hosted(Some(technique), 1, 1), rate);
        let mut until = |steps| {
            plan.deployment.pipelining.steps = steps;
            let ran = world.completed(&plan);
            ran.run.streams[ran.lane(0, 0, LaneKind::Compute).index()].finished.unwrap().as_secs()
        };
        until(5) - until(4)
    };
    let bytes = UPDATED * all(&hosted(None, 1, 1)) as f64;
    let passes = apart(true, 1e15);
    let hidden = bytes / (0.9 * passes);
    assert!((apart(true, hidden) / passes - 1.0).abs() < 0.02);
    assert!(apart(false, hidden) > 1.8 * passes);
    let slow = bytes / (3.0 * passes);
    assert!((apart(true, slow) / (3.0 * passes) - 1.0).abs() < 0.02);
}

#[test]
fn a_full_host_is_told_before_anything_runs() {
    let mut world = box_with_links(1.0);
    world.catalogue.nodes.values_mut().for_each(|node| node.host_memory.gib = 16.0);
    let plan = hosted(Some(WHOLE), 2, 1);
    let Err(PlanError::HostDoesNotFit(full)) = world.build(&plan) else { panic!("it does not fit") };
    let each = all(&plan).div_ceil(2);
    assert_eq!((full.len(), full[0].ranks, full[0].needed), (1, 2, 2 * 14 * each));
    assert_eq!((&*full[0].memory, full[0].capacity), ("node[0].memory[0]", 8 << 30));
}

/// Stages of a pipeline keep sums of gradients on the GPU, which leave once a step.
#[test]
fn stages_hand_over_once_a_step() {
    let world = box_with_links(1.0);
    let mut plan = hosted(Some(WHOLE), 1, 4);
    plan.execution.split.stages = 2;
    plan.model.layers = 4;
    let ran = world.completed(&plan);
    let (_, [out, back]) = moved(&ran);
    assert_eq!(out, back);
    assert_eq!(ran.at_peak(0, &[kind::OPTIMIZER]), 0);
    assert_eq!(ran.at_peak(0, &[kind::GRADIENTS]), ran.at_peak(0, &[kind::PARAMETERS]));
}

#[test]
fn folded_ranks_that_share_a_host_do_what_they_do_apart() {
    let folded = box_with_links(1.0).completed(&hosted(
        Some(ZeroOffload { group: Count::literal(1 << 26), ..WHOLE }),
        8,
        2,
    ));
    folded.does_what_it_does_apart();
}

#[test]
fn what_hosts_cannot_update_is_refused() {
    let refused = |change: fn(&mut TransformerPlan), word: &str| {
        let mut plan = hosted(Some(WHOLE), 2, 1);
        plan.model.layers = 4;
        change(&mut plan);
        let error = World::dgx_a100(1).build(&plan).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    };
    refused(|plan| plan.sharding = Sharding::None, "ZeRO-2");
    refused(|plan| plan.execution.split.stages = 2, "ZeRO-1");
    refused(|plan| plan.sharding = Sharding::Parameters, "whole on every GPU");
    refused(|plan| plan.execution.step = Step::Gradients, "without an update");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever goes on beside: a step reaches its end, and as many bytes come back as left, but
    /// for sums.
    #[test]
    fn what_leaves_comes_back(
        data in prop_oneof![Just(1_u32), Just(2), Just(4)],
        (tensor, stages) in prop_oneof![Just((1_u32, 1_u32)), Just((2, 1)), Just((1, 2))],
        micro_batches in 1_u32..4,
        delayed: bool,
        group in prop_oneof![Just(1_u64 << 24), Just(1_000_000_000_000)],
        bucket in prop_oneof![Just(None), Just(Some(100_u64 << 20))],
    ) {
        let mut plan = hosted(Some(ZeroOffload { group: Count::literal(group), delayed_update: delayed, ..WHOLE }), data, micro_batches);
        plan.execution.split.tensor = tensor;
        plan.execution.split.stages = stages;
        plan.model.layers = 4;
        plan.overlap.bucket = bucket;
        if stages > 1 {
            plan.sharding = if data > 1 { Sharding::Optimizer } else { Sharding::None };
        }
        let (_, [out, back]) = moved(&box_with_links(1.0).completed(&plan));
        let more = if stages == 1 { u128::from(micro_batches) } else { 1 };
        let of_one = out / more;
        prop_assert!(out.abs_diff(back) <= 4096 && of_one > 0, "{out} B leave, {back} come back");
    }
}
