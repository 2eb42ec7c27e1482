//! The site of a training job: the ranks of every stage, and what each of them uses of the machine.
//!
//! A stage runs on as many ranks as there are *replicas* (tensor times data parallel): they all execute its lanes. Replica
//! `r` of a stage exchanges messages with replica `r` of another; replicas meet in the groups of *channels*.

mod clocks;
mod drives;
mod kinds;
mod machine;
mod rows;

use std::collections::BTreeMap;

use sim_core::id::{FluidId, PoolId, RouteId, StoreId};
use sim_core::platform::{Demand, Platform};

use crate::names::{cause, kind};
use crate::schedule::StageMemory;
use crate::transfer::{Dispositions, Medium};

pub use drives::{ArrayUse, DriveArray, Drives, Levels};
pub use kinds::{Kinds, MixedStage};
pub use machine::{ChannelSpec, Job};
pub use rows::{LineRequests, RowPlaces, RowSource, RowWay};

/// Where the ranks are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Site {
    /// Links, memories' bandwidths and SMs; lowering adds the stores.
    pub platform: Platform,
    /// Ranks per stage, at least 1.
    pub replicas: u32,
    /// By stage, then replica.
    pub ranks: Vec<RankSite>,
    /// What collectives run over.
    pub channels: Vec<Channel>,
    /// Arrays of drives that ranks use.
    pub arrays: Vec<ArrayUse>,
    /// Links between partner stages whose rate is given.
    pub partner_links: Vec<FluidId>,
}

/// What one rank uses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RankSite {
    /// Name for results: that of its GPU in the machine; none: that of its stage.
    pub name: Option<String>,
    /// Its memory; none: lowering makes one with the capacity of its stage.
    pub memory: Option<StoreId>,
    /// Its HBM, for kernels.
    pub hbm: Option<RouteId>,
    /// Its SMs, for kernels.
    pub sms: Option<PoolId>,
    /// The way to the same replica of other stages; none: it takes no time.
    pub to: BTreeMap<u32, RouteId>,
    /// The host beside it; none: it copies nothing there.
    pub host: Option<HostSite>,
    /// The array of drives that states are on, and the ways between it and host memory; none: it keeps none there.
    pub drives: Option<TierSite>,
    /// Ways of what its host exchanges with it and with drives, from one medium to another.
    pub ways: BTreeMap<(Medium, Medium), RouteId>,
    /// Ways of rows of features, by what they ask for.
    pub ways_of_rows: Vec<RouteId>,
    /// Stores that hold rows for it, and the ranks that share each equally.
    pub rows: Vec<(StoreId, u64)>,
    /// Tiers that its activations can be in between the passes.
    pub tiers: BTreeMap<Medium, TierSite>,
}

/// A tier as a rank reaches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierSite {
    /// What holds it.
    pub store: StoreId,
    /// Whether a copy that finds no room there waits for it.
    pub waits: bool,
    /// The way there.
    pub out: RouteId,
    /// The way back.
    pub back: RouteId,
}

/// The host beside a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostSite {
    /// Its memory.
    pub memory: StoreId,
    /// What of it is page-locked for the rank; none: as much as it needs.
    pub locked: Option<StoreId>,
    /// What its processors read and write of that memory.
    pub processors: RouteId,
}

/// Groups of ranks that do the same collectives.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Channel {
    /// Number of members and route of each group.
    pub groups: Vec<(u32, RouteId)>,
    /// By rank, the group it is in.
    pub of_rank: Vec<Option<u32>>,
    /// SMs that a rank's share of a collective holds where it runs beside kernels.
    pub sms: u32,
}

impl RankSite {
    /// Bytes that a rank of a stage holds throughout away from its GPU, by store and kind.
    pub(crate) fn held_away(&self, stage: &StageMemory) -> Vec<(StoreId, &'static str, u64)> {
        let on_hosts = self.host.map_or_else(Vec::new, |host| host.held(stage));
        let on_drives = |&(kind, bytes)| Some((self.drives?.store, kind, bytes));
        let of_rows =
            |&(store, parts): &(StoreId, u64)| (store, kind::FEATURES, stage.rows.div_ceil(parts.max(1)));
        let rows = self.rows.iter().map(of_rows);
        let all = on_hosts.into_iter().chain(stage.on_drives.iter().filter_map(on_drives)).chain(rows);
        all.filter(|&(_, _, bytes)| bytes > 0).collect()
    }
}

impl HostSite {
    /// What a rank of a stage holds here throughout, by store and kind. What is page-locked for it is so from the start.
    fn held(&self, stage: &StageMemory) -> Vec<(StoreId, &'static str, u64)> {
        let buffers = self.locked.unwrap_or(self.memory);
        let hosted = stage.hosted.iter().map(|&(kind, bytes)| (self.memory, kind, bytes));
        let exchanged = stage.exchanged.iter().map(|&(kind, bytes)| (buffers, kind, bytes));
        let locked = self.locked.and(stage.locked).map(|bytes| (self.memory, kind::LOCKED, bytes));
        hosted.chain(exchanged).chain(locked).collect()
    }
}

impl Site {
    /// The site of a profiled pipeline: a rank per stage and nothing shared, but for the links between partners where a
    /// rate (bytes per second, in each direction) is given.
    pub fn of_profile(stages: u32, partner_rate: Option<f64>, table: &Dispositions) -> Self {
        let mut site =
            Self { replicas: 1, ranks: vec![RankSite::default(); stages as usize], ..Self::default() };
        let Some(rate) = partner_rate else { return site };
        for moved in table.between_gpus() {
            let [home, partner] = [moved.from.owner, moved.to.owner];
            for (from, to) in [(home, partner), (partner, home)] {
                let name = format!("stage[{from}].to[{to}]");
                let fluid = site.platform.fluid(name, rate, cause::id(cause::TRANSFER));
                let route = site.platform.route([Demand::on(fluid)]);
                site.partner_links.push(fluid);
                site.ranks[from as usize].to.insert(to, route);
            }
        }
        site
    }

    /// The index of a rank in [`Site::ranks`].
    pub fn rank(&self, stage: u32, replica: u32) -> usize {
        (stage * self.replicas + replica) as usize
    }
}
