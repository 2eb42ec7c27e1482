//! Tensors of ranks that share parameters and gradients, one by one.

use hw_models::allocator::Request;
use hw_models::settings::Count;
use workloads::host_update::KeptParameters;
use workloads::memory::{RankList, Ranks, Recorded};
use workloads::model::transformer::{Fp8, Gather, Scaling, States};
use workloads::passes::zero_infinity::ZeroInfinity;

use super::exchanged::{eight, every_way, fsdp, narrow_weights, overlaps, parameters};
use super::tensors::{NOTHING, held, order, rank_of};
use super::{zero_infinity, zero_offload, *};

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
            let gather =
                Gather { backward_prefetch: Count::literal(backward), per_parameter, ..Gather::default() };
            let overlap = Overlap { gather: Some(gather), align: true, ..Overlap::default() };
            let plan = eight(Sharding::Parameters, overlap, 2);
            let (all, root) = parameters(&plan);
            let layer = (all - root) / 4;
            let ahead = backward;
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

/// Weights of linear layers take one byte of two in what is gathered, and where FSDP2 copies it: in both passes of two
/// micro-batches.
#[test]
fn weights_in_8_bits_are_as_small_where_they_are_gathered() {
    for (per_parameter, times) in [(false, 1), (true, 2)] {
        let gathered = |gathers| {
            let gather = Gather { per_parameter, ..Gather::default() };
            let overlap = Overlap { gather: Some(gather), align: true, ..Overlap::default() };
            let mut plan = eight(Sharding::Parameters, overlap, 2);
            plan.execution.dtype = Dtype::Bf16;
            plan.execution.fp8 = Some(Fp8 { scaling: Scaling::Tensorwise, gathers });
            (bytes(&rank_of(&plan, 0, &NOTHING), kind::GATHERED).1, narrow_weights(&plan))
        };
        let ((whole, weights), (narrow, _)) = (gathered(false), gathered(true));
        assert_eq!(whole - narrow, times * 2 * 2 * weights, "{per_parameter}");
    }
}

/// A rank of two groups of four has a quarter of every tensor, not an eighth; what it gathers is as large.
#[test]
fn ranks_of_a_group_have_larger_parts() {
    let tensors = |sharing| {
        let overlap = fsdp(1, 1, true);
        let plan = TransformerPlan { sharing, ..eight(Sharding::Parameters, overlap, 2) };
        let list = Ranks::of_transformer(&plan, None).unwrap().training(&order(&plan), (0, 0), &NOTHING);
        [kind::PARAMETERS, kind::GRADIENTS, kind::OPTIMIZER, kind::GATHERED].map(|of| bytes(&list, of).0)
    };
    let (all, groups) = (tensors(None), tensors(Some(4)));
    let ratio = |n: usize| groups[n] as f64 / all[n] as f64;
    assert!((0..3).all(|n| (ratio(n) - 2.0).abs() < 1e-3), "{all:?} {groups:?}");
    assert_eq!(all[3], groups[3]);
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

/// Storages of the schedule are about as many bytes, whatever ranks share and hosts keep: they are there from the first use to
/// the last, and workspace throughout, where tensors of a pass come and go. Gradients on their way to a host are more tensors the
/// later the device returns them: all at once, or none before the step ends.
#[test]
fn tensors_are_about_as_many_bytes_as_storages() {
    let shared = overlaps().into_iter().map(|(sharding, overlap)| eight(sharding, overlap, 2));
    for plan in shared.chain(with_hosts()) {
        let world = World::dgx_a100(1).roomy();
        let built = world.build(&plan).unwrap();
        let ranks = Ranks::of_transformer(&plan, None).unwrap();
        let of_tensors = |returned: &[Recorded]| {
            let used = ranks.usage(&built, returned, |_| NOTHING, &Default::default()).unwrap();
            let outside: u64 = used[0].outside.iter().map(|(_, bytes)| bytes).sum();
            let usage = &used[0].usage;
            [usage.peak_allocated.allocated, usage.peak_reserved.reserved]
                .map(|bytes| (bytes + outside) as f64)
        };
        let ran = world.completed(&plan);
        let of_storages = ran.run.stores[ran.lowered.stages[0].memory.index()].peak.bytes as f64;
        let none = Recorded { sums: vec![0; 1_000], ..Recorded::default() };
        let ([least, _], [_, most]) = (of_tensors(&[]), of_tensors(&[none]));
        assert!(
            0.85 * least < of_storages && of_storages < 1.15 * most,
            "{plan:?}: {least} B to {most} B of tensors, {of_storages} B of storages"
        );
    }
}

/// Plans whose hosts keep states, with one copy of the model and two: ZeRO-Offload, ZeRO-Infinity with parameters on the GPU, at
/// the host and on drives.
fn with_hosts() -> impl Iterator<Item = TransformerPlan> {
    let places = [KeptParameters::Gpu, KeptParameters::Host, KeptParameters::Drives];
    let infinity = move |data| {
        places
            .map(|parameters| zero_infinity::kept(ZeroInfinity { parameters, ..zero_infinity::ALL }, data, 2))
    };
    let offload = |data| zero_offload::hosted(Some(zero_offload::WHOLE), data, 2);
    [1, 2].into_iter().flat_map(move |data| infinity(data).into_iter().chain([offload(data)]))
}

/// A GPU whose host keeps states has none of them, no sums of gradients, and no parameters that are away between passes.
#[test]
fn what_hosts_keep_is_not_on_the_gpu() {
    for plan in with_hosts() {
        let list = Ranks::of_transformer(&plan, None).unwrap().training(&order(&plan), (0, 0), &NOTHING);
        let pipelining = &plan.deployment.pipelining;
        let away =
            pipelining.techniques.zero_infinity.as_ref().is_some_and(|kept| kept.parameters.are_away());
        let ranks = if pipelining.techniques.zero_infinity.is_some() { plan.data } else { 1 };
        let there = bytes(&list, kind::PARAMETERS).0;
        let share = 2 * parameters(&plan).0 / u64::from(ranks);
        assert!(there.abs_diff(if away { 0 } else { share }) < 1 << 10, "{plan:?}: {there} of {share}");
        for kept in [kind::GRADIENTS, kind::OPTIMIZER] {
            assert_eq!(bytes(&list, kept), (0, 0), "{plan:?}: {kept}");
        }
        let gathered = bytes(&list, kind::GATHERED).1;
        let gathers = away || plan.sharding == Sharding::Parameters;
        assert_eq!(gathered > 0, gathers, "{plan:?}: {gathered}");
        // Gradients of two micro-batches leave in each of two steps: each is made, and most are in a buffer of fp32 or fp16.
        assert!(bytes(&list, kind::UNREDUCED).1 >= 2 * 2 * 2 * parameters(&plan).0, "{plan:?}");
    }
}
