//! A model that is laid on stages, on a machine: what operators and messages cost there, what its memory holds
//! throughout, and the passes that every plan goes through.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use hw_models::copies::{CopyCost, CopyStream, HostMemory, rate_beside};
use hw_models::provenance::Origin;
use hw_models::storage::{Array, PathParameters, Staging};
use sim_core::fixed::Rate;
use sim_core::time::Time;

use crate::account::{Account, Accounts};
use crate::chain::Chain;
use crate::cost::{CostBook, HostLinks, IssueCosts, Message, OpCost};
use crate::diagnostic::Diagnostic;
use crate::exchange::Exchange;
use crate::feed::{FeedLane, FeedPlan};
use crate::graph::OpId;
use crate::graph::cut::PartKind;
use crate::hardware::{CostModels, Hardware, HardwareError};
use crate::host_update::HostUpdate;
use crate::lower::Lowered;
use crate::memo::Memo;
use crate::model::hosted::Places;
use crate::model::laid::{Laid, Part};
use crate::model::transformer::Operator;
use crate::names::kind;
use crate::passes::host_buffers::HostBuffers;
use crate::passes::{Copies, LayerOps, Pass, Plan, list};
use crate::placement::Extent;
use crate::schedule::StageMemory;
use crate::site::{ChannelSpec, Job, Kinds, MixedStage, RowPlaces, Site};
use crate::transfer::{Dispositions, Medium};

use super::assemble::{self, assemble};
use super::communicators::buffers;
use super::deployment::Deployment;
use super::floor::{Floor, Parts};
use super::grounds::Grounds;
use super::launch::issue;
use super::{Built, PlanError};

/// A model on its stages, whatever it is, and how they run.
pub(super) struct Deployed<'a> {
    pub(super) laid: Laid,
    /// By stage, tensors of parameters that a framework updates one by one; empty where it updates
    /// lists.
    pub(super) tensors: Vec<u64>,
    pub(super) exchanges: Vec<Exchange>,
    pub(super) chain: Chain,
    /// By stage, bytes that each rank sends to its like of the next stage for a micro-batch.
    pub(super) boundaries: Vec<u64>,
    /// By stage, what a rank holds of parameters, gradients and optimizer states.
    pub(super) states: Vec<Places>,
    /// What hosts update.
    pub(super) updates: Vec<HostUpdate>,
    /// How batches come to its first stage.
    pub(super) feed: Fed,
    pub(super) extent: Extent,
    pub(super) deployment: &'a Deployment,
}

/// Lanes that make batches, and what memories hold for them.
#[derive(Default)]
pub(super) struct Fed {
    pub(super) lanes: Vec<FeedLane>,
    pub(super) plan: FeedPlan,
}

/// Costs of operators, and of copies from page-locked and from pageable memory and back.
pub(super) struct Works {
    pub(super) costs: CostBook,
    pub(super) links: [HostLinks; 2],
}

/// A block of a model, and its time on its GPU for a micro-batch.
pub(super) struct BlockTime {
    pub(super) stage: u32,
    pub(super) kind: PartKind,
    pub(super) time: Time,
}

/// Costs of a plan's parts on a machine.
struct Priced<'j> {
    models: CostModels<'j>,
    /// By kind of GPU, then operator of the model.
    operators: Vec<Vec<OpCost>>,
    /// By stage, a message to the next.
    messages: Vec<Message>,
    /// By stage, the rate at which it lends to its partner.
    copies: Vec<Rate>,
    /// By stage, bytes of the buffers of communicators.
    buffers: Vec<u64>,
    /// Arrays of drives, by node.
    arrays: BTreeMap<u32, Vec<Array>>,
    /// Costs of hosts, where they may be late.
    issue: Option<IssueCosts>,
}

impl<'a> Deployed<'a> {
    /// Finds what the machine and the models of its hardware say against building it.
    pub(super) fn check(mut self, hardware: &Hardware<'_>) -> Result<(), PlanError> {
        self.add_buffers();
        let (layers, mut wrong) = (self.layers(), Vec::new());
        let techniques = self.deployment.pipelining.techniques.all();
        techniques.for_each(|it| it.check_tensors(&self.laid.graph, &layers, &mut |found| wrong.push(found)));
        if !wrong.is_empty() {
            return Err(PlanError::Invalid(wrong));
        }
        let job = self.job(hardware)?;
        self.priced(&job, &kinds(&job)?, hardware).map(drop)
    }

