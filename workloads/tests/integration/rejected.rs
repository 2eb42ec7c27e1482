//! Plans that cannot be built say so, all at once.

use hw_models::settings::{Bytes, Rate};
use workloads::order::{MemoryAllowance, PipelineSchedule, ZbAuto};
use workloads::passes::bpipe::{Bpipe, EvictionPolicy, PairTransfer};
use workloads::passes::recompute::Recompute;
use workloads::plan::{PlanError, build, estimate};

use crate::plans::{interleaved, keeping, on, stage, uniform};

const BPIPE: Bpipe = Bpipe { policy: EvictionPolicy::EvictNewest, bound: None, transfer: None };

#[test]
fn everything_out_of_range_is_reported_at_once() {
    let mut plan = uniform(stage(1, 1, 1, 1), 4, 6, interleaved(2));
    plan.pipelining.steps = 0;
    plan.model.stages[2].activation_kept_for_weight = Some(u64::MAX);
    plan.pipelining.techniques.bpipe =
        Some(Bpipe { transfer: Some(PairTransfer::Rate(Rate::new_bytes_per_second(0))), ..BPIPE });
    plan.pipelining.techniques.recompute = Some(Recompute { stages: on(&[9, 1]), ..keeping(99_000) });
    let Err(PlanError::Invalid(found)) = build(&plan) else { panic!("it is invalid") };
    let fields: Vec<_> = found.iter().map(|invalid| invalid.path).collect();
    assert_eq!(
        fields,
        [
            "steps",
            "model.profiled_pipeline.activation_kept_for_weight",
            "techniques.recompute.keeps",
            "training.micro_batches",
            "techniques.bpipe",
            "techniques.bpipe.transfer",
            "recompute.stages"
        ]
    );
    assert!(found[3].remedy.contains("use 8"), "{}", found[3]);
}

#[test]
fn absurd_sizes_are_refused_without_being_built() {
    let mut plan = uniform(stage(1, 1, 1, 1), 4096, u32::MAX, PipelineSchedule::Gpipe);
    plan.pipelining.steps = u32::MAX;
    assert_eq!(estimate(&plan).visits, u64::MAX);
    assert!(matches!(build(&plan), Err(PlanError::Invalid(_))));

    let plan = uniform(stage(1, 1, 1, 1), 2_049, 1, PipelineSchedule::ZbV);
    let Err(PlanError::Invalid(found)) = build(&plan) else { panic!("it is invalid") };
    assert!(found[0].message.contains("4098 chunks"), "{}", found[0]);

    let mut stage = stage(u64::MAX, 1, 1, 1);
    stage.activation = u64::MAX;
    let plan = uniform(stage, 4, 4, PipelineSchedule::ZbH1);
    let Err(PlanError::Invalid(found)) = build(&plan) else { panic!("it is invalid") };
    assert!(found.iter().any(|invalid| invalid.path == "forward"));
    assert!(found.iter().any(|invalid| invalid.path == "activation"));
}

#[test]
fn a_memory_limit_leaves_room_for_a_micro_batch() {
    let memory_limit = MemoryAllowance::Bytes(Bytes::new_bytes(33_999));
    let plan = uniform(stage(1, 1, 1, 1), 4, 8, PipelineSchedule::ZbAuto(ZbAuto { memory_limit }));
    assert!(matches!(build(&plan), Err(PlanError::Invalid(_))));
}

#[test]
fn bpipe_needs_the_order_it_balances() {
    for schedule in [PipelineSchedule::Gpipe, PipelineSchedule::ZbV, PipelineSchedule::ZbH1] {
        let mut plan = uniform(stage(1, 1, 1, 1), 4, 8, schedule);
        plan.pipelining.techniques.bpipe = Some(BPIPE);
        let error = build(&plan).unwrap_err();
        assert!(error.to_string().contains("`schedule: 1f1b`"), "{error}");
    }
}

#[test]
fn two_deciders_for_one_storage_are_both_named() {
    let mut plan = uniform(stage(1, 1, 1, 1), 4, 8, PipelineSchedule::OneFOneB);
    plan.pipelining.techniques.bpipe = Some(BPIPE);
    plan.pipelining.techniques.recompute = Some(Recompute::default());
    let error = build(&plan).unwrap_err();
    assert!(matches!(error, PlanError::Invalid(_)));
    for words in ["`recompute`", "`bpipe`", "activations of stage 0", "`keeps`"] {
        assert!(error.to_string().contains(words), "{error}");
    }
    // On other stages, or with something left to move, the two compose.
    plan.pipelining.techniques.recompute = Some(Recompute { stages: on(&[1, 2, 3]), ..Recompute::default() });
    assert!(build(&plan).is_ok());
    plan.pipelining.techniques.recompute = Some(keeping(1_000));
    assert!(build(&plan).is_ok());
}

#[test]
fn what_cannot_hold_one_micro_batch_is_not_simulated() {
    let mut plan = uniform(stage(1, 1, 1, 1), 4, 8, PipelineSchedule::OneFOneB);
    plan.model.stages[2].weights = 100_000;
    plan.model.capacity = Some(133_999);
    let Err(PlanError::DoesNotFit(found)) = build(&plan) else { panic!("it does not fit") };
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].stage, found[0].needed, found[0].persistent), (2, 134_000, 100_000));
    plan.model.capacity = Some(134_000);
    assert!(build(&plan).is_ok());
}
