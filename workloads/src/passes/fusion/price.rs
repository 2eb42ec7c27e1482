//! Costs of groups.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use crate::graph::operator::{Operator, TensorId, Work};

use super::groups::List;
use super::policy::Rules;

/// Times of kernels on a device, each alone.
pub trait KernelTimes: fmt::Debug + Send + Sync {
    /// Time of a kernel with the gap before it (s). `None`: it is none, or has no time there.
    fn seconds(&self, work: &Work) -> Option<f64>;

    /// A time below which no kernel can do the work (s).
    fn least(&self, work: &Work) -> f64;

    /// The gap before a kernel (s).
    fn gap(&self) -> f64 {
        0.0
    }

    /// True if the time of a kernel was measured on the device.
    fn is_measured(&self, _work: &Work) -> bool {
        false
    }

    /// Part of `bytes` that are used again after `distance` bytes of anything, those that the cache
    /// still has.
    fn cached(&self, bytes: u64, distance: u64) -> u64;
}

/// Times of kernels that a plan's passes share.
#[derive(Clone, Debug)]
pub struct Prices(pub Arc<dyn KernelTimes>);

/// A way to price groups.
pub(super) struct Cost<'a> {
    /// `None`: kernels and bytes are counted.
    prices: Option<&'a Prices>,
}

impl<'a> Cost<'a> {
    pub(super) const fn fewest() -> Self {
        Self { prices: None }
    }

    pub(super) const fn fastest(prices: &'a Prices) -> Self {
        Self { prices: Some(prices) }
    }

    /// The cost of a group, and what decides between equal ones: infinite if an SM holds no block
    /// of it.
    pub(super) fn of(&self, list: &List<'_>, group: &[usize], rules: &Rules) -> [f64; 2] {
        let merged = list.merged(group, rules.precision);
        match self.prices {
            None => [1.0, merged.work.bytes() as f64],
            Some(prices) => {
                let seconds = prices.0.seconds(&prices.found(list, group, &merged));
                // What is no kernel, a collective or a host's work, costs the same in every cover.
                [seconds.unwrap_or(if group.len() > 1 { f64::INFINITY } else { 0.0 }), 1.0]
            }
        }
    }

    /// True if a group cannot gain as much as a share of what its members take one by one.
    pub(super) fn is_hopeless(&self, list: &List<'_>, group: &[usize], rules: &Rules, margin: f64) -> bool {
        let Some(prices) = self.prices else { return false };
        let apart: f64 = group.iter().map(|&n| self.of(list, &[n], rules)[0]).sum();
        prices.least(list, group, rules) > (1.0 - margin) * apart
    }
}

impl Prices {
    /// A time below which no kernel can do what a group does (s).
    pub(super) fn least(&self, list: &List<'_>, group: &[usize], rules: &Rules) -> f64 {
        let merged = list.merged(group, rules.precision);
        self.0.least(&self.found(list, group, &merged))
    }

    /// The work of what a group has become, with what it finds in the cache.
    fn found(&self, list: &List<'_>, group: &[usize], merged: &Operator) -> Work {
        let Work::Stream(mut stream) = merged.work else { return merged.work };
        let found = |&tensor: &TensorId| {
            let bytes = list.tensors[tensor.0 as usize].bytes;
            let distance = list.distance(tensor, group)?;
            Some(self.0.cached(bytes, distance))
        };
        let found: u64 = merged.reads.iter().filter_map(found).sum();
        stream.bytes_cached = found.min(stream.bytes_read);
        Work::Stream(stream)
    }
}

impl PartialEq for Prices {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl List<'_> {
    /// Bytes touched since operators outside of a group touched a tensor last, itself included.
    /// `None`: none before it did.
    fn distance(&self, tensor: TensorId, group: &[usize]) -> Option<u64> {
        let first = group[0];
        let last = self.operators[..first].iter().rposition(|op| op.knows(tensor))?;
        let between = self.operators[last + 1..first].iter();
        let touched: BTreeSet<TensorId> =
            between.flat_map(|op| op.reads.iter().chain(&op.writes)).copied().chain([tensor]).collect();
        Some(touched.iter().map(|tensor| self.tensors[tensor.0 as usize].bytes).sum())
    }
}