    /// Builds it on a machine that has GPUs for its ranks.
    pub(super) fn build(mut self, hardware: &Hardware<'_>) -> Result<Built, PlanError> {
        self.add_buffers();
        let chain = self.chain;
        let job = self.job(hardware)?;
        let kinds = kinds(&job)?;
        let pipelining = &self.deployment.pipelining;
        let passes = list(pipelining, Vec::new());
        let (plan, copies) = self.rewritten(&job, &passes)?;
        let priced = self.priced(&job, &kinds, hardware)?;
        let costs = self.costs(&priced, (&job, &kinds), hardware, copies.together)?;
        let Priced { mut models, buffers, arrays, .. } = priced;
        let accounts = self.accounts(&mut models, &costs, &kinds, hardware)?;
        let (channels, ways) = (models.channels, models.ways);
        let memory = self.memory(&buffers, &job, &kinds);
        let hops =
            (0..chain.positions()).filter_map(|position| chain.hop(position)).map(|hop| (hop.from, hop.to));
        let hops: Vec<(u32, u32)> = hops.collect();
        let Self { laid, exchanges, updates, feed, .. } = self;
        let hosted = !updates.is_empty() || !feed.lanes.is_empty();
        let rows = RowPlaces { on: feed.plan.sockets, ways };
        let (training, feed) = (feed.plan.training, feed.lanes);
        let (arrays, channels, rows, memo) = (&arrays, &channels, &rows, hardware.memo);
        let grounds =
            JobGrounds { job: &job, kinds: &kinds, hops: &hops, hosted, arrays, channels, rows, memo };
        let away = if job.drives.activations.is_empty() { Medium::PAGE_LOCKED } else { Medium::DRIVES };
        let buffers = job.buffers;
        let plan = Plan { exchanges, updates, feed, training, memory, buffers, away, ..plan };
        let plan = Plan { graph: laid.graph, ..plan };
        let mut built = assemble((plan, &costs), &passes, pipelining, copies, &grounds)?;
        built.accounts = Some(accounts.of_graph(&built.graph, kinds.by_stage()));
        Ok(built)
    }

    /// Finds what no order of its visits can do without.
    pub(super) fn floor(mut self, hardware: &Hardware<'_>) -> Result<Floor, PlanError> {
        self.add_buffers();
        let job = self.job(hardware)?;
        let kinds = kinds(&job)?;
        let passes = list(&self.deployment.pipelining, Vec::new());
        let (_, copies) = self.rewritten(&job, &passes)?;
        // Pricing takes longest, and what is too large needs no price.
        let working = self.working();
        if let Some(floor) = self.too_large(&working, &job, &kinds) {
            return Ok(floor);
        }
        let priced = self.priced(&job, &kinds, hardware)?;
        let costs = self.costs(&priced, (&job, &kinds), hardware, copies.together)?;
        let Floor { memory, hosts, .. } = self.memory_floor(&priced.buffers, &working, &job, &kinds);
        let Self { laid, exchanges, updates, chain, deployment, .. } = &self;
        let parts = Parts { graph: &laid.graph, exchanges, chain: *chain, costs: &costs };
        Ok(Floor { memory, hosts, ..parts.floor(&deployment.pipelining, !updates.is_empty()) })
    }

    /// Times of its blocks on the GPUs of their stages, in the order of the model.
    pub(super) fn block_times(&self, hardware: &Hardware<'_>) -> Result<Vec<BlockTime>, PlanError> {
        let job = self.job(hardware)?;
        let kinds = kinds(&job)?;
        let priced = self.priced(&job, &kinds, hardware)?;
        let costs = self.costs(&priced, (&job, &kinds), hardware, 1)?;
        let Self { laid, exchanges, chain, .. } = self;
        let parts = Parts { graph: &laid.graph, exchanges, chain: *chain, costs: &costs };
        let time = |part: &Part| BlockTime {
            stage: part.stage,
            kind: part.kind,
            time: parts.alone(part.passes().map(OpId)),
        };
        Ok(laid.parts.iter().map(time).collect())
    }

