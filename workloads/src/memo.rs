//! Costs of kernels and verified schedules that plans leave for those that come after.
//!
//! A search prices each work once, and realises once what differs in its placement alone. Whatever
//! is built is the same without.

use crate::hardware::Devices;
use crate::plan::Schedules;

/// The memory of plans with one catalogue.
#[derive(Debug, Default)]
pub struct Memo {
    pub(crate) devices: Devices,
    pub(crate) schedules: Schedules,
}
