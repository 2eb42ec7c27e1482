//! Orders: complete, executable, with the bubble and the memory their papers say.

use proptest::prelude::*;
use sim_core::time::Time;
use workloads::graph::Phase;
use workloads::order::{Order, PipelineSchedule, Shape};
use workloads::plan::PipelinePlan;

use crate::plans::{ROWS, automatic, bubble, interleaved, order, schedules, stage, timing, uniform};
use crate::replay::{Replay, replay};

fn replayed(plan: &PipelinePlan) -> Replay {
    replay(&order(plan), &timing(plan))
}

fn assert_digits(ours: f64, published: f64, what: &str) {
    let digits = |x: f64| (x * 1e4).round() as i64;
    assert_eq!(digits(ours), digits(published), "{what}: {ours:.6} against {published}");
}

/// The largest peak of activations over the stages, in micro-batches.
fn peaks(plan: &PipelinePlan) -> Vec<f64> {
    let activation = plan.model.stages[0].activation as f64;
    replayed(plan).peaks.iter().map(|&peak| peak as f64 / activation).collect()
}

#[test]
fn bubble_rates_are_the_published_ones_to_every_digit() {
    for row in &ROWS {
        for (schedule, published) in [
            (PipelineSchedule::OneFOneB, row.one_f_one_b),
            (interleaved(3), row.interleaved_3),
            (PipelineSchedule::ZbH1, row.h1),
            (PipelineSchedule::ZbH2, row.h2),
            (automatic(row.stages), row.auto_1p),
            (automatic(2 * row.stages), row.auto_2p),
        ] {
            let plan = row.plan(schedule);
            let what = format!("{schedule:?}, p {}, m {}", row.stages, row.micro_batches);
            assert_digits(bubble(&plan, replayed(&plan).cost()), published, &what);
        }
        let cost = replayed(&row.plan(PipelineSchedule::OneFOneB)).cost();
        assert_digits(cost.as_secs() * 1e-1, row.one_f_one_b_ms * 1e-4, "cost of 1F1B");
    }
}

#[test]
fn bubbles_without_communication_are_the_closed_forms() {
    let (f, b, w) = (5, 4, 3);
    for p in [1, 2, 3, 4, 7, 8] {
        for m in [2 * p, 2 * p + 1, 4 * p + 3] {
            let bubble_us = |schedule| {
                let plan = uniform(stage(f, b, w, 0), p, m, schedule);
                (replayed(&plan).cost() - Time::from_us(u64::from(m) * (f + b + w))).0 / 1_000_000
            };
            let p = u64::from(p);
            assert_eq!(bubble_us(PipelineSchedule::Gpipe), (p - 1) * (f + b + w));
            assert_eq!(bubble_us(PipelineSchedule::OneFOneB), (p - 1) * (f + b + w));
            assert_eq!(bubble_us(PipelineSchedule::ZbH1), (p - 1) * (f + b - w));
            assert_eq!(bubble_us(PipelineSchedule::ZbH2), (p - 1) * (f + b - 2 * w));
        }
    }
}

#[test]
fn interleaving_divides_the_bubble_by_the_chunks() {
    for (p, m, v) in [(2, 4, 2), (4, 8, 2), (4, 8, 3), (8, 24, 4)] {
        let stage = stage(12, 12, 12, 0);
        let plan = uniform(stage, p, m, interleaved(v));
        let bubble = replayed(&plan).cost() - Time::from_us(u64::from(m) * 36);
        assert_eq!(bubble, Time::from_us(u64::from(p - 1) * 36 / u64::from(v)), "p {p}, m {m}, v {v}");
    }
}

#[test]
fn peak_memory_is_the_closed_form() {
    let kept = 32.0 / 34.0;
    for p in 1..=9_u32 {
        for m in [1, 2, p, 2 * p, 3 * p + 1] {
            let peaks = |schedule| peaks(&uniform(stage(3, 3, 3, 1), p, m, schedule));
            let close = |ours: &[f64], closed: &dyn Fn(u32) -> f64| {
                for (s, &ours) in (0..p).zip(ours) {
                    assert!((ours - closed(s)).abs() < 1e-3, "p {p}, m {m}, stage {s}: {ours}");
                }
            };
            close(&peaks(PipelineSchedule::Gpipe), &|_| f64::from(m));
            close(&peaks(PipelineSchedule::OneFOneB), &|s| f64::from(m.min(p - s)));
            // Qi et al. 2024, section 2.3, where there are enough micro-batches.
            if m >= 2 * p {
                let in_flight = |depth: u32, put_off: u32| f64::from(depth) + f64::from(put_off) * kept;
                close(&peaks(PipelineSchedule::ZbH1), &|s| in_flight(p - s, s));
                close(&peaks(PipelineSchedule::ZbH2), &|s| in_flight(2 * (p - s) - 1, 2 * s));
            }
            let limit = f64::from(p) + 1e-9;
            assert!(peaks(PipelineSchedule::ZbV).iter().all(|&peak| peak <= limit), "p {p}, m {m}");
        }
    }
}