    /// Applies the rewriters to its graph; its plan as far as that, and the copies that it has.
    fn rewritten(&mut self, job: &Job<'_>, passes: &[Box<dyn Pass>]) -> Result<(Plan, Copies), PlanError> {
        let ranks = self.extent.tensor * self.extent.context;
        let together = (job.machine.gpus_per_node() / ranks).clamp(1, self.extent.data);
        let copies = Copies { replicas: self.extent.replicas(), ranks, together };
        let mut plan = assemble::plan(self.chain, std::mem::take(&mut self.laid.graph), self.layers());
        assemble::rewrite(&mut plan, passes, &self.deployment.pipelining.schedule, copies)?;
        self.laid.graph = std::mem::take(&mut plan.graph);
        Ok((plan, copies))
    }

    /// Costs on one GPU of its operators and of some beside it, behind those, and of copies.
    pub(super) fn works(&self, beside: &[Operator], hardware: &Hardware<'_>) -> Result<Works, PlanError> {
        let job = self.job(hardware)?;
        let kinds = kinds(&job)?;
        let mut priced = self.priced(&job, &kinds, hardware)?;
        for operator in beside {
            priced.operators[0].push(priced.models.operator(0, operator, &[])?);
        }
        let links = |memory| {
            let links = host_links((&job, &kinds), memory, hardware, 1)?;
            let gpu = job.machine.gpu(job.gpu(0, 0));
            links.into_iter().next().ok_or_else(|| HardwareError::from(job.machine.no_memory(gpu)))
        };
        let links = [links(HostMemory::Pinned)?, links(HostMemory::Pageable)?];
        Ok(Works { costs: self.costs(&priced, (&job, &kinds), hardware, 1)?, links })
    }

    /// Operators of its layers.
    fn layers(&self) -> Vec<LayerOps> {
        let layer = |part: &Part| LayerOps {
            stage: part.stage,
            chunk: part.chunk,
            kind: part.kind,
            forward: part.forward.clone(),
            backward: part.backward.clone(),
            middle: part.middle,
        };
        self.laid.parts.iter().map(layer).collect()
    }

