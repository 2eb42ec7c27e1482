//! Plans of transformers on machines: from dimensions, a split and a machine to what the engine takes.

use std::convert::Infallible;

use crate::chain::Chain;
use crate::diagnostic::Diagnostic;
use crate::exchange::Exchange;
use crate::graph::cut::Cut;
use crate::hardware::Hardware;
use crate::memo::{Memo, Recent};
use crate::model::exchanged::exchange;
use crate::model::laid::{Laid, lay};
use crate::model::transformer::{
    DataParallel, Execution, Overlap, RankParameters, ShardedTransformer, Sharding, Step, Transformer,
};
use crate::passes::fusion::{Candidate, Explanation};
use crate::passes::{Around, ModelKind};
use crate::placement::Extent;

use super::deployed::Deployed;
use super::deployment::Deployment;
use super::floor::Floor;
use super::outline::Outline;
use super::{Built, Pipelining, PlanError, overlap};

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
    /// Ranks of a hybrid shard group, next to each other. `None`: all.
    pub sharing: Option<u32>,
    /// What they exchange beside forward and backward passes.
    pub overlap: Overlap,
    /// Each tensor rank sends its part of a tensor that all hold to the next stage.
    pub scatter_gather: bool,
    /// How its stages run on a machine.
    pub deployment: Deployment,
}

/// The models of the last plans on their stages.
pub(crate) type LaidTransformers = Recent<TransformerPlan, (Laid, Vec<Exchange>)>;

impl TransformerPlan {
    /// How many ranks it has.
    pub fn extent(&self) -> Extent {
        let split = &self.execution.split;
        Extent {
            tensor: split.tensor,
            context: split.context,
            data: self.data,
            stages: split.stages,
            expert: split.expert,
            sharing: self.data_parallel().sharing,
        }
    }

    /// The ranks that hold the same parameters but for experts: copies of the model, each of as many as have parts of its
    /// sequences.
    pub fn data_parallel(&self) -> DataParallel {
        let ranks = self.data.saturating_mul(self.execution.split.context);
        let expert = self.execution.split.expert;
        let sharing = self.sharing.unwrap_or(ranks);
        let hosted = self.deployment.pipelining.hosted(self.execution.split.stages);
        let sharding = self.sharding;
        DataParallel { ranks, expert, sharding, sharing, overlap: self.overlap, hosted }.among_several()
    }

    fn one_at_a_time(&self) -> bool {
        self.deployment.one_at_a_time(self.execution.split.stages)
    }

    /// Groups of operators that it makes one kernel of. `None`: no fusion is asked for, or the
    /// model is no model.
    pub fn fused(&self) -> Option<Explanation> {
        let pipelining = &self.deployment.pipelining;
        let model = ShardedTransformer::new(&self.model, &self.execution).ok()?;
        pipelining.fused(self.as_written(&model, pipelining.schedule.chain(self.execution.split.stages)))
    }

    /// Kernels among which fusion searches; none where it chooses nothing by times, or the model is
    /// no model.
    pub fn candidates(&self) -> Vec<Candidate> {
        let pipelining = &self.deployment.pipelining;
        let chain = pipelining.schedule.chain(self.execution.split.stages);
        let model = ShardedTransformer::new(&self.model, &self.execution);
        model.map_or_else(|_| Vec::new(), |model| pipelining.candidates(self.as_written(&model, chain)))
    }

    /// Its blocks before passes rewrite them, on the positions of `chain`.
    fn as_written(&self, model: &ShardedTransformer, chain: Chain) -> Cut {
        Cut { gathered: self.sharding == Sharding::Parameters, ..model.cut(chain) }
    }

    /// Its blocks as passes rewrite them, on the positions of `chain`.
    pub(crate) fn cut(&self, model: &ShardedTransformer, chain: Chain) -> Cut {
        let cut = self.deployment.pipelining.rewritten(self.as_written(model, chain));
        model.copied_out(cut, &self.data_parallel())
    }

    /// Its model on its stages, and what data-parallel ranks exchange beside the visits.
    pub(crate) fn lay(
        &self,
        model: &ShardedTransformer,
        chain: Chain,
        memo: Option<&Memo>,
    ) -> (Laid, Vec<Exchange>) {
        let Some(memo) = memo else { return self.laid(model, chain) };
        // The check, the plan and its allocator ask for it, as do plans otherwise deployed.
        let Pipelining { micro_batches, .. } = self.deployment.pipelining;
        let pipelining = self.deployment.pipelining.clone();
        let deployment = Deployment { pipelining, ..Deployment::new(micro_batches) };
        let key = Self { deployment, ..self.clone() };
        let make = || Ok::<_, Infallible>((key.clone(), self.laid(model, chain)));
        let Ok(laid) = memo.laid.get(|known| *known == key, make);
        (*laid).clone()
    }

