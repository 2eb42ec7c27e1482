//! BPipe and recomputation: what they bound, what they cost, and that they compose.

use hw_models::settings::{Count, Rate};
use sim_core::outcome::End;
use sim_core::time::Time;
use workloads::names::{cause, kind};
use workloads::order::PipelineSchedule;
use workloads::passes::Techniques;
use workloads::passes::bpipe::{Bpipe, EvictionPolicy, PairTransfer};
use workloads::passes::recompute::Recompute;
use workloads::plan::{PipelinePlan, build};

use crate::plans::{keeping, on, stage, uniform};
use crate::simulated::{completed, simulated};

const POLICIES: [EvictionPolicy; 2] = [EvictionPolicy::EvictNewest, EvictionPolicy::EveryMicroBatch];

fn plain(p: u32, m: u32) -> PipelinePlan {
    uniform(stage(12, 10, 8, 1), p, m, PipelineSchedule::OneFOneB)
}

fn balanced(p: u32, m: u32, policy: EvictionPolicy) -> PipelinePlan {
    let bpipe = Some(Bpipe { policy, ..Bpipe::default() });
    let mut plan = plain(p, m);
    plan.pipelining.techniques = Techniques { bpipe, ..Techniques::default() };
    plan
}

/// Lets BPipe move one micro-batch's activations in `us` microseconds.
fn taking(plan: &mut PipelinePlan, us: f64) {
    let rate = plan.model.stages[0].activation as f64 / us * 1e6;
    let bpipe = plan.pipelining.techniques.bpipe.as_mut().expect("it balances");
    bpipe.transfer = Some(PairTransfer::Rate(Rate::new_bytes_per_second(rate as u64)));
}

#[test]
fn the_bound_holds_everywhere_and_is_reached_on_every_evictor() {
    for policy in POLICIES {
        for p in [2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16] {
            for m in [1, 2, p - 1, p, p + 1, 3 * p + 2] {
                for slow in [None, Some(3.0), Some(40.0)] {
                    let mut plan = balanced(p, m, policy);
                    if let Some(us) = slow {
                        taking(&mut plan, us);
                    }
                    assert_bound(&plan, p, m);
                }
            }
        }
    }
}

fn assert_bound(plan: &PipelinePlan, p: u32, m: u32) {
    let bound = u64::from((p + 2).div_ceil(2));
    let ours = completed(plan);
    for (s, &resident) in (0..p).zip(&ours.residents()) {
        let what = format!("{:?}, p {p}, m {m}, stage {s}", plan.pipelining.techniques.bpipe);
        let in_flight = u64::from(m.min(p - s));
        let partner = p - 1 - s;
        let lent_by_partner = u64::from(m.min(p - partner)).saturating_sub(bound);
        assert!(resident <= bound, "{what}: {resident}");
        if s < p / 2 && in_flight > bound {
            assert_eq!(resident, bound, "{what}");
            assert!(ours.built.evictions[s as usize] > 0, "{what}");
        } else if s > partner && lent_by_partner > 0 {
            // Its own, what it keeps for its partner, and one in transit: p + 1 less the bound where all are in flight.
            let share = in_flight + lent_by_partner;
            assert!((share..=share + 1).contains(&resident), "{what}: {resident} of {share}");
            if m >= p {
                assert_eq!(share, u64::from(p) + 1 - bound, "{what}");
            }
        } else {
            assert_eq!(resident, in_flight, "{what}");
            assert_eq!(ours.built.evictions[s as usize], 0, "{what}");
        }
        assert_eq!(ours.peaks()[s as usize], resident * plan.model.stages[0].activation, "{what}");
    }
    ours.assert_memory_is_returned(plan);
}

#[test]
fn the_newest_leave_least_often_and_every_micro_batch_leaves_once() {
    // p 8, stage 0: of 8 in flight 3 are away, among the 6 neither computed nor fetched; stages 1 and 2 likewise.
    let evictions = |policy, m| build(&balanced(8, m, policy)).unwrap().evictions;
    let (few, many) =
        (evictions(EvictionPolicy::EvictNewest, 80), evictions(EvictionPolicy::EvictNewest, 140));
    let steady: Vec<u32> = many.iter().zip(&few).map(|(many, few)| many - few).collect();
    assert_eq!(steady, [60 * 3 / 6, 60 * 2 / 5, 60 / 4, 0, 0, 0, 0, 0]);

    let (few, many) =
        (evictions(EvictionPolicy::EveryMicroBatch, 80), evictions(EvictionPolicy::EveryMicroBatch, 160));
    assert_eq!(many[0] - few[0], 80);
    assert!(many[..3].iter().all(|&evicted| evicted <= 160 && evicted > 140), "{many:?}");
}