    /// Its ranks on the GPUs of the machine.
    pub(super) fn job<'j>(&self, hardware: &Hardware<'j>) -> Result<Job<'j>, PlanError>
    where
        'a: 'j,
    {
        let (machine, extent) = (hardware.machine, self.extent);
        let Deployment { placement, drives, limit, .. } = self.deployment;
        extent.placed(placement, machine.gpus()).map_err(|invalid| PlanError::Invalid(vec![invalid]))?;
        Ok(Job { machine, extent, placement, limit: *limit, drives, buffers: self.buffers() })
    }

    /// Prices its parts on the machine, or finds what the machine and the models of its hardware say against it.
    fn priced<'j>(
        &self,
        job: &'j Job<'j>,
        kinds: &'j Kinds,
        hardware: &Hardware<'j>,
    ) -> Result<Priced<'j>, PlanError> {
        let Deployment { launch, pipelining, .. } = self.deployment;
        let arrays = self.arrays(job)?;
        self.check_hosts(job)?;
        let issue = self.issue(hardware)?;
        let mut models = CostModels::new(
            (job, kinds),
            hardware,
            *launch,
            pipelining.techniques.host_rates(),
            job.buffers.exchanged,
        )?;
        // What rewriters have added reads nothing of which a cache is known to have it.
        let reused = self.laid.reused.iter().map(Vec::as_slice).chain(std::iter::repeat(&[][..]));
        let operators = self.laid.graph.operators().iter().zip(reused);
        let mut on_kind = |kind| {
            let costs = operators.clone().map(|(op, reused)| models.operator(kind, op, reused));
            costs.collect::<Result<Vec<_>, HardwareError>>()
        };
        let operators = (0..kinds.count()).map(&mut on_kind).collect::<Result<Vec<_>, _>>()?;
        let stages = self.chain.stages;
        let message = |(stage, &bytes): (u32, &u64)| models.message(stage, (stage + 1) % stages, bytes);
        let messages = (0..).zip(&self.boundaries).map(message).collect::<Result<_, HardwareError>>()?;
        let copy = |stage: u32| Ok(models.message(stage, stages - 1 - stage, 1)?.cap);
        let copies = (0..stages).map(copy).collect::<Result<_, HardwareError>>()?;
        let buffers = buffers(&self.laid, self.chain, &mut models)?;
        Ok(Priced { models, operators, messages, copies, buffers, arrays, issue })
    }

    /// Finds ranks without the memory of a host, where techniques keep something there or on its drives.
    fn check_hosts(&self, job: &Job<'_>) -> Result<(), HardwareError> {
        let fed = !self.feed.lanes.is_empty();
        if self.updates.is_empty() && !fed && !self.deployment.pipelining.techniques.leave_for_hosts() {
            return Ok(());
        }
        let (stages, replicas) = (0..self.extent.stages, self.extent.replicas());
        let gpus = stages.flat_map(|stage| (0..replicas).map(move |replica| job.gpu(stage, replica)));
        for gpu in gpus.map(|gpu| job.machine.gpu(gpu)) {
            job.machine.memory_of(gpu).ok_or_else(|| job.machine.no_memory(gpu))?;
        }
        Ok(())
    }

    /// Prices what issuing its operators costs hosts, or finds some that would issue a step for longer than a run may last.
    fn issue(&self, hardware: &Hardware<'_>) -> Result<Option<IssueCosts>, PlanError> {
        let pipelining = &self.deployment.pipelining;
        let ranks = self.extent.ranks();
        let of_one = issue(&self.laid, &self.exchanges, &self.tensors, hardware, self.deployment);
        // Ranks are tied to each other by collectives and messages.
        let issue = of_one.map(|costs| costs.slower(hardware.host.variation.slowest_of(ranks)));
        let ops = (0u32..).map(OpId).zip(self.laid.graph.ops());
        let issued = issue.iter().flat_map(|issue| ops.clone().map(|(id, op)| issue.of(id, op)));
        let once = issued.map(|time| u128::from(time.0)).sum::<u128>();
        // No order takes longer than everything one after the other.
        let longest = once * u128::from(pipelining.micro_batches) * u128::from(pipelining.steps);
        if longest <= u128::from(Time::LAST.0) {
            return Ok(issue);
        }
        let problem =
            "issuing all operators one after the other takes more than 106 days: write a shorter time";
        Err(PlanError::Invalid(vec![Diagnostic::sentence("host_overhead", problem)]))
    }

    /// Adds to what hosts hold their buffers for parameters that are read ahead from drives, each
    /// as large as the largest read; those of states take the gradients that are exchanged at once.
    fn add_buffers(&mut self) {
        for (stage, places) in (0u32..).zip(&mut self.states) {
            let reads = self.exchanges.iter().filter_map(|exchange| exchange.read);
            let reads = reads.filter(|read| self.laid.graph.get(read.op).stage == stage);
            let buffers =
                reads.map(|read| u64::from(read.buffers) * self.laid.graph.operator(read.op).work.bytes());
            places.host.parameters += buffers.max().unwrap_or(0);
            let passing = self.updates.iter().filter(|update| update.stage == stage);
            let passing = passing.flat_map(HostUpdate::passing);
            let passing = passing.map(|op| self.laid.graph.operator(op).work.bytes()).max();
            places.host.optimizer = places.host.optimizer.max(passing.unwrap_or(0));
        }
    }

    /// The arrays of drives of the nodes.
    fn arrays(&self, job: &Job<'_>) -> Result<BTreeMap<u32, Vec<Array>>, PlanError> {
        let drives = &self.deployment.drives;
        let mut problems = Vec::new();
        if drives.states.is_empty() && self.states.iter().any(|places| places.drives.all() > 0) {
            problems
                .push("something is to be on drives, but on none that is named: name an array".to_owned());
        }
        if drives.of_activations().any(|array| array.to_gpu.staging == Staging::Whole) {
            let whole = "a path that holds all of a tensor in host memory on its way to drives is not for activations: \
                         let them bounce, or go there directly";
            problems.push(whole.to_owned());
        }
        // What the start of a copy takes is one for all ranks of a stage.
        let mut paths = drives.of_activations().map(|array| &array.to_gpu);
        let first = paths.next();
        if paths.any(|path| Some(path) != first) {
            let same =
                "activations of all GPUs go the same way: give their arrays the same path and requests";
            problems.push(same.to_owned());
        }
        let arrays = job.arrays().unwrap_or_else(|errors| {
            problems.extend(errors.iter().map(ToString::to_string));
            BTreeMap::new()
        });
        if problems.is_empty() {
            return Ok(arrays);
        }
        let invalid = |problem| Diagnostic::sentence("drives", problem);
        Err(PlanError::Invalid(problems.into_iter().map(invalid).collect()))
    }

    /// The costs of its parts; so many copies of the model share a link to their host.
    fn costs(
        &self,
        Priced { models, operators, messages, copies, issue, .. }: &Priced<'_>,
        (job, kinds): (&Job<'_>, &Kinds),
        hardware: &Hardware<'_>,
        together: u32,
    ) -> Result<CostBook, PlanError> {
        let pipelining = &self.deployment.pipelining;
        Ok(CostBook {
            kinds: kinds.by_stage().to_vec(),
            operators: operators.clone(),
            messages: messages.clone(),
            copies: copies.clone(),
            speeds: models.speeds(),
            tier_copies: (0..kinds.count())
                .map(|kind| tier_copies((job, kinds), kind, hardware))
                .collect::<Result<_, _>>()?,
            host_links: if pipelining.techniques.weigh_host_links() {
                host_links((job, kinds), job.buffers.activations, hardware, together)?
            } else {
                Vec::new()
            },
            issue: issue.clone(),
        })
    }

    /// What operators, messages and copies count as.
    fn accounts(
        &self,
        models: &mut CostModels<'_>,
        costs: &CostBook,
        kinds: &Kinds,
        hardware: &Hardware<'_>,
    ) -> Result<Accounts, HardwareError> {
        let (laid, chain) = (&self.laid, self.chain);
        let shapes = BuildHasherDefault::<DefaultHasher>::default();
        let mut account = |kind: usize, op: &Operator| {
            Ok(Account { shape: shapes.hash_one(op.work.anchor()), ..models.account(kind, op, hardware)? })
        };
        let mut on_kind = |kind| {
            let accounts = laid.graph.operators().iter().map(|op| account(kind, op));
            accounts.collect::<Result<Vec<_>, HardwareError>>()
        };
        let operators = (0..kinds.count()).map(&mut on_kind).collect::<Result<_, _>>()?;
        let loads = costs.operators.iter().enumerate().map(|(kind, costs)| {
            let loads =
                laid.graph.operators().iter().zip(costs).map(|(op, cost)| models.load(kind, op, cost));
            loads.collect::<Result<_, HardwareError>>()
        });
        let loads = loads.collect::<Result<_, HardwareError>>()?;
        let message = |stage: u32| models.account_of_message(stage, (stage + 1) % chain.stages, hardware);
        let messages = (0..chain.stages).map(message).collect::<Result<_, HardwareError>>()?;
        let mut copies =
            (0..chain.stages).map(|stage| models.message_origin(stage, chain.stages - 1 - stage, hardware));
        Ok(Accounts {
            operator_of: Vec::new(),
            operators,
            loads,
            messages,
            copies: copies
                .try_fold(Origin::MeasuredHere, |weakest, copy| Ok::<_, HardwareError>(weakest.max(copy?)))?,
            away: match self.deployment.drives.of_activations().next() {
                None => {
                    let gpus = (0..kinds.count()).map(|kind| kinds.gpu(hardware.machine, kind).1);
                    let origins = gpus.map(|gpu| hardware.host_copies_origin(gpu));
                    origins.fold(Origin::MeasuredHere, Origin::max)
                }
                Some(array) => array.to_gpu.provenance.origin,
            },
            host: hardware.host.launch.provenance.origin,
        })
    }

    /// Buffers of hosts, where what leaves a rank stays there. What hosts exchange with their GPUs has room in them, or none at all.
    fn buffers(&self) -> HostBuffers {
        let buffers = self.deployment.buffers;
        let exchanged = self.states.iter().map(|places| places.host.parameters + places.host.gradients);
        let most = exchanged.max().unwrap_or(0);
        let locked = buffers.locked.filter(|_| self.deployment.drives.activations.is_empty());
        let overflows = buffers.overflows && locked.is_some_and(|locked| most > locked);
        let exchanged = if overflows { HostMemory::Pageable } else { buffers.exchanged };
        HostBuffers { locked, exchanged, ..buffers }
    }

    /// Memory that the ranks of each stage have, and hold throughout.
    pub(super) fn memory(&self, buffers: &[u64], job: &Job<'_>, kinds: &Kinds) -> Vec<StageMemory> {
        let stages = self.states.iter().zip(buffers);
        let memory = |(stage, (places, &buffers)): (usize, (&Places, &u64))| {
            let Places { gpu, host, drives } = places;
            let (_, model) = kinds.gpu(job.machine, kinds.of_stage(stage as u32));
            let reserved = (model.reserved_gib * f64::from(1 << 30)) as u64 + self.deployment.reserved;
            let persistent = vec![
                (kind::PARAMETERS, gpu.parameters),
                (kind::GRADIENTS, gpu.gradients),
                (kind::OPTIMIZER, gpu.optimizer),
                (kind::COMMUNICATION, buffers),
                (kind::FEATURES, if stage == 0 { self.feed.plan.on_gpu } else { 0 }),
                (kind::RESERVED, reserved),
            ];
            let HostBuffers { locked, exchanged, .. } = self.buffers();
            let fed = &self.feed.plan;
            let [rows, features] = if stage == 0 { [fed.table, fed.on_host] } else { [0; 2] };
            let mut hosted = vec![(kind::OPTIMIZER, host.optimizer), (kind::FEATURES, features)];
            let mut exchanges = vec![(kind::PARAMETERS, host.parameters), (kind::GRADIENTS, host.gradients)];
            if exchanged == HostMemory::Pageable {
                hosted.append(&mut exchanges);
            }
            StageMemory {
                capacity: job.capacity(job.gpu(stage as u32, 0)),
                fragments: self.deployment.fragments.get(stage).copied().unwrap_or(0),
                persistent,
                hosted,
                exchanged: exchanges,
                locked,
                on_drives: vec![(kind::PARAMETERS, drives.parameters), (kind::OPTIMIZER, drives.optimizer)],
                rows,
                resident_bound: None,
                waits: false,
            }
        };
        stages.enumerate().map(memory).collect()
    }
}

