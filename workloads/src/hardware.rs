//! What operators and messages take on a machine: every operator of a model gets the kernel or the collective that the
//! hardware models know of.

mod devices;
mod evidence;
mod geometry;
mod rows;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::convert::Infallible;
use std::sync::Arc;

use hw_models::catalogue::{Catalogue, Gpu};
use hw_models::collectives::{
    self, CollectiveCatalogue, CollectiveError, CollectiveModel, CollectivePlan, GroupShape, PathKind,
};
use hw_models::copies::{Copy, CopyCatalogue, CopyCost, Direction, HostMemory};
use hw_models::framework::Framework;
use hw_models::host::HostCosts;
use hw_models::kernels::{GpuFacts, KernelCatalogue, KernelCost, KernelError, KernelModel, Libraries};
use hw_models::machine::{Machine, NoRoute, Route, RouteKind};
use hw_models::variation::Variation;
use sim_core::fixed::Rate;
use sim_core::program::CapTable;
use sim_core::time::Time;
use thiserror::Error;

use crate::cost::{CollectivePhase, Message, OpCost};
use crate::graph::operator::{Medium, Stream, TierCopy, Traversal};
use crate::host_update::HostRates;
use crate::memo::Memo;
use crate::model::reuse::Reuse;
use crate::model::transformer::{Collective, CollectiveKind, Group, HostWork, HostWorkKind, Operator, Work};
use crate::passes::fusion::{MeasuredKernel, Prices, of_gpu};
use crate::plan::Launch;
use crate::site::{ChannelSpec, Job, Kinds, RowWay};

use devices::{Device, DeviceKind};
use geometry::{Geometry, Place};

pub(crate) use devices::Devices;
pub(crate) use geometry::Geometries;

/// What is known of the hardware.
#[derive(Clone, Copy, Debug)]
pub struct Hardware<'a> {
    /// Where a job runs.
    pub machine: &'a Machine,
    /// Devices and links.
    pub catalogue: &'a Catalogue,
    /// Kernels.
    pub kernels: &'a KernelCatalogue,
    /// Collectives.
    pub collectives: &'a CollectiveCatalogue,
    /// What issuing work costs.
    pub host: &'a HostCosts,
    /// The framework that issues it.
    pub framework: &'a Framework,
    /// Starts of copies.
    pub copies: &'a CopyCatalogue,
    /// Where the framework takes its kernels from.
    pub libraries: Libraries,
    /// How far its GPUs differ, of which a step waits for the slowest. `None`: speeds are drawn for
    /// each.
    pub differ: Option<&'a Variation>,
    /// Kernels that were timed on its GPUs.
    pub measured: &'a [MeasuredKernel],
    /// Memory of plans with equal constants, where it is kept.
    pub memo: Option<&'a Memo>,
}

