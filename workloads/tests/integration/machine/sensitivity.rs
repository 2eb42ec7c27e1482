//! What changes on the machine changes the step, where it should and nowhere else.

use std::collections::BTreeSet;

use hw_models::machine::Cluster;
use workloads::model::transformer::Transformer;
use workloads::names::cause;
use workloads::schedule::LaneKind;

use super::{Ran, TransformerPlan, World, gpt, plan, sum};

#[test]
fn without_nvlink_communication_takes_over() {
    let plan = plan(gpt(4), [8, 1, 1], 4);
    let cluster = Cluster { gpu: Some("a100-pcie-80gb".into()), ..Cluster::new("epyc-pcie-8x", 1) };
    let (nvlink, pcie) = (World::dgx_a100(1).completed(&plan), World::of(cluster).completed(&plan));
    let spent = |ran: &Ran, name| ran.spent(0, 0, name).as_secs();
    let ratio = |name| spent(&pcie, name) / spent(&nvlink, name);
    assert!(ratio(cause::COMMUNICATION) > 5.0, "{}", ratio(cause::COMMUNICATION));
    assert!((0.9..1.2).contains(&ratio(cause::COMPUTE)), "{}", ratio(cause::COMPUTE));
    assert!(pcie.run.time > nvlink.run.time);
}

#[test]
fn small_tensors_are_read_from_the_cache_and_large_ones_are_not() {
    // 512 tokens of 1,024 numbers are 1 MB, of a cache of 40; sixteen times as many of four times the width are 64.
    let ratio = |model: Transformer| {
        let plan = plan(model, [1, 1, 1], 1);
        let seconds = |world: World| world.roomy().completed(&plan).seconds();
        seconds(World::dgx_a100(1)) / seconds(World::dgx_a100(1).forgetful())
    };
    let (small, large) = (
        ratio(Transformer::gpt(2, 1_024, 16, 51_200, 512)),
        ratio(Transformer::gpt(2, 4_096, 32, 51_200, 8_192)),
    );
    assert!((0.9..0.995).contains(&small), "{small}");
    assert!((0.999..=1.0).contains(&large), "{large}");
}

#[test]
fn a_straggler_is_waited_for_by_all() {
    for split in [[2, 2, 2], [8, 1, 1], [1, 8, 1], [1, 1, 8]] {
        let plan = plan(gpt(8), split, 8);
        let even = World::dgx_a100(1).completed(&plan);
        for (gpu, clock) in [(0, 0.5), (5, 0.7)] {
            let slow = format!("{{ part: 'node[0].gpu[{gpu}]', clock: {clock} }}");
            let ran = World::dgx_a100(1).slowed(&slow).completed(&plan);
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

/// Pipelines of two stages, each over links of its own.
#[test]
fn half_a_link_slows_what_crosses_it_and_nothing_else() {
    let (plan, world) = (plan(gpt(4), [1, 2, 8], 4), World::dgx_a100(2));
    let (machine, whole) = (world.machine(), world.completed(&plan));
    for replica in [0, 5] {
        let nic = machine.part(machine.nic_of(machine.gpu(replica)).unwrap()).name;
        let half = world.clone().slowed(&format!("{{ part: '{nic}', rate: 50 % }}")).completed(&plan);
        assert_only_its_pipeline_is_slower(&whole, &half, replica, [true, true]);
    }
}

/// The GPUs 0 and 1 send to the GPUs 2 and 3; the others are idle.
#[test]
fn half_an_nvlink_or_pcie_link_slows_the_way_in_its_direction() {
    let plan = plan(gpt(4), [1, 2, 2], 4);
    let pcie = Cluster { gpu: Some("a100-pcie-80gb".into()), ..Cluster::new("epyc-pcie-8x", 1) };
    for (world, middle) in [(World::dgx_a100(1), "nvswitch"), (World::of(pcie), "socket[0]")] {
        let whole = world.completed(&plan);
        let line = |from: &str, to: &str| format!("{{ link: 'node[0].{from} -> node[0].{to}', rate: 50 % }}");
        for (line, forward) in [
            (line("gpu[1]", middle), true),
            (line(middle, "gpu[3]"), true),
            (line("gpu[3]", middle), false),
            (line(middle, "gpu[1]"), false),
        ] {
            let half = world.clone().slowed(&line).completed(&plan);
            assert_only_its_pipeline_is_slower(&whole, &half, 1, [forward, !forward]);
        }
        let idle = "{ part: 'node[0].gpu[5]', rate: 50 % }";
        let unused = world.clone().slowed(idle).completed(&plan);
        assert_eq!(unused.run.time, whole.run.time, "nothing crosses the links of an idle GPU");
    }
}

/// Half a link of a pipeline slows its messages forward, backward or both, and no other pipeline.
fn assert_only_its_pipeline_is_slower(whole: &Ran, half: &Ran, pipeline: u32, slower: [bool; 2]) {
    for replica in 0..whole.ranks_per_stage() {
        for (stage, slower) in [0, 1].into_iter().zip(slower) {
            let lane = LaneKind::Link { to: 1 - stage };
            let stream = |ran: &Ran| ran.run.streams[ran.lane(stage, replica, lane).index()].clone();
            let [ours, before] = [half, whole].map(stream);
            if replica != pipeline {
                assert_eq!(ours, before, "pipeline {replica} with half the link of {pipeline}");
                continue;
            }
            assert!(ours.finished > before.finished, "later, or waiting for what is later");
            let sending = |ran: &Ran| {
                let spent = |name| ran.spent_by(stage, replica, lane, name).as_secs();
                spent(cause::COMMUNICATION) + spent(cause::TRANSFER)
            };
            let ratio = sending(half) / sending(whole);
            // Not twice: a message begins with a latency, and alone it does not fill an NVLink.
            let expected = if slower { 1.5..2.0 } else { 1.0..1.000_001 };
            assert!(expected.contains(&ratio), "stage {stage} sends {ratio} times as long");
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
