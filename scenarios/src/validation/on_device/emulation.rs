//! From a scenario to a pipeline that is emulated: the order of every stage, and what its passes take.

use serde::Serialize;
use workloads::graph::Phase;
use workloads::order::{PipelineSchedule, Shape, Timing, generate};
use workloads::plan::{PipelinePlan, Pipelining, Techniques};

use crate::plans;
use crate::schema::Scenario;

/// A pipeline on the streams of a device, as `pipeline.py` takes it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Emulation {
    /// What each stage executes, in order.
    stages: Vec<Vec<Pass>>,
    /// Chunks of a stage: each takes as many parts of the times.
    chunks: u32,
    /// What a stage takes for a micro-batch (s).
    forward_s: f64,
    backward_input_s: f64,
    backward_weight_s: f64,
}

/// A pass of a micro-batch through the chunk at a position of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Pass {
    phase: &'static str,
    position: u32,
    micro_batch: u32,
}

/// What a device emulates for a checked scenario.
///
/// # Errors
/// What of the scenario cannot be emulated.
pub fn emulation(scenario: &Scenario) -> Result<Emulation, String> {
    let Some(pipeline) = scenario.model.profile() else {
        return Err("profiled pipelines are emulated: `model.profiled_pipeline`".to_owned());
    };
    let PipelinePlan { model, pipelining } = plans::profiled::plan(scenario, pipeline);
    let Pipelining { micro_batches, schedule, techniques, .. } = pipelining;
    let by_rule = !matches!(schedule, PipelineSchedule::ZbV | PipelineSchedule::ZbAuto(_));
    let alike = model.stages.windows(2).all(|pair| pair[0] == pair[1]);
    let first = model.stages.first().filter(|_| by_rule && alike && techniques == Techniques::default());
    let first = first.ok_or(
        "stages are emulated that are alike, in an order that does not hang on their times, and without techniques",
    )?;
    let chain = schedule.chain(model.stages.len() as u32);
    let timing = Timing { chunks: Vec::new(), limit: Vec::new() };
    let order = generate(&schedule, Shape { chain, micro_batches }, || timing);
    let stages = (0u32..).zip(order.stages).map(|(stage, visits)| {
        let pass = |visit: workloads::order::Visit| Pass {
            phase: name(visit.phase),
            position: chain.position(stage, visit.chunk.into()),
            micro_batch: visit.micro_batch,
        };
        visits.into_iter().map(pass).collect()
    });
    Ok(Emulation {
        stages: stages.collect(),
        chunks: chain.chunks,
        forward_s: first.forward.as_secs(),
        backward_input_s: first.backward_input.as_secs(),
        backward_weight_s: first.backward_weight.as_secs(),
    })
}

const fn name(phase: Phase) -> &'static str {
    match phase {
        Phase::Backward => "backward",
        Phase::BackwardInput => "backward_input",
        Phase::BackwardWeight => "backward_weight",
        Phase::Forward | Phase::Recompute | Phase::Accumulate | Phase::Update => "forward",
    }
}
