//! Changes of recorded lanes: what would be if hosts, devices or loaders were others.

mod classes;
mod elementwise;
mod gpu;
mod graphs;
mod link;

use sim_core::time::Time;

use super::traced::Traced;
use crate::lanes::{ActivityKind, HostItem, HostTime, Lanes};

pub use elementwise::Merged;
pub use gpu::GpuSwap;
pub use graphs::GraphCosts;
pub use link::LinkSwap;

/// Numbers of what a change did, by what they are of.
pub type Effect = Vec<(&'static str, u64)>;

/// A change of what was recorded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// Time of hosts outside of waits, times a factor.
    Host(f64),
    /// Batches are always ready.
    NoLoader,
    /// Time of kernels, times a factor.
    Kernels(f64),
    /// Time of copies and fills, times a factor.
    Copies(f64),
    /// Time of collectives without their waiting for peers, times a factor.
    Collectives(f64),
    /// Launches between two synchronisations of a thread become one graph.
    Graphs(GraphCosts),
    /// Elementwise kernels that follow each other become one.
    Elementwise(Merged),
    /// Kernels run on another GPU.
    Gpu(GpuSwap),
    /// Copies between host and device cross another link.
    Link(LinkSwap),
}

impl Change {
    /// Changes the lanes of a program.
    pub fn apply(self, traced: &mut Traced) -> Effect {
        let Traced { lanes, names, .. } = traced;
        match self {
            Self::Host(factor) => lanes.host(|time| {
                for part in [&mut time.python, &mut time.dispatch, &mut time.calls, &mut time.loader] {
                    *part = scaled(Time(*part), factor).0;
                }
            }),
            Self::NoLoader => lanes.host(|time| time.loader = 0),
            Self::Kernels(factor) => lanes.activities(&[ActivityKind::Kernel], factor),
            Self::Copies(factor) => lanes.activities(&[ActivityKind::Copy, ActivityKind::Fill], factor),
            Self::Collectives(factor) => lanes.activities(&[ActivityKind::Collective], factor),
            Self::Graphs(costs) => return graphs::capture(lanes, costs),
            Self::Elementwise(merged) => return elementwise::merge(lanes, names, merged),
            Self::Gpu(swap) => return gpu::swap(lanes, names, &swap),
            Self::Link(swap) => return link::swap(lanes, names, swap),
        }
        Effect::new()
    }
}

impl Lanes {
    fn host(&mut self, change: impl Fn(&mut HostTime)) {
        for item in self.threads.iter_mut().flat_map(|thread| &mut thread.items) {
            if let HostItem::Work(time) = item {
                change(time);
            }
        }
    }

    fn activities(&mut self, kinds: &[ActivityKind], factor: f64) {
        for item in self.streams.iter_mut().flat_map(|stream| &mut stream.items) {
            if kinds.contains(&item.kind) {
                item.duration = item.skew + scaled(item.duration - item.skew, factor);
            }
        }
    }
}

fn scaled(time: Time, factor: f64) -> Time {
    Time((time.0 as f64 * factor).round() as u64)
}
