//! What ranks keep on drives: arrays that every node has, and the ways there, from the memory of the host or from a GPU.
//!
//! Techniques that use one array share what its drives move, and what they hold.

use std::collections::BTreeMap;

use hw_models::copies::HostMemory;
use hw_models::machine::{NoRoute, join};
use hw_models::storage::{
    Array, ArrayError, DriveSet, Endurance, PathParameters, Staging, Storage, Way, arrays_of_node,
};
use sim_core::id::{FluidId, RouteId, StoreId};
use sim_core::platform::{Demand, Fluid, Platform};

use super::machine::Building;
use super::{Job, TierSite};
use crate::names::cause;

/// Arrays of drives that every node has, and who uses which.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Drives {
    /// The arrays.
    pub arrays: Vec<DriveArray>,
    /// Of the GPUs of a node in turn, the array that states of their ranks are on; none: they are not on drives.
    pub states: Vec<usize>,
    /// Of the GPUs of a node in turn, the array that activations of their ranks go to; none: they go to host memory.
    pub activations: Vec<usize>,
    /// By GPU of a node in turn, the array that rows of features come from. Empty: they are
    /// not on drives.
    pub rows: Vec<usize>,
    /// Where the write caches and the heat of drives are at the start.
    pub levels: Levels,
}

/// Tokens of buckets at the start of a run, by the name of their fluid. A bucket without a name here
/// is full: the cache of a drive is empty of data, and a drive that throttles is cold.
pub type Levels = BTreeMap<String, u64>;

/// An array of drives that every node has.
#[derive(Clone, Debug, PartialEq)]
pub struct DriveArray {
    /// For results.
    pub name: String,
    /// Its drives of each node; none: all.
    pub members: Option<DriveSet>,
    /// How bytes come there from host memory.
    pub to_host: PathParameters,
    /// How bytes come there from a GPU.
    pub to_gpu: PathParameters,
    /// Most that it writes and reads (byte/s), whatever its drives do; infinite where nothing is
    /// known.
    pub at_most: [f64; 2],
    /// What drives write for each byte of the workload of their rating, and for each of this one, and times the cycles that they
    /// last longer as they need not keep it for long.
    pub wear: [f64; 3],
}

/// An array of a node, and the ranks that use it.
#[derive(Clone, Debug, PartialEq)]
pub struct ArrayUse {
    /// Its name.
    pub name: String,
    /// Contents.
    pub store: StoreId,
    /// Ranks whose states are there.
    pub states: Vec<u32>,
    /// Ranks whose activations go there.
    pub activations: Vec<u32>,
    /// Ranks that read rows of features there.
    pub rows: Vec<u32>,
    /// What may be written to it; none if a drive does not say.
    pub endurance: Option<Endurance>,
}

/// What a rank keeps on drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// States, which come from host memory.
    States,
    /// Activations, which come from the GPU.
    Activations,
    /// Rows of features, which are read in pages.
    Rows,
}

impl Drives {
    /// No arrays, and nothing on them.
    pub const NONE: Self = Self {
        arrays: Vec::new(),
        states: Vec::new(),
        activations: Vec::new(),
        rows: Vec::new(),
        levels: Levels::new(),
    };

    /// The array that a GPU of a node uses; none if nobody keeps that on drives.
    pub(super) fn of_gpu(&self, kept: Kept, local: u32) -> Option<usize> {
        let in_turn = match kept {
            Kept::States => &self.states,
            Kept::Activations => &self.activations,
            Kept::Rows => &self.rows,
        };
        (!in_turn.is_empty()).then(|| in_turn[local as usize % in_turn.len()])
    }

    /// Brings the buckets of a platform to where they are at the start.
    pub(super) fn level(&self, platform: &mut Platform) {
        for Fluid { name, bucket, .. } in &mut platform.fluids {
            if let Some((bucket, &tokens)) = bucket.as_mut().zip(self.levels.get(name)) {
                bucket.tokens = tokens;
            }
        }
    }

