//! The site of a job on a machine: its ranks on GPUs, their ways to each other, and the rings of their groups.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use hw_models::collectives::{Between, GroupShape, Inside, InsideLink};
use hw_models::copies::HostMemory;
use hw_models::machine::{Machine, MachineResources, NoRoute, PartId, ResourceKind, Rings, Route, RouteKind};
use hw_models::storage::{Array, Storage};
use sim_core::fixed::Ratio;
use sim_core::id::{CauseId, FluidId, RouteId};
use sim_core::platform::{Demand, Platform};

use super::drives::{Arrays, Drives, Kept};
use super::{Channel, HostSite, RankSite, RowPlaces, Site, TierSite};
use crate::model::transformer::Group;
use crate::names::cause;
use crate::passes::host_buffers::HostBuffers;
use crate::placement::{Extent, Placement};
use crate::transfer::{Dispositions, Medium};

/// A job on a machine.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// The machine.
    pub machine: &'a Machine,
    /// How many ranks.
    pub extent: Extent,
    /// On which GPUs.
    pub placement: &'a Placement,
    /// Bytes of each GPU's memory that the job may use. `None`: all.
    pub limit: Option<u64>,
    /// Arrays of drives of its nodes, and what it keeps on which.
    pub drives: &'a Drives,
    /// What of its host's memory is for what is copied.
    pub buffers: HostBuffers,
}

/// Collectives that put the same demands on a kind of group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChannelSpec {
    /// Among whom.
    pub group: Group,
    /// Bytes on the links of each member inside its node, per byte of work.
    pub inside: f64,
    /// Bytes on each network interface, per byte of work.
    pub between: f64,
    /// Bytes of a member's HBM, per byte of work.
    pub hbm: f64,
    /// SMs held beside kernels.
    pub sms: u32,
}

