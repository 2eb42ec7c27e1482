//! Orders: which chunk, phase and micro-batch each stage executes after which. Generators write nothing else; where
//! tensors are and how messages travel is decided later.
//!
//! The fixed orders (GPipe, 1F1B, interleaved, ZB-H1, ZB-H2) follow rules. ZB-V and ZB-auto are heuristic: they take the
//! times of the stages as *inputs to ordering* and draft the step on a clock of their own, which the engine never sees.

mod draft;
mod gpipe;
mod interleaved;
mod memory_allowance;
mod one_f_one_b;
mod repeat;
mod zb_auto;
mod zb_v;
mod zero_bubble;

use hw_models::settings::Count;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use draft::{ChunkTiming, Timing};
pub use memory_allowance::{MemoryAllowance, MicroBatches};

use crate::chain::Chain;
use crate::diagnostic::Diagnostic;
use crate::graph::Phase;

/// Order in which a stage works on its micro-batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Schedule")]
pub enum PipelineSchedule {
    /// One forward, one backward: each stage begins backwards as early as it can.
    #[default]
    #[serde(rename = "1f1b")]
    OneFOneB,
    /// All forwards, then all backwards.
    Gpipe,
    /// 1F1B with several chunks of the model on each stage.
    Interleaved(Interleaved),
    /// Zero-bubble schedule with the peak memory of 1F1B.
    ZbH1,
    /// Zero-bubble schedule with about twice the peak memory of 1F1B.
    ZbH2,
    /// Zero-bubble schedule with two chunks per stage, placed in a V.
    ZbV,
    /// Zero-bubble schedule found by a heuristic under a memory limit.
    ZbAuto(ZbAuto),
}

/// Options of the interleaved schedule.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Interleaved {
    /// Chunks per stage; a stage's work is split evenly among them.
    pub chunks: Count<2, 64>,
}

/// Options of the automatic zero-bubble schedule.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ZbAuto {
    /// Memory that the activations of a stage may take.
    pub memory_limit: MemoryAllowance,
}

impl PipelineSchedule {
    /// How the chunks lie on `stages` stages.
    pub fn chain(&self, stages: u32) -> Chain {
        match *self {
            Self::Interleaved(Interleaved { chunks }) => {
                Chain { stages, chunks: chunks.get() as u32, folded: false }
            }
            Self::ZbV => Chain { stages, chunks: 2, folded: true },
            _ => Chain::straight(stages),
        }
    }

    /// Whether the two gradients are operations of their own.
    pub fn splits_backward(&self) -> bool {
        matches!(self, Self::ZbH1 | Self::ZbH2 | Self::ZbV | Self::ZbAuto(_))
    }

    /// Refuses micro-batches that the interleaved schedule cannot take round its stages in groups. `counts` are both,
    /// each with its setting.
    pub fn check(&self, counts: [(&'static str, u32); 2]) -> Option<Diagnostic> {
        let [(path, micro_batches), (of_stages, stages)] = counts;
        let uneven = stages > 0 && !micro_batches.is_multiple_of(stages);
        (matches!(self, Self::Interleaved(_)) && uneven).then(|| {
            let message = format!(
                "the interleaved schedule needs a multiple of {stages} micro-batches, not {micro_batches}"
            );
            let remedy =
                format!("use {} micro-batches", u64::from(micro_batches).next_multiple_of(stages.into()));
            Diagnostic::new(path, message, remedy)
                .noting(format!("{micro_batches} micro-batches"))
                .with(of_stages, format!("{stages} stages"))
                .with("parallelism.schedule.interleaved", "goes round the stages in groups")
        })
    }

    /// The name used in scenarios and errors.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Gpipe => "gpipe",
            Self::OneFOneB => "1f1b",
            Self::Interleaved(_) => "interleaved",
            Self::ZbH1 => "zb-h1",
            Self::ZbH2 => "zb-h2",
            Self::ZbV => "zb-v",
            Self::ZbAuto(_) => "zb-auto",
        }
    }
}

/// The extent of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Stages and chunks.
    pub chain: Chain,
    /// Micro-batches per step, at least 1.
    pub micro_batches: u32,
}

impl Shape {
    fn stages(self) -> u32 {
        self.chain.stages
    }
}

/// One operator execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Visit {
    /// Forward, or one of the backward phases.
    pub phase: Phase,
    /// Chunk of the stage.
    pub chunk: u16,
    /// Micro-batch of the step.
    pub micro_batch: u32,
}

impl Visit {
    /// A visit.
    pub fn new(phase: Phase, chunk: u32, micro_batch: u32) -> Self {
        Self { phase, chunk: chunk as u16, micro_batch }
    }
}

/// What each stage executes in one step, in order. Per chunk and phase the micro-batches ascend, so the n-th message of a
/// kind belongs to micro-batch n.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// The extent.
    pub shape: Shape,
    /// The visits of each stage.
    pub stages: Vec<Vec<Visit>>,
}

/// The order of a schedule. Heuristic ones alone ask for `timing`, and take their memory limit
/// from it.
pub fn generate(schedule: &PipelineSchedule, shape: Shape, timing: impl FnOnce() -> Timing) -> Order {
    let by_rule = |rule: fn(Shape, u32) -> Vec<Visit>| Order {
        shape,
        stages: (0..shape.stages()).map(|stage| rule(shape, stage)).collect(),
    };
    match schedule {
        PipelineSchedule::Gpipe => by_rule(gpipe::stage),
        PipelineSchedule::OneFOneB => by_rule(one_f_one_b::stage),
        PipelineSchedule::Interleaved(_) => by_rule(interleaved::stage),
        PipelineSchedule::ZbH1 => by_rule(zero_bubble::h1),
        PipelineSchedule::ZbH2 => by_rule(zero_bubble::h2),
        PipelineSchedule::ZbV => zb_v::order(shape, &timing()),
        PipelineSchedule::ZbAuto(_) => zb_auto::order(shape, &timing()),
    }
}

/// `warm_up` forwards, then pairs of a forward and a backward, then the remaining backwards, `count` of each.
fn one_forward_one_backward(
    warm_up: u32,
    count: u32,
    forward: impl Fn(u32) -> Visit,
    backward: impl Fn(u32) -> Visit,
) -> Vec<Visit> {
    let warm_up = warm_up.min(count);
    let mut visits = Vec::with_capacity(2 * count as usize);
    visits.extend((0..warm_up).map(&forward));
    for k in warm_up..count {
        visits.extend([forward(k), backward(k - warm_up)]);
    }
    visits.extend((count - warm_up..count).map(backward));
    visits
}