#[test]
fn interleaved_peak_is_the_closed_form() {
    for (p, m, v) in [(2, 4, 2), (4, 8, 2), (4, 12, 3), (8, 24, 4)] {
        let stage = workloads::model::profiled::StageProfile { activation: 12_000, ..stage(4, 4, 4, 1) };
        let stage = workloads::model::profiled::StageProfile { activation_kept_for_weight: None, ..stage };
        let peaks = peaks(&uniform(stage, p, m, interleaved(v)));
        // Korthikanti et al. 2022: L layers' worth x (1 + (p - 1) / (p v)) on the first stage.
        let closed = f64::from(p) * (1.0 + f64::from(p - 1) / f64::from(p * v));
        assert!((peaks[0] - closed).abs() < 1e-9, "{} against {closed}", peaks[0]);
    }
}

#[test]
fn more_memory_never_makes_the_automatic_schedule_slower() {
    let mut last = Time::NEVER;
    for limit in [4, 5, 6, 7, 8, 12, 16] {
        let plan = uniform(stage(9, 8, 6, 1), 4, 16, automatic(limit));
        let cost = replayed(&plan).cost();
        assert!(cost <= last, "limit {limit}");
        last = cost;
    }
}

/// Every visit once, and per stage, chunk and phase in the order of the micro-batches.
fn assert_complete(order: &Order, split: bool) {
    let m = order.shape.micro_batches as usize;
    let phases: &[Phase] = if split {
        &[Phase::Forward, Phase::BackwardInput, Phase::BackwardWeight]
    } else {
        &[Phase::Forward, Phase::Backward]
    };
    for visits in &order.stages {
        assert_eq!(visits.len(), m * phases.len() * order.shape.chain.chunks as usize);
        for chunk in 0..order.shape.chain.chunks {
            for &phase in phases {
                let these = visits.iter().filter(|v| v.phase == phase && u32::from(v.chunk) == chunk);
                assert!(these.map(|v| v.micro_batch).eq(0..m as u32), "{phase:?} of chunk {chunk}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_order_is_complete_executable_and_within_its_memory(
        stages in 1..9_u32,
        groups in prop_oneof![1..5_u32, 20..24_u32],
        extra in 0..8_u32,
        times in prop::collection::vec((0..30_u64, 0..30_u64, 0..30_u64, 0..9_u64), 9),
        which in 0..9_usize,
        kept in 0..=34_000_u64,
    ) {
        let schedule = schedules(stages)[which];
        let interleaved = matches!(schedule, PipelineSchedule::Interleaved(_));
        let micro_batches = groups * stages + if interleaved { 0 } else { extra };
        let mut plan = uniform(stage(1, 1, 1, 1), stages, micro_batches, schedule);
        for (profile, (f, b, w, c)) in plan.model.stages.iter_mut().zip(times) {
            *profile = stage(f, b, w, c);
            profile.activation_kept_for_weight = Some(kept);
        }
        let order = order(&plan);
        assert_complete(&order, schedule.splits_backward());
        let timing = timing(&plan);
        let replayed = replay(&order, &timing);
        if let Some(shortened) = order.shortened() {
            assert_complete(&shortened, schedule.splits_backward());
            prop_assert_eq!(&replay(&shortened, &timing).peaks, &replayed.peaks);
        }
        for stage in 0..stages {
            let Some(alone) = order.shortened_stage(stage) else { continue };
            let micro_batches = alone.iter().map(|visit| visit.micro_batch + 1).max().unwrap_or(0);
            let shape = Shape { micro_batches, ..order.shape };
            assert_complete(&Order { shape, stages: vec![alone] }, schedule.splits_backward());
        }
        if matches!(schedule, PipelineSchedule::ZbAuto(_)) {
            for (peak, limit) in replayed.peaks.iter().zip(&timing.limit) {
                prop_assert!(peak <= limit);
            }
        }
    }
}

/// Rules do not depend on how many micro-batches there are.
#[test]
fn a_step_with_fewer_repeats_is_that_of_fewer_micro_batches() {
    for stages in [1, 2, 4, 7] {
        for schedule in schedules(stages).into_iter().take(6) {
            for micro_batches in [stages, 2 * stages, 24 * stages, 101 * stages] {
                let of = |count| order(&uniform(stage(4, 4, 4, 1), stages, count, schedule));
                let whole = of(micro_batches);
                let Some(shortened) = whole.shortened() else {
                    let never = schedule == PipelineSchedule::Gpipe;
                    assert!(
                        never || micro_batches < 24 * stages,
                        "{schedule:?} of {micro_batches} on {stages}"
                    );
                    continue;
                };
                assert!(
                    shortened.shape.micro_batches < micro_batches.min(12 * stages),
                    "{schedule:?} on {stages}"
                );
                assert_eq!(shortened, of(shortened.shape.micro_batches), "{schedule:?} on {stages}");
                for stage in 0..stages {
                    let Some(alone) = whole.shortened_stage(stage) else { continue };
                    let least = alone.iter().map(|visit| visit.micro_batch + 1).max().unwrap_or(0);
                    let executed = &of(least.next_multiple_of(stages)).stages[stage as usize];
                    assert!(least <= shortened.shape.micro_batches, "{schedule:?} on {stages}");
                    if least % stages == 0 {
                        assert_eq!(&alone, executed, "{schedule:?} on {stages}");
                    }
                }
            }
        }
    }
}
