//! From a plan to what the engine takes: the passes, in their order, and the checks after each.

mod communicators;
mod composition;
mod decided;
mod deployed;
mod deployment;
mod grounds;
mod launch;
mod layered;
mod overlap;
mod profile;
mod size;
mod transformer;

use std::collections::BTreeMap;

use thiserror::Error;

use crate::account::Accounts;
use crate::chain::Chain;
use crate::check::{self, buffers::ShortBuffers, memory::FullHost, memory::Shortfall};
use crate::cost::CostBook;
use crate::diagnostic::Diagnostic;
use crate::disposition::{Conflict, Dispositions, Move};
use crate::exchange::Exchange;
use crate::graph::{OpGraph, StorageId};
use crate::hardware::HardwareError;
use crate::host_update::HostUpdate;
use crate::limits;
use crate::lower::{self, Cohorts, Lowered};
use crate::model::hosted::HostedStates;
use crate::model::profiled::ProfiledPipeline;
use crate::model::transformer::{DataParallel, Step};
use crate::order::{self, Order, PipelineSchedule, Shape};
use crate::realise::{self, messages::SendMode};
use crate::schedule::{Schedule, StageMemory};
use crate::site::ArrayUse;
use crate::techniques::bpipe::{self, Bpipe};
use crate::techniques::offload::adaptive::Kept;
use crate::techniques::offload::{ActivationOffload, Keep, LayerOps};
use crate::techniques::recompute::{self, Recompute};
use crate::techniques::swap::{Coordination, Swap, Swapped};
use crate::techniques::zero_infinity::{self, ZeroInfinity};
use crate::techniques::zero_offload::ZeroOffload;
use crate::timing::timing;

use decided::{Decided, decided};
use grounds::{Grounds, ProfiledGrounds};

pub use crate::buffers::HostBuffers;
pub use crate::site::{DriveArray, Drives};
pub use deployment::{Deployment, HostRates};
pub use launch::Launch;
pub use layered::{LayeredPlan, build_layered_on, check_layered_on, estimate_layered};
pub use overlap::{check_experts, check_groups, check_overlap};
pub use size::estimate_transformer;
pub use transformer::{TransformerPlan, build_on, check_on};

/// How a profiled pipeline is trained.
#[derive(Clone, Debug, PartialEq)]
pub struct PipelinePlan {
    /// What the stages compute and hold.
    pub model: ProfiledPipeline,
    /// Micro-batches per step, at least 1.
    pub micro_batches: u32,
    /// In which order.
    pub schedule: PipelineSchedule,
    /// What messages occupy.
    pub send: SendMode,
    /// Steps, at least 1, each with a flush: a stage begins a step after its own last operation of the step before.
    pub steps: u32,
    /// Recomputation, where asked for.
    pub recompute: Option<Recompute>,
    /// BPipe, where asked for.
    pub bpipe: Option<Bpipe>,
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
    /// Trips of storages to partners, each with the bytes that a micro-batch moves.
    pub moves: Vec<(Move, u64)>,
    /// What each stage executes after what.
    pub order: Order,
    /// The same in a step of fewer micro-batches, if the rest repeat.
    pub brief: Option<Brief>,
    /// What the memory of each stage has, and what is held throughout.
    pub memory: Vec<StageMemory>,
    /// Stages whose storages of a single micro-batch do not fit, whatever the schedule.
    pub shortfalls: Vec<Shortfall>,
    /// What was decided about swapping, by stage, then cohort.
    pub swapped: Vec<Swapped>,
    /// What ranks keep by their own profiles, where they do, by stage, then replica.
    pub kept: Vec<Kept>,
    /// Arrays of drives that ranks use.
    pub arrays: Vec<ArrayUse>,
    /// What is executed.
    pub(crate) graph: OpGraph,
    /// What the tasks of its activities count as; none for a profile, whose times are given.
    pub accounts: Option<Accounts>,
}