    /// Arrays that activations go to.
    pub(crate) fn of_activations(&self) -> impl Iterator<Item = &DriveArray> {
        self.activations.iter().map(|&array| &self.arrays[array])
    }
}

impl Job<'_> {
    /// The arrays of the nodes that it is on, by node.
    ///
    /// # Errors
    /// All that is wrong with them, once for all nodes.
    pub(crate) fn arrays(&self) -> Result<BTreeMap<u32, Vec<Array>>, Vec<ArrayError>> {
        let of_node = |node| Ok((node, self.arrays_of(node)?));
        self.gpus_by_node().into_keys().map(of_node).collect()
    }

    /// The arrays of a node.
    ///
    /// # Errors
    /// All that is wrong with them.
    pub(super) fn arrays_of(&self, node: u32) -> Result<Vec<Array>, Vec<ArrayError>> {
        let named = self.drives.arrays.iter().map(|array| (&*array.name, array.members.as_ref()));
        arrays_of_node(self.machine, node, named)
    }
}

/// The arrays of the nodes of a site while it is built.
pub(super) struct Arrays<'a> {
    /// By node, then array.
    of_nodes: &'a BTreeMap<u32, Vec<Array>>,
    /// By node and array, its place among those in use.
    places: BTreeMap<(u32, usize), usize>,
    /// By node and array, what limits its writes and its reads.
    limits: BTreeMap<(u32, usize), [Option<FluidId>; 2]>,
    /// Those in use.
    pub(super) used: Vec<ArrayUse>,
}

impl<'a> Arrays<'a> {
    /// None is used yet.
    pub(super) const fn new(of_nodes: &'a BTreeMap<u32, Vec<Array>>) -> Self {
        Self { of_nodes, places: BTreeMap::new(), limits: BTreeMap::new(), used: Vec::new() }
    }
}

/// An array that a rank uses.
#[derive(Clone, Copy, Debug)]
pub(super) struct InUse {
    /// Number among those of its node.
    number: usize,
    /// Contents.
    pub(super) store: StoreId,
    /// Limits of its writes and its reads.
    pub(super) limits: [Option<FluidId>; 2],
}

