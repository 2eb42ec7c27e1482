//! States of the optimizer that come to the GPU for their update.

use hw_models::settings::{Count, Share};
use workloads::model::transformer::{AttentionKernel, Gather, Sharding, States};
use workloads::names::kind;
use workloads::passes::paged_states::PagedStates;

use super::exchanged::parameters;
use super::offload::{box_with_links, moved};
use super::{Ran, TransformerPlan, gpt, plan};

fn paged(technique: Option<PagedStates>, [stages, data]: [u32; 2], states: States) -> TransformerPlan {
    let mut plan = plan(gpt(4), [1, stages, data], 2);
    plan.execution.attention = AttentionKernel::Flash;
    plan.execution.states = states;
    plan.deployment.pipelining.techniques.paged_states = technique;
    plan
}

fn groups(of: u64, buffers: u64) -> Option<PagedStates> {
    let (group, buffers) = (Count::new(of).unwrap(), Count::new(buffers).unwrap());
    Some(PagedStates { group, buffers, ..PagedStates::default() })
}

fn all() -> u64 {
    parameters(&paged(None, [1, 1], States::HalfGradients)).0
}

/// The fp32 parameter and two moments wait with the host, and cross the link once in each
/// direction; what of them the GPU holds is in buffers.
#[test]
fn states_come_and_leave_once_a_step() {
    let world = box_with_links(1.0);
    let group = all().div_ceil(8);
    for (states, each) in
        [(States::HalfGradients, 12), (States::FullGradients, 12), (States::CopiedGradients, 16)]
    {
        let plain = world.completed(&paged(None, [1, 1], states));
        let ran = world.completed(&paged(groups(group, 2), [1, 1], states));
        let (held, ways) = moved(&ran);
        assert_eq!(held, 12 * all(), "{states:?}");
        for way in ways {
            // Each copy is whole picoseconds of its rate.
            assert!(way.abs_diff(u128::from(12 * all())) < 1_000, "{way} B of {states:?}");
        }
        let optimizer = |ran: &Ran| ran.at_peak(0, &[kind::OPTIMIZER]);
        assert_eq!(optimizer(&plain), each * all(), "{states:?}");
        assert_eq!(optimizer(&ran), 2 * group * each, "{states:?}");
        let kept = |ran: &Ran| ran.at_peak(0, &[kind::PARAMETERS, kind::GRADIENTS]);
        assert_eq!(kept(&ran), kept(&plain), "{states:?}");
    }
}

/// With one buffer groups come, are updated and leave by turns; with two those that leave and those
/// that come pass each other, and all but one of them in one direction are hidden.
#[test]
fn copies_of_one_buffer_take_turns_and_of_two_pass_each_other() {
    let (world, count) = (box_with_links(0.1), 8);
    let group = all().div_ceil(count);
    let seconds = |technique| world.completed(&paged(technique, [1, 1], States::HalfGradients)).seconds();
    let plain = seconds(None);
    let way = |rate: f64| 12.0 * all() as f64 / (0.1 * rate * 1e9);
    let [out, back] = [13.78, 12.1].map(way);
    let one = seconds(groups(group, 1)) - plain;
    assert!((one / (out + back) - 1.0).abs() < 0.01, "{one} s instead of {out} and {back}");
    let two = seconds(groups(group, 2)) - plain;
    let expected = out.max(back) + out.min(back) / count as f64;
    assert!((two / expected - 1.0).abs() < 0.02, "{two} s instead of {expected}");
}

#[test]
fn states_that_all_stay_change_nothing() {
    let world = box_with_links(1.0);
    let none = PagedStates { ratio: Some(Share::parse("0 %").unwrap()), ..PagedStates::default() };
    let seconds = |technique| world.completed(&paged(technique, [1, 1], States::HalfGradients)).seconds();
    assert_eq!(seconds(Some(none)), seconds(None));
}

/// Copies that share states each page their own; others page all.
#[test]
fn every_rank_pages_what_it_updates() {
    let world = box_with_links(1.0);
    for (shape, sharding) in [
        ([1, 2], Sharding::None),
        ([1, 2], Sharding::Optimizer),
        ([1, 2], Sharding::Gradients),
        ([1, 2], Sharding::Parameters),
    ] {
        let mut plan = paged(groups(1_000_000, 2), shape, States::HalfGradients);
        plan.sharding = sharding;
        plan.overlap.gather = (sharding == Sharding::Parameters).then(Gather::default);
        let ran = world.completed(&plan);
        let (_, [out, back]) = moved(&ran);
        let copies = if sharding == Sharding::None { shape[1] } else { 1 };
        let expected = u128::from(12 * all() * u64::from(copies));
        let shared = expected / 200;
        assert!(
            out.abs_diff(expected) < shared && back.abs_diff(expected) < shared,
            "{shape:?} {sharding:?}"
        );
    }
}