/// Why the hardware models cannot answer.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum HardwareError {
    /// A kernel.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// A collective.
    #[error(transparent)]
    Collective(#[from] CollectiveError),
    /// A way between two GPUs.
    #[error(transparent)]
    NoRoute(#[from] NoRoute),
    /// A GPU.
    #[error("the machine has no GPU of the catalogue")]
    NoGpu,
}

impl<'a> Hardware<'a> {
    /// The first GPU of the machine, which stands for all of a machine with one kind: its name in
    /// the catalogue, and its entry.
    ///
    /// # Errors
    /// If there is none.
    pub fn gpu(&self) -> Result<(&'a str, &'a Gpu), HardwareError> {
        let first = self.machine.gpu_kinds().first();
        first.map(|(name, gpu)| (name.as_str(), gpu)).ok_or(HardwareError::NoGpu)
    }

    /// Cost of a copy from a GPU to a memory of its host beside its links, and of one back. `None`:
    /// unknown.
    pub fn host_copies(&self, gpu: &Gpu, memory: HostMemory) -> Option<[CopyCost; 2]> {
        let starts = self.copies.get(gpu.pcie.of_copies())?;
        let cost = |direction| starts.cost(Copy { direction, memory, synchronised: false });
        Some([cost(Direction::FromDevice), cost(Direction::ToDevice)])
    }

    /// The kernels of a GPU in a training run, at a clock relative to that of its peak rates.
    ///
    /// # Errors
    /// When there are no kernel parameters for its generation.
    pub fn kernel_model(&self, (name, gpu): (&str, &Gpu), clock: f64) -> Result<KernelModel, HardwareError> {
        let parameters = self.kernels.of(name, gpu)?.in_training(self.libraries);
        Ok(KernelModel::new(GpuFacts::of(gpu, clock).with(self.libraries), parameters))
    }

    /// Times of kernels of its first kind of GPU, as passes may compare them.
    ///
    /// # Errors
    /// When there is no GPU, or there are no kernel parameters for it.
    pub fn prices(&self, launch: Launch) -> Result<Prices, HardwareError> {
        let device = self.device(self.gpu()?, 1.0)?;
        let nothing = Memo::default();
        Ok(Prices(self.memo.unwrap_or(&nothing).devices.timed(device, self.gap(launch))))
    }

    /// Between a kernel and the one before.
    fn gap(&self, launch: Launch) -> Time {
        match launch {
            Launch::Eager | Launch::Free => self.host.gap_in_stream.time(),
            Launch::Graph => self.host.gap_in_graph.time(),
        }
    }

    /// Kernels of a GPU, with their known costs.
    fn device(&self, (name, gpu): (&str, &Gpu), clock: f64) -> Result<Arc<Device>, HardwareError> {
        let kind = DeviceKind {
            name: name.to_owned(),
            like: gpu.like.clone(),
            architecture: gpu.architecture.clone(),
            facts: GpuFacts::of(gpu, clock).with(self.libraries),
            libraries: self.libraries,
            measured: of_gpu(self.measured, name),
        };
        let nothing = Memo::default();
        self.memo.unwrap_or(&nothing).devices.get(kind, || self.kernel_model((name, gpu), clock))
    }
}

/// Kernels and collectives of a job as the engine takes them: each different kernel, each different channel once.
#[derive(Debug)]
pub(crate) struct CostModels<'a> {
    pub(crate) job: &'a Job<'a>,
    kinds: &'a Kinds,
    /// By kind of GPU.
    gpus: Vec<GpuModels>,
    /// By [`Scope`].
    collectives: Vec<CollectiveModel>,
    /// Between a kernel and the one before.
    gap: Time,
    /// What limits hosts that update.
    hosts: HostRates,
    /// By kernel, its speeds at each clock of its GPUs.
    speeds: Vec<Vec<CapTable>>,
    known: BTreeMap<Speeds, u32>,
    pub(crate) channels: Vec<ChannelSpec>,
    /// Ways of rows of features.
    pub(crate) ways: Vec<RowWay>,
    /// Costs of the host's calls.
    host: &'a HostCosts,
    geometry: Arc<Geometry>,
    /// Hops that collectives of a kind of group cross.
    hops: BTreeMap<(Group, Scope), Vec<Route>>,
}

/// Number of clocks of a kernel, and the rows of its tables.
type Speeds = (usize, Vec<(u32, u64, u32)>);

/// Stages among which groups are alike: those of a kind of GPU, or behind the last kind all stages.
type Scope = usize;

/// Kernels and copies of a kind of GPU.
#[derive(Debug)]
struct GpuModels {
    /// By clock, the fastest first.
    devices: Vec<Arc<Device>>,
    /// Bandwidth of its memory for all kernels together.
    hbm: Rate,
    /// Costs of copies that hosts exchange with it beside their links, and back.
    host_copies: Option<[CopyCost; 2]>,
}

