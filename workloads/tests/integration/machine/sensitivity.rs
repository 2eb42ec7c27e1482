//! What changes on the machine changes the step, where it should and nowhere else.

use std::collections::BTreeSet;

use hw_models::machine::{ClusterSpec, Degrade};
use workloads::names::cause;
use workloads::schedule::LaneKind;

use super::{Ran, TransformerPlan, World, gpt, plan, sum};

#[test]
fn without_nvlink_communication_takes_over() {
    let plan = plan(gpt(4), [8, 1, 1], 4);
    let cluster = ClusterSpec {
        node: "epyc-pcie-8x".to_owned(),
        gpu: Some("a100-pcie-80gb".to_owned()),
        count: 1,
        ..ClusterSpec::default()
    };
    let (nvlink, pcie) = (World::dgx_a100(1).completed(&plan), World::of(cluster).completed(&plan));
    let spent = |ran: &Ran, name| ran.spent(0, 0, name).as_secs();
    let ratio = |name| spent(&pcie, name) / spent(&nvlink, name);
    assert!(ratio(cause::COMMUNICATION) > 5.0, "{}", ratio(cause::COMMUNICATION));
    assert!((0.9..1.2).contains(&ratio(cause::COMPUTE)), "{}", ratio(cause::COMPUTE));
    assert!(pcie.run.time > nvlink.run.time);
}

#[test]
fn a_straggler_is_waited_for_by_all() {
    for split in [[2, 2, 2], [8, 1, 1], [1, 8, 1], [1, 1, 8]] {
        let plan = plan(gpt(8), split, 8);
        let even = World::dgx_a100(1).completed(&plan);
        for (gpu, clock) in [(0, 0.5), (5, 0.7)] {
            let slow = Degrade::Clock(format!("node[0].gpu[{gpu}]"), clock);
            let ran = World::dgx_a100(1).slowed(slow).completed(&plan);
            assert_straggler(&even, &ran, gpu, clock);
        }
    }
}

fn assert_straggler(even: &Ran, slow: &Ran, straggler: u32, clock: f64) {
    let replicas = slow.ranks_per_stage();
    let waits = |ran: &Ran, stage, replica| {
        let spent = |name| ran.spent(stage, replica, name);
        sum([cause::SKEW, cause::BUBBLE].map(spent))
    };
    for stage in 0..slow.lowered.stages.len() as u32 {
        for replica in 0..replicas {
            let what = format!("stage {stage}, replica {replica}, clock {clock} of GPU {straggler}");
            let finished = |ran: &Ran| {
                ran.run.streams[ran.lane(stage, replica, LaneKind::Compute).index()].finished.unwrap()
            };
            assert!(finished(slow) > finished(even), "{what}");
            let compute = |ran: &Ran| ran.spent(stage, replica, cause::COMPUTE);
            if stage * replicas + replica == straggler {
                assert!(compute(slow) > compute(even), "{what}");
                let most = compute(even).as_secs() / clock;
                assert!(compute(slow).as_secs() <= most, "{what}: what memory limits is as fast as before");
            } else {
                assert!(waits(slow, stage, replica) > waits(even, stage, replica), "{what}");
            }
        }
    }
}

/// Eight pipelines of two stages, each over a network interface of its own.
#[test]
fn half_a_link_slows_what_crosses_it_and_nothing_else() {
    let plan = plan(gpt(4), [1, 2, 8], 4);
    let world = World::dgx_a100(2);
    let machine = world.machine();
    let whole = world.completed(&plan);
    let link = LaneKind::Link { to: 1 };
    for replica in [0, 5] {
        let nic = machine.part(machine.nic_of(machine.gpu(replica)).unwrap()).name;
        let half = world.clone().slowed(Degrade::PartRate(nic, 0.5)).completed(&plan);
        for other in 0..8 {
            let stream =
                |ran: &Ran, stage, kind| ran.run.streams[ran.lane(stage, other, kind).index()].clone();
            let (ours, before) = (stream(&half, 0, link), stream(&whole, 0, link));
            let back = LaneKind::Link { to: 0 };
            if other == replica {
                assert!(ours.finished > before.finished);
                assert!(stream(&half, 1, back).finished > stream(&whole, 1, back).finished);
            } else {
                assert_eq!(ours, before, "pipeline {other} with half the link of {replica}");
                assert_eq!(stream(&half, 1, back), stream(&whole, 1, back));
            }
        }
    }
}

#[test]
fn faster_memory_and_links_never_slow_anything() {
    type Change = fn(&mut World);
    let changes: [(&str, Change); 4] = [
        ("memory", |world| world.catalogue.gpus.values_mut().for_each(|gpu| gpu.bandwidth_gb_per_s *= 2.0)),
        ("links", |world| {
            for link in world.catalogue.links.values_mut() {
                link.nominal_gb_per_s *= 2.0;
                link.effective_gb_per_s *= 2.0;
            }
        }),
        ("network", |world| {
            for nic in world.catalogue.nics.values_mut() {
                nic.rate_gbit_per_s *= 2.0;
                nic.effective_gb_per_s *= 2.0;
            }
            world.catalogue.fabrics.values_mut().for_each(|fabric| fabric.port_gbit_per_s *= 2.0);
        }),
        ("products", |world| {
            for gpu in world.catalogue.gpus.values_mut() {
                gpu.peak_tflops.fp16 = gpu.peak_tflops.fp16.map(|peak| 2.0 * peak);
            }
        }),
    ];
    let plans: [(u32, TransformerPlan); 4] = [
        (1, plan(gpt(4), [8, 1, 1], 4)),
        (2, plan(gpt(4), [4, 4, 1], 8)),
        (2, plan(gpt(4), [1, 2, 8], 4)),
        (4, plan(gpt(4), [2, 4, 4], 8)),
    ];
    let mut faster = BTreeSet::new();
    for (nodes, plan) in &plans {
        let before = World::dgx_a100(*nodes).completed(plan).run.time;
        for (what, change) in changes {
            let mut world = World::dgx_a100(*nodes);
            change(&mut world);
            let after = world.completed(plan).run.time;
            assert!(after <= before, "twice the {what}, {:?}: {after:?}, before {before:?}", plan.extent());
            if after < before {
                faster.insert(what);
            }
        }
    }
    assert_eq!(faster.len(), changes.len(), "only {faster:?} ever matter");
}
