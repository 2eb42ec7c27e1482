//! What the host spends to issue work, and the gaps a device leaves between kernels.
//!
//! An operator of an eager framework costs the host its dispatch (interpreter, bindings, autograd, dispatcher, back end)
//! and one launch for each kernel; the device starts a kernel when it has been issued and the stream is free, plus a gap.
//! A captured graph costs one launch for all its kernels.

use std::fmt;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use sim_core::time::Time;

use crate::allocator::Segments;
use crate::kernels::picoseconds;
use crate::provenance::Provenance;
use crate::variation::Variation;

/// The catalogue of host costs, `hw-models/catalogue/host.yaml`.
pub const HOST: &str = include_str!("../../catalogue/host.yaml");

/// Costs of issuing work.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostCosts {
    /// Dispatch of an operator of a forward pass by class, with the interpreter and without
    /// launches.
    pub dispatch: IndexMap<OpClass, Cost>,
    /// Launch of one kernel, asynchronous.
    pub launch: Cost,
    /// Neighbour that a thread draws from a list and numbers.
    pub neighbour: Cost,
    /// Between two kernels of a stream, on the device.
    pub gap_in_stream: Cost,
    /// Between two kernels of a graph, on the device.
    pub gap_in_graph: Cost,
    /// Launch of a graph.
    pub graph_launch: Cost,
    /// More for each kernel of a graph.
    pub graph_node: Cost,
    /// Wait for a stream or an event to be done, after it is.
    pub synchronise: Cost,
    /// A segment of device memory from the driver (`cudaMalloc`).
    pub allocation: DriverCall,
    /// A segment given back to it (`cudaFree`), after the wait for the device.
    pub release: DriverCall,
    /// How far the time that hosts of one kind issue work in a step differs.
    pub variation: Variation,
}

/// A cost and where it is from.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// Microseconds.
    pub us: f64,
    /// Where it is from.
    pub provenance: Provenance,
}

/// A call of the driver for device memory, and where its costs are from.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriverCall {
    /// Start of each call, microseconds.
    pub us: f64,
    /// Rate of its bytes, 10^9 B/s.
    pub gb_per_s: f64,
    /// Where they are from.
    pub provenance: Provenance,
}

/// Operators whose dispatch differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OpClass {
    /// Only shapes and strides change: no kernel.
    Metadata,
    /// Elementwise, reductions, softmax, embedding.
    Pointwise,
    /// Normalisation over a batch, rows or groups.
    Normalisation,
    /// Linear layers and batched products.
    MatrixProduct,
    /// Convolutions.
    Convolution,
    /// Flash attention.
    Attention,
    /// A collective or a message.
    Communication,
    /// A copy between host and device.
    Copy,
    /// One fused update of many tensors.
    Optimizer,
}

impl HostCosts {
    /// Costs of a host that issues work `factor` times as fast. Gaps on the device stay.
    #[must_use]
    pub fn at_speed(&self, factor: f64) -> Self {
        let mut costs = self.clone();
        let Self { dispatch, launch, graph_launch, graph_node, synchronise, .. } = &mut costs;
        let others = [launch, graph_launch, graph_node, synchronise];
        dispatch.values_mut().chain(others).for_each(|cost| cost.us /= factor);
        costs
    }

    /// Dispatch of an operator. A class without an entry costs what a broader one does, and a
    /// pointwise operator at last; nothing where none of them has one.
    pub fn dispatch(&self, class: OpClass) -> Time {
        let cost = class.and_broader().find_map(|class| self.dispatch.get(&class));
        cost.map_or(Time::ZERO, Cost::time)
    }
}

impl OpClass {
    /// True if compilers make the kernels of such operators; others are called in a library.
    pub const fn is_generated(self) -> bool {
        matches!(self, Self::Pointwise | Self::Normalisation | Self::Optimizer)
    }

    /// The class, and those that tell less, down to the plainest operator.
    pub fn and_broader(self) -> impl Iterator<Item = Self> {
        let broader = match self {
            Self::Convolution => Some(Self::MatrixProduct),
            _ => None,
        };
        [Some(self), broader, Some(Self::Pointwise)].into_iter().flatten()
    }
}

impl fmt::Display for OpClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl Cost {
    /// The cost as a duration.
    pub fn time(&self) -> Time {
        microseconds(self.us)
    }
}

impl DriverCall {
    /// The time of a call for each of these segments: `count us + bytes / gb_per_s`.
    pub fn time(&self, segments: Segments) -> Time {
        let Segments { count, bytes } = segments;
        picoseconds(count as f64 * self.us * 1e-6 + bytes as f64 / (self.gb_per_s * 1e9))
    }
}

fn microseconds(us: f64) -> Time {
    picoseconds(us * 1e-6)
}