#[test]
fn hidden_transfers_cost_nothing() {
    for policy in POLICIES {
        for (p, m) in [(4, 12), (5, 11), (6, 12), (8, 24), (12, 24), (16, 40), (8, 5)] {
            let without = completed(&plain(p, m));
            let mut plan = balanced(p, m, policy);
            assert_eq!(completed(&plan).run.time, without.run.time, "{policy:?}, p {p}, m {m}");
            // As little does a transfer shorter than the visits beside it.
            taking(&mut plan, 9.0);
            assert_eq!(completed(&plan).run.time, without.run.time, "{policy:?}, p {p}, m {m}");
        }
    }
}

#[test]
fn slow_transfers_expose_what_does_not_fit_beside_a_visit() {
    let mut last = Time::ZERO;
    for us in [9.0, 15.0, 20.0, 30.0, 60.0, 120.0] {
        let mut plan = balanced(8, 24, EvictionPolicy::EvictNewest);
        taking(&mut plan, us);
        let ours = completed(&plan);
        assert!(ours.run.time >= last, "{us} us");
        last = ours.run.time;
        let exposed = ours.spent(0, cause::MEMORY) + ours.spent(0, cause::TRANSFER);
        assert_eq!(exposed > Time::ZERO, us > 12.0, "{us} us: {exposed}");
    }
}

#[test]
fn exposed_time_by_hand() {
    // Four stages and micro-batches, F 10, BW 20, no messages, bound 3. Without copies stage 0 runs
    //     F0 0, F1 10, F2 20, F3 30, B0 100, B1 130, B2 160, B3 190, and ends at 210.
    // F3 needs room: F1, the newest that is settled, leaves beside F2, from 20 on. It comes back when B0 has made room.
    let mut plan = uniform(stage(10, 10, 10, 0), 4, 4, PipelineSchedule::OneFOneB);
    plan.pipelining.techniques.bpipe =
        Some(Bpipe { policy: EvictionPolicy::EvictNewest, ..Bpipe::default() });
    assert_eq!(completed(&plan).run.time, Time::from_us(210));
    let exposed = |copy_us: f64| {
        let mut plan = plan.clone();
        taking(&mut plan, copy_us);
        let ours = completed(&plan);
        let us = |time: Time| (time.0 as f64 / 1e6).round() as u64;
        (us(ours.spent(0, cause::MEMORY)), us(ours.spent(0, cause::TRANSFER)), us(ours.run.time))
    };
    // Copies of 10: away by 30, back at 130, when B1's gradient comes.
    assert_eq!(exposed(10.0), (0, 0, 210));
    // 25: F3 waits from 30 to 45, still in time for stage 1. Back at 145: B1 waits 15, and B3 not at all.
    assert_eq!(exposed(25.0), (15, 15, 210));
    // 50: F3 waits until 70. Back at 170: B1, B2 and B3 follow each other from there.
    assert_eq!(exposed(50.0), (40, 40, 230));
    // 80: F3 waits until 100 and B0, whose gradient is there, until 110. Everything after B0 on stage 1 is 10 late, so
    // B1's gradient comes at 140, its activations at 130 + 80.
    assert_eq!(exposed(80.0), (70, 70, 270));
}

#[test]
fn the_gain_is_a_configuration_that_did_not_fit() {
    let with_capacity = |plan: PipelinePlan, micro_batches: u64| {
        let mut plan = plan;
        plan.model.capacity = Some(7_000 + micro_batches * plan.model.stages[0].activation);
        plan.model.stages.iter_mut().for_each(|stage| stage.weights = 7_000);
        plan
    };
    let ours = simulated(&with_capacity(plain(8, 24), 5));
    let End::OutOfMemory(out) = &ours.run.end else { panic!("{:?}", ours.run.end) };
    assert_eq!(out.store, ours.built.lowered.stages[0].memory);
    assert_eq!(out.place.args[0], 5, "the sixth micro-batch");
    let names: Vec<_> =
        out.holders.iter().map(|&(k, _)| ours.built.lowered.program.kinds[k.index()].as_str()).collect();
    assert_eq!(names, [kind::ACTIVATIONS, kind::WEIGHTS]);

    let fits = completed(&with_capacity(balanced(8, 24, EvictionPolicy::EvictNewest), 5));
    assert_eq!(fits.run.time, completed(&plain(8, 24)).run.time);
    // With one less even the acceptor, or the evictor, has no room: said so, never waited for.
    let ours = simulated(&with_capacity(balanced(8, 24, EvictionPolicy::EvictNewest), 4));
    assert!(matches!(ours.run.end, End::OutOfMemory(_)), "{:?}", ours.run.end);
}

