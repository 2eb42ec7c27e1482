//! Walks over the edges of a graph: rows read by index, functions of each edge, sums by
//! destination.
//!
//! All edges together are bound by bytes: rows by index come from memory once and from the
//! second-level cache as far as their table stays there, the rest in order. Sums by atomics take
//! the clocks of the atomic units, and additions to the same row wait for each other.
//!
//! A destination that one thread block sums is bound by latency instead: its edges follow each
//! other, however many SMs are idle, which no roofline has. With all bytes out of memory
//!
//! ```text
//! blocks  = destinations life / (SMs resident)
//! fullest = longest (edge + row bytes / rate of a block)      a block with several edges at a time
//!         = longest (cached read + read)                      a thread: its index, then its row
//! time    = start + max(memory, walks) + serial min(memory, walks)
//! ```
//!
//! and what the cache holds is faster by the ratio of latencies.

use serde::{Deserialize, Serialize};

use super::parameters::GraphParameters;
use super::rows::Blocks;
use super::{Dtype, KernelClass, KernelCost, KernelError, KernelModel, StreamClass, draws};

/// A walk over edges of a graph: rows read by index, functions of each edge, sums by destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Traversal {
    /// Type of the rows.
    pub dtype: Dtype,
    /// Edges.
    pub edges: u64,
    /// Bytes of rows read by index, over all edges.
    pub gathered: u64,
    /// Bytes of different rows among them.
    pub table: u64,
    /// Bytes read in order.
    pub streamed: u64,
    /// Part of them that the second-level cache serves instead of memory.
    pub cached: u64,
    /// Bytes written, each once.
    pub written: u64,
    /// Destinations, each summed by a thread or a block; 0: edges are spread evenly.
    pub destinations: u64,
    /// Edges of the fullest destination, or of the row that most atomics add to.
    pub longest: u64,
    /// Bytes of the rows of an edge.
    pub row_bytes: u64,
    /// Bytes added by atomics.
    pub atomics: u64,
    /// Order of the edges of a destination.
    pub walk: Walk,
}

/// Edges of a destination that are read at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Walk {
    /// Several, by a thread block (kernels of Triton, the traversals of Hector).
    Block,
    /// One after the other, by a thread for each element of a row (sums of DGL).
    Thread,
    /// As candidates of a draw, by a warp: `edges` are all candidates, `longest` those of one
    /// destination.
    Draw,
}

/// Bytes of the edges of a thread block.
const BLOCK_BYTES: u64 = 4_096;
/// Thread blocks of 128 threads that an SM of 2,048 threads holds at once.
const RESIDENT: u64 = 16;

impl KernelModel {
    /// A walk over edges.
    ///
    /// # Errors
    /// When the catalogue has no parameters for passes over memory.
    pub fn traversal(&self, shape: &Traversal) -> Result<KernelCost, KernelError> {
        let achieved = self.parameters.stream(StreamClass::Embedding)?.achieved;
        let graph = &self.parameters.graph;
        let indexed = self.indexed(shape.gathered, shape.table);
        let kept = shape.cached.min(shape.streamed);
        let out_of_memory = indexed.memory.saturating_add(shape.streamed - kept);
        let read = shape.gathered.saturating_add(shape.streamed).max(1);
        // Of the reads that a walk awaits, as if each came out of the cache in this share.
        let level = |share: f64| graph.cached + (1.0 - graph.cached) * share;
        let level = level(out_of_memory as f64 / read as f64);
        let fullest = shape.longest as f64 * shape.edge_seconds(graph, level);
        let summed = if shape.walk == Walk::Draw { 0 } else { shape.destinations };
        let lives = summed as f64 * graph.block_us * 1e-6 * level;
        let evenly = read.saturating_add(shape.written).div_ceil(BLOCK_BYTES);
        let of_destinations = match shape.walk {
            Walk::Draw => shape.destinations.div_ceil(draws::NODES),
            Walk::Block | Walk::Thread => shape.destinations,
        };
        let blocks = Blocks {
            count: if shape.destinations > 0 { of_destinations } else { evenly },
            resident: RESIDENT,
            bytes: out_of_memory.saturating_add(shape.written).max(1),
            achieved,
            serial: graph.serial,
            seconds: |sms| {
                let added = self.atomic_seconds(shape.atomics / shape.dtype.bytes(), sms);
                let cached = self.cache_seconds(indexed.cache.saturating_add(kept), sms);
                let walked = fullest.max(lives / (f64::from(sms) * RESIDENT as f64));
                (added + cached).max(walked).max(shape.drawing_seconds(&self.facts, sms))
            },
        };
        Ok(blocks.cost(self, graph.start_us, 0.0, KernelClass::Traversal))
    }

    /// A walk that is run again and again over the same buffers, as kernels are timed.
    pub fn repeated_traversal(&self, shape: &Traversal) -> Traversal {
        let touched = shape.bytes();
        Traversal { cached: self.cached(shape.streamed, touched), ..*shape }
    }
}

impl Traversal {
    /// Bytes it reads and writes, each once.
    pub fn bytes(&self) -> u64 {
        self.gathered.min(self.table).saturating_add(self.streamed).saturating_add(self.written)
    }

    /// Time from an edge to the next of the fullest destination, or row of atomics (s).
    fn edge_seconds(&self, graph: &GraphParameters, level: f64) -> f64 {
        let ns = match self.walk {
            _ if self.atomics > 0 => graph.conflict_ns,
            Walk::Block => (graph.edge_ns + self.row_bytes as f64 / graph.bytes_per_ns) * level,
            Walk::Thread => graph.read_ns * (graph.cached + level),
            Walk::Draw => 0.0,
        };
        ns * 1e-9
    }
}