impl Building<'_> {
    /// Where a rank keeps something on drives, and the ways there; none if it does not.
    pub(super) fn on_drives(
        &mut self,
        storage: &mut Storage<'_>,
        arrays: &mut Arrays<'_>,
        (rank, gpu): (u32, u32),
        kept: Kept,
    ) -> Result<Option<TierSite>, NoRoute> {
        let Some(InUse { number, store, limits }) = self.array(arrays, (rank, gpu), kept) else {
            return Ok(None);
        };
        let array = &arrays.of_nodes[&(gpu / self.job.machine.gpus_per_node())][number];
        let settings = &self.job.drives.arrays[number];
        let [out, back] = self.ways_to(storage, (array, limits), settings, gpu, kept)?;
        Ok(Some(TierSite { store, waits: false, out, back }))
    }

    /// The array on which a rank has something. `None`: it has none of it on drives.
    pub(super) fn array(
        &mut self,
        arrays: &mut Arrays<'_>,
        (rank, gpu): (u32, u32),
        kept: Kept,
    ) -> Option<InUse> {
        let (machine, drives) = (self.job.machine, self.job.drives);
        let (node, local) = (gpu / machine.gpus_per_node(), gpu % machine.gpus_per_node());
        let number = drives.of_gpu(kept, local)?;
        let array = &arrays.of_nodes[&node][number];
        let limits = *arrays.limits.entry((node, number)).or_insert_with(|| {
            let [write, read] = drives.arrays[number].at_most;
            [("write", write), ("read", read)].map(|(way, rate)| {
                let name = format!("{}.{way}", array.name);
                rate.is_finite().then(|| self.platform.fluid(name, rate, cause::id(cause::TRANSFER)))
            })
        });
        let used = &mut arrays.used;
        let place = *arrays.places.entry((node, number)).or_insert_with(|| {
            let capacity = array.capacity(machine).unwrap_or(u64::MAX);
            let store = self.platform.store(array.name.clone(), capacity);
            let endurance = self.job.endurance(array, drives.arrays[number].wear);
            let (states, activations, rows) = Default::default();
            used.push(ArrayUse { name: array.name.clone(), store, states, activations, rows, endurance });
            used.len() - 1
        });
        let array = &mut used[place];
        let ranks = match kept {
            Kept::States => &mut array.states,
            Kept::Activations => &mut array.activations,
            Kept::Rows => &mut array.rows,
        };
        if ranks.last() != Some(&rank) {
            ranks.push(rank);
        }
        Some(InUse { number, store: array.store, limits })
    }

    /// The ways to an array and back from the memory of a GPU's host, or from the GPU itself. What is staged passes a buffer of the host,
    /// one part of which is filled while another is emptied, so that both ways are taken at the same time. What its requests get is
    /// a limit of its own in each direction.
    fn ways_to(
        &mut self,
        storage: &mut Storage<'_>,
        (array, limits): (&Array, [Option<FluidId>; 2]),
        DriveArray { to_host, to_gpu, .. }: &DriveArray,
        gpu: u32,
        kept: Kept,
    ) -> Result<[RouteId; 2], NoRoute> {
        let machine = self.job.machine;
        let own = machine.gpu(gpu);
        let (path, of_host) = match kept {
            Kept::States | Kept::Rows => (to_host, true),
            Kept::Activations => (to_gpu, to_gpu.staging != Staging::None),
        };
        let memory =
            of_host.then(|| machine.memory_of(own).ok_or_else(|| machine.no_memory(own))).transpose()?;
        let mut way = |way: Way| -> Result<RouteId, NoRoute> {
            let (mut demands, at_most) = storage.demands(
                &mut self.platform,
                &self.resources,
                (array, memory.unwrap_or(own)),
                (way, u64::MAX),
                path.requests(),
                path.passes,
            )?;
            if kept == Kept::Activations {
                if let Some(buffer) = memory {
                    let ends = if way == Way::Read { [buffer, own] } else { [own, buffer] };
                    let route = machine.route(ends[0], ends[1])?;
                    let links = storage.links();
                    let passes = HostMemory::Pinned.passes();
                    let of_copy = links.demands(&mut self.platform, &self.resources, &route, passes);
                    of_copy.into_iter().for_each(|demand| join(&mut demands, demand));
                }
                demands.push(self.resources.gpus[gpu as usize].copied());
            }
            demands.extend(limits[usize::from(way == Way::Read)].map(Demand::on));
            let at_most = at_most.min(path.of_thread(way));
            if at_most.is_finite() {
                let of = if kept == Kept::States { "states" } else { "activations" };
                let name = format!("{}.{of}.{way:?} requests", machine.part(own).name).to_lowercase();
                let requests = self.platform.fluid(name, at_most, cause::id(cause::TRANSFER));
                demands.push(Demand::on(requests));
            }
            Ok(self.platform.route(demands))
        };
        Ok([way(Way::Write)?, way(Way::Read)?])
    }
}

impl Job<'_> {
    /// What may be written to an array: each member has the same part of all.
    fn endurance(
        &self,
        array: &Array,
        [rated_amplification, amplification, retention]: [f64; 3],
    ) -> Option<Endurance> {
        let of_drive = |&drive| Some(Endurance::rated(self.machine.drive_model(drive)?)?.rated_bytes);
        let of_drives = array.drives.iter().map(of_drive).collect::<Option<Vec<f64>>>()?;
        let rated_bytes = of_drives.into_iter().reduce(f64::min)? * array.drives.len() as f64;
        Some(Endurance { rated_bytes, rated_amplification, amplification, retention })
    }
}