/// A step that is shorter because its micro-batches repeat fewer times.
#[derive(Clone, Debug, PartialEq)]
pub struct Brief {
    /// What each stage executes after what.
    pub order: Order,
    /// Trips of storages to partners, each with the bytes that a micro-batch moves.
    pub moves: Vec<(Move, u64)>,
}

impl Built {
    /// What each stage executes and what leaves it meanwhile, in the shortest step that is told.
    pub fn briefly(&self) -> (&Order, &[(Move, u64)]) {
        self.brief.as_ref().map_or((&self.order, &self.moves), |brief| (&brief.order, &brief.moves))
    }
}

/// Why a plan cannot be simulated.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum PlanError {
    /// Something in it is out of range; all of it.
    #[error("{}", list(.0))]
    Invalid(Vec<Diagnostic>),
    /// Two techniques decide about one storage.
    #[error(transparent)]
    Conflict(#[from] Conflict),
    /// Stages that cannot hold a single micro-batch, whatever the schedule.
    #[error("{}", list(.0))]
    DoesNotFit(Vec<Shortfall>),
    /// Stages whose ranks have too little page-locked memory at their hosts.
    #[error("{}", list(.0))]
    BuffersDoNotFit(Vec<ShortBuffers>),
    /// Hosts that cannot hold what their ranks keep there.
    #[error("{}", list(.0))]
    HostDoesNotFit(Vec<FullHost>),
    /// What the hardware models cannot answer.
    #[error(transparent)]
    Hardware(#[from] HardwareError),
    /// A pass broke the schedule: a mistake in this crate.
    #[error("{}", list(.0))]
    Broken(Vec<check::Problem>),
}

fn list<T: std::fmt::Display>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
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
    let stages = plan.model.stages.len() as u32;
    let chain = plan.schedule.chain(stages);
    let covered = |recompute: &Recompute| (0..stages).filter(|&stage| recompute.covers(stage)).count() as u64;
    let passes = if plan.schedule.splits_backward() { 3 } else { 2 };
    let passes = passes * u64::from(stages) + plan.recompute.as_ref().map_or(0, covered);
    let messages = if plan.send == SendMode::Latency { 0 } else { 2 * chain.hops() };
    // What a stage lends is one storage, which leaves and returns.
    let copies = |bpipe: &Bpipe| 2 * bpipe.lenders(stages, plan.micro_batches).count() as u64;
    let copies = plan.bpipe.as_ref().map_or(0, copies);
    let instances = u64::from(plan.micro_batches).saturating_mul(plan.steps.into());
    let visits = passes.saturating_mul(chain.chunks.into());
    Estimate {
        visits: visits.saturating_mul(instances),
        activities: visits.saturating_add(messages + copies).saturating_mul(instances),
    }
}

/// Builds a plan: graph, recomputation decided, order, plain schedule, BPipe decided, everything realised, checked after
/// every pass, lowered.
///
/// # Errors
/// See [`PlanError`].
pub fn build(plan: &PipelinePlan) -> Result<Built, PlanError> {
    limits::validate(plan).map_err(PlanError::Invalid)?;
    let stages = plan.model.stages.len() as u32;
    let chain = plan.schedule.chain(stages);
    let mut graph = plan.model.graph(chain, plan.schedule.splits_backward());
    let mut table = Dispositions::default();
    if let Some(recompute) = &plan.recompute {
        recompute::decide(recompute, chain.chunks, &mut graph, &mut table)?;
    }
    let costs = plan.model.costs(chain, &graph);
    let (exchanges, updates) = Default::default();
    let staged = Staged {
        chain,
        graph,
        layers: Vec::new(),
        table,
        exchanges,
        updates,
        costs,
        memory: plan.model.memory(),
        buffers: HostBuffers::ENOUGH,
    };
    let PipelinePlan { micro_batches, schedule, send, steps, bpipe, .. } = *plan;
    let (offload, zero_offload, zero_infinity, swap) = (None, None, None, None);
    let pipelining = Pipelining {
        micro_batches,
        schedule,
        send,
        steps,
        bpipe,
        offload,
        zero_offload,
        zero_infinity,
        swap,
    };
    let grounds = ProfiledGrounds { stages, partner_rate: plan.bpipe.and_then(|bpipe| bpipe.partner_rate()) };
    let built = assemble(staged, &pipelining, &Copies::ONE, &grounds)?;
    if built.shortfalls.is_empty() { Ok(built) } else { Err(PlanError::DoesNotFit(built.shortfalls)) }
}

