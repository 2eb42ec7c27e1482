//! Plans of lists of layers on machines: copies of the model, or of its stages.

use crate::chain::Chain;
use crate::diagnostic::Diagnostic;
use crate::exchange::Exchange;
use crate::feed::{FeedLane, FeedPlan};
use crate::graph::Phase;
use crate::graph::cut::Cut;
use crate::graph::operator::{OperatorList, Work};
use crate::hardware::Hardware;
use crate::limits;
use crate::model::exchanged::exchange;
use crate::model::hosted;
use crate::model::laid::{Laid, lay};
use crate::model::layered::{LayeredModel, updated};
use crate::model::transformer::{DataParallel, Overlap, Sharding, Step};
use crate::passes::fusion::{Candidate, Explanation};
use crate::passes::{Around, ModelKind};
use crate::placement::Extent;

use super::deployed::{Deployed, Fed};
use super::deployment::Deployment;
use super::floor::Floor;
use super::launch::{Launch, updated_one_by_one};
use super::size::estimate_laid;
use super::{Built, Estimate, Pipelining, PlanError, overlap};

/// How a list of layers is trained on a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct LayeredPlan {
    /// Its layers, read.
    pub model: LayeredModel,
    /// Pipeline stages.
    pub stages: u32,
    /// Copies of the model, each with micro-batches of its own.
    pub data: u32,
    /// What data-parallel ranks share.
    pub sharding: Sharding,
    /// What they exchange beside forward and backward passes.
    pub overlap: Overlap,
    /// How batches come to each copy. `None`: they are there.
    pub feed: Option<FeedPlan>,
    /// How its stages run on a machine.
    pub deployment: Deployment,
}

impl LayeredPlan {
    /// How many ranks it has.
    pub const fn extent(&self) -> Extent {
        Extent::new(1, self.data, self.stages)
    }

    /// What keeps it from being built: all of it.
    ///
    /// # Errors
    /// Everything that is out of range or does not go together.
    pub fn validate(&self) -> Result<(), Vec<Diagnostic>> {
        let mut found = Vec::new();
        let mut wrong = |field, problem| found.push(Diagnostic::sentence(field, problem));
        let blocks = self.model.blocks().len();
        if self.stages as usize > blocks {
            let problem =
                format!("{blocks} blocks cannot be cut into {} stages: use at most {blocks}", self.stages);
            wrong("pipeline", problem);
        }
        if self.stages > 1 && self.model.has_decoder() {
            let problem = "what the encoder makes goes to every layer of the decoder, which a pipeline does not carry: \
                           use 1 stage";
            wrong("pipeline", problem.to_owned());
        }
        let &Pipelining { micro_batches, schedule, steps, .. } = &self.deployment.pipelining;
        if schedule.chain(self.stages.max(1)).chunks > 1 {
            let problem = format!(
                "`{}` has several chunks per stage, but layers are cut once for each: use `1f1b`",
                schedule.name()
            );
            wrong("schedule", problem);
        }
        for (field, count) in [("pipeline", self.stages), ("micro_batches", micro_batches), ("steps", steps)]
        {
            if count == 0 {
                wrong(field, "must be at least 1".to_owned());
            }
        }
        if self.deployment.launch == Launch::Graph && self.model.makes_host_wait() {
            let problem = "the host waits for what a router chose, which a graph cannot hold: use `eager`";
            wrong("launch", problem.to_owned());
        }
        let pipelining = &self.deployment.pipelining;
        let mut wrong = |diagnostic| found.push(diagnostic);
        let (data, step) = (self.data_parallel(), self.model.execution().step);
        pipelining.send.check(&pipelining.schedule, self.stages, &mut wrong);
        let (model, schedule, stages) = (ModelKind::Layers, pipelining.schedule, self.stages);
        pipelining.techniques.check(&Around { model, schedule, stages, data: &data, step }, &mut wrong);
        overlap::check_overlap(&data, self.one_at_a_time(), self.deployment.launch, &mut wrong);
        if found.is_empty() {
            found.extend(pipelining.unfusable(|| self.as_written(pipelining.schedule.chain(self.stages))));
        }
        if found.is_empty() { Ok(()) } else { Err(found) }
    }

