//! Ways of rows of features to GPUs: from memories of hosts, of other GPUs, and from drives.

use std::collections::BTreeMap;

use hw_models::copies::HostMemory;
use hw_models::machine::{NoRoute, PartId, Route, RouteKind, join, part_of};
use hw_models::reads::{PageReaders, PageReads, Sockets};
use hw_models::storage::{Array, Storage, Way};
use sim_core::id::{FluidId, RouteId, StoreId};
use sim_core::platform::Demand;

use super::Job;
use super::drives::{Arrays, Kept};
use super::machine::Building;
use crate::names::cause;

/// Places of rows, and the ways from there.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowPlaces {
    /// Sockets whose memories hold them. `None`: they are elsewhere.
    pub on: Option<Sockets>,
    /// Ways that work on rows names by position.
    pub ways: Vec<RowWay>,
}

/// A way of rows with equal demands for each byte.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowWay {
    /// Its beginning.
    pub source: RowSource,
    /// Requests that a link of PCIe answers. `None`: their number limits nothing.
    pub requests: Option<LineRequests>,
    /// Bytes read and written in the memory of the GPU for each byte.
    pub hbm: f64,
}

/// Memory that rows are fetched from, and by whom.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RowSource {
    /// Threads of the GPU read memories of its host.
    Host(Sockets),
    /// Threads of the GPU read those of the other GPUs of its node.
    Peers,
    /// Threads of the GPU or of its host read pages of drives.
    Pages(PageReads),
    /// Threads of the host copy rows into a buffer of its socket, which counts twice as many bytes.
    Copied(Sockets),
}

/// Requests for lines over a link of PCIe.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LineRequests {
    /// Requests that the link answers, in lines of bytes (1/s).
    pub lines_per_s: f64,
    /// Lines for each byte.
    pub lines: f64,
    /// Time of one without payload to the memory of its own socket (us).
    pub round_trip_us: f64,
}

impl RowWay {
    /// A way that touches no memory of the GPU.
    pub const fn of(source: RowSource) -> Self {
        Self { source, requests: None, hbm: 0.0 }
    }
}

impl Job<'_> {
    /// The array of drives that has the rows of a GPU.
    ///
    /// # Errors
    /// If none has.
    pub(crate) fn array_of_rows(&self, gpu: u32) -> Result<Array, NoRoute> {
        let (node, local) = (gpu / self.machine.gpus_per_node(), gpu % self.machine.gpus_per_node());
        let none = || NoRoute {
            from: self.machine.part(self.machine.gpu(gpu)).name,
            to: "drives with rows".to_owned(),
        };
        let number = self.drives.of_gpu(Kept::Rows, local).ok_or_else(none)?;
        self.arrays_of(node).ok().and_then(|arrays| arrays.into_iter().nth(number)).ok_or_else(none)
    }

    /// Ways to a GPU from the others of the job `on_node`.
    ///
    /// # Errors
    /// If threads of the GPU do not reach one of them.
    pub(crate) fn ways_from_peers(&self, gpu: u32, on_node: &[u32]) -> Result<Vec<Route>, NoRoute> {
        let own = self.machine.gpu(gpu);
        let others = on_node.iter().copied().filter(|&other| other != gpu);
        let way = |other| {
            let peer = self.machine.gpu(other);
            let route = self.machine.route(peer, own)?;
            match route.kind {
                RouteKind::NvLink | RouteKind::Peer => Ok(route),
                _ => Err(NoRoute { from: self.machine.part(peer).name, to: self.machine.part(own).name }),
            }
        };
        others.map(way).collect()
    }

    /// GPUs of the job by node.
    pub(crate) fn gpus_by_node(&self) -> BTreeMap<u32, Vec<u32>> {
        let (replicas, per_node) = (self.extent.replicas(), self.machine.gpus_per_node().max(1));
        let mut by_node: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for rank in 0..self.extent.ranks() as u32 {
            let gpu = self.gpu(rank / replicas, rank % replicas);
            by_node.entry(gpu / per_node).or_default().push(gpu);
        }
        by_node
    }
}