/// A model on its stages: what every plan has before it is put in order.
#[derive(Clone, Debug)]
pub(crate) struct Staged {
    pub(crate) chain: Chain,
    pub(crate) graph: OpGraph,
    /// Its layers, by position of the chain, then in the order of the forward pass.
    pub(crate) layers: Vec<LayerOps>,
    /// What has been decided so far: recomputation.
    pub(crate) table: Dispositions,
    pub(crate) exchanges: Vec<Exchange>,
    pub(crate) updates: Vec<HostUpdate>,
    pub(crate) costs: CostBook,
    pub(crate) memory: Vec<StageMemory>,
    pub(crate) buffers: HostBuffers,
}

/// How the stages of a model work together.
#[derive(Clone, Debug, PartialEq)]
pub struct Pipelining {
    /// Micro-batches per step, at least 1.
    pub micro_batches: u32,
    /// In which order.
    pub schedule: PipelineSchedule,
    /// What messages occupy.
    pub send: SendMode,
    /// Steps, at least 1, each with a flush: a stage begins a step after its own last operation of the step before.
    pub steps: u32,
    /// BPipe, where asked for.
    pub bpipe: Option<Bpipe>,
    /// Offload of activations, where asked for.
    pub offload: Option<ActivationOffload>,
    /// States of the optimizer that are with hosts, where asked for.
    pub zero_offload: Option<ZeroOffload>,
    /// Swapping, where asked for.
    pub swap: Option<Swap>,
    /// States, and parameters, that are with hosts or on their drives, where asked for.
    pub zero_infinity: Option<ZeroInfinity>,
}

impl Pipelining {
    /// What of the states of a model of so many stages is with hosts.
    pub(crate) fn hosted(&self, stages: u32) -> Option<HostedStates> {
        let infinity = self.zero_infinity.as_ref().map(ZeroInfinity::hosted);
        self.zero_offload.map(|technique| technique.hosted(stages)).or(infinity)
    }

    /// Reports what keeps hosts from updating a model of so many stages, of which `data` are copies.
    pub fn check_hosts(
        &self,
        stages: u32,
        data: &DataParallel,
        step: Step,
        wrong: &mut impl FnMut(Diagnostic),
    ) {
        if let Some(technique) = self.zero_offload {
            technique.check(stages, data, step, wrong);
        }
        if let Some(technique) = &self.zero_infinity {
            technique.check(stages, data, step, wrong);
        }
        if self.zero_offload.is_some() && self.zero_infinity.is_some() {
            wrong(zero_infinity::refusal("two techniques decide where states are: remove one of the two"));
        }
    }

    /// Steps that are simulated before it is decided what stays.
    fn profiled_steps(&self) -> u32 {
        let adaptive = self.offload.as_ref().is_some_and(|offload| offload.keep == Keep::Adaptive);
        if adaptive { profile::steps(self.micro_batches) } else { 0 }
    }
}

/// Copies of a model: how many ranks a stage has, and which of them are copies that share a link to their host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copies {
    /// Ranks of a stage.
    pub(crate) replicas: u32,
    /// Those next to each other that hold parts of one copy.
    pub(crate) ranks: u32,
    /// Copies beside each other, on one node.
    pub(crate) together: u32,
}

