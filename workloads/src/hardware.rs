//! What operators and messages take on a machine: every operator of a model gets the kernel or the collective that the
//! hardware models know of.

mod devices;
mod evidence;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
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
use sim_core::fixed::Rate;
use sim_core::program::CapTable;
use sim_core::time::Time;
use thiserror::Error;

use crate::cost::{CollectivePhase, Message, OpCost};
use crate::graph::operator::Stream;
use crate::graph::operator::{Medium, TierCopy};
use crate::host_update::HostRates;
use crate::memo::Memo;
use crate::model::reuse::Reuse;
use crate::model::transformer::{Collective, CollectiveKind, Group, HostWork, HostWorkKind, Operator, Work};
use crate::plan::Launch;
use crate::site::{ChannelSpec, Job};

use devices::{Device, DeviceKind};

pub(crate) use devices::Devices;

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
    /// The GPU of the machine, and its name in the catalogue. All are alike.
    ///
    /// # Errors
    /// If there is none.
    pub fn gpu(&self) -> Result<(&'a str, &'a Gpu), HardwareError> {
        let first = (self.machine.gpus() > 0).then(|| self.machine.gpu(0)).ok_or(HardwareError::NoGpu)?;
        let model = self.machine.part(first).model.ok_or(HardwareError::NoGpu)?;
        let gpu = self.machine.gpu_model(first).ok_or(HardwareError::NoGpu)?;
        Ok((model, gpu))
    }

    /// What a copy from a GPU to a memory of its host asks for beside its links, and one back; none where nobody knows.
    pub fn host_copies(&self, memory: HostMemory) -> Option<[CopyCost; 2]> {
        let (_, gpu) = self.gpu().ok()?;
        let starts = self.copies.get(gpu.pcie.of_copies())?;
        let cost = |direction| starts.cost(Copy { direction, memory, synchronised: false });
        Some([cost(Direction::FromDevice), cost(Direction::ToDevice)])
    }

    /// The kernels of the machine's GPU in a training run, at a clock relative to that of its peak rates.
    ///
    /// # Errors
    /// When there are no kernel parameters for its generation.
    pub fn kernel_model(&self, clock: f64) -> Result<KernelModel, HardwareError> {
        let (name, gpu) = self.gpu()?;
        let parameters = self.kernels.of(name, gpu)?.in_training(self.libraries);
        Ok(KernelModel::new(GpuFacts::of(gpu, clock), parameters))
    }

    /// Kernels of the machine's GPU, with their known costs.
    fn device(&self, clock: f64) -> Result<Arc<Device>, HardwareError> {
        let (name, gpu) = self.gpu()?;
        let kind = DeviceKind {
            name: name.to_owned(),
            like: gpu.like.clone(),
            architecture: gpu.architecture.clone(),
            facts: GpuFacts::of(gpu, clock),
            libraries: self.libraries,
        };
        let nothing = Memo::default();
        self.memo.unwrap_or(&nothing).devices.get(kind, || self.kernel_model(clock))
    }
}

/// Kernels and collectives of a job as the engine takes them: each different kernel, each different channel once.
#[derive(Debug)]
pub(crate) struct CostModels<'a> {
    pub(crate) job: &'a Job<'a>,
    /// By clock, the fastest first.
    kernels: Vec<Arc<Device>>,
    pub(crate) collectives: CollectiveModel,
    /// Between a kernel and the one before.
    gap: Time,
    /// What HBM gives all kernels together.
    hbm: Rate,
    /// What copies of what hosts exchange with their GPUs ask for beside their links, and back.
    host_copies: Option<[CopyCost; 2]>,
    /// What limits hosts that update.
    hosts: HostRates,
    /// By kernel, its speeds at each clock.
    speeds: Vec<Vec<CapTable>>,
    known: BTreeMap<Vec<(u32, u64, u32)>, u32>,
    pub(crate) channels: Vec<ChannelSpec>,
    shapes: BTreeMap<Group, GroupShape>,
    /// Hops that collectives of a kind of group cross.
    hops: BTreeMap<Group, Vec<Route>>,
    /// From a stage to another, the way of the fastest replica.
    ways: BTreeMap<(u32, u32), Route>,
}

impl<'a> CostModels<'a> {
    pub(crate) fn new(
        job: &'a Job<'a>,
        hardware: &Hardware<'_>,
        launch: Launch,
        hosts: HostRates,
        exchanged: HostMemory,
    ) -> Result<Self, HardwareError> {
        let (_, gpu) = hardware.gpu()?;
        Ok(Self {
            job,
            kernels: job
                .clocks()
                .into_iter()
                .map(|clock| hardware.device(clock))
                .collect::<Result<_, _>>()?,
            collectives: hardware.collectives.model(&gpu.architecture)?,
            gap: match launch {
                Launch::Eager | Launch::Free => hardware.host.gap_in_stream.time(),
                Launch::Graph => hardware.host.gap_in_graph.time(),
            },
            hbm: Rate::per_second(gpu.bandwidth_gb_per_s * 1e9),
            host_copies: hardware.host_copies(exchanged),
            hosts,
            speeds: Vec::new(),
            known: BTreeMap::new(),
            channels: Vec::new(),
            shapes: BTreeMap::new(),
            hops: BTreeMap::new(),
            ways: BTreeMap::new(),
        })
    }

