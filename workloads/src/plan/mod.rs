//! From a plan to what the engine takes.

mod assemble;
mod balanced;
mod base;
mod checkpoint;
mod communicators;
mod deployed;
mod deployment;
mod floor;
mod grounds;
mod launch;
mod layered;
mod outline;
mod overlap;
mod profile;
#[cfg(test)]
mod properties;
mod schedules;
mod size;
mod timing;
mod transformer;

use crate::account::Accounts;
use crate::check::memory::Shortfall;
use crate::graph::OpGraph;
use crate::limits;
use crate::lower::Lowered;
use crate::model::profiled::{self, ProfiledPipeline};
use crate::order::Order;
use crate::passes::realise::messages::SendMode;
use crate::passes::{Copies, Decided, LayerOps, Pass, Plan, list};
use crate::schedule::StageMemory;
use crate::site::ArrayUse;
use crate::transfer::{Dispositions, Transfer};

use grounds::ProfiledGrounds;

pub use crate::error::PlanError;
pub use crate::passes::host_buffers::HostBuffers;
pub use crate::passes::{Pipelining, Techniques};
pub use crate::site::{DriveArray, Drives, Levels};
pub use balanced::{balanced_on, spread};
pub use base::{layered_base, transformer_base};
pub use checkpoint::{StageCheckpoint, checkpoint, checkpoint_layered};
pub use deployment::Deployment;
pub use launch::Launch;
pub(crate) use schedules::Schedules;

pub use floor::{Floor, MemoryFloor};
pub use layered::{LayeredPlan, build_layered_on, check_layered_on, estimate_layered, floor_layered_on};
pub use outline::sketch_on;
pub use overlap::{GATHERED, check_experts, check_groups, check_overlap};
pub use size::estimate_transformer;
pub(crate) use transformer::LaidTransformers;
pub use transformer::{TransformerPlan, build_on, check_on, floor_on};

/// How a profiled pipeline is trained.
#[derive(Clone, Debug, PartialEq)]
pub struct PipelinePlan {
    /// What the stages compute and hold.
    pub model: ProfiledPipeline,
    /// How the stages work together.
    pub pipelining: Pipelining,
}

/// A plan ready to be simulated.
#[derive(Clone, Debug, PartialEq)]
pub struct Built {
    /// What `sim_core::simulate` takes.
    pub lowered: Lowered,
    /// Chunks per stage: residents are counted in micro-batches of one chunk, so this many make up a micro-batch.
    pub chunks: u32,
    /// Micro-batches that leave each stage for its partner in one step.
    pub evictions: Vec<u32>,
    /// Transfers between stages, each with the bytes that a micro-batch moves.
    pub moves: Vec<(Transfer, u64)>,
    /// What each stage executes after what.
    pub order: Order,
    /// The same in a step of fewer micro-batches, if the rest repeat.
    pub brief: Option<Brief>,
    /// What the memory of each stage has, and what is held throughout.
    pub memory: Vec<StageMemory>,
    /// Stages whose storages of a single micro-batch do not fit, whatever the schedule.
    pub shortfalls: Vec<Shortfall>,
    /// Decisions that reports tell.
    pub decided: Decided,
    /// Arrays of drives that ranks use.
    pub arrays: Vec<ArrayUse>,
    /// What is executed.
    pub graph: OpGraph,
    /// Its layers.
    pub layers: Vec<LayerOps>,
    /// Where tensors are between their uses, in the first of the cohorts in which some leave.
    pub table: Dispositions,
    /// What the tasks of its activities count as; none for a profile, whose times are given.
    pub accounts: Option<Accounts>,
}

/// A step that is shorter because its micro-batches repeat fewer times.
#[derive(Clone, Debug, PartialEq)]
pub struct Brief {
    /// What each stage executes after what.
    pub order: Order,
    /// Transfers between stages, each with the bytes that a micro-batch moves.
    pub moves: Vec<(Transfer, u64)>,
}

impl Built {
    /// What each stage executes and what leaves it meanwhile, in the shortest step that is told.
    pub fn briefly(&self) -> (&Order, &[(Transfer, u64)]) {
        self.brief.as_ref().map_or((&self.order, &self.moves), |brief| (&brief.order, &brief.moves))
    }
}

/// What simulating a plan takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// Operators executed, over all stages and steps.
    pub visits: u64,
    /// Operators, messages and copies; an upper bound.
    pub activities: u64,
}

/// The size of a plan, without building it. Saturates.
pub fn estimate(plan: &PipelinePlan) -> Estimate {
    let PipelinePlan { model, pipelining } = plan;
    let Pipelining { micro_batches, schedule, send, steps, techniques, .. } = pipelining;
    let stages = model.stages.len() as u32;
    let chain = schedule.chain(stages);
    let runs_again = |&stage: &u32| techniques.all().any(|it| it.runs_again(stage));
    let covered = (0..stages).filter(runs_again).count();
    let passes = if schedule.splits_backward() { 3 } else { 2 };
    let passes = passes * u64::from(stages) + covered as u64;
    let messages = if *send == SendMode::Latency { 0 } else { 2 * chain.hops() };
    // What a stage lends is one storage, which leaves and returns.
    let lenders = techniques.all().flat_map(|it| it.lenders(stages, *micro_batches));
    let copies = 2 * lenders.count() as u64;
    let instances = u64::from(*micro_batches).saturating_mul((*steps).into());
    let visits = passes.saturating_mul(chain.chunks.into());
    Estimate {
        visits: visits.saturating_mul(instances),
        activities: visits.saturating_add(messages + copies).saturating_mul(instances),
    }
}

/// Builds a plan: its graph, all passes, verified, lowered.
///
/// # Errors
/// See [`PlanError`].
pub fn build(plan: &PipelinePlan) -> Result<Built, PlanError> {
    build_with(plan, Vec::new())
}

/// Builds a plan with techniques of somebody else ([`crate::passes`]).
///
/// # Errors
/// See [`PlanError`].
pub fn build_with(plan: &PipelinePlan, techniques: Vec<Box<dyn Pass>>) -> Result<Built, PlanError> {
    build_by(plan, &list(&plan.pipelining, techniques))
}

/// Builds a plan by passes in their order.
///
/// # Errors
/// See [`PlanError`].
pub fn build_by(plan: &PipelinePlan, passes: &[Box<dyn Pass>]) -> Result<Built, PlanError> {
    limits::validate(plan).map_err(PlanError::Invalid)?;
    let PipelinePlan { model, pipelining } = plan;
    let stages = model.stages.len() as u32;
    let (schedule, chain) = (pipelining.schedule, pipelining.schedule.chain(stages));
    let splits = schedule.splits_backward();
    let mut cut = model.cut(chain, splits);
    passes.iter().for_each(|pass| pass.rewrite(&mut cut));
    let graph = profiled::graph(&cut, chain, splits);
    let mut passing = Plan { memory: model.memory(), ..assemble::plan(chain, graph, Vec::new()) };
    assemble::rewrite(&mut passing, passes, &schedule, Copies::ONE)?;
    let costs = model.costs(chain, &passing.graph);
    let partner_rate = pipelining.techniques.all().find_map(|it| it.facts(stages).partner_rate);
    let grounds = ProfiledGrounds { stages, partner_rate };
    let built = assemble::assemble((passing, &costs), passes, pipelining, Copies::ONE, &grounds)?;
    if built.shortfalls.is_empty() { Ok(built) } else { Err(PlanError::DoesNotFit(built.shortfalls)) }
}