impl Job<'_> {
    /// The site. `hops` are the pairs of stages that send each other messages; the pairs that lend each other storages
    /// are in `table`. Hosts are part of it where tensors go there, or where they hold states of the optimizer; `arrays` are those of
    /// its nodes.
    ///
    /// # Errors
    /// If nothing joins two ranks that communicate.
    pub fn site(
        &self,
        hops: impl IntoIterator<Item = (u32, u32)>,
        (table, hosted): (&Dispositions, bool),
        arrays: &BTreeMap<u32, Vec<Array>>,
        (channels, rows): (&[ChannelSpec], &RowPlaces),
    ) -> Result<Site, NoRoute> {
        let (mut platform, resources) = self.machine.platform(cause_of);
        for (gpu, of_gpu) in (0..).zip(&resources.gpus) {
            platform.stores[of_gpu.memory.index()].capacity = self.capacity(gpu);
        }
        let (beside, by_node, rings) = (self.ranks_by_memory(), self.gpus_by_node(), BTreeMap::new());
        let mut building = Building { job: self, platform, resources, beside, by_node, rings };
        let ranks = (0..self.extent.stages)
            .flat_map(|stage| (0..self.extent.replicas()).map(move |replica| (stage, replica)))
            .map(|(stage, replica)| building.rank(stage, replica))
            .collect();
        let mut site = Site { replicas: self.extent.replicas(), ranks, ..Site::default() };
        let moves = table.between_gpus().map(|moved| (moved.from.owner, moved.to.owner));
        for (a, b) in hops.into_iter().chain(moves) {
            for (from, to) in [(a, b), (b, a)] {
                for replica in 0..self.extent.replicas() {
                    let rank = site.rank(from, replica);
                    if let Entry::Vacant(unknown) = site.ranks[rank].to.entry(to) {
                        unknown.insert(building.way(self.gpu(from, replica), self.gpu(to, replica))?);
                    }
                }
            }
        }
        for spec in channels {
            site.channels.push(building.channel(spec)?);
        }
        let mut arrays = Arrays::new(arrays);
        let media: Vec<Medium> = table.offloads().map(|(_, transfer, _)| transfer.to.medium).collect();
        let (offloads, to_hosts) = (!media.is_empty(), media.iter().any(|&to| to != Medium::DRIVES));
        let mut storage = Storage::new(self.machine, cause::id(cause::TRANSFER));
        for number in 0..self.extent.ranks() as u32 {
            let gpu = self.gpu(number / site.replicas, number % site.replicas);
            let rank = &mut site.ranks[number as usize];
            if hosted || to_hosts {
                let (host, [out, back], pinned, pageable) = building.host(&mut storage, gpu)?;
                rank.host = Some(host);
                rank.ways.extend([((Medium::HBM, Medium::HOST), out), ((Medium::HOST, Medium::HBM), back)]);
                rank.tiers.extend([(Medium::PAGE_LOCKED, pinned), (Medium::PAGEABLE, pageable)]);
                rank.ways_of_rows =
                    building.ways_of_rows(&mut storage, &mut arrays, (number, gpu), &rows.ways)?;
                rank.rows = building.stores_of_rows(&mut arrays, (number, gpu), rows.on)?;
            }
            let mut on_drives = |kept| building.on_drives(&mut storage, &mut arrays, (number, gpu), kept);
            if hosted {
                rank.drives = on_drives(Kept::States)?;
                let ways = rank.drives.iter().flat_map(|&TierSite { out, back, .. }| {
                    [((Medium::HOST, Medium::DRIVES), out), ((Medium::DRIVES, Medium::HOST), back)]
                });
                rank.ways.extend(ways);
            }
            if offloads {
                rank.tiers.extend(on_drives(Kept::Activations)?.map(|drives| (Medium::DRIVES, drives)));
            }
        }
        site.arrays = arrays.used;
        site.platform = building.platform;
        self.drives.level(&mut site.platform);
        Ok(site)
    }

    /// How many ranks have each host memory next to them.
    fn ranks_by_memory(&self) -> BTreeMap<PartId, u32> {
        let replicas = self.extent.replicas();
        let gpus = (0..self.extent.ranks() as u32).map(|rank| self.gpu(rank / replicas, rank % replicas));
        let mut ranks = BTreeMap::new();
        for memory in gpus.filter_map(|gpu| self.machine.memory_of(self.machine.gpu(gpu))) {
            *ranks.entry(memory).or_insert(0) += 1;
        }
        ranks
    }

    /// The number of a rank's GPU.
    pub fn gpu(&self, stage: u32, replica: u32) -> u32 {
        self.extent.gpu(self.placement, stage, replica)
    }

    /// Bytes of a GPU's memory that the job may use.
    pub fn capacity(&self, gpu: u32) -> u64 {
        let (_, model) = &self.machine.gpu_kinds()[self.machine.kind_of_gpu(gpu)];
        let all = (model.memory_gib * f64::from(1 << 30)) as u64;
        self.limit.map_or(all, |limit| limit.min(all))
    }

    /// The ranks of every group, as stages and replicas.
    pub fn groups(&self, group: Group) -> Vec<Vec<(u32, u32)>> {
        let Extent { tensor, context, data, stages, expert, sharing } = self.extent;
        let (last, copies) = (stages - 1, context * data);
        // Of every stage, ranks `apart` from each other, of each block of `span` ranks.
        let within_stages = |apart: u32, span: u32| {
            let blocks = (0..stages).flat_map(|s| (0..tensor * copies / span).map(move |block| (s, block)));
            let of_block = |(s, block): (u32, u32)| {
                (0..apart).map(move |first| {
                    (first..span).step_by(apart as usize).map(|at| (s, block * span + at)).collect()
                })
            };
            blocks.flat_map(of_block).collect()
        };
        match group {
            Group::Tensor => within_stages(1, tensor),
            Group::Context => within_stages(tensor, tensor * context),
            Group::Expert => within_stages(tensor, tensor * expert),
            Group::Data => within_stages(tensor, tensor * copies),
            Group::Shard => within_stages(tensor, tensor * sharing),
            Group::Replica => within_stages(tensor * sharing, tensor * copies),
            Group::ExpertData => within_stages(tensor * expert, tensor * copies),
            Group::Embedding => (0..tensor * copies).map(|r| vec![(0, r), (last, r)]).collect(),
            Group::Model => (0..copies)
                .map(|j| (0..stages).flat_map(|s| (0..tensor).map(move |i| (s, i + tensor * j))).collect())
                .collect(),
        }
    }
}

