//! What activities run on: fluids and routes over them, pools, stores.

use crate::fixed::{Rate, Ratio};
use crate::id::{CauseId, FluidId, PoolId, PortId, RouteId, StoreId};

/// The resources of a simulation and the routes over them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Platform {
    /// Shared rates.
    pub fluids: Vec<Fluid>,
    /// Number of input ports of port-fair arbiters ([`Demand::port`]).
    pub ports: u32,
    /// Lists of demands.
    pub routes: Vec<Route>,
    /// Pools of units.
    pub pools: Vec<Pool>,
    /// Stores of bytes.
    pub stores: Vec<Store>,
}

/// A capacity shared by the activities on it (a link direction, a memory, requests per second).
#[derive(Clone, Debug, PartialEq)]
pub struct Fluid {
    /// Name for results.
    pub name: String,
    /// Sustained capacity in units per second, at most [`Rate::MAX_CAPACITY`].
    pub capacity: Rate,
    /// A faster rate for a limited volume.
    pub bucket: Option<Bucket>,
    /// The cause that time lost to contention on this fluid counts under.
    pub cause: CauseId,
}

/// A token bucket: the fluid runs at `burst` until `volume` units have passed above the sustained rate; whatever the
/// fluid carries less than its sustained rate fills the bucket again. A write cache of an SSD.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket {
    /// Capacity while tokens are left.
    pub burst: Rate,
    /// Tokens of a full bucket, in units.
    pub volume: u64,
    /// Tokens at the start of a run, in units; more than `volume` are as many.
    pub tokens: u64,
}

impl Bucket {
    /// A bucket that is full at the start.
    pub const fn full(burst: Rate, volume: u64) -> Self {
        Self { burst, volume, tokens: volume }
    }
}

/// What one activity asks of one fluid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Demand {
    /// The fluid.
    pub fluid: FluidId,
    /// Units of the fluid per unit of the activity's work (3 for a pageable copy on host memory).
    pub coefficient: Ratio,
    /// Share of the fluid relative to other activities when it is saturated.
    pub weight: Ratio,
    /// With a port the weight is divided by the number of activities that demand through it: port-fair arbitration,
    /// and the two directions of a duplex resource.
    pub port: Option<PortId>,
    /// Served before ordinary demands of this fluid and not slowed by them.
    pub prior: bool,
    /// How many identical activities of folded ranks stand behind this one on this fluid.
    pub multiplicity: u32,
}

impl Demand {
    /// An ordinary demand with coefficient and weight 1.
    pub const fn on(fluid: FluidId) -> Self {
        Self { fluid, coefficient: Ratio::ONE, weight: Ratio::ONE, port: None, prior: false, multiplicity: 1 }
    }

    /// The same with `coefficient` units of the fluid per unit of work.
    pub fn coefficient(mut self, coefficient: f64) -> Self {
        self.coefficient = Ratio::new(coefficient);
        self
    }

    /// The same with a relative share.
    pub fn weight(mut self, weight: f64) -> Self {
        self.weight = Ratio::new(weight);
        self
    }

    /// The same through a port of a port-fair arbiter.
    pub const fn port(mut self, port: PortId) -> Self {
        self.port = Some(port);
        self
    }

    /// The same served before ordinary demands.
    pub const fn prior(mut self) -> Self {
        self.prior = true;
        self
    }
}

/// The demands of one activity; at most one per fluid.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Route {
    /// One entry per fluid.
    pub demands: Vec<Demand>,
}

/// Units held for a while, served by (priority, arrival): SMs, copy engines, CPU cores.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// Name for results.
    pub name: String,
    /// Units.
    pub units: u32,
}

/// Bytes held: HBM, pinned memory, SSD space, slots of a queue.
#[derive(Clone, Debug, PartialEq)]
pub struct Store {
    /// Name for results.
    pub name: String,
    /// Bytes; `u64::MAX` for a store that only counts.
    pub capacity: u64,
}

impl Platform {
    /// Adds a fluid.
    pub fn fluid(&mut self, name: impl Into<String>, units_per_second: f64, cause: CauseId) -> FluidId {
        self.fluids.push(Fluid {
            name: name.into(),
            capacity: Rate::per_second(units_per_second),
            bucket: None,
            cause,
        });
        FluidId::from(self.fluids.len() - 1)
    }

    /// Adds an input port of a port-fair arbiter.
    pub fn port(&mut self) -> PortId {
        self.ports += 1;
        PortId(self.ports - 1)
    }

    /// Adds a route.
    pub fn route(&mut self, demands: impl IntoIterator<Item = Demand>) -> RouteId {
        self.routes.push(Route { demands: demands.into_iter().collect() });
        RouteId::from(self.routes.len() - 1)
    }

    /// Adds a pool.
    pub fn pool(&mut self, name: impl Into<String>, units: u32) -> PoolId {
        self.pools.push(Pool { name: name.into(), units });
        PoolId::from(self.pools.len() - 1)
    }

    /// Adds a store of `capacity` bytes.
    pub fn store(&mut self, name: impl Into<String>, capacity: u64) -> StoreId {
        self.stores.push(Store { name: name.into(), capacity });
        StoreId::from(self.stores.len() - 1)
    }
}
