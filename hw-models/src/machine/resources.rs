//! What a machine is to the engine: a fluid for every memory and every direction of a link, a pool of SMs and a store for
//! every GPU.

use std::collections::BTreeMap;

use sim_core::fixed::Rate;
use sim_core::id::{CauseId, FluidId, PoolId, StoreId};
use sim_core::platform::{Bucket, Demand, Platform};

use crate::catalogue::LinkKind;

use super::part::PartKind;
use super::{DirectedLink, Link, Machine, Route};

/// What an engine resource stands for; time lost on it counts under a cause of the caller's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ResourceKind {
    /// The memory of a GPU.
    GpuMemory,
    /// A link.
    Link(LinkKind),
}

/// The engine's resources of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineResources {
    /// By GPU number.
    pub gpus: Vec<GpuResources>,
    /// By [`super::DirectedLink`]; both directions of a half-duplex link are one fluid.
    pub links: Vec<FluidId>,
    /// Host memories of known size, by part number.
    pub stores: BTreeMap<u32, StoreId>,
}

/// The engine's resources of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuResources {
    /// Its memory, as bytes held.
    pub memory: StoreId,
    /// Its memory, as bytes per second at the nominal bandwidth: what kernels reach of it limits them one by one.
    pub hbm: FluidId,
    /// Its streaming multiprocessors.
    pub sms: PoolId,
}

/// A machine alone on a platform, where time lost counts under no cause of anybody's.
#[derive(Clone, Debug)]
pub(super) struct Alone {
    platform: Platform,
    resources: MachineResources,
    /// By fluid.
    kinds: Vec<ResourceKind>,
}

impl Machine {
    /// A platform with the machine on it. GPUs have the memory that the catalogue leaves them
    /// ([`crate::catalogue::Gpu::usable_bytes`]). `cause` says what time lost on a resource counts
    /// under.
    pub fn platform(&self, cause: impl Fn(ResourceKind) -> CauseId) -> (Platform, MachineResources) {
        let Alone { platform, resources, kinds } = self.alone();
        let (mut platform, resources) = (platform.clone(), resources.clone());
        for (fluid, &kind) in platform.fluids.iter_mut().zip(kinds) {
            fluid.cause = cause(kind);
        }
        (platform, resources)
    }

    /// Its resources on every platform that [`Machine::platform`] begins.
    pub fn resources(&self) -> &MachineResources {
        &self.alone().resources
    }

    fn alone(&self) -> &Alone {
        self.alone.get_or_init(|| self.laid_out())
    }

    fn laid_out(&self) -> Alone {
        let (mut platform, mut resources) = (Platform::default(), MachineResources::default());
        let mut kinds = Vec::new();
        let mut fluid = |platform: &mut Platform, name, bytes_per_s, kind| {
            kinds.push(kind);
            platform.fluid(name, bytes_per_s, CauseId(0))
        };
        let names: Vec<String> = self.parts().map(|part| self.part(part).name).collect();
        for index in 0..self.gpus() {
            let (_, model) = &self.gpu_kinds()[self.kind_of_gpu(index)];
            let name = &names[self.gpu(index).index()];
            let bytes_per_s = model.bandwidth_gb_per_s * 1e9;
            resources.gpus.push(GpuResources {
                hbm: fluid(&mut platform, format!("{name}.hbm"), bytes_per_s, ResourceKind::GpuMemory),
                sms: platform.pool(format!("{name}.sms"), model.sms),
                memory: platform.store(format!("{name}.memory"), model.usable_bytes()),
            });
        }
        for id in self.links() {
            let link = self.link(id);
            let shared = self.canonical(id, link.half_duplex);
            resources.links.push(if shared == id {
                let name =
                    [names[link.from.index()].as_str(), " -> ", names[link.to.index()].as_str()].concat();
                let kind = ResourceKind::Link(link.kind);
                let fluid = fluid(&mut platform, name, self.carried(id, &link), kind);
                platform.fluids[fluid.index()].bucket = self.write_cache(id, &link);
                fluid
            } else {
                resources.links[shared.index()]
            });
        }
        for id in self.parts() {
            let part = self.part(id);
            if let (PartKind::Memory, Some(capacity)) = (part.kind, part.capacity) {
                resources.stores.insert(id.0, platform.store(part.name, capacity));
            }
        }
        Alone { platform, resources, kinds }
    }

    /// Writes of a drive are faster while its cache lasts. What is in the cache goes to its place at the sustained rate
    /// meanwhile: it is full after `write_cache_gb` have been written, of which it holds 1 - sustained / burst.
    fn write_cache(&self, id: DirectedLink, link: &Link<'_>) -> Option<Bucket> {
        let (burst, cache) = self.burst_write(id).zip(self.drive_model(link.to)?.write_cache_gb)?;
        let burst = burst.min(link.nominal_bytes_per_s * self.slowed(id, link.half_duplex));
        let held = cache * 1e9 * (1.0 - link.bytes_per_s / burst);
        (held >= 1.0).then(|| Bucket::full(Rate::per_second(burst), held as u64))
    }

    /// What a transfer gets when nothing else is on its links (byte/s); infinite within a part.
    pub fn bytes_per_s(&self, route: &Route) -> f64 {
        let crossed = route.links.iter().map(|&id| {
            let link = self.link(id);
            (self.canonical(id, link.half_duplex), link.bytes_per_s)
        });
        let crossed: Vec<(DirectedLink, f64)> = crossed.collect();
        let times = |link: DirectedLink| crossed.iter().filter(|&&(other, _)| other == link).count() as f64;
        crossed.iter().map(|&(link, rate)| rate / times(link)).fold(f64::INFINITY, f64::min)
    }
}

impl GpuResources {
    /// What a copy takes of its memory: a copy engine comes first there, and moves a byte for each of the link.
    pub fn copied(&self) -> Demand {
        Demand::on(self.hbm).prior()
    }
}

impl MachineResources {
    /// The demands of a transfer on links, one per fluid: a memory that is written and read again counts twice. The
    /// memories of the GPUs at its ends are not among them.
    pub fn demands(&self, route: &Route) -> Vec<Demand> {
        let mut times: Vec<(FluidId, f64)> = Vec::with_capacity(route.links.len());
        for link in &route.links {
            let fluid = self.links[link.index()];
            match times.iter_mut().find(|(known, _)| *known == fluid) {
                Some((_, times)) => *times += 1.0,
                None => times.push((fluid, 1.0)),
            }
        }
        times.into_iter().map(|(fluid, times)| Demand::on(fluid).coefficient(times)).collect()
    }
}
