//! What ranks ask of their allocator where one micro-batch is walked for others.

use workloads::memory::{Framework, Placeholder, Ranks};
use workloads::order::PipelineSchedule;
use workloads::passes::recompute::Mode;
use workloads::plan::TransformerPlan;

use super::exchanged::{eight, overlaps};
use super::tensors::order;
use super::{every_layer, gpt, plan, schedule};
use crate::plans::interleaved;

#[test]
fn all_ask_as_if_each_were_walked() {
    let schedules = [
        PipelineSchedule::Gpipe,
        PipelineSchedule::OneFOneB,
        interleaved(2),
        PipelineSchedule::ZbH1,
        PipelineSchedule::ZbH2,
    ];
    for kind in schedules {
        for recompute in [Mode::None, Mode::Selective, Mode::Full] {
            let mut plan = plan(gpt(8), [2, 4, 1], 8);
            plan.deployment.pipelining.techniques.recompute = every_layer(recompute);
            schedule(&mut plan, kind);
            check(&plan);
        }
    }
    for (sharding, overlap) in overlaps() {
        check(&eight(sharding, overlap, 4));
    }
}

fn check(plan: &TransformerPlan) {
    let (ranks, order) = (Ranks::of_transformer(plan, None).unwrap(), order(plan));
    for placeholder in [Placeholder::None, Placeholder::Fresh, Placeholder::Kept] {
        let framework = Framework { workspace: 0, placeholder };
        for stage in 0..plan.execution.split.stages {
            let of = |training: fn(&Ranks, _, _, _) -> _| training(&ranks, &order, (stage, 0), &framework);
            let alike = of(Ranks::training) == of(Ranks::training_plainly);
            assert!(alike, "{plan:?}, stage {stage}, {placeholder:?}");
        }
    }
}
