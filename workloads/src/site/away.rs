//! Where the activations of ranks are while they are away: in the memory of the host beside them, or on drives.

use std::collections::BTreeMap;

use hw_models::copies::HostMemory;
use hw_models::machine::{NoRoute, PartId, PartKind, join};
use hw_models::storage::{Array, ArrayError, Endurance, PathParameters, Staging, Storage, Way};
use sim_core::id::{RouteId, StoreId};
use sim_core::platform::Demand;

use super::machine::Building;
use super::{AwaySite, Job};
use crate::names::cause;

/// Arrays of drives that activations go to.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrays {
    /// Of the GPUs of a node in turn, the drives by name, that of the machine or that within the node; none: all drives of the node are one
    /// array.
    pub of_gpus: Vec<Vec<String>>,
    /// How bytes come there.
    pub path: PathParameters,
    /// What drives write for each byte of the workload of their rating, and for each of this one, and times the cycles that they
    /// last longer as they need not keep it for long.
    pub wear: [f64; 3],
}

/// An array of drives, and the ranks whose activations go there.
#[derive(Clone, Debug, PartialEq)]
pub struct ArrayUse {
    /// The ranks.
    pub ranks: Vec<u32>,
    /// What may be written to it; none if a drive does not say.
    pub endurance: Option<Endurance>,
}

impl Job<'_> {
    /// By rank, the array that its activations go to.
    ///
    /// # Errors
    /// If a drive is not there, or a node has none.
    pub(crate) fn arrays(&self, given: &Arrays) -> Result<Vec<Array>, ArrayError> {
        let (stages, replicas) = (self.extent.stages, self.extent.replicas());
        let ranks = (0..stages).flat_map(|stage| (0..replicas).map(move |replica| (stage, replica)));
        ranks.map(|(stage, replica)| self.array(given, self.gpu(stage, replica))).collect()
    }

    fn array(&self, given: &Arrays, gpu: u32) -> Result<Array, ArrayError> {
        let per_node = self.machine.gpus_per_node().max(1);
        let (node, local) = (gpu / per_node, (gpu % per_node) as usize);
        let name = |list: usize| format!("array {list} of node {node}");
        if given.of_gpus.is_empty() {
            let parts = self.machine.parts_of_node(node).map(PartId);
            let all: Vec<PartId> = parts.filter(|&id| self.machine.part(id).kind == PartKind::Ssd).collect();
            return if all.is_empty() {
                Err(ArrayError::Empty(name(0)))
            } else {
                Ok(Array::of(&name(0), all))
            };
        }
        let list = local % given.of_gpus.len();
        let known = |drive: &String| match self.machine.part_named(drive) {
            Ok(_) => drive.clone(),
            Err(_) => format!("node[{node}].{drive}"),
        };
        let named: Vec<String> = given.of_gpus[list].iter().map(known).collect();
        Array::new(self.machine, &name(list), &named)
    }

    /// The different arrays, each with its ranks.
    pub(crate) fn array_uses(&self, arrays: &[Array], [rated, here, retention]: [f64; 3]) -> Vec<ArrayUse> {
        let mut by_drives: BTreeMap<&[PartId], Vec<u32>> = BTreeMap::new();
        for (rank, array) in (0u32..).zip(arrays) {
            by_drives.entry(&array.drives).or_default().push(rank);
        }
        let endurance = |drives: &[PartId]| {
            let of = |&drive: &PartId| Some(Endurance::rated(self.machine.drive_model(drive)?)?.rated_bytes);
            let least = drives.iter().map(of).collect::<Option<Vec<f64>>>()?.into_iter().reduce(f64::min)?;
            // Each member has the same part of all.
            let rated_bytes = least * drives.len() as f64;
            Some(Endurance { rated_bytes, rated_amplification: rated, amplification: here, retention })
        };
        let one = |(drives, ranks)| ArrayUse { endurance: endurance(drives), ranks };
        by_drives.into_iter().map(one).collect()
    }
}

impl Building<'_> {
    /// The array of a GPU: what is staged passes a buffer of its host, one part of which is filled while another is emptied, so that both
    /// ways are taken at the same time. What its requests get is a limit of its own in each direction.
    pub(super) fn away_array(
        &mut self,
        storage: &mut Storage<'_>,
        stores: &mut BTreeMap<Vec<PartId>, StoreId>,
        gpu: u32,
        (array, path): (&Array, &PathParameters),
    ) -> Result<AwaySite, NoRoute> {
        let machine = self.job.machine;
        let own = machine.gpu(gpu);
        let buffer = match path.staging {
            Staging::None => None,
            Staging::Whole | Staging::Pipelined => {
                Some(machine.memory_of(own).ok_or_else(|| machine.no_memory(own))?)
            }
        };
        let mut way = |way: Way| -> Result<RouteId, NoRoute> {
            let passes = if buffer.is_some() { path.passes } else { 1.0 };
            let (mut demands, at_most) = storage.demands(
                &mut self.platform,
                &self.resources,
                (array, buffer.unwrap_or(own)),
                (way, u64::MAX),
                path.requests(),
                passes,
            )?;
            if let Some(buffer) = buffer {
                let ends = if way == Way::Read { [buffer, own] } else { [own, buffer] };
                let route = machine.route(ends[0], ends[1])?;
                let passes = HostMemory::Pinned.passes();
                let of_copy = storage.links().demands(&mut self.platform, &self.resources, &route, passes);
                of_copy.into_iter().for_each(|demand| join(&mut demands, demand));
            }
            demands.push(self.resources.gpus[gpu as usize].copied());
            let at_most = at_most.min(path.of_thread(way));
            if at_most.is_finite() {
                let name = format!("{}.{way:?} requests", machine.part(own).name).to_lowercase();
                let requests = self.platform.fluid(name, at_most, cause::id(cause::TRANSFER));
                demands.push(Demand::on(requests));
            }
            Ok(self.platform.route(demands))
        };
        let (out, back) = (way(Way::Write)?, way(Way::Read)?);
        let capacity = array.capacity(machine).unwrap_or(u64::MAX);
        let store = *stores
            .entry(array.drives.clone())
            .or_insert_with(|| self.platform.store(array.name.clone(), capacity));
        Ok(AwaySite { store, waits: false, out, back })
    }
}
