//! The memory of plans before: costs of kernels, where ranks are, models on their stages, verified
//! schedules.
//!
//! A search prices each work once, and lays and realises once what differs in its placement alone.
//! Programs that are built are the same without it.

mod recent;

use crate::hardware::{Devices, Geometries};
use crate::plan::{LaidTransformers, Schedules};

pub use recent::Recent;

/// The memory of plans with one catalogue.
#[derive(Debug, Default)]
pub struct Memo {
    pub(crate) devices: Devices,
    pub(crate) geometries: Geometries,
    pub(crate) laid: LaidTransformers,
    pub(crate) schedules: Schedules,
}
