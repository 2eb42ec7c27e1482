//! Recomputation of modules and of every n-th layer, on machines.

use hw_models::settings::Count;
use sim_core::time::Time;
use workloads::model::transformer::AttentionKernel;
use workloads::names::cause;
use workloads::passes::recompute::Recompute;
use workloads::passes::recompute::RecomputeModule::{self, Activation, CoreAttention, LayerNorm, Mlp};

use super::{Ran, TransformerPlan, World, gpt, plan, schedule};
use crate::plans::interleaved;

fn modules(modules: &[RecomputeModule]) -> Option<Recompute> {
    Some(Recompute { modules: Some(modules.to_vec()), ..Recompute::default() })
}

fn every(number: u64) -> Option<Recompute> {
    Some(Recompute { every: Count::new(number), ..Recompute::default() })
}

fn ran(mut plan: TransformerPlan, recompute: Option<Recompute>) -> Ran {
    plan.deployment.pipelining.techniques.recompute = recompute;
    World::dgx_a100(1).roomy().completed(&plan)
}

/// The step, and the most memory of any stage.
fn measures(ran: &Ran) -> (Time, u64) {
    let peaks = ran.lowered.stages.iter().map(|stage| ran.run.stores[stage.memory.index()].peak.bytes);
    (ran.run.time, peaks.max().unwrap_or_default())
}

/// Pipelines with scores in memory and without, and chunks that take turns.
fn shapes() -> Vec<TransformerPlan> {
    let materialised = plan(gpt(8), [2, 2, 1], 4);
    let mut flash = plan(gpt(8), [4, 2, 1], 4);
    flash.execution.attention = AttentionKernel::Flash;
    let mut chunks = plan(gpt(8), [1, 2, 1], 4);
    schedule(&mut chunks, interleaved(2));
    vec![materialised, flash, chunks]
}

/// Modules recompute less than whole layers: the step is no longer, the peak no lower; and the more
/// modules do, the lower is the peak.
#[test]
fn modules_are_no_slower_than_whole_layers_and_hold_no_less() {
    for shape in shapes() {
        let none = measures(&ran(shape.clone(), None));
        let full = measures(&ran(shape.clone(), Some(Recompute::default())));
        let mut peak = none.1;
        for set in [&[Activation][..], &[Activation, LayerNorm], &[Activation, LayerNorm, CoreAttention]] {
            let some = measures(&ran(shape.clone(), modules(set)));
            assert!(none.0 < some.0 && some.0 < full.0, "{set:?}: {some:?}, {none:?}, {full:?}");
            assert!(full.1 <= some.1 && some.1 <= peak, "{set:?}: {some:?}, {none:?}, {full:?}");
            peak = some.1;
        }
        let mlp = measures(&ran(shape, modules(&[Mlp, LayerNorm, CoreAttention])));
        assert!(mlp.0 < full.0 && full.1 <= mlp.1 && mlp.1 < peak, "{mlp:?}, {full:?}, {peak}");
    }
}

#[test]
fn every_layer_is_full_recomputation() {
    for shape in shapes() {
        let (one, full) = (ran(shape.clone(), every(1)), ran(shape, Some(Recompute::default())));
        assert_eq!((one.run.time, &one.run.streams), (full.run.time, &full.run.streams));
        assert_eq!(one.run.stores, full.run.stores);
    }
}

/// Of four layers of a stage the second and the fourth, or the third, whatever chunks they are in.
#[test]
fn layers_are_counted_over_the_chunks_of_a_stage() {
    let mut chunks = plan(gpt(8), [1, 2, 1], 4);
    schedule(&mut chunks, interleaved(4));
    for shape in [plan(gpt(8), [1, 2, 1], 4), chunks] {
        let repeated = |number| ran(shape.clone(), every(number)).spent(0, 0, cause::RECOMPUTE).0;
        let whole = repeated(1);
        for (number, layers) in [(2, 2), (3, 1), (4, 1), (5, 0)] {
            assert!(repeated(number).abs_diff(whole / 4 * layers) <= whole / 1_000, "every {number}");
        }
    }
}
