//! Stages that do not all have as many layers.

use workloads::names::{cause, kind};
use workloads::passes::bpipe::{Bpipe, EvictionPolicy};

use super::{TransformerPlan, World, gpt, plan, schedule};
use crate::plans::interleaved;
use crate::plans::schedules;

/// So many layers on each chunk of four stages, in the order of the model.
fn staged(layers: &[u32]) -> TransformerPlan {
    let mut plan = plan(gpt(layers.iter().sum()), [1, 4, 1], 8);
    plan.execution.split.layers = Some(layers.to_vec());
    plan
}

fn evenly(each: u32) -> TransformerPlan {
    plan(gpt(4 * each), [1, 4, 1], 8)
}

#[test]
fn a_list_of_equal_numbers_is_no_list() {
    let world = World::dgx_a100(1).roomy();
    for which in schedules(4) {
        let chunks = which.chain(4).chunks;
        let (mut listed, mut even) = (staged(&vec![2; 4 * chunks as usize]), evenly(2 * chunks));
        schedule(&mut listed, which);
        schedule(&mut even, which);
        assert_eq!(world.build(&listed), world.build(&even), "{which:?}");
    }
}

/// A stage computes and keeps what it does where all have as many layers as it has.
#[test]
fn a_stage_is_that_of_a_model_whose_stages_are_all_like_it() {
    let world = World::dgx_a100(1).roomy();
    let layers = [2, 4, 3, 1];
    let ran = world.completed(&staged(&layers));
    for (stage, each) in (0..).zip(layers) {
        let alike = world.completed(&evenly(each));
        assert_eq!(ran.spent(stage, 0, cause::COMPUTE), alike.spent(stage, 0, cause::COMPUTE), "{stage}");
        assert_eq!(ran.activations(stage as usize), alike.activations(stage as usize), "{stage}");
    }
}

/// As torchtitan deals out the 126 layers of Llama 3 405B: 14 chunks of 8 between two of 7.
#[test]
fn chunks_are_listed_in_the_order_of_the_model() {
    let mut plan = staged(&[1, 2, 2, 2, 2, 2, 2, 1]);
    schedule(&mut plan, interleaved(2));
    let ran = World::dgx_a100(1).roomy().completed(&plan);
    let [first, second, third] = [0, 1, 2].map(|stage| ran.spent(stage, 0, cause::COMPUTE));
    assert_eq!(second, third);
    assert!(first < second, "{first} for 3 layers, {second} for 4");
}

#[test]
fn partners_of_other_sizes_are_lent_to() {
    let mut plan = staged(&[4, 4, 2, 2]);
    plan.deployment.pipelining.techniques.bpipe =
        Some(Bpipe { policy: EvictionPolicy::EvictNewest, ..Bpipe::default() });
    let world = World::dgx_a100(1).roomy();
    let (lent, kept) = (world.completed(&plan), world.completed(&staged(&[4, 4, 2, 2])));
    // The first stage keeps 3 of 4 micro-batches; the last has one of its size, and at times one on its way.
    let share = |bytes: u64| 4.0 * bytes as f64 / kept.activations(0) as f64;
    assert!((share(lent.activations(0)) - 3.0).abs() < 0.03, "{}", share(lent.activations(0)));
    let held = share(lent.at_peak(3, &[kind::HELD_FOR_PARTNER]));
    assert!((held - 2.0).abs() < 0.03, "{held}");
}