/// The GPUs of a job, and what joins them.
struct JobGrounds<'a> {
    job: &'a Job<'a>,
    kinds: &'a Kinds,
    hops: &'a [(u32, u32)],
    /// Whether hosts hold states.
    hosted: bool,
    /// By node.
    arrays: &'a BTreeMap<u32, Vec<Array>>,
    channels: &'a [ChannelSpec],
    rows: &'a RowPlaces,
    memo: Option<&'a Memo>,
}

impl Grounds for JobGrounds<'_> {
    fn site(&self, table: &Dispositions) -> Result<Site, PlanError> {
        let Self { job, hops, hosted, arrays, channels, rows, .. } = *self;
        let site = job.site(hops.iter().copied(), (table, hosted), arrays, (channels, rows));
        Ok(site.map_err(HardwareError::from)?)
    }

    fn slow_clocks(&self, lowered: &mut Lowered) {
        self.job.slow_clocks(self.kinds, lowered);
    }

    fn memo(&self) -> Option<&Memo> {
        self.memo
    }
}

/// The kinds of GPUs of a job.
pub(super) fn kinds(job: &Job<'_>) -> Result<Kinds, PlanError> {
    Kinds::of(job.machine, job.extent, job.placement).map_err(|MixedStage { stage, remedy, .. }| {
        let problem = format!("stage {stage} is on GPUs of several kinds");
        PlanError::Invalid(vec![Diagnostic::new("placement", problem, remedy)])
    })
}