impl Copies {
    const ONE: Self = Self { replicas: 1, ranks: 1, together: 1 };

    /// The cohort of a replica, of so many.
    const fn cohort(self, replica: u32, cohorts: u32) -> u32 {
        replica / self.ranks % self.together % cohorts
    }
}

/// The passes from a staged model to a program, on the site that fits what they decide.
fn assemble(
    mut staged: Staged,
    pipelining: &Pipelining,
    copies: &Copies,
    grounds: &impl Grounds,
) -> Result<Built, PlanError> {
    let shape = Shape { chain: staged.chain, micro_batches: pipelining.micro_batches };
    let order = order::generate(&pipelining.schedule, shape, &timing(&pipelining.schedule, &staged));
    let mut brief = order.shortened().map(|order| (order, staged.table.clone()));
    if let Some(bpipe) = &pipelining.bpipe {
        let decide = |order, table| bpipe::decide(bpipe, order, &staged.graph, table);
        decide(&order, &mut staged.table)?;
        if let Some((order, table)) = &mut brief {
            decide(order, table)?;
        }
    }
    let Decided { mut tables, cohort_of, swapped, kept } =
        decided(&mut staged, &order, pipelining, copies, grounds)?;
    for table in &mut tables {
        staged.buffers.decide(&staged.memory, &order, &staged.graph, table);
    }
    let costs = (&staged.graph, &staged.costs);
    let short = check::buffers::shortages(&staged.memory, &tables, &order, costs, pipelining.swap.is_some());
    if !short.is_empty() {
        return Err(PlanError::BuffersDoNotFit(short));
    }
    // Repeats are as right as the first.
    let checked = if brief.is_some() && !cfg!(debug_assertions) { Checked::No } else { Checked::Yes };
    let schedules = schedules(&staged, &tables, &order, pipelining, checked)?;
    if let Some((order, table)) = &brief {
        let tables: Vec<Dispositions> = tables.iter().map(|full| full.with_trips_of(table)).collect();
        self::schedules(&staged, &tables, order, pipelining, Checked::Yes)?;
    }
    let Staged { chain, graph, costs, mut memory, .. } = staged;
    for (stage, memory) in memory.iter_mut().enumerate() {
        memory.waits = schedules.iter().any(|schedule| schedule.stages[stage].waits);
    }
    let short = schedules.iter().map(|schedule| check::memory::shortfalls(schedule, &graph));
    let shortfalls = short.into_iter().find(|short| !short.is_empty()).unwrap_or_default();
    // What waits for room that never comes would hang.
    if shortfalls.iter().any(|short| memory[short.stage as usize].waits) {
        return Err(PlanError::DoesNotFit(shortfalls));
    }
    let cohorts = Cohorts::new(&schedules, |replica| cohort_of[replica as usize], copies.replicas);
    // Of some cohorts nothing may leave.
    let table = tables.iter().find(|table| table.offloads().next().is_some()).unwrap_or(&tables[0]);
    let site = grounds.site(table)?;
    let full = check::memory::full_hosts(&memory, &site);
    if !full.is_empty() {
        return Err(PlanError::HostDoesNotFit(full));
    }
    let mut lowered = lower::lower(&cohorts, &graph, &costs, &site, pipelining.steps);
    grounds.slow_clocks(&mut lowered);
    Ok(Built {
        lowered,
        chunks: chain.chunks,
        evictions: evictions(chain.stages, table),
        moves: moves(table, &graph),
        order,
        brief: brief.map(|(order, table)| Brief { order, moves: moves(&table, &graph) }),
        memory,
        shortfalls,
        swapped,
        kept,
        arrays: site.arrays,
        graph,
        accounts: None,
    })
}

/// Whether a schedule is checked after every pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Checked {
    Yes,
    No,
}

