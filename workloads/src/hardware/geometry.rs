//! Where groups of ranks are and the ways between stages, which hang on the machine and the order
//! of ranks alone: plans that differ otherwise share them.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use hw_models::collectives::GroupShape;
use hw_models::machine::Route;

use crate::memo::Recent;
use crate::model::transformer::Group;
use crate::placement::{Extent, Placement};
use crate::site::Job;

use super::Scope;

/// Geometries of the last jobs; a search comes back to each of its splits again and again.
pub(crate) type Geometries = Recent<Place, Geometry, 256>;

/// Ranks on a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    machine: [u64; 2],
    extent: Extent,
    placement: Placement,
}

/// Known places of the ranks of a job.
#[derive(Debug, Default)]
pub(crate) struct Geometry {
    shapes: Mutex<BTreeMap<(Group, Scope), GroupShape>>,
    /// From a stage to another, the way of the fastest replica.
    ways: Mutex<BTreeMap<(u32, u32), Route>>,
}

impl Place {
    pub(super) fn of(job: &Job<'_>) -> Self {
        Self { machine: job.machine.digest(), extent: job.extent, placement: job.placement.clone() }
    }
}

impl Geometry {
    /// Where the members of a kind of group are, found unless it is known.
    ///
    /// # Errors
    /// Errors of `find`, which are not remembered.
    pub(super) fn shape<E>(
        &self,
        key: (Group, Scope),
        find: impl FnOnce() -> Result<GroupShape, E>,
    ) -> Result<GroupShape, E> {
        known(&self.shapes, key, find)
    }

    /// The way from a stage to another, found unless it is known.
    ///
    /// # Errors
    /// Errors of `find`, which are not remembered.
    pub(super) fn way<E>(
        &self,
        key: (u32, u32),
        find: impl FnOnce() -> Result<Route, E>,
    ) -> Result<Route, E> {
        known(&self.ways, key, find)
    }
}

/// Two threads may find the same at a time; it is the same.
fn known<K: Ord, V: Clone, E>(
    all: &Mutex<BTreeMap<K, V>>,
    key: K,
    find: impl FnOnce() -> Result<V, E>,
) -> Result<V, E> {
    let all = || all.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = all().get(&key) {
        return Ok(found.clone());
    }
    let found = find()?;
    all().insert(key, found.clone());
    Ok(found)
}