#[test]
fn bounds_down_to_two_work() {
    for policy in POLICIES {
        for bound in 2..=8 {
            let mut plan = balanced(8, 24, policy);
            plan.pipelining.techniques.bpipe =
                Some(Bpipe { policy, bound: Count::new(bound), transfer: None });
            for us in [3.0, 40.0] {
                taking(&mut plan, us);
                let ours = completed(&plan);
                assert!(ours.residents()[..4].iter().all(|&resident| resident <= bound));
                ours.assert_memory_is_returned(&plan);
            }
        }
    }
}

#[test]
fn trips_repeat_from_step_to_step() {
    for policy in POLICIES {
        let mut plan = balanced(6, 9, policy);
        taking(&mut plan, 15.0);
        plan.pipelining.steps = 3;
        let ours = completed(&plan);
        assert!(ours.residents().iter().all(|&resident| resident <= 4));
        let marks = ours.marks(0);
        assert_eq!(marks[2].1 - marks[1].1, marks[1].1 - marks[0].1);
    }
}

#[test]
fn recomputation_trades_time_for_memory() {
    let mut plan = plain(4, 8);
    plan.pipelining.techniques.recompute = Some(Recompute::default());
    let ours = completed(&plan);
    // As 1F1B with a backward that is one forward longer.
    let longer = uniform(stage(12, 22, 8, 1), 4, 8, PipelineSchedule::OneFOneB);
    assert_eq!(ours.run.time, completed(&longer).run.time);
    assert_eq!(ours.spent(2, cause::RECOMPUTE), Time::from_us(8 * 12));
    assert_eq!(ours.peaks(), [34_000; 4], "only one micro-batch's are there at a time");
    assert_eq!(ours.at_peak(0, kind::RECOMPUTED), 34_000);

    plan.pipelining.techniques.recompute = Some(keeping(4_000));
    plan.model.stages[0].recompute = Some(Time::from_us(5));
    let ours = completed(&plan);
    assert_eq!(ours.peaks(), [4, 3, 2, 1].map(|n| n * 4_000 + 30_000));
    assert_eq!(ours.spent(0, cause::RECOMPUTE), Time::from_us(8 * 5));

    plan.pipelining.techniques.recompute = Some(Recompute { stages: on(&[0, 1]), ..Recompute::default() });
    assert_eq!(completed(&plan).peaks(), [34_000, 34_000, 68_000, 34_000]);
}

#[test]
fn recomputation_works_under_every_schedule() {
    for schedule in crate::plans::schedules(4) {
        let mut plan = uniform(stage(12, 10, 7, 1), 4, 12, schedule);
        let peaks = completed(&plan).peaks();
        plan.pipelining.techniques.recompute = Some(keeping(2_000));
        let ours = completed(&plan);
        assert_eq!(ours.spent(1, cause::RECOMPUTE), Time::from_us(12 * 12), "{schedule:?}");
        assert!(
            ours.peaks().iter().max() < peaks.iter().max(),
            "{schedule:?}: {:?}, {peaks:?}",
            ours.peaks()
        );
        ours.assert_memory_is_returned(&plan);
    }
}

#[test]
fn a_checkpoint_is_lent_as_activations_are() {
    let mut plan = balanced(8, 24, EvictionPolicy::EvictNewest);
    plan.pipelining.techniques.recompute = Some(keeping(4_000));
    let ours = completed(&plan);
    assert_eq!(ours.peaks()[0], 5 * 4_000 + 30_000);
    assert_eq!(ours.at_peak(7, kind::HELD_FOR_PARTNER) % 4_000, 0);
    ours.assert_memory_is_returned(&plan);
    // Stage 0 recomputes, stage 1 lends.
    plan.pipelining.techniques.recompute = Some(Recompute { stages: on(&[0]), ..Recompute::default() });
    plan.pipelining.techniques.bpipe =
        Some(Bpipe { policy: EvictionPolicy::EvictNewest, bound: Count::new(8), transfer: None });
    assert_eq!(completed(&plan).built.evictions, [0; 8]);
}