/// The schedules of all cohorts, with every decision realised.
fn schedules(
    staged: &Staged,
    tables: &[Dispositions],
    order: &Order,
    pipelining: &Pipelining,
    checked: Checked,
) -> Result<Vec<Schedule>, PlanError> {
    let swap = pipelining.swap.filter(|_| tables.len() > 1);
    let both_ways = swap.is_some_and(|swap| swap.coordination == Coordination::Bidirectional);
    let of_cohort = |(cohort, table)| {
        let mut schedule = realised(staged, table, order, pipelining, checked)?;
        if both_ways {
            realise::phases::realise(&mut schedule, order, cohort > 0);
            checked.after(realise::phases::PASS, &schedule, &staged.graph)?;
        }
        Ok(schedule)
    };
    tables.iter().enumerate().map(of_cohort).collect()
}

impl Checked {
    fn after(self, pass: &'static str, schedule: &Schedule, graph: &OpGraph) -> Result<(), PlanError> {
        if self == Self::No {
            return Ok(());
        }
        check::schedule(pass, schedule, graph).map_err(PlanError::Broken)
    }
}

/// The schedule with every decision realised.
fn realised(
    Staged { graph, exchanges, updates, memory, costs, .. }: &Staged,
    table: &Dispositions,
    order: &Order,
    pipelining: &Pipelining,
    checked: Checked,
) -> Result<Schedule, PlanError> {
    let check = |pass, schedule: &Schedule| checked.after(pass, schedule, graph);
    let mut schedule = realise::visits::realise(order, graph, memory.clone());
    // Before their passes exchanges, and copies of what hosts update, are not executed yet.
    let complete = exchanges.is_empty() && updates.is_empty();
    if table.recomputes() {
        // Before this pass a recompute operator is not executed yet.
        realise::recompute::realise(&mut schedule, graph, table);
        check(realise::recompute::PASS, &schedule)?;
    } else if complete {
        check(realise::visits::PASS, &schedule)?;
    }
    if graph.ops().iter().any(|op| op.beside > 0) {
        realise::collectives::realise(&mut schedule, graph);
        if complete {
            check(realise::collectives::PASS, &schedule)?;
        }
    }
    let mut done = BTreeMap::new();
    if !exchanges.is_empty() {
        done = realise::exchanges::realise(&mut schedule, graph, exchanges);
        if updates.is_empty() {
            check(realise::exchanges::PASS, &schedule)?;
        }
    }
    if !updates.is_empty() {
        realise::host_update::realise(&mut schedule, updates, &done);
        check(realise::host_update::PASS, &schedule)?;
    }
    if pipelining.bpipe.is_some() {
        realise::moves::realise(&mut schedule, table);
        check(realise::moves::PASS, &schedule)?;
    }
    if table.offloads().next().is_some() {
        realise::offload::realise(&mut schedule, graph, table);
        check(realise::offload::PASS, &schedule)?;
    }
    if pipelining.send != SendMode::Latency {
        realise::messages::realise(&mut schedule, pipelining.send);
        check(realise::messages::PASS, &schedule)?;
    }
    if costs.issue.is_some() {
        realise::launches::realise(
            &mut schedule,
            graph,
            matches!(pipelining.send, SendMode::Blocking | SendMode::Rendezvous),
        );
        check(realise::launches::PASS, &schedule)?;
    }
    Ok(schedule)
}

fn moves(table: &Dispositions, graph: &OpGraph) -> Vec<(Move, u64)> {
    let bytes = |storages: Vec<StorageId>| storages.iter().map(|&moved| graph.stored(moved).bytes).sum();
    table.moves().map(|(planned, storages)| (planned.clone(), bytes(storages))).collect()
}

fn evictions(stages: u32, table: &Dispositions) -> Vec<u32> {
    let mut evictions = vec![0; stages as usize];
    for (planned, _) in table.moves() {
        evictions[planned.from as usize] += planned.trips.len() as u32;
    }
    evictions
}