    fn one_at_a_time(&self) -> bool {
        self.deployment.one_at_a_time(self.stages)
    }

    /// The ranks that hold the same parameters: copies of the model.
    pub(crate) fn data_parallel(&self) -> DataParallel {
        let hosted = self.deployment.pipelining.hosted(self.stages);
        let data = DataParallel::new(self.data, self.sharding);
        DataParallel { overlap: self.overlap, hosted, ..data }.among_several()
    }

    /// By stage, bytes of the buckets that gradients which are whole are copied to, as PyTorch's `DistributedDataParallel`
    /// does unless it is told that gradients are views of them (`gradient_as_bucket_view`).
    pub(crate) fn buckets(&self, laid: &Laid, exchanges: &[Exchange]) -> Vec<Vec<u64>> {
        let mut buckets = vec![Vec::new(); self.stages as usize];
        if self.sharding == Sharding::None {
            for exchange in exchanges {
                let stage = laid.graph.get(exchange.ops[0]).stage;
                buckets[stage as usize]
                    .extend(laid.exchanged(exchange.ops[0]).map(|collective| collective.bytes));
            }
        }
        buckets
    }

    /// Its blocks before passes rewrite them, on the positions of `chain`.
    fn as_written(&self, chain: Chain) -> Cut {
        Cut { gathered: self.sharding == Sharding::Parameters, ..self.model.cut(chain) }
    }

    /// Its blocks as passes rewrite them, on the positions of `chain`.
    pub(crate) fn cut(&self, chain: Chain) -> Cut {
        self.deployment.pipelining.rewritten(self.as_written(chain))
    }

    /// Groups of operators that it makes one kernel of. `None`: no fusion is asked for.
    pub fn fused(&self) -> Option<Explanation> {
        let pipelining = &self.deployment.pipelining;
        pipelining.fused(self.as_written(pipelining.schedule.chain(self.stages)))
    }

    /// Kernels among which fusion searches; none where it chooses nothing by times.
    pub fn candidates(&self) -> Vec<Candidate> {
        let pipelining = &self.deployment.pipelining;
        pipelining.candidates(self.as_written(pipelining.schedule.chain(self.stages)))
    }

    /// Its model on its stages, and what ranks exchange beside the visits.
    pub(crate) fn lay(&self) -> (Laid, Vec<Exchange>) {
        let Self { model, deployment: Deployment { pipelining, .. }, stages, .. } = self;
        let data = self.data_parallel();
        let parameters = model.stage_parameters(*stages);
        let update = |stage: u32| pipelining.updated(model.update(parameters[stage as usize], &data));
        let chain = pipelining.schedule.chain(*stages);
        let mut laid = lay(
            &self.cut(chain),
            chain,
            pipelining.schedule.splits_backward(),
            &OperatorList::default(),
            update,
        );
        if model.execution().step == Step::Forward {
            return (laid, Vec::new());
        }
        let exchanges = exchange(&mut laid, model.execution().states, &data, self.one_at_a_time(), false);
        (laid, exchanges)
    }
}

/// Builds a plan on a machine.
///
/// # Errors
/// See [`PlanError`].
pub fn build_layered_on(plan: &LayeredPlan, hardware: &Hardware<'_>) -> Result<Built, PlanError> {
    deployed(plan, hardware)?.build(hardware)
}

/// Finds what keeps a plan from being built, as far as that can be told without building it.
///
/// # Errors
/// As [`build_layered_on`], but for memory that is too small.
pub fn check_layered_on(plan: &LayeredPlan, hardware: &Hardware<'_>) -> Result<(), PlanError> {
    deployed(plan, hardware)?.check(hardware)
}

