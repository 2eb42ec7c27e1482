//! Tensors that leave for memory that the step fits in.

use hw_models::settings::Count;
use proptest::prelude::*;
use sim_core::outcome::End;
use workloads::model::transformer::{AttentionKernel, GatherLimit, GatherUnit, Sharding, States};
use workloads::passes::offload::Store;
use workloads::passes::swap::{Coordination, Engine, Swap, Swapped};
use workloads::plan::{Launch, PlanError};

use super::exchanged::overlaps;
use super::offload::{box_with_links, moved, offloading};
use super::{Ran, TransformerPlan};

const ENGINES: [Engine; 3] = [Engine::Online, Engine::Greedy, Engine::MixedInteger];

fn swapping(swap: Option<Swap>, ratio: f64, data: u32, micro_batches: u32) -> TransformerPlan {
    let mut plan = offloading(None, data, micro_batches);
    plan.execution.micro_batch = 16;
    plan.deployment.pipelining.techniques.swap = swap;
    limit(&mut plan, ratio);
    plan
}

/// Lets the GPUs of a plan have a part of what its storages take at their peak when nothing is away.
pub(super) fn limit(plan: &mut TransformerPlan, ratio: f64) {
    let mut whole = plan.clone();
    whole.deployment.pipelining.techniques.swap = by(Engine::Online, Coordination::Oblivious);
    let built = box_with_links(1.0).build(&whole).unwrap_or_else(|error| panic!("{error}"));
    let needed = |swapped: &Swapped| built.memory[swapped.stage as usize].held() + swapped.peak;
    let most = built.decided.swapped.iter().map(needed).max().expect("a stage");
    plan.deployment.limit = Some((most as f64 / ratio) as u64);
}

fn by(engine: Engine, coordination: Coordination) -> Option<Swap> {
    Some(Swap { engine, coordination, prefetch: Count::literal(4), ..Swap::default() })
}

fn completed(plan: &TransformerPlan, links: f64) -> (Ran, Vec<Swapped>) {
    let built = box_with_links(links).build(plan).unwrap_or_else(|error| panic!("{error}"));
    let ran = Ran::of(built.lowered);
    assert_eq!(ran.run.end, End::Completed, "{plan:?}");
    (ran, built.decided.swapped)
}

/// Of a GPU that has half of what the step needs at its peak, half leaves, out and back once each in every micro-batch; whoever
/// decides, what was expected of a GPU alone on its links comes out, and is no less than what any plan takes.
#[test]
fn what_must_leave_does_and_little_more() {
    for (engine, links) in ENGINES.into_iter().flat_map(|engine| [(engine, 0.05), (engine, 1.0)]) {
        let plan = swapping(by(engine, Coordination::Oblivious), 1.5, 1, 2);
        let (ran, swapped) = completed(&plan, links);
        let Swapped { bytes, peak, room, expected, bound, seconds, .. } = swapped[0];
        if links == 1.0 {
            let (_, ways) = moved(&ran);
            assert_eq!(ways, [2 * u128::from(bytes); 2], "{engine:?}");
        }
        assert!(peak - room <= bytes && bytes < peak - room + peak / 8, "{engine:?}: {swapped:?}");
        let step = ran.seconds() / 2.0;
        assert!(
            (step / expected - 1.0).abs() < 0.05,
            "{engine:?}, links {links}: {step} s, not {expected} s"
        );
        assert!(seconds <= bound && bound <= expected, "{engine:?}: {swapped:?}");
    }
}

/// Nothing else needs memory at the same time as what makes the peak.
#[test]
fn as_much_memory_as_the_peak_is_enough_and_nothing_leaves() {
    let mut plan = offloading(None, 1, 2);
    plan.execution.micro_batch = 16;
    // The largest tensors that come and go are scores, which no longer have all activations beside them.
    plan.execution.attention = AttentionKernel::Materialised;
    plan.model.vocabulary = 1000;
    plan.deployment.pipelining.techniques.swap = by(Engine::Online, Coordination::Oblivious);
    limit(&mut plan, 1.0);
    let (_, swapped) = completed(&plan, 1.0);
    assert!(swapped.iter().all(|swapped| swapped.bytes == 0), "{swapped:?}");
}

/// What a plan made offline takes is no more than what an online one does.
#[test]
fn who_knows_the_step_beforehand_is_not_slower() {
    for links in [0.05, 0.2, 1.0] {
        let step =
            |engine| completed(&swapping(by(engine, Coordination::Oblivious), 1.33, 1, 2), links).0.seconds();
        let [online, greedy, solved] = ENGINES.map(step);
        assert!(solved <= 1.001 * online && solved <= 1.001 * greedy, "{links}: {online} {greedy} {solved}");
    }
}