impl Job<'_> {
    /// Where the members of a kind of group `among` some stages are: those of the one that stands
    /// for all, with the rates of the fastest that is spread like it, as links that are slower slow
    /// those that cross them and nobody else.
    ///
    /// # Errors
    /// If nothing joins two of them.
    pub fn shape(&self, group: Group, among: impl Fn(u32) -> bool) -> Result<GroupShape, NoRoute> {
        let mut shape = self.shape_of(&self.standing_for(group, &among))?;
        for members in self.groups_among(group, &among) {
            let other = self.shape_of(&members)?;
            if (other.ranks, other.ranks_per_node) != (shape.ranks, shape.ranks_per_node) {
                continue;
            }
            if other.inside.bytes_per_s > shape.inside.bytes_per_s {
                shape.inside = other.inside;
            }
            shape.between = match (shape.between, other.between) {
                (Some(known), Some(other)) if other.bytes_per_s > known.bytes_per_s => Some(other),
                (known, _) => known,
            };
        }
        Ok(shape)
    }

    /// The first of the groups that are spread over the most nodes, whose time all others of the kind take at least.
    fn standing_for(&self, group: Group, among: impl Fn(u32) -> bool) -> Vec<(u32, u32)> {
        let nodes = |members: &Vec<(u32, u32)>| Reverse(self.by_node(members).len());
        self.groups_among(group, among).min_by_key(nodes).unwrap_or_default()
    }

    /// The groups whose ranks are all of some stages.
    fn groups_among(
        &self,
        group: Group,
        among: impl Fn(u32) -> bool,
    ) -> impl Iterator<Item = Vec<(u32, u32)>> {
        let groups = self.groups(group).into_iter();
        groups.filter(move |members| members.iter().all(|&(stage, _)| among(stage)))
    }

    /// Where the stages of a pipeline are: those of the first replica, which stands for all.
    ///
    /// # Errors
    /// If nothing joins two of them.
    pub fn pipeline_shape(&self) -> Result<GroupShape, NoRoute> {
        let stages: Vec<(u32, u32)> = (0..self.extent.stages).map(|stage| (stage, 0)).collect();
        self.shape_of(&stages)
    }

    fn shape_of(&self, members: &[(u32, u32)]) -> Result<GroupShape, NoRoute> {
        let nodes = self.by_node(members);
        let members: usize = nodes.iter().map(Vec::len).sum();
        let local = &nodes[0];
        let (inside, between) = self.hops(&nodes)?;
        let inside = match inside {
            Some(route) => self.inside(local, &route)?,
            // Alone on its node it uses no link inside.
            None => Inside { link: InsideLink::NvSwitch, bytes_per_s: f64::MAX },
        };
        let between = between.map(|route| {
            let nics = self.senders(local).count() as u32;
            Between { bytes_per_s: self.machine.bytes_per_s(&route), nics }
        });
        let ranks_per_node = local.len() as u32;
        Ok(GroupShape { ranks: members as u32, ranks_per_node, inside, between })
    }

    /// Links among GPUs of a node: the rings of those that are wired to each other, or the way from
    /// the first to the second, or the slowest hop of a round where these two are wired but have no
    /// ring with the others.
    fn inside(&self, gpus: &[u32], first: &Route) -> Result<Inside, NoRoute> {
        let rings = self.rings(gpus);
        if !rings.rounds.is_empty() {
            let link = if rings.relayed(gpus.len()) { InsideLink::Relayed } else { InsideLink::CubeMesh };
            return Ok(Inside { link, bytes_per_s: rings.bytes_per_s });
        }
        let mut bytes_per_s = self.machine.bytes_per_s(first);
        let is_switched = first.kind == RouteKind::NvLink && first.links.len() > 1;
        if first.kind == RouteKind::NvLink && !is_switched {
            for (&from, &to) in gpus.iter().zip(gpus.iter().cycle().skip(1)) {
                bytes_per_s = bytes_per_s.min(self.machine.bytes_per_s(&self.route(from, to)?));
            }
        }
        let link = if is_switched { InsideLink::NvSwitch } else { InsideLink::Pcie };
        Ok(Inside { link, bytes_per_s })
    }

    fn rings(&self, gpus: &[u32]) -> Rings {
        let gpus: Vec<PartId> = gpus.iter().map(|&gpu| self.machine.gpu(gpu)).collect();
        self.machine.rings(&gpus)
    }

    /// A hop inside a node and one between nodes of a group, where it has them.
    fn hops(&self, nodes: &[Vec<u32>]) -> Result<(Option<Route>, Option<Route>), NoRoute> {
        let inside = match nodes[0].as_slice() {
            [a, b, ..] => Some(self.route(*a, *b)?),
            _ => None,
        };
        let between = nodes.get(1).map(|next| self.route(nodes[0][0], next[0])).transpose()?;
        Ok((inside, between))
    }

    /// Hops that collectives of a kind of group `among` some stages cross: those of the one that
    /// stands for all.
    ///
    /// # Errors
    /// If nothing joins two of them.
    pub fn hops_of(
        &self,
        group: Group,
        among: impl Fn(u32) -> bool,
    ) -> Result<impl Iterator<Item = Route>, NoRoute> {
        let (inside, between) = self.hops(&self.by_node(&self.standing_for(group, among)))?;
        Ok(inside.into_iter().chain(between))
    }

    /// The way from a stage to another on which a replica is fastest.
    ///
    /// # Errors
    /// If nothing joins them.
    pub fn fastest(&self, from: u32, to: u32) -> Result<Route, NoRoute> {
        let way = |replica| self.route(self.gpu(from, replica), self.gpu(to, replica));
        let mut fastest = way(0)?;
        let mut rate = self.machine.bytes_per_s(&fastest);
        for replica in 1..self.extent.replicas() {
            let other = way(replica)?;
            let of_other = self.machine.bytes_per_s(&other);
            if of_other > rate {
                (fastest, rate) = (other, of_other);
            }
        }
        Ok(fastest)
    }

    /// The GPUs of a group, by node.
    fn by_node(&self, members: &[(u32, u32)]) -> Vec<Vec<u32>> {
        let per_node = self.machine.gpus_per_node().max(1);
        let mut nodes: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for &(stage, replica) in members {
            let gpu = self.gpu(stage, replica);
            nodes.entry(gpu / per_node).or_default().push(gpu);
        }
        for gpus in nodes.values_mut() {
            gpus.sort_unstable();
            gpus.dedup();
        }
        nodes.into_values().collect()
    }

    /// Of the members on one node, positions of those that send to the next node: one for each network interface.
    fn senders<'b>(&'b self, gpus: &'b [u32]) -> impl Iterator<Item = usize> + 'b {
        let nic = |&gpu: &u32| self.machine.nic_of(self.machine.gpu(gpu));
        let new = move |&at: &usize| gpus[..at].iter().all(|other| nic(other) != nic(&gpus[at]));
        (0..gpus.len()).filter(new)
    }

    fn route(&self, from: u32, to: u32) -> Result<Route, NoRoute> {
        self.machine.route(self.machine.gpu(from), self.machine.gpu(to))
    }
}