/// Costs of copies from a kind of GPU to other tiers beside their links, and of those back.
fn tier_copies(
    (job, kinds): (&Job<'_>, &Kinds),
    kind: usize,
    hardware: &Hardware<'_>,
) -> Result<BTreeMap<Medium, [CopyCost; 2]>, PlanError> {
    let (_, gpu) = kinds.gpu(job.machine, kind);
    let [pinned, pageable] =
        [HostMemory::Pinned, HostMemory::Pageable].map(|memory| hardware.host_copies(gpu, memory));
    let host = [(Medium::PAGE_LOCKED, pinned), (Medium::PAGEABLE, pageable)];
    let mut copies: BTreeMap<_, _> =
        host.into_iter().filter_map(|(medium, costs)| Some((medium, costs?))).collect();
    if let Some(array) = job.drives.of_activations().next() {
        let stage = kinds.stages_of(kind).next().unwrap_or(0);
        copies.insert(Medium::DRIVES, starts(&array.to_gpu, pinned, gpu_link(job, stage)?));
    }
    Ok(copies)
}

/// A copy whose start hardly counts (bytes).
const LARGE: u64 = 1 << 30;

/// By stage, the ways between its first GPU and its host, alone and while several copies of the
/// model use them; none where nobody knows what copies cost.
fn host_links(
    (job, kinds): (&Job<'_>, &Kinds),
    memory: HostMemory,
    hardware: &Hardware<'_>,
    together: u32,
) -> Result<Vec<HostLinks>, HardwareError> {
    let machine = job.machine;
    let of_kind = |kind| hardware.host_copies(kinds.gpu(machine, kind).1, memory);
    let Some(copies) = (0..kinds.count()).map(of_kind).collect::<Option<Vec<_>>>() else {
        return Ok(Vec::new());
    };
    let links = |stage| {
        let copies = copies[kinds.of_stage(stage)];
        let gpu = machine.gpu(job.gpu(stage, 0));
        let memory = machine.memory_of(gpu).ok_or_else(|| machine.no_memory(gpu))?;
        let [out, back] = [machine.route(gpu, memory)?, machine.route(memory, gpu)?];
        let rate = [(out, copies[0]), (back, copies[1])].map(|(route, copy)| {
            machine.copy_bytes_per_s(&route, copy.passes).min(copy.at_most.unwrap_or(f64::INFINITY))
        });
        let one_way = |way: usize| -> Result<f64, HardwareError> {
            let streams = (0..together).map(|copy| {
                let own = machine.gpu(job.gpu(stage, copy * job.extent.tensor * job.extent.context));
                let memory = machine.memory_of(own).ok_or_else(|| machine.no_memory(own))?;
                let stops = if way == 0 { vec![own, memory] } else { vec![memory, own] };
                Ok::<_, HardwareError>(CopyStream { stops, bytes: LARGE, cost: copies[way] })
            });
            let streams = streams.collect::<Result<Vec<_>, _>>()?;
            Ok(rate_beside(machine, &streams, 0)?)
        };
        let at_once = [one_way(0)?, one_way(1)?];
        Ok(HostLinks { latency: copies.map(|copy| copy.latency.as_secs()), rate, at_once })
    };
    (0..job.extent.stages).map(links).collect()
}

/// Rate of the way between the first GPU of a stage and its host (byte/s).
fn gpu_link(job: &Job<'_>, stage: u32) -> Result<f64, PlanError> {
    let machine = job.machine;
    let gpu = machine.gpu(job.gpu(stage, 0));
    let route = machine.memory_of(gpu).ok_or_else(|| machine.no_memory(gpu));
    let route = route.and_then(|memory| machine.route(gpu, memory)).map_err(HardwareError::from)?;
    Ok(machine.bytes_per_s(&route))
}

/// What copies to drives and back ask for beside their ways. With a buffer that is the start of a copy, and the time in which the first
/// part of it is filled, at the rate of the link (byte/s).
fn starts(path: &PathParameters, host_copies: Option<[CopyCost; 2]>, link: f64) -> [CopyCost; 2] {
    let direct = CopyCost { latency: Time::ZERO, at_most: None, passes: 1.0 };
    let Some(copies) = host_copies.filter(|_| path.staging != Staging::None) else { return [direct; 2] };
    let requests = path.requests();
    let fill = Time(((requests.block * u64::from(requests.depth)) as f64 / link * 1e12) as u64);
    copies.map(|copy| CopyCost { latency: copy.latency.saturating_add(fill), ..copy })
}
