//! Plans of transformers on machines: from dimensions, a split and a machine to what the engine takes.

use hw_models::provenance::Origin;
use sim_core::time::Time;

use crate::account::{Account, Accounts, Communication};
use crate::chain::Chain;
use crate::cost::{CostBook, Message};
use crate::disposition::Dispositions;
use crate::exchange::Exchange;
use crate::hardware::{CostModels, Hardware, HardwareError};
use crate::limits::Invalid;
use crate::model::exchanged::exchange;
use crate::model::laid::{Laid, lay};
use crate::model::transformer::{
    DataParallel, Execution, LayerRecompute, Overlap, RankParameters, ShardedTransformer, Sharding,
    Transformer,
};
use crate::names::kind;
use crate::order::PipelineSchedule;
use crate::placement::{Extent, Placement};
use crate::schedule::StageMemory;
use crate::site::Job;

use super::communicators::buffers;
use super::launch::{Launch, issue};
use super::{Built, Pipelining, PlanError, Staged, assemble};

/// How a transformer is trained on a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct TransformerPlan {
    /// Its dimensions.
    pub model: Transformer,
    /// Micro-batch, split, precision, kernels.
    pub execution: Execution,
    /// Copies of the model, each with micro-batches of its own.
    pub data: u32,
    /// What data-parallel ranks share.
    pub sharding: Sharding,
    /// What they exchange beside forward and backward passes.
    pub overlap: Overlap,
    /// Each tensor rank sends its part of a tensor that all hold to the next stage.
    pub scatter_gather: bool,
    /// On which GPUs the stages are.
    pub placement: Placement,
    /// What layers recompute.
    pub recompute: LayerRecompute,
    /// How the host issues the work.
    pub launch: Launch,
    /// What the host spends on an operator beyond what the catalogue says: layers of a framework above the operators.
    pub host_overhead: Time,
    /// How the stages work together.
    pub pipelining: Pipelining,
    /// Bytes of each GPU that are kept back beyond what the catalogue says.
    pub reserved: u64,
    /// Bytes of each GPU that may be used, reserved ones included; none: all.
    pub limit: Option<u64>,
}

impl TransformerPlan {
    /// How many ranks it has.
    pub fn extent(&self) -> Extent {
        let split = self.execution.split;
        Extent { tensor: split.tensor, data: self.data, stages: split.stages }
    }

    /// Its data-parallel ranks.
    pub fn data_parallel(&self) -> DataParallel {
        DataParallel { ranks: self.data, sharding: self.sharding, overlap: self.overlap }
    }

    /// Whether a stage ends the backward pass of a micro-batch before it begins the forward pass of the next.
    fn one_at_a_time(&self) -> bool {
        let Pipelining { micro_batches, schedule, .. } = self.pipelining;
        let alone = self.execution.split.stages == 1 && schedule == PipelineSchedule::OneFOneB;
        alone || micro_batches == 1
    }

    /// Its model on its stages, and what data-parallel ranks exchange beside the visits.
    pub(super) fn lay(&self, model: &ShardedTransformer, chain: Chain) -> (Laid, Vec<Exchange>) {
        let data = self.data_parallel();
        let boundary = model.boundary(self.scatter_gather);
        let update = |stage| model.update(&parameters(model, chain, stage), &data);
        let splits = self.pipelining.schedule.splits_backward();
        let cut = model.cut(chain, self.recompute);
        let mut laid = lay(&cut, chain, splits, &boundary.receive, update);
        let exchanges = exchange(&mut laid, model, &data, self.one_at_a_time());
        (laid, exchanges)
    }
}

/// Builds a plan on a machine.
///
/// # Errors
/// See [`PlanError`].
pub fn build_on(plan: &TransformerPlan, hardware: &Hardware<'_>) -> Result<Built, PlanError> {
    let model = ShardedTransformer::new(&plan.model, &plan.execution).map_err(PlanError::Invalid)?;
    validate(plan, hardware)?;
    let pipelining = &plan.pipelining;
    let chain = pipelining.schedule.chain(plan.execution.split.stages);
    let (laid, exchanges) = plan.lay(&model, chain);
    let boundary = model.boundary(plan.scatter_gather);
    let capacity = capacity(plan, hardware)?;
    let (machine, extent, placement) = (hardware.machine, plan.extent(), plan.placement);
    let job = Job { machine, extent, placement, capacity };
    let mut models = CostModels::new(&job, hardware, plan.launch)?;
    let mut costs = costs(&laid, chain, boundary.bytes, &mut models)?;
    costs.issue = issue(&laid, hardware.host, plan);
    let accounts = accounts(&laid, chain, &mut models, hardware)?;
    let buffers = buffers(&laid, chain, &job, hardware)?;
    let memory = memory(plan, hardware, &model, &laid, &buffers, capacity)?;
    let channels = models.channels;
    let hops =
        (0..chain.positions()).filter_map(|position| chain.hop(position)).map(|hop| (hop.from, hop.to));
    let staged =
        Staged { chain, graph: laid.graph, table: Dispositions::default(), exchanges, costs, memory };
    let mut built = assemble(staged, pipelining, |table| {
        Ok(job.site(hops, table, &channels).map_err(HardwareError::from)?)
    })?;
    job.slow_clocks(&mut built.lowered);
    built.accounts = Some(accounts);
    Ok(built)
}