impl Building<'_> {
    /// Ways of the rows of a rank.
    pub(super) fn ways_of_rows(
        &mut self,
        storage: &mut Storage<'_>,
        arrays: &mut Arrays<'_>,
        (rank, gpu): (u32, u32),
        ways: &[RowWay],
    ) -> Result<Vec<RouteId>, NoRoute> {
        let (mut answered, mut routes) = (None, Vec::with_capacity(ways.len()));
        for way in ways {
            let mut demands = match way.source {
                RowSource::Host(on) => self.of_host(storage, gpu, on)?,
                RowSource::Peers => self.of_peers(storage, gpu)?,
                RowSource::Pages(pages) => self.of_pages(storage, arrays, (rank, gpu), pages)?,
                RowSource::Copied(on) => self.copied(storage, gpu, on)?,
            };
            if let Some(requests) = way.requests {
                demands.push(self.answered(&mut answered, gpu, requests, way.source)?);
            }
            if way.hbm > 0.0 {
                let hbm = self.resources.gpus[gpu as usize].hbm;
                demands.push(Demand::on(hbm).coefficient(way.hbm));
            }
            routes.push(self.platform.route(demands));
        }
        Ok(routes)
    }

    /// Stores that hold rows of a rank, and the ranks that share each equally.
    pub(super) fn stores_of_rows(
        &mut self,
        arrays: &mut Arrays<'_>,
        (rank, gpu): (u32, u32),
        on: Option<Sockets>,
    ) -> Result<Vec<(StoreId, u64)>, NoRoute> {
        if let Some(array) = self.array(arrays, (rank, gpu), Kept::Rows) {
            let (per_node, drives) = (self.job.machine.gpus_per_node(), self.job.drives);
            let of = |gpu: u32| drives.of_gpu(Kept::Rows, gpu % per_node);
            let alike = self.on_node(gpu).iter().filter(|&&other| of(other) == of(gpu)).count();
            return Ok(vec![(array.store, alike as u64)]);
        }
        let Some(on) = on else { return Ok(Vec::new()) };
        let own = self.job.machine.gpu(gpu);
        let store = |memory: PartId| {
            let none = || self.job.machine.no_memory(own);
            self.resources.stores.get(&memory.0).copied().ok_or_else(none)
        };
        let memories = self.memories(gpu, on)?;
        let parts = match on {
            Sockets::Each => self.beside[&memories[0]],
            Sockets::Interleaved | Sockets::One(_) => self.on_node(gpu).len() as u32,
        };
        let parts = u64::from(parts) * memories.len() as u64;
        memories.into_iter().map(|memory| Ok((store(memory)?, parts))).collect()
    }

    /// GPUs of the job on the node of a GPU.
    fn on_node(&self, gpu: u32) -> &[u32] {
        &self.by_node[&(gpu / self.job.machine.gpus_per_node())]
    }

    /// Host memories that rows of a GPU come from, an equal part from each.
    fn memories(&self, gpu: u32, on: Sockets) -> Result<Vec<PartId>, NoRoute> {
        let machine = self.job.machine;
        let own = machine.gpu(gpu);
        let mut of_node = machine.memories_of_node(gpu / machine.gpus_per_node());
        let memories: Vec<PartId> = match on {
            Sockets::Each => machine.memory_of(own).into_iter().collect(),
            Sockets::Interleaved => of_node.collect(),
            Sockets::One(number) => of_node.nth(number as usize).into_iter().collect(),
        };
        if memories.is_empty() { Err(machine.no_memory(own)) } else { Ok(memories) }
    }

    /// Demands for a byte that threads of a GPU read of its host.
    fn of_host(&mut self, storage: &mut Storage<'_>, gpu: u32, on: Sockets) -> Result<Vec<Demand>, NoRoute> {
        let machine = self.job.machine;
        let routes =
            self.memories(gpu, on)?.into_iter().map(|memory| machine.route(memory, machine.gpu(gpu)));
        let routes = routes.collect::<Result<Vec<Route>, NoRoute>>()?;
        Ok(self.shared(storage, &routes))
    }

    /// Demands for a byte that threads of a GPU read of the others of its node, whose memories are
    /// read there.
    fn of_peers(&mut self, storage: &mut Storage<'_>, gpu: u32) -> Result<Vec<Demand>, NoRoute> {
        let routes = self.job.ways_from_peers(gpu, self.on_node(gpu))?;
        let mut demands = self.shared(storage, &routes);
        let part = 1.0 / routes.len().max(1) as f64;
        let others = self.on_node(gpu).iter().filter(|&&other| other != gpu);
        let read = |&other: &u32| Demand::on(self.resources.gpus[other as usize].hbm).coefficient(part);
        demands.extend(others.map(read));
        Ok(demands)
    }

    /// Demands for a byte of which routes carry an equal part each.
    fn shared(&mut self, storage: &mut Storage<'_>, routes: &[Route]) -> Vec<Demand> {
        let (mut demands, passes) = (Vec::new(), HostMemory::Pinned.passes());
        for route in routes {
            let links = storage.links();
            for demand in links.demands(&mut self.platform, &self.resources, route, passes) {
                join(&mut demands, part_of(demand, 1.0 / routes.len() as f64));
            }
        }
        demands
    }

    /// Demands for a byte of pages of the drives of a rank.
    fn of_pages(
        &mut self,
        storage: &mut Storage<'_>,
        arrays: &mut Arrays<'_>,
        (rank, gpu): (u32, u32),
        pages: PageReads,
    ) -> Result<Vec<Demand>, NoRoute> {
        let machine = self.job.machine;
        let array = self.job.array_of_rows(gpu)?;
        let own = machine.gpu(gpu);
        let end = match pages.by {
            PageReaders::Gpu(_) => own,
            PageReaders::Host(_) => machine.memory_of(own).ok_or_else(|| machine.no_memory(own))?,
        };
        let (way, requests) = ((Way::Read, u64::MAX), pages.requests(array.drives.len()));
        let (mut demands, _) =
            storage.demands(&mut self.platform, &self.resources, (&array, end), way, requests, 1.0)?;
        let array = self.array(arrays, (rank, gpu), Kept::Rows);
        demands.extend(array.and_then(|array| array.limits[1]).map(Demand::on));
        Ok(demands)
    }

    /// Demands for a byte that threads beside a GPU read on some sockets or write on their own.
    fn copied(&mut self, storage: &mut Storage<'_>, gpu: u32, on: Sockets) -> Result<Vec<Demand>, NoRoute> {
        let machine = self.job.machine;
        let own = machine.gpu(gpu);
        let near = machine.memory_of(own).ok_or_else(|| machine.no_memory(own))?;
        let memories = self.memories(gpu, on)?;
        let ranks = self.beside[&near];
        let mut demands = Vec::new();
        for &memory in &memories {
            let part = 0.5 / memories.len() as f64;
            // Each memory serves threads with their weight, whichever socket they are on.
            for memory in [memory, near] {
                let of_threads = machine.processors(&self.resources, memory, ranks);
                of_threads.into_iter().for_each(|demand| join(&mut demands, part_of(demand, part)));
            }
            if memory == near {
                continue;
            }
            let between = machine.route(memory, near)?;
            let links = storage.links();
            let crossed = links.demands(&mut self.platform, &self.resources, &between, 1.0);
            let is_memory = |demand: &Demand| {
                let of = |memory| machine.processors(&self.resources, memory, 1);
                [memory, near].into_iter().filter_map(of).any(|known| known.fluid == demand.fluid)
            };
            let crossed: Vec<Demand> = crossed.into_iter().filter(|demand| !is_memory(demand)).collect();
            crossed.into_iter().for_each(|demand| join(&mut demands, part_of(demand, part)));
        }
        Ok(demands)
    }

    /// The demand of a byte on the requests that a GPU has in flight, which are longer under way to
    /// another socket.
    fn answered(
        &mut self,
        known: &mut Option<(FluidId, f64)>,
        gpu: u32,
        requests: LineRequests,
        source: RowSource,
    ) -> Result<Demand, NoRoute> {
        let machine = self.job.machine;
        let own = machine.gpu(gpu);
        let (fluid, lines_per_s) = *known.get_or_insert_with(|| {
            let name = format!("{}.reads", machine.part(own).name);
            let per_s = requests.lines_per_s;
            (self.platform.fluid(name, per_s, cause::id(cause::TRANSFER)), per_s)
        });
        let mut longer = 0.0;
        if let RowSource::Host(on) = source {
            let near = machine.memory_of(own).ok_or_else(|| machine.no_memory(own))?;
            let latency = |memory| Ok(machine.route(memory, own)?.latency.as_secs());
            let memories = self.memories(gpu, on)?;
            for &memory in &memories {
                longer += 2.0 * (latency(memory)? - latency(near)?) / memories.len() as f64;
            }
        }
        let times = 1.0 + longer * 1e6 / requests.round_trip_us;
        // Reads that take another way as well have more of the requests for each line.
        let share = lines_per_s / requests.lines_per_s;
        Ok(Demand::on(fluid).coefficient(requests.lines * times * share))
    }
}