/// What time lost on a resource counts as.
fn cause_of(kind: ResourceKind) -> CauseId {
    use hw_models::catalogue::LinkKind;
    let name = match kind {
        ResourceKind::GpuMemory => cause::COMPUTE,
        ResourceKind::Link(LinkKind::NvLink | LinkKind::Network) => cause::COMMUNICATION,
        ResourceKind::Link(_) => cause::TRANSFER,
    };
    cause::id(name)
}

pub(super) struct Building<'a> {
    pub(super) job: &'a Job<'a>,
    pub(super) platform: Platform,
    pub(super) resources: MachineResources,
    /// Ranks that have a host memory next to them.
    pub(super) beside: BTreeMap<PartId, u32>,
    /// GPUs of the job by node.
    pub(super) by_node: BTreeMap<u32, Vec<u32>>,
    /// Rings by kind of group.
    rings: BTreeMap<Group, Vec<Ring>>,
}

/// A group in steady state, which is one coupled activity.
///
/// On each node it is a ring over its members, or the rings that NVLinks between pairs allow;
/// between nodes there is one for each network interface.
struct Ring {
    /// Stages and replicas.
    members: Vec<(u32, u32)>,
    gpus: Vec<u32>,
    hops: Vec<RingHop>,
}

/// A hop from a member to the next.
struct RingHop {
    /// Bytes on links for each byte on it.
    demands: Vec<(FluidId, f64)>,
    /// Rings that the bytes inside a node are shared among; none: it leads to another node.
    rounds: Option<f64>,
}