/// What a kernel of a few microseconds fills is produced again where its bytes would take longer on the link, and nothing where copies
/// cost no time. The step is as long as was expected, and shorter the slower the link.
#[test]
fn what_is_cheap_to_compute_and_dear_to_copy_is_produced_again() {
    let mut gains = Vec::new();
    for links in [0.02, 0.2, 50.0] {
        let run = |recompute| {
            let swap = Swap { recompute, ..by(Engine::Online, Coordination::Oblivious).unwrap() };
            completed(&swapping(Some(swap), 1.5, 1, 2), links)
        };
        let ((ran, swapped), (chosen, decided)) = (run(false), run(true));
        let with = &decided[0];
        let &Swapped { again, bytes, expected, .. } = with;
        assert_eq!(swapped[0].again, (0, 0));
        assert_eq!(again.0 > 0, links < 1.0, "{links}: {with:?}");
        // What is produced again need not leave.
        assert!(bytes + again.1 >= with.peak - with.room, "{with:?}");
        let step = chosen.seconds() / 2.0;
        assert!((step / expected - 1.0).abs() < 0.05, "links {links}: {step} s, not {expected} s");
        gains.push(ran.seconds() / chosen.seconds());
    }
    assert!(gains.is_sorted_by(|slow, fast| slow >= fast) && gains[1] > 1.05, "{gains:?}");
    assert!((gains[2] - 1.0).abs() < 1e-9, "{gains:?}");
}

/// Copies that begin when a tensor is filled have more time until its room is needed, as what saves it uses it a little longer.
#[test]
fn what_is_copied_when_it_is_filled_has_left_earlier() {
    for engine in ENGINES {
        let gain = |links| {
            let run = |store| {
                let swap = Swap { store, ..by(engine, Coordination::Oblivious).unwrap() };
                completed(&swapping(Some(swap), 1.5, 1, 2), links)
            };
            let ((last_use, _), (produced, decided)) = (run(Store::LastUse), run(Store::Produced));
            let (step, expected) = (produced.seconds() / 2.0, decided[0].expected);
            assert!((step / expected - 1.0).abs() < 0.05, "{engine:?}: {step} s, not {expected} s");
            last_use.seconds() / produced.seconds()
        };
        // Where copies take less time than kernels there is nothing to gain, nor where kernels hardly count.
        assert!(gain(0.3) > 1.0005 && (gain(2.0) - 1.0).abs() < 1e-9, "{engine:?}: {}", gain(0.3));
    }
}

/// Where links are slow a step is its copies: those of all GPUs out, then all back, in each of k micro-batches. With half of the
/// GPUs a pass behind the others, which takes one pass more, both ways are busy: 4 k / (2 k + 1) times as fast.
#[test]
fn two_directions_are_used_at_once_the_longer_the_more_micro_batches_there_are() {
    for (micro_batches, coordination) in
        [1, 4].into_iter().flat_map(|k| [(k, Coordination::Synchronised), (k, Coordination::Shifted)])
    {
        let step = |coordination| {
            completed(&swapping(by(Engine::Online, coordination), 1.33, 2, micro_batches), 0.02).0.seconds()
        };
        let gain = step(Coordination::Oblivious) / step(coordination);
        let k = f64::from(micro_batches);
        let expected = 4.0 * k / (2.0 * k + 1.0);
        assert!(
            (gain / expected - 1.0).abs() < 0.06,
            "{micro_batches}, {coordination:?}: {gain}, not {expected}"
        );
    }
}

/// Where links hold nothing up, who begins later ends later: by a forward pass in a step, where
/// copies do not meet again.
#[test]
fn beginning_later_costs_a_forward_pass_a_step() {
    let step =
        |coordination, k| completed(&swapping(by(Engine::Online, coordination), 1.1, 2, k), 50.0).0.seconds();
    let lost = |k| step(Coordination::Shifted, k) - step(Coordination::Oblivious, k);
    let one = step(Coordination::Oblivious, 1);
    // A step is a forward and a backward pass of twice its time, and what ends it; all is done in
    // two steps.
    assert!((0.25..0.36).contains(&(lost(1) / one)), "{} of {one} s", lost(1));
    assert!((lost(4) / lost(1) - 1.0).abs() < 0.02, "{} s, {} s", lost(4), lost(1));
}