    fn laid(&self, model: &ShardedTransformer, chain: Chain) -> (Laid, Vec<Exchange>) {
        let data = self.data_parallel();
        let boundary = model.boundary(self.scatter_gather);
        let pipelining = &self.deployment.pipelining;
        let update = |stage| pipelining.updated(model.update(&parameters(model, chain, stage), &data));
        let splits = pipelining.schedule.splits_backward();
        let mut laid = lay(&self.cut(model, chain), chain, splits, &boundary.receive, update);
        if self.execution.step == Step::Forward {
            return (laid, Vec::new());
        }
        let narrow = self.execution.gathers_narrow();
        let exchanges = exchange(&mut laid, self.execution.states, &data, self.one_at_a_time(), narrow);
        (laid, exchanges)
    }
}

/// Builds a plan on a machine.
///
/// # Errors
/// See [`PlanError`].
pub fn build_on(plan: &TransformerPlan, hardware: &Hardware<'_>) -> Result<Built, PlanError> {
    deployed(plan, hardware)?.build(hardware)
}

/// Finds what keeps a plan from being built, as far as that can be told without building it.
///
/// # Errors
/// As [`build_on`], but for memory that is too small.
pub fn check_on(plan: &TransformerPlan, hardware: &Hardware<'_>) -> Result<(), PlanError> {
    deployed(plan, hardware)?.check(hardware)
}

/// Finds what no order of a plan's visits can do without.
///
/// # Errors
/// As [`check_on`].
pub fn floor_on(plan: &TransformerPlan, hardware: &Hardware<'_>) -> Result<Floor, PlanError> {
    let outline = Outline::of(plan, hardware)?;
    match outline.too_large(hardware)? {
        Some(floor) => Ok(floor),
        None => outline.deployed(hardware).floor(hardware),
    }
}

/// A valid plan with its model on its stages.
pub(super) fn deployed<'a>(
    plan: &'a TransformerPlan,
    hardware: &Hardware<'_>,
) -> Result<Deployed<'a>, PlanError> {
    Ok(Outline::of(plan, hardware)?.deployed(hardware))
}

/// What only the plan as a whole can get wrong.
pub(super) fn validate(plan: &TransformerPlan, hardware: &Hardware<'_>) -> Result<(), PlanError> {
    let mut found = Vec::new();
    found.extend(plan.extent().fits(hardware.machine.gpus()).err());
    let (split, pipelining) = (&plan.execution.split, &plan.deployment.pipelining);
    let chunks = pipelining.schedule.chain(split.stages).chunks;
    let mut wrong = |field, problem| found.push(Diagnostic::sentence(field, problem));
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
    let (data, step) = (plan.data_parallel(), plan.execution.step);
    if plan.execution.adapters.is_some() {
        found.extend(overlap::check_frozen(&data));
    }
    found.extend(overlap::check_experts(split.expert, plan.data, split.context));
    let mut wrong = |diagnostic| found.push(diagnostic);
    if let Some(group) = plan.sharing {
        overlap::check_groups((data.ranks, group), plan.sharding, split.expert, &mut wrong);
    }
    pipelining.send.check(&pipelining.schedule, split.stages, &mut wrong);
    let (model, schedule, stages) = (ModelKind::Transformer, pipelining.schedule, split.stages);
    pipelining.techniques.check(&Around { model, schedule, stages, data: &data, step }, &mut wrong);
    overlap::check_overlap(&data, plan.one_at_a_time(), plan.deployment.launch, &mut wrong);
    if let (true, Ok(model)) = (found.is_empty(), ShardedTransformer::new(&plan.model, &plan.execution)) {
        found.extend(pipelining.unfusable(|| plan.as_written(&model, schedule.chain(stages))));
    }
    if found.is_empty() { Ok(()) } else { Err(PlanError::Invalid(found)) }
}

/// Parameters of a rank of a stage.
pub(super) fn parameters(model: &ShardedTransformer, chain: Chain, stage: u32) -> RankParameters {
    let layers = model.layers_on(chain, stage);
    let (first, last) = (chain.stage(0) == stage, chain.stage(chain.positions() - 1) == stage);
    model.parameters(layers, first, last)
}