impl Building<'_> {
    fn rank(&mut self, stage: u32, replica: u32) -> RankSite {
        let gpu = self.job.gpu(stage, replica);
        let resources = self.resources.gpus[gpu as usize];
        RankSite {
            name: Some(self.job.machine.part(self.job.machine.gpu(gpu)).name),
            memory: Some(resources.memory),
            hbm: Some(self.platform.route([Demand::on(resources.hbm)])),
            sms: Some(resources.sms),
            to: BTreeMap::new(),
            host: None,
            drives: None,
            ways: BTreeMap::new(),
            ways_of_rows: Vec::new(),
            rows: Vec::new(),
            tiers: BTreeMap::new(),
        }
    }

    /// The way of a copy between two GPUs: links, and the memory at both ends, where copies come before kernels.
    fn way(&mut self, from: u32, to: u32) -> Result<RouteId, NoRoute> {
        let mut demands = self.resources.demands(&self.job.route(from, to)?);
        demands.extend([from, to].map(|gpu| self.resources.gpus[gpu as usize].copied()));
        Ok(self.platform.route(demands))
    }

    /// The host beside a GPU, and where activations are there that are page-locked, or not: copies come before kernels at the memory of
    /// the GPU.
    fn host(
        &mut self,
        storage: &mut Storage<'_>,
        gpu: u32,
    ) -> Result<(HostSite, [RouteId; 2], TierSite, TierSite), NoRoute> {
        let machine = self.job.machine;
        let (own, memory_of_gpu) = (machine.gpu(gpu), self.resources.gpus[gpu as usize].copied());
        let memory = machine.memory_of(own).ok_or_else(|| machine.no_memory(own))?;
        let store = *self.resources.stores.get(&memory.0).ok_or_else(|| machine.no_memory(own))?;
        let HostBuffers { locked, exchanged, .. } = self.job.buffers;
        let locked =
            locked.map(|bytes| self.platform.store(format!("{}.page-locked", machine.part(own).name), bytes));
        let mut way = |from, to, kept: HostMemory| -> Result<RouteId, NoRoute> {
            let route = machine.route(from, to)?;
            let links = storage.links();
            let mut demands = links.demands(&mut self.platform, &self.resources, &route, kept.passes());
            demands.push(memory_of_gpu);
            Ok(self.platform.route(demands))
        };
        let mut away = |kept, store, waits| -> Result<TierSite, NoRoute> {
            Ok(TierSite { store, waits, out: way(own, memory, kept)?, back: way(memory, own, kept)? })
        };
        let pinned = away(HostMemory::Pinned, locked.unwrap_or(store), locked.is_some())?;
        let pageable = away(HostMemory::Pageable, store, false)?;
        let TierSite { out, back, .. } = match exchanged {
            HostMemory::Pinned => pinned,
            HostMemory::Pageable => pageable,
        };
        let of_rank = machine.processors(&self.resources, memory, self.beside[&memory]);
        let processors = self.platform.route(of_rank);
        Ok((HostSite { memory: store, locked, processors }, [out, back], pinned, pageable))
    }

    fn channel(&mut self, spec: &ChannelSpec) -> Result<Channel, NoRoute> {
        if !self.rings.contains_key(&spec.group) {
            let groups = self.job.groups(spec.group).into_iter();
            let rings = groups.map(|members| self.ring(members)).collect::<Result<_, _>>()?;
            self.rings.insert(spec.group, rings);
        }
        let replicas = self.job.extent.replicas();
        let of_rank = vec![None; self.job.extent.ranks() as usize];
        let mut channel = Channel { of_rank, sms: spec.sms, ..Channel::default() };
        for ring in &self.rings[&spec.group] {
            for &(stage, replica) in &ring.members {
                let rank = (stage * replicas + replica) as usize;
                channel.of_rank[rank] = Some(channel.groups.len() as u32);
            }
            let route = self.platform.route(ring.demands(spec, &self.resources));
            channel.groups.push((ring.members.len() as u32, route));
        }
        Ok(channel)
    }

    fn ring(&self, members: Vec<(u32, u32)>) -> Result<Ring, NoRoute> {
        let nodes = self.job.by_node(&members);
        let mut hops = Vec::new();
        let mut hop = |from: u32, to: u32, rounds: Option<f64>| -> Result<(), NoRoute> {
            let demands = self.resources.demands(&self.job.route(from, to)?).into_iter();
            let share = |demand: Demand| f64::from(demand.coefficient.0) / f64::from(Ratio::ONE.0);
            let demands = demands.map(|demand| (demand.fluid, share(demand))).collect();
            hops.push(RingHop { demands, rounds });
            Ok(())
        };
        for gpus in nodes.iter().filter(|gpus| gpus.len() > 1) {
            let mut rounds = self.job.rings(gpus).rounds;
            if rounds.is_empty() {
                rounds.push((0..gpus.len()).collect());
            }
            for round in &rounds {
                for (&from, &to) in round.iter().zip(round.iter().cycle().skip(1)) {
                    hop(gpus[from], gpus[to], Some(rounds.len() as f64))?;
                }
            }
        }
        if nodes.len() > 1 {
            for (at, gpus) in nodes.iter().enumerate() {
                let next = &nodes[(at + 1) % nodes.len()];
                for sender in self.job.senders(gpus) {
                    hop(gpus[sender], next[sender % next.len()], None)?;
                }
            }
        }
        Ok(Ring { members, gpus: nodes.into_iter().flatten().collect(), hops })
    }
}

impl Ring {
    /// Demands of the collectives of a channel.
    fn demands(&self, spec: &ChannelSpec, resources: &MachineResources) -> Vec<Demand> {
        let mut coefficients: BTreeMap<FluidId, f64> = BTreeMap::new();
        for RingHop { demands, rounds } in &self.hops {
            let coefficient = rounds.map_or(spec.between, |rounds| spec.inside / rounds);
            for &(fluid, share) in demands {
                *coefficients.entry(fluid).or_default() += share * coefficient;
            }
        }
        // Groups of a channel have the shape of the slowest: one within a node may pass nothing over its links.
        let passing = |fluid: FluidId, c: f64| (c > 0.0).then(|| Demand::on(fluid).coefficient(c));
        let links = coefficients.into_iter().filter_map(|(fluid, c)| passing(fluid, c));
        let memory = |&gpu: &u32| passing(resources.gpus[gpu as usize].hbm, spec.hbm).map(Demand::prior);
        links.chain(self.gpus.iter().filter_map(memory)).collect()
    }
}
