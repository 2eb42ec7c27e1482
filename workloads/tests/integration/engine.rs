//! The engine executes orders exactly as the slow replay does.

use proptest::prelude::*;
use sim_core::time::Time;
use workloads::names::{cause, kind};
use workloads::order::PipelineSchedule;
use workloads::passes::realise::messages::SendMode;
use workloads::plan::{PlanError, build};

use crate::plans::{ROWS, bubble, order, schedules, stage, timing, uniform};
use crate::replay::replay;
use crate::simulated::completed;

#[test]
fn the_profiled_rows_to_every_digit() {
    for row in &ROWS {
        let plan = row.plan(PipelineSchedule::OneFOneB);
        let cost = completed(&plan).cost();
        let digits = |x: f64, per_unit: f64| (x * per_unit).round() as i64;
        assert_eq!(digits(bubble(&plan, cost), 1e4), digits(row.one_f_one_b, 1e4));
        assert_eq!(digits(cost.as_secs(), 1e4), digits(row.one_f_one_b_ms, 1e1));
    }
}

#[test]
fn every_schedule_runs_as_the_replay_says() {
    for (p, m) in [(1, 1), (1, 6), (2, 2), (3, 6), (4, 4), (4, 12), (5, 10), (8, 24)] {
        for schedule in schedules(p) {
            let plan = uniform(stage(12, 10, 7, 1), p, m, schedule);
            let (ours, oracle) = (completed(&plan), replay(&order(&plan), &timing(&plan)));
            for s in 0..p as usize {
                let what = format!("{schedule:?}, p {p}, m {m}, stage {s}");
                assert_eq!(ours.marks(s), [(oracle.starts[s], oracle.ends[s])], "{what}");
                assert_eq!(ours.peaks()[s], oracle.peaks[s], "{what}");
            }
            ours.assert_memory_is_returned(&plan);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn uneven_stages_run_as_the_replay_says(
        stages in 1..7_u32,
        groups in 1..4_u32,
        extra in 0..6_u32,
        times in prop::collection::vec((0..30_u64, 0..30_u64, 0..30_u64, 0..9_u64), 7),
        sizes in prop::collection::vec((0..1_000_u64, 0..=100_u64), 7),
        which in 0..9_usize,
    ) {
        let schedule = schedules(stages)[which];
        let interleaved = matches!(schedule, PipelineSchedule::Interleaved(_));
        let micro_batches = groups * stages + if interleaved { 0 } else { extra };
        let mut plan = uniform(stage(1, 1, 1, 1), stages, micro_batches, schedule);
        for ((profile, &(f, b, w, c)), &(size, kept)) in
            plan.model.stages.iter_mut().zip(&times).zip(&sizes)
        {
            *profile = stage(f, b, w, c);
            // Heuristic orders stand in for sizes that are not given; the oracle here does not.
            profile.activation = 12 * size + 12;
            profile.activation_kept_for_weight = Some(profile.activation * kept / 100);
        }
        let (ours, oracle) = (completed(&plan), replay(&order(&plan), &timing(&plan)));
        for s in 0..stages as usize {
            prop_assert_eq!(ours.marks(s), vec![(oracle.starts[s], oracle.ends[s])]);
        }
        prop_assert_eq!(ours.peaks(), oracle.peaks);
        ours.assert_memory_is_returned(&plan);
    }
}

#[test]
fn steps_repeat_with_a_flush() {
    for schedule in schedules(4) {
        let mut plan = uniform(stage(12, 10, 7, 1), 4, 12, schedule);
        plan.pipelining.steps = 3;
        let ours = completed(&plan);
        for s in 0..4 {
            let marks = ours.marks(s);
            assert_eq!(marks.len(), 3);
            for pair in marks.windows(2) {
                assert!(
                    pair[1].0 >= pair[0].1,
                    "{schedule:?}: a step begins after its stage has ended the last"
                );
            }
            // From the second on steps are alike.
            assert_eq!(marks[2].1 - marks[1].1, marks[1].1 - marks[0].1, "{schedule:?}");
        }
    }
}

#[test]
fn time_adds_up_by_cause() {
    let plan = uniform(stage(12, 10, 7, 1), 4, 8, PipelineSchedule::OneFOneB);
    let ours = completed(&plan);
    for s in 0..4 {
        assert_eq!(ours.spent(s, cause::COMPUTE), Time::from_us(8 * 29));
        let waited = ours.spent(s, cause::BUBBLE) + ours.spent(s, cause::COMMUNICATION);
        assert_eq!(ours.spent(s, cause::COMPUTE) + waited, ours.marks(s)[0].1);
    }
    // The last stage waits for three forwards and the messages between them, and in 1F1B for nothing after that but
    // round trips.
    assert!(ours.spent(3, cause::COMMUNICATION) > Time::ZERO);
    assert!(ours.spent(3, cause::BUBBLE) >= Time::from_us(3 * 12));
}

#[test]
fn split_gradients_hold_what_the_weight_gradient_needs() {
    let plan = uniform(stage(10, 10, 10, 0), 4, 16, PipelineSchedule::ZbH1);
    let ours = completed(&plan);
    // Stage 3 has one micro-batch in flight and puts three weight gradients off.
    assert_eq!(ours.at_peak(3, kind::FOR_WEIGHT_GRADIENTS), 4 * 32_000);
    assert_eq!(ours.at_peak(3, kind::ACTIVATIONS), 2_000);
}

#[test]
fn eager_messages_queue_on_their_link() {
    // Messages take ten times as long as what makes them.
    let mut plan = uniform(stage(1, 1, 0, 10), 2, 8, PipelineSchedule::Gpipe);
    // Eight forwards, a message, the last forward and eight backwards, a message, the last backward.
    assert_eq!(completed(&plan).run.time, Time::from_us(8 + 10 + 1 + 8 + 10 + 1));
    plan.pipelining.send = SendMode::Eager;
    // A forward, eight messages one after the other, a forward and a backward, eight messages, a backward.
    assert_eq!(completed(&plan).run.time, Time::from_us(1 + 80 + 1 + 1 + 80 + 1));
    // Links that are never busy when a message comes change nothing.
    let mut plan = uniform(stage(12, 10, 7, 1), 4, 8, PipelineSchedule::OneFOneB);
    let free = completed(&plan);
    plan.pipelining.send = SendMode::Eager;
    let idle = completed(&plan);
    assert_eq!(free.run.time, idle.run.time);
    for s in 0..4 {
        assert_eq!(free.spent(s, cause::COMMUNICATION), idle.spent(s, cause::COMMUNICATION));
    }
}

#[test]
fn a_blocking_send_holds_the_sender() {
    let mut plan = uniform(stage(1, 1, 0, 10), 2, 8, PipelineSchedule::Gpipe);
    plan.pipelining.send = SendMode::Blocking;
    let ours = completed(&plan);
    // Eight forwards, each with its message, the last forward, eight backwards with theirs, the last backward. The second
    // stage waits for eight messages that come and eight that go.
    assert_eq!(ours.run.time, Time::from_us(8 * 11 + 1 + 8 * 11 + 1));
    assert_eq!(ours.spent(1, cause::COMMUNICATION), Time::from_us(2 * 8 * 10));
}

#[test]
fn a_rendezvous_holds_both_sides() {
    let mut plan = uniform(stage(12, 10, 7, 2), 2, 1, PipelineSchedule::OneFOneB);
    plan.pipelining.send = SendMode::Rendezvous;
    let ours = completed(&plan);
    // Forward 12, message 2, forward 12, backward 17, message 2, backward 17.
    assert_eq!(ours.run.time, Time::from_us(12 + 2 + 12 + 17 + 2 + 17));
    assert_eq!(ours.spent(1, cause::COMMUNICATION), Time::from_us(4));
    for (p, m) in [(2, 4), (4, 4), (4, 12), (8, 24)] {
        let mut plan = uniform(stage(12, 10, 7, 1), p, m, PipelineSchedule::OneFOneB);
        let free = completed(&plan).cost();
        plan.pipelining.send = SendMode::Rendezvous;
        assert!(completed(&plan).cost() >= free, "p {p}, m {m}");
    }
}

/// With sends that hold nobody, or the sender, every schedule ends. Those of a rendezvous meet where stages come to the two ends
/// of a message in turn; elsewhere some would wait for ever, which is refused.
#[test]
fn every_schedule_ends_or_is_refused() {
    for mode in [SendMode::Eager, SendMode::Blocking, SendMode::Rendezvous] {
        for schedule in schedules(4) {
            let mut plan = uniform(stage(12, 10, 7, 1), 4, 12, schedule);
            plan.pipelining.send = mode;
            let name = schedule.name();
            if mode == SendMode::Rendezvous && !["gpipe", "1f1b", "zb-h1"].contains(&name) {
                let Err(PlanError::Invalid(found)) = build(&plan) else { panic!("{name} would deadlock") };
                assert_eq!(found.iter().map(|invalid| invalid.path).collect::<Vec<_>>(), ["send"]);
            } else {
                completed(&plan).assert_memory_is_returned(&plan);
            }
        }
    }
}

/// With any number of stages and micro-batches: the check of the schedule would find a deadlock.
#[test]
fn a_rendezvous_in_turn_never_deadlocks() {
    for schedule in [PipelineSchedule::Gpipe, PipelineSchedule::OneFOneB, PipelineSchedule::ZbH1] {
        for (stages, micro_batches) in (1..=9).flat_map(|stages| (1..=20).map(move |many| (stages, many))) {
            let mut plan = uniform(stage(12, 10, 7, 1), stages, micro_batches, schedule);
            (plan.pipelining.send, plan.pipelining.steps) = (SendMode::Rendezvous, 2);
            let built = build(&plan);
            assert!(built.is_ok(), "{schedule:?}, {stages} stages, {micro_batches}: {:?}", built.err());
        }
    }
}