/// A step that the link does not hold up loses a pass by waiting for others to be ahead.
#[test]
fn being_a_pass_behind_costs_a_pass() {
    let step =
        |coordination| completed(&swapping(by(Engine::Online, coordination), 1.1, 2, 4), 50.0).0.seconds();
    let [alike, shifted] = [Coordination::Oblivious, Coordination::Synchronised].map(step);
    // All passes are as long as the backward pass, which others run meanwhile.
    assert!(1.3 * alike < shifted && shifted < 1.7 * alike, "{alike} s, {shifted} s");
}

#[test]
fn cohorts_that_do_different_things_fold_into_what_they_do_apart() {
    for coordination in [Coordination::Disjoint, Coordination::Synchronised, Coordination::Shifted] {
        let (folded, _) = completed(&swapping(by(Engine::Online, coordination), 1.33, 4, 2), 0.5);
        folded.does_what_it_does_apart();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever memory there is, whoever decides: a step ends, or it is told before what is short. Nobody waits for ever.
    #[test]
    fn a_plan_that_fits_ends(
        ratio in 1.0_f64..4.0,
        engine in prop_oneof![Just(Engine::Online), Just(Engine::Greedy), Just(Engine::MixedInteger)],
        coordination in prop_oneof![
            Just(Coordination::Oblivious), Just(Coordination::Disjoint),
            Just(Coordination::Synchronised), Just(Coordination::Shifted)
        ],
        (prefetch, recompute) in (0_u64..40, any::<bool>()),
        store in prop_oneof![Just(Store::Produced), Just(Store::LastUse)],
        (gpus, micro_batches) in (1_u32..5, 1_u32..4),
        links in prop_oneof![Just(0.02), Just(0.3), Just(5.0)],
    ) {
        let plan = swapping(Some(Swap { engine, coordination, prefetch: Count::literal(prefetch), recompute, store, pinned: true }), ratio, gpus, micro_batches);
        match box_with_links(links).build(&plan) {
            Err(PlanError::DoesNotFit(shortfalls)) => prop_assert!(shortfalls.iter().all(|s| s.needed > s.capacity)),
            Err(other) => prop_assert!(false, "{other}"),
            Ok(built) => {
                let limit = built.lowered.platform.stores[built.lowered.stages[0].memory.index()].capacity;
                let ran = Ran::of(built.lowered);
                prop_assert_eq!(&ran.run.end, &End::Completed);
                prop_assert!(ran.run.stores[ran.lowered.stages[0].memory.index()].peak.bytes <= limit);
            }
        }
    }

    /// Copies may gather parameters and sum gradients beside their passes: planners see what these take.
    #[test]
    fn a_plan_that_fits_ends_beside_exchanges(
        ratio in 1.0_f64..3.0,
        engine in prop_oneof![Just(Engine::Online), Just(Engine::Greedy)],
        coordination in prop_oneof![
            Just(Coordination::Oblivious), Just(Coordination::Disjoint),
            Just(Coordination::Synchronised), Just(Coordination::Shifted)
        ],
        exchanged in 0..overlaps().len(),
        by_host: bool,
        (prefetch, recompute) in (0_u64..40, any::<bool>()),
        launch in prop_oneof![Just(Launch::Eager), Just(Launch::Free)],
        (gpus, micro_batches) in (2_u32..5, 1_u32..4),
    ) {
        let (sharding, mut overlap) = overlaps().swap_remove(exchanged);
        if let Some(gather) = &mut overlap.gather
            && by_host && sharding == Sharding::Parameters && launch == Launch::Eager
            && gather.unit == GatherUnit::Block
        {
            gather.limit = GatherLimit::Host;
        }
        let together = sharding >= Sharding::Gradients || overlap.gather.is_some();
        let coordination = match coordination {
            Coordination::Synchronised | Coordination::Shifted if together => Coordination::Disjoint,
            other => other,
        };
        let mut plan = offloading(None, gpus, micro_batches);
        plan.execution.micro_batch = 16;
        plan.execution.states = States::HalfGradients;
        (plan.sharding, plan.overlap) = (sharding, overlap);
        plan.deployment.launch = launch;
        let swap = Swap { engine, coordination, prefetch: Count::literal(prefetch), recompute, ..Swap::default() };
        plan.deployment.pipelining.techniques.swap = Some(swap);
        limit(&mut plan, ratio);
        match box_with_links(1.0).build(&plan) {
            Err(PlanError::DoesNotFit(shortfalls)) => prop_assert!(shortfalls.iter().all(|s| s.needed > s.capacity)),
            Err(other) => prop_assert!(false, "{other}"),
            Ok(built) => prop_assert_eq!(&Ran::of(built.lowered).run.end, &End::Completed),
        }
    }
}