/// Finds what no order of a plan's visits can do without.
///
/// # Errors
/// As [`check_layered_on`].
pub fn floor_layered_on(plan: &LayeredPlan, hardware: &Hardware<'_>) -> Result<Floor, PlanError> {
    deployed(plan, hardware)?.floor(hardware)
}

/// A valid plan with its model on its stages.
pub(super) fn deployed<'a>(
    plan: &'a LayeredPlan,
    hardware: &Hardware<'_>,
) -> Result<Deployed<'a>, PlanError> {
    let mut found = plan.validate().err().unwrap_or_default();
    found.extend(plan.extent().fits(hardware.machine.gpus()).err());
    if !found.is_empty() {
        return Err(PlanError::Invalid(found));
    }
    let counts = plan.model.stage_parameters(plan.stages);
    let updated: Vec<u64> = counts.iter().map(|&count| updated(count, &plan.data_parallel())).collect();
    limits::host_groups(&plan.deployment.pipelining, &updated).map_err(PlanError::Invalid)?;
    let (mut laid, exchanges) = plan.lay();
    let buckets = plan.buckets(&laid, &exchanges);
    let (model, stages, data) = (&plan.model, plan.stages, plan.data_parallel());
    let execution = model.execution();
    let moments = execution.optimizer.moments();
    let states = |(count, buckets): (u64, Vec<u64>)| {
        let states = execution.state_bytes(count, plan.sharding, plan.data);
        let mut places = data.places(states, execution.states, moments);
        places.gpu.gradients += buckets.iter().sum::<u64>();
        places
    };
    let types = (execution.states, moments);
    let updates = hosted::updates(&mut laid, &exchanges, data.hosted, types, &updated);
    let chain = plan.deployment.pipelining.schedule.chain(stages);
    let feed = plan.feed.clone().unwrap_or_default();
    let lanes = feed.lanes.iter().map(|lane| fed(&mut laid, lane)).collect();
    Ok(Deployed {
        laid,
        tensors: updated_one_by_one(hardware, || model.cut(chain), chain),
        exchanges,
        chain,
        boundaries: model.boundaries(stages),
        states: counts.into_iter().zip(buckets).map(states).collect(),
        updates,
        feed: Fed { lanes, plan: feed },
        extent: plan.extent(),
        deployment: &plan.deployment,
    })
}

/// A lane with its work in the graph, in no visit.
fn fed(laid: &mut Laid, lane: &FeedLane<(&'static str, Work)>) -> FeedLane {
    let tasks = lane
        .tasks
        .iter()
        .map(|&(name, work)| laid.add_beside((0, 0), (name, Phase::Forward, work), [Vec::new(), Vec::new()]));
    let FeedLane { part, multiprocessors, buffers, freed, .. } = *lane;
    FeedLane { part, tasks: tasks.collect(), multiprocessors, buffers, freed }
}

/// The size of a plan, without building it; a plan that cannot be built takes nothing.
pub fn estimate_layered(plan: &LayeredPlan) -> Estimate {
    if plan.validate().is_err() {
        return Estimate { visits: 0, activities: 0 };
    }
    let chain = plan.deployment.pipelining.schedule.chain(plan.stages);
    let (laid, exchanges) = plan.lay();
    let size = estimate_laid((&laid, &exchanges), chain, plan.extent(), &plan.deployment);
    let Some(feed) = &plan.feed else { return size };
    let Pipelining { micro_batches, steps, .. } = plan.deployment.pipelining;
    // Operators of visits that kernels of lanes disturb are activities of their own, each launched.
    let disturbed = 2 * laid.graph.ops().len() as u64;
    let tasks = feed.lanes.iter().map(|lane| lane.tasks.len() as u64).sum::<u64>() + disturbed;
    let batches = u64::from(micro_batches) * u64::from(steps) * plan.extent().ranks();
    Estimate { activities: size.activities.saturating_add(tasks.saturating_mul(batches)), ..size }
}
