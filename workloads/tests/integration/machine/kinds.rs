//! Stages on GPUs of different kinds.

use hw_models::machine::{Cluster, Degrade};
use hw_models::settings::Count;
use proptest::prelude::*;
use sim_core::time::Time;
use sim_core::{Options, simulate};
use workloads::names::cause;
use workloads::placement::Placement;
use workloads::plan::{PlanError, TransformerPlan};
use workloads::schedule::LaneKind;

use super::{Ran, World, gpt, plan};

const A100: &str = "{ node: dgx-a100-80g, count: 1";
const V100: &str = "{ node: dgx-1v-32g, count: 1";
/// An A100 at half of its clock, with two thirds of its bandwidth.
const SLOW: &str = "{ node: dgx-a100-80g, count: 1, \
    gpu: { like: a100-sxm4-80gb, name: slow, clock: 705 MHz, memory_rate: 1300 GB/s }";

/// A cluster of one kind of node, and of another behind it.
fn world(first: &str, second: &str) -> World {
    let text = format!("{first}, fabric: hdr200-fat-tree, more: [{second} }}] }}");
    World::of(serde_yaml::from_str::<Cluster>(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
}

/// Two stages of single ranks, each on the first GPU of a node.
fn apart(layers: u32, micro_batches: u32) -> TransformerPlan {
    let mut plan = plan(gpt(layers), [1, 2, 1], micro_batches);
    plan.deployment.placement = Placement::Listed([0, 8].map(|gpu| Count::new(gpu).unwrap()).into());
    plan
}

fn assert_same(a: &Ran, b: &Ran) {
    assert_eq!((a.run.time, &a.run.streams, &a.run.stores), (b.run.time, &b.run.streams, &b.run.stores));
}

#[test]
fn a_gpu_under_two_names_is_one_kind_to_the_bit() {
    let other = "{ node: dgx-a100-80g, count: 1, gpu: { like: a100-sxm4-80gb }";
    for split in [[8, 2, 1], [2, 2, 4], [1, 2, 8]] {
        let plan = plan(gpt(4), split, 4);
        let [one, two] = [World::dgx_a100(2), world(A100, other)];
        assert_eq!([1, 2], [&one, &two].map(|world| world.machine().gpu_kinds().len()));
        assert_same(&one.completed(&plan), &two.completed(&plan));
    }
}

#[test]
fn lines_of_the_same_nodes_are_one_group() {
    let more = "{ node: dgx-a100-80g, count: 2 }";
    let text = format!("{{ node: dgx-a100-80g, count: 1, more: [{more}, {more}] }}");
    let said = World::of(serde_yaml::from_str(&text).unwrap());
    let plan = plan(gpt(4), [8, 1, 5], 2);
    assert_eq!(said.machine().alike_nodes().map(|nodes| nodes.end).collect::<Vec<_>>(), [5]);
    assert_eq!(said.build(&plan).unwrap().lowered, World::dgx_a100(5).build(&plan).unwrap().lowered);
}

#[test]
fn a_stage_computes_as_on_a_machine_of_its_own_gpus() {
    let plan = apart(4, 1);
    let mixed = world(A100, V100).completed(&plan);
    for (stage, node) in [(0, A100), (1, V100)] {
        let of_one = world(node, node).completed(&plan);
        let computed = |ran: &Ran| ran.spent(stage, 0, cause::COMPUTE);
        assert_eq!(computed(&mixed), computed(&of_one), "stage {stage}");
        assert!(computed(&mixed) > Time::ZERO);
    }
}

/// Kernels and collectives of its ranks take what they do there, and only what stages do together
/// does not.
#[test]
fn tensor_ranks_of_a_stage_communicate_as_among_their_own_gpus() {
    let plan = plan(gpt(4), [8, 2, 1], 3);
    let mixed = world(A100, V100).completed(&plan);
    for (stage, node) in [(0, A100), (1, V100)] {
        let of_one = world(node, node).completed(&plan);
        let calls = |ran: &Ran| {
            let mut calls = ran.alone(ran.lane(stage, 3, LaneKind::Compute));
            // The two stages sum the gradients of their embeddings before the update.
            calls.pop();
            calls
        };
        assert_eq!(calls(&mixed), calls(&of_one), "stage {stage}");
    }
}

#[test]
fn ranks_of_different_kinds_are_never_one() {
    for split in [[2, 2, 4], [1, 4, 4], [4, 4, 1]] {
        let Ran { lowered, run } = world(A100, V100).completed(&plan(gpt(4), split, 4));
        let apart =
            simulate(&lowered.platform, &lowered.program, &lowered.start, &Options::default()).unwrap();
        assert_eq!((apart.time, &apart.streams), (run.time, &run.streams), "{split:?}");
    }
}

/// A clock that is slow in one node changes the ranks of that node, whatever kinds there are.
#[test]
fn clocks_are_those_of_a_kind() {
    let slowed = |part: &str| {
        let mut world = world(A100, V100);
        let line: Degrade = serde_yaml::from_str(&format!("{{ part: '{part}', clock: 50 % }}")).unwrap();
        world.cluster.degrade.push(line);
        world.completed(&apart(4, 1))
    };
    let even = world(A100, V100).completed(&apart(4, 1));
    for (slow, part) in [(0, "node[0].gpu[0]"), (1, "node[1].gpu[0]")] {
        let ran = slowed(part);
        let computed = |ran: &Ran, stage| ran.spent(stage, 0, cause::COMPUTE).as_secs();
        assert!(computed(&ran, slow) > 1.3 * computed(&even, slow), "{part}");
        assert_eq!(computed(&ran, 1 - slow), computed(&even, 1 - slow), "{part}");
    }
}

#[test]
fn memory_is_that_of_the_gpus_of_a_stage() {
    let small = "{ node: dgx-a100-80g, count: 1, set: { gpu: { memory: 16 GiB } }";
    for (stage, world) in [(1, world(A100, small)), (0, world(small, A100))] {
        let built = world.build(&apart(8, 2)).unwrap();
        let capacities: Vec<u64> = built.memory.iter().map(|memory| memory.capacity >> 30).collect();
        assert_eq!(capacities[stage], 16);
        assert_eq!(capacities[1 - stage], 80);
        let short: Vec<u32> = built.shortfalls.iter().map(|short| short.stage).collect();
        assert_eq!(short, [stage as u32]);
    }
    assert!(world(A100, A100).build(&apart(8, 2)).unwrap().shortfalls.is_empty());
}

#[test]
fn a_stage_on_two_kinds_is_refused_with_a_placement_that_separates_them() {
    let refused = |plan: &TransformerPlan| match world(A100, V100).build(plan) {
        Err(PlanError::Invalid(found)) => (found[0].path, found[0].remedy.clone()),
        other => panic!("{other:?}"),
    };
    let mut copies = plan(gpt(4), [4, 2, 2], 2);
    copies.deployment.placement = Placement::CopyAfterCopy;
    assert_eq!(refused(&copies), ("placement", "write `placement: sequential`".to_owned()));
    let whole = refused(&plan(gpt(4), [8, 1, 2], 2));
    assert!(whole.1.starts_with("write `pipeline: 2` and let tensor x context x data be 8"), "{whole:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn faster_gpus_never_make_a_step_slower(
        layers in 1u32..4, micro_batches in 1u32..5, shape in 0usize..3,
    ) {
        let split = [[8, 2, 1], [4, 2, 2], [2, 2, 4]][shape];
        let plan = plan(gpt(2 * layers), split, micro_batches);
        let time = |first, second| world(first, second).completed(&plan).run.time;
        let [fast, slow] = [time(A100, A100), time(SLOW, SLOW)];
        for mixed in [time(A100, SLOW), time(SLOW, A100)] {
            prop_assert!(fast <= mixed && mixed <= slow, "{fast:?} {mixed:?} {slow:?}");
        }
    }
}