    /// What an operator takes, which reads some of its tensors again.
    pub(crate) fn operator(
        &mut self,
        operator: &Operator,
        reused: &[Reuse],
    ) -> Result<OpCost, HardwareError> {
        if let Work::Collective(collective) = &operator.work {
            return self.collective(collective);
        }
        match operator.work {
            Work::Transfer(transfer) => return Ok(self.transfer(transfer)),
            Work::Host(work) => return Ok(self.host(work)),
            _ => {}
        }
        let costs = self.kernels.iter().filter_map(|device| device.cost(&operator.work, reused).transpose());
        let costs = costs.collect::<Result<Vec<_>, KernelError>>()?;
        let fastest = costs.first().ok_or(HardwareError::NoGpu)?;
        let speed = self.speed(&costs, fastest.bytes);
        let fixed = self.gap.saturating_add(fastest.fixed);
        Ok(OpCost::Kernel { fixed, bytes: fastest.bytes, speed, sms: fastest.sms_wanted })
    }

    /// Cost of a copy between tiers: those of copy engines start, those of drives do not.
    fn transfer(&self, TierCopy { from, to, bytes, .. }: TierCopy) -> OpCost {
        let by_engine = |way: usize| self.host_copies.map(|copies| copies[way]);
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
        let (path, bytes_per_s) = (path(route), machine.bytes_per_s(route));
        let cost = self.collectives.point_to_point(path, bytes_per_s);
        Ok(Message { latency: cost.latency, bytes, cap: Rate::per_second(cost.bytes_per_s) })
    }

    /// The way from a stage to another, of the fastest replica.
    fn way(&mut self, from: u32, to: u32) -> Result<&Route, HardwareError> {
        Ok(match self.ways.entry((from, to)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(self.job.fastest(from, to)?),
        })
    }

    /// Hops that collectives of a kind of group cross.
    fn hops_of(&mut self, group: Group) -> Result<&[Route], HardwareError> {
        Ok(match self.hops.entry(group) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(self.job.hops_of(group)?.collect()),
        })
    }

    /// Where the members of a kind of group are.
    pub(crate) fn shape(&mut self, group: Group) -> Result<GroupShape, HardwareError> {
        Ok(match self.shapes.entry(group) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(unknown) => *unknown.insert(self.job.shape(group)?),
        })
    }

    /// What a collective costs its group.
    fn planned(&mut self, collective: &Collective) -> Result<CollectivePlan, HardwareError> {
        let shape = self.shape(collective.group)?;
        let kind = match collective.kind {
            CollectiveKind::AllReduce => collectives::CollectiveKind::AllReduce,
            CollectiveKind::AllGather => collectives::CollectiveKind::AllGather,
            CollectiveKind::ReduceScatter => collectives::CollectiveKind::ReduceScatter,
            CollectiveKind::AllToAll => collectives::CollectiveKind::AllToAll,
            CollectiveKind::SendReceive => {
                return Ok(collectives::send_receive(&self.collectives, &shape, collective.bytes));
            }
        };
        let call = collectives::Collective { kind, bytes: collective.bytes };
        Ok(collectives::plan(&self.collectives, &shape, &call))
    }

    fn collective(&mut self, collective: &Collective) -> Result<OpCost, HardwareError> {
        let phases = collective.phases(self.job.extent.sharing);
        let phases = phases.map(|phase| self.collective_phase(&phase));
        phases.collect::<Result<_, _>>().map(OpCost::Collective)
    }

    fn collective_phase(&mut self, collective: &Collective) -> Result<CollectivePhase, HardwareError> {
        let plan = self.planned(collective)?;
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
    fn speed(&mut self, costs: &[Arc<KernelCost>], bytes: u64) -> u32 {
        let tables: Vec<CapTable> = costs.iter().map(|cost| cost.speeds(bytes, self.hbm)).collect();
        let rows = tables.iter().flat_map(|table| &table.rows);
        let key = rows.map(|row| (row.units, row.cap.0, row.waves)).collect();
        *self.known.entry(key).or_insert_with(|| {
            self.speeds.push(tables);
            self.speeds.len() as u32 - 1
        })
    }

    /// The speeds of all kernels at the first clock, then at the second, ...
    pub(crate) fn speeds(&self) -> Vec<CapTable> {
        (0..self.kernels.len())
            .flat_map(|clock| self.speeds.iter().map(move |by| by[clock].clone()))
            .collect()
    }
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
        Work::Collective(_) | Work::Transfer(_) | Work::Host(_) | Work::Opaque { .. } => Ok(None),
    }
}

/// Work with what its tensors find in the cache.
///
/// Products were timed on operands that lay there as far as they had room.
fn found(model: &KernelModel, work: &Work, reused: &[Reuse]) -> Work {
    match *work {
        Work::Stream(stream) => {
            let there = reused.iter().map(|reuse| model.cached(reuse.bytes, reuse.distance)).sum::<u64>();
            Work::Stream(Stream { bytes_cached: there.min(stream.bytes_read), ..stream })
        }
        work => work,
    }
}
