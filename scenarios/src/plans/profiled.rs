//! The plan of a pipeline with given stage times.

use sim_core::time::Time;
use workloads::model::profiled::{self, StageProfile};
use workloads::plan::PipelinePlan;

use super::pipelining::pipelining;
use crate::schema::{Bytes, ProfiledPipeline, Scenario};

/// The plan of a scenario whose model is `pipeline`.
pub(crate) fn plan(scenario: &Scenario, pipeline: &ProfiledPipeline) -> PipelinePlan {
    PipelinePlan { model: model(scenario, pipeline), pipelining: pipelining(scenario) }
}

/// Memory that one stage may use, in bytes; none without a limit.
pub(crate) fn memory_per_stage(scenario: &Scenario, pipeline: &ProfiledPipeline) -> Option<u64> {
    let device = pipeline.device.as_ref();
    let usable = device.map(|device| device.memory.bytes() - device.reserved.map_or(0, Bytes::bytes));
    scenario.memory.limit.map(Bytes::bytes).or(usable)
}

fn model(scenario: &Scenario, pipeline: &ProfiledPipeline) -> profiled::ProfiledPipeline {
    let recompute = scenario.techniques.recompute.as_ref().and_then(|recompute| recompute.forward.as_ref());
    let stage = |stage: usize| StageProfile {
        forward: Time(pipeline.forward.at(stage).picoseconds()),
        backward_input: Time(pipeline.backward_input.at(stage).picoseconds()),
        backward_weight: Time(pipeline.backward_weight.at(stage).picoseconds()),
        transfer: Time(pipeline.transfer.at(stage).picoseconds()),
        recompute: recompute.map(|forward| Time(forward.at(stage).picoseconds())),
        activation: pipeline.activation.at(stage).bytes(),
        activation_kept_for_weight: pipeline
            .activation_kept_for_weight
            .as_ref()
            .map(|kept| kept.at(stage).bytes()),
        weights: pipeline.weights.as_ref().map_or(0, |weights| weights.at(stage).bytes()),
    };
    profiled::ProfiledPipeline {
        stages: (0..pipeline.stages.get() as usize).map(stage).collect(),
        capacity: memory_per_stage(scenario, pipeline),
    }
}