impl<'a> CostModels<'a> {
    pub(crate) fn new(
        (job, kinds): (&'a Job<'a>, &'a Kinds),
        hardware: &Hardware<'a>,
        launch: Launch,
        hosts: HostRates,
        exchanged: HostMemory,
    ) -> Result<Self, HardwareError> {
        let slowest = hardware.differ.map_or(1.0, |differ| differ.slowest_of(job.extent.ranks()));
        let models = |kind| {
            let gpu = kinds.gpu(job.machine, kind);
            let devices =
                job.clocks(kinds, kind).into_iter().map(|clock| hardware.device(gpu, clock / slowest));
            Ok::<_, HardwareError>(GpuModels {
                devices: devices.collect::<Result<_, _>>()?,
                hbm: Rate::per_second(gpu.1.bandwidth_gb_per_s * 1e9),
                host_copies: hardware.host_copies(gpu.1, exchanged),
            })
        };
        let generation = |kind| kinds.gpu(job.machine, kind).1.architecture.as_str();
        let generations: Vec<&str> = (0..kinds.count()).map(generation).collect();
        let mut collectives =
            generations.iter().map(|of| hardware.collectives.model(of)).collect::<Result<Vec<_>, _>>()?;
        if generations.len() > 1 {
            collectives.push(hardware.collectives.model_among(&generations)?);
        }
        let place = Place::of(job);
        let nothing = Memo::default();
        let geometries = &hardware.memo.unwrap_or(&nothing).geometries;
        let make = || Ok::<_, Infallible>((place.clone(), Geometry::default()));
        let Ok(geometry) = geometries.get(|known| *known == place, make);
        Ok(Self {
            job,
            kinds,
            gpus: (0..kinds.count()).map(models).collect::<Result<_, _>>()?,
            collectives,
            gap: hardware.gap(launch),
            hosts,
            speeds: Vec::new(),
            known: BTreeMap::new(),
            channels: Vec::new(),
            ways: Vec::new(),
            host: hardware.host,
            geometry,
            hops: BTreeMap::new(),
        })
    }

    /// Cost on a kind of GPU of an operator that reads some of its tensors again.
    pub(crate) fn operator(
        &mut self,
        kind: usize,
        operator: &Operator,
        reused: &[Reuse],
    ) -> Result<OpCost, HardwareError> {
        if let Work::Collective(collective) = &operator.work {
            return self.collective(kind, collective);
        }
        match operator.work {
            Work::Transfer(transfer) => return Ok(self.transfer(kind, transfer)),
            Work::Host(work) => return Ok(self.host(work)),
            Work::Rows(work) => return self.rows(kind, work),
            _ => {}
        }
        let devices = self.gpus[kind].devices.iter();
        let costs = devices.filter_map(|device| device.cost(&operator.work, reused).transpose());
        let costs = costs.collect::<Result<Vec<_>, KernelError>>()?;
        let fastest = costs.first().ok_or(HardwareError::NoGpu)?;
        let speed = self.speed(kind, &costs, fastest.bytes);
        let fixed = self.gap.saturating_add(fastest.fixed);
        Ok(OpCost::Kernel { fixed, bytes: fastest.bytes, speed, sms: fastest.sms_wanted })
    }

    /// Cost of a copy between tiers: those of copy engines start, those of drives do not.
    fn transfer(&self, kind: usize, TierCopy { from, to, bytes, .. }: TierCopy) -> OpCost {
        let by_engine = |way: usize| self.gpus[kind].host_copies.map(|copies| copies[way]);
        let copy = match (from, to) {
            (Medium::HBM, _) => by_engine(0),
            (_, Medium::HBM) => by_engine(1),
            _ => None,
        };
        let latency = copy.map_or(Time::ZERO, |copy| copy.latency);
        let cap = copy.and_then(|copy| copy.at_most).map_or(Rate::UNLIMITED, Rate::per_second);
        OpCost::Transfer { from, to, bytes, latency, cap }
    }

    /// Cost of work of the host's processors.
    fn host(&self, HostWork { kind, bytes }: HostWork) -> OpCost {
        let (at_most, times) = match kind {
            HostWorkKind::Update => (self.hosts.update, 1),
            HostWorkKind::Copy => (self.hosts.gradients, 2),
        };
        let cap = at_most.map_or(Rate::UNLIMITED, |rate| Rate::per_second(rate * times as f64));
        OpCost::Host { bytes: bytes * times, cap }
    }

    /// A message of `bytes` from a stage to another.
    pub(crate) fn message(&mut self, from: u32, to: u32, bytes: u64) -> Result<Message, HardwareError> {
        if from == to {
            return Ok(Message::lasting(Time::ZERO));
        }
        let (machine, route) = (self.job.machine, self.way(from, to)?);
        let (path, bytes_per_s) = (path(&route), machine.bytes_per_s(&route));
        // All generations send messages alike.
        let cost = self.collectives[0].point_to_point(path, bytes_per_s);
        Ok(Message { latency: cost.latency, bytes, cap: Rate::per_second(cost.bytes_per_s) })
    }

    /// The way from a stage to another, of the fastest replica.
    fn way(&self, from: u32, to: u32) -> Result<Route, HardwareError> {
        Ok(self.geometry.way((from, to), || self.job.fastest(from, to))?)
    }

    /// Stages among which groups are like that of a stage on a kind of GPU.
    fn scope(&self, kind: usize, group: Group) -> Scope {
        if group.is_within_stage() { kind } else { self.across() }
    }

    /// All stages.
    fn across(&self) -> Scope {
        self.collectives.len() - 1
    }

    /// Collectives among ranks of all stages.
    pub(crate) fn collectives_across(&self) -> &CollectiveModel {
        &self.collectives[self.across()]
    }

    /// Bytes of the buffers of a communicator of a kind of group, on a rank of a stage.
    pub(crate) fn buffers(&mut self, stage: u32, group: Group) -> Result<u64, HardwareError> {
        let scope = self.scope(self.kinds.of_stage(stage), group);
        let shape = self.shape(scope, group)?;
        Ok(self.collectives[scope].collective_buffers(&shape))
    }

    /// Hops that collectives of a kind of group cross.
    fn hops_of(&mut self, scope: Scope, group: Group) -> Result<&[Route], HardwareError> {
        let is_among = among(self.kinds, scope);
        Ok(match self.hops.entry((group, scope)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(self.job.hops_of(group, is_among)?.collect()),
        })
    }

    /// Where the members of a kind of group are.
    fn shape(&self, scope: Scope, group: Group) -> Result<GroupShape, HardwareError> {
        let is_among = among(self.kinds, scope);
        Ok(self.geometry.shape((group, scope), || self.job.shape(group, is_among))?)
    }

    /// Cost of a collective for its group.
    fn planned(&mut self, kind: usize, collective: &Collective) -> Result<CollectivePlan, HardwareError> {
        let scope = self.scope(kind, collective.group);
        let shape = self.shape(scope, collective.group)?;
        let model = &self.collectives[scope];
        let kind = match collective.kind {
            CollectiveKind::AllReduce => collectives::CollectiveKind::AllReduce,
            CollectiveKind::AllGather => collectives::CollectiveKind::AllGather,
            CollectiveKind::ReduceScatter => collectives::CollectiveKind::ReduceScatter,
            CollectiveKind::AllToAll => collectives::CollectiveKind::AllToAll,
            CollectiveKind::SendReceive => {
                return Ok(collectives::send_receive(model, &shape, collective.bytes));
            }
        };
        let call = collectives::Collective { kind, bytes: collective.bytes };
        Ok(collectives::plan(model, &shape, &call))
    }

    fn collective(&mut self, kind: usize, collective: &Collective) -> Result<OpCost, HardwareError> {
        let phases = collective.phases(self.job.extent.sharing);
        let phases = phases.map(|phase| self.collective_phase(kind, &phase));
        phases.collect::<Result<_, _>>().map(OpCost::Collective)
    }

    fn collective_phase(
        &mut self,
        kind: usize,
        collective: &Collective,
    ) -> Result<CollectivePhase, HardwareError> {
        let plan = self.planned(kind, collective)?;
        let spec = ChannelSpec {
            group: collective.group,
            inside: plan.inside,
            between: plan.between,
            hbm: plan.hbm,
            sms: if collective.copied { 0 } else { plan.sms },
        };
        let channel = self.channels.iter().position(|known| *known == spec).unwrap_or_else(|| {
            self.channels.push(spec);
            self.channels.len() - 1
        });
        let cap = Rate::per_second(plan.bytes_per_s);
        Ok(CollectivePhase { channel: channel as u32, latency: plan.latency, bytes: plan.work, cap })
    }

    /// The speeds of a kernel that moves `bytes`. At another clock another tile may be best, with other traffic: it is as
    /// fast as if it moved `bytes` in the same time.
    fn speed(&mut self, kind: usize, costs: &[Arc<KernelCost>], bytes: u64) -> u32 {
        let hbm = self.gpus[kind].hbm;
        let tables: Vec<CapTable> = costs.iter().map(|cost| cost.speeds(bytes, hbm)).collect();
        let rows = tables.iter().flat_map(|table| &table.rows);
        let key = rows.map(|row| (row.units, row.cap.0, row.waves)).collect();
        *self.known.entry((tables.len(), key)).or_insert_with(|| {
            self.speeds.push(tables);
            self.speeds.len() as u32 - 1
        })
    }

    /// The speeds of all kernels at the first clock, then at the second, ...; the slowest stands
    /// for clocks that the GPUs of a kernel have not.
    pub(crate) fn speeds(&self) -> Vec<CapTable> {
        let clocks = self.gpus.iter().map(|gpu| gpu.devices.len()).max().unwrap_or(0);
        (0..clocks)
            .flat_map(|clock| self.speeds.iter().map(move |by| by[clock.min(by.len() - 1)].clone()))
            .collect()
    }
}

/// Tells whether a stage is among those of a scope.
fn among(kinds: &Kinds, scope: Scope) -> impl Fn(u32) -> bool {
    move |stage| scope == kinds.count() || kinds.of_stage(stage) == scope
}

/// What the constants of messages tell apart of a route.
fn path(route: &Route) -> PathKind {
    match route.kind {
        RouteKind::NvLink => PathKind::NvLink,
        RouteKind::Network => PathKind::Network,
        _ => PathKind::Pcie,
    }
}

/// What a kernel costs that reads some of its tensors again; none for what is none: a collective, work of the host, what a profile knows.
///
/// # Errors
/// When the GPU has no rate or the catalogue no parameters for it.
pub fn kernel(model: &KernelModel, work: &Work, reused: &[Reuse]) -> Result<Option<KernelCost>, KernelError> {
    alone(model, &found(model, work, reused))
}

fn alone(model: &KernelModel, work: &Work) -> Result<Option<KernelCost>, KernelError> {
    match work {
        Work::Gemm(gemm) => model.gemm(gemm).map(Some),
        Work::Convolution(convolution) => model.convolution(convolution).map(Some),
        Work::Grouped(grouped) => model.grouped(grouped).map(Some),
        Work::Attention(attention) => model.attention(attention).map(Some),
        Work::Stream(stream) => model.stream(stream).map(Some),
        Work::Fused(fused) => model.fused(fused).map(Some),
        Work::Segments(segments) => model.segments(segments).map(Some),
        Work::Traversal(traversal) => model.traversal(traversal).map(Some),
        Work::Collective(_) | Work::Transfer(_) | Work::Host(_) | Work::Rows(_) | Work::Opaque { .. } => {
            Ok(None)
        }
    }
}

/// Work with what its tensors find in the cache.
///
/// Products were timed on operands that lay there as far as they had room.
fn found(model: &KernelModel, work: &Work, reused: &[Reuse]) -> Work {
    let there = || reused.iter().map(|reuse| model.cached(reuse.bytes, reuse.distance)).sum::<u64>();
    match *work {
        Work::Stream(stream) => {
            Work::Stream(Stream { bytes_cached: there().min(stream.bytes_read), ..stream })
        }
        Work::Traversal(walk) => Work::Traversal(Traversal { cached: there().min(walk.streamed), ..walk }),
        work => work,
    }
}