/// What only the plan as a whole can get wrong.
fn validate(plan: &TransformerPlan, hardware: &Hardware<'_>) -> Result<(), PlanError> {
    let mut found = Vec::new();
    found.extend(plan.extent().fits(hardware.machine.gpus()).err());
    let (split, pipelining) = (plan.execution.split, &plan.pipelining);
    let chunks = pipelining.schedule.chain(split.stages).chunks;
    let mut wrong = |field, problem| found.push(Invalid { field, problem });
    if split.chunks != chunks {
        wrong(
            "schedule",
            format!("`{}` has {chunks} chunks per stage, not {}", pipelining.schedule.name(), split.chunks),
        );
    }
    if pipelining.micro_batches == 0 {
        wrong("micro_batches", "must be at least 1".to_owned());
    }
    if pipelining.steps == 0 {
        wrong("steps", "must be at least 1".to_owned());
    }
    overlap(plan, &mut wrong);
    if found.is_empty() { Ok(()) } else { Err(PlanError::Invalid(found)) }
}

/// Exchanges that go with what data-parallel ranks share.
fn overlap(plan: &TransformerPlan, wrong: &mut impl FnMut(&'static str, String)) {
    let Overlap { bucket, gather } = plan.overlap;
    if bucket == Some(0) {
        wrong("bucket", "a bucket of 0 B is never filled: give it some, such as 25 MB".to_owned());
    }
    match (plan.sharding, gather) {
        (Sharding::None, Some(_)) => {
            let problem = "every rank has all parameters: leave it out, or let the ranks share something";
            wrong("gather", problem.to_owned());
        }
        (Sharding::Parameters, None) => {
            let problem = "ranks that share parameters gather them for every pass: say how";
            wrong("gather", problem.to_owned());
        }
        (Sharding::Parameters, Some(gather)) if !gather.reshard_after_forward && !plan.one_at_a_time() => {
            let problem = "a stage has several micro-batches under way, each of which would keep parameters of its own: \
                           reshard after the forward pass, or let the ranks share only gradients and optimizer states";
            wrong("reshard_after_forward", problem.to_owned());
        }
        _ => {}
    }
}

fn costs(
    laid: &Laid,
    chain: Chain,
    boundary: u64,
    models: &mut CostModels<'_>,
) -> Result<CostBook, HardwareError> {
    let operators =
        laid.operators.iter().map(|op| models.operator(op)).collect::<Result<Vec<_>, HardwareError>>()?;
    let message = |stage: u32| models.message(stage, (stage + 1) % chain.stages, boundary);
    let messages = (0..chain.stages).map(message).collect::<Result<Vec<Message>, HardwareError>>()?;
    let copy = |stage: u32| Ok(models.message(stage, chain.stages - 1 - stage, 1)?.cap);
    Ok(CostBook {
        ops: laid.operator_of.iter().map(|&operator| operators[operator as usize].clone()).collect(),
        messages,
        copies: (0..chain.stages).map(copy).collect::<Result<_, HardwareError>>()?,
        speeds: models.speeds(),
        issue: None,
    })
}

/// What operators, messages and copies count as.
fn accounts(
    laid: &Laid,
    chain: Chain,
    models: &mut CostModels<'_>,
    hardware: &Hardware<'_>,
) -> Result<Accounts, HardwareError> {
    let operators = laid.operators.iter().map(|op| models.account(op, hardware)).collect::<Result<_, _>>()?;
    let message = |stage: u32| {
        let origin = models.message_origin(stage, (stage + 1) % chain.stages, hardware)?;
        Ok(Account { communication: Some(Communication::Message), origin })
    };
    let mut copies =
        (0..chain.stages).map(|stage| models.message_origin(stage, chain.stages - 1 - stage, hardware));
    Ok(Accounts {
        operator_of: laid.operator_of.clone(),
        operators,
        messages: (0..chain.stages).map(message).collect::<Result<_, HardwareError>>()?,
        copies: copies
            .try_fold(Origin::MeasuredHere, |weakest, copy| Ok::<_, HardwareError>(weakest.max(copy?)))?,
        host: hardware.host.launch.provenance.origin,
    })
}

/// Parameters of a rank of a stage.
pub(crate) fn parameters(model: &ShardedTransformer, chain: Chain, stage: u32) -> RankParameters {
    let layers = model.execution().split.layers_per_chunk(model.model()) * chain.chunks;
    let (first, last) = (chain.stage(0) == stage, chain.stage(chain.positions() - 1) == stage);
    model.parameters(layers, first, last)
}

/// Bytes of each GPU that the plan may use, reserved ones included.
fn capacity(plan: &TransformerPlan, hardware: &Hardware<'_>) -> Result<u64, HardwareError> {
    let (_, gpu) = hardware.gpu()?;
    let all = (gpu.memory_gib * f64::from(1 << 30)) as u64;
    Ok(plan.limit.map_or(all, |limit| limit.min(all)))
}

/// What each stage's ranks hold throughout.
fn memory(
    plan: &TransformerPlan,
    hardware: &Hardware<'_>,
    model: &ShardedTransformer,
    laid: &Laid,
    buffers: &[u64],
    capacity: u64,
) -> Result<Vec<StageMemory>, HardwareError> {
    let (_, gpu) = hardware.gpu()?;
    let reserved = (gpu.reserved_gib * f64::from(1 << 30)) as u64 + plan.reserved;
    let chain = plan.pipelining.schedule.chain(plan.execution.split.stages);
    let stage = |stage: u32| {
        let count = parameters(model, chain, stage).total();
        let states = plan.execution.states.bytes(count, plan.sharding, plan.data);
        let persistent = vec![
            (kind::PARAMETERS, states.parameters),
            (kind::GRADIENTS, states.gradients),
            (kind::OPTIMIZER, states.optimizer),
            (kind::WORKSPACE, laid.transient[stage as usize]),
            (kind::COMMUNICATION, buffers[stage as usize]),
            (kind::RESERVED, reserved),
        ];
        StageMemory { capacity, persistent, resident_bound: None }
    };
    Ok((0..chain.stages).map(stage).collect())
}
