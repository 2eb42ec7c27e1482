//! Tensors of ranks that share parameters and gradients, one by one.

use hw_models::allocator::Request;
use workloads::memory::{RankList, Ranks};
use workloads::model::transformer::{Gather, States};

use super::exchanged::{eight, every_way, fsdp, overlaps, parameters};
use super::tensors::{NOTHING, held, rank_of};
use super::*;

#[test]
fn a_step_leaves_nothing_behind() {
    for plan in every_way(&[PipelineSchedule::OneFOneB, PipelineSchedule::Gpipe, PipelineSchedule::ZbH1]) {
        for stage in 0..4 {
            let list = rank_of(&plan, stage, &NOTHING);
            assert_eq!(held(&list.requests), [], "{plan:?}, stage {stage}");
        }
    }
}

/// Most bytes of a kind at a time, and how many are allocated in all.
fn bytes(list: &RankList, of: &str) -> (u64, u64) {
    let (mut tensors, mut now, mut most, mut all) = (Vec::new(), 0, 0, 0);
    for request in &list.requests {
        match *request {
            Request::Allocate { bytes, kind, .. } => {
                let bytes = if kind == of { bytes } else { 0 };
                tensors.push(bytes);
                (now, all) = (now + bytes, all + bytes);
            }
            Request::Free(id) => now -= tensors[id as usize],
            Request::Lend(_) | Request::Done(_) => {}
        }
        most = most.max(now);
    }
    (most, all)
}

/// A forward pass has the layer it is in, whatever is gathered ahead: the host issues in time. A backward pass has those that
/// are gathered ahead, too. Where each parameter is shared by itself a layer is also in the buffer that it is gathered in: two
/// are there beside the root, or the buffer of the root is while the first layer is gathered.
#[test]
fn gathered_parameters_are_whole_and_copied() {
    for backward in [0, 1, 2, 3] {
        for per_parameter in [false, true] {
            let gather = Gather { backward_prefetch: backward, per_parameter, ..Gather::default() };
            let overlap = Overlap { bucket: None, gather: Some(gather) };
            let plan = eight(Sharding::Parameters, overlap, 2);
            let (all, root) = parameters(&plan);
            let layer = (all - root) / 4;
            let ahead = u64::from(backward);
            let (most, gathered) = bytes(&rank_of(&plan, 0, &NOTHING), kind::GATHERED);
            let (expected, times) = if per_parameter {
                ((2 * root + layer).max(root + (1 + ahead.max(1)) * layer), 2)
            } else {
                (root + (1 + ahead) * layer, 1)
            };
            assert_eq!(most, 2 * expected, "{backward}, {per_parameter}");
            // Each of two micro-batches gathers the root once, layers twice.
            assert_eq!(gathered, times * 2 * 2 * (2 * all - root), "{backward}, {per_parameter}");
        }
    }
}

/// Gradients are made in 2 B and summed in as many as their sums have. Two layers' worth is there when those of a layer are
/// copied, or those of a layer are made beside the buffer of the layer before.
#[test]
fn gradients_are_copied_to_what_is_summed() {
    for (states, each) in [(States::HalfGradients, 2), (States::FullGradients, 4)] {
        for sharding in [Sharding::Gradients, Sharding::Parameters] {
            let mut plan = eight(sharding, fsdp(1, 1, true), 2);
            plan.execution.states = states;
            let (all, root) = parameters(&plan);
            let (most, made) = bytes(&rank_of(&plan, 0, &NOTHING), kind::UNREDUCED);
            assert_eq!(made, 2 * (2 + each) * all, "{sharding:?}");
            let layer = (all - root) / 4;
            assert!(
                most >= (2 + each) * layer && most <= (2 + each) * (root + layer),
                "{sharding:?}: {most}"
            );
        }
    }
}

/// Storages of the schedule are about as many bytes, whatever ranks share: they are there from the first use to the last, and
/// workspace throughout, where tensors of a pass come and go.
#[test]
fn tensors_are_about_as_many_bytes_as_storages() {
    for (sharding, overlap) in overlaps() {
        let plan = eight(sharding, overlap, 2);
        let world = World::dgx_a100(1).roomy();
        let built = world.build(&plan).unwrap();
        let ranks = Ranks::of_transformer(&plan).unwrap();
        let used = ranks.usage(&built, &[], &NOTHING, &Default::default()).unwrap();
        let of_tensors = used[0].usage.peak_allocated.allocated as f64;
        let ran = world.completed(&plan);
        let peak = &ran.run.stores[ran.lowered.stages[0].memory.index()].peak;
        let outside: u64 = used[0].outside.iter().map(|(_, bytes)| bytes).sum();
        let of_storages = (peak.bytes - outside) as f64;
        let apart = of_tensors / of_storages - 1.0;
        assert!(apart.abs() < 0.15, "{sharding:?} {overlap:?}: {apart}");
    }
}
