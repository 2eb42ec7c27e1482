//! Draws of neighbours by a GPU, hop by hop: the edges to draw of each node are counted, drawn from
//! its list, and both ends numbered anew through a hash table, as in DGL
//! (`src/array/cuda/rowwise_sampling.cu`, `src/graph/transform/cuda/cuda_to_block.cu`,
//! `src/runtime/cuda/cuda_hashtable.cu`).
//!
//! Python and the host's calls between kernels are left out, so that real samplers are slower.

use hw_models::allocator::Segments;
use hw_models::catalogue::WARP;
use hw_models::reads::INDEX_BYTES;

use crate::graph::operator::{
    Afar, Order, RowReads, RowWork, Sockets, Stream, StreamClass, Traversal, Walk, Work,
};

use super::{Batch, BatchHop, SamplingPlace, Task, indexed};

/// Kernels of all hops; a number of a node has `id` bytes. Arrays may be the driver's.
pub(super) fn tasks(batch: &Batch, id: u64, place: SamplingPlace, of_driver: bool) -> Vec<Task> {
    let of_hop = |hop: &BatchHop| {
        let BatchHop { destinations, sources, edges, .. } = *hop;
        let ids = destinations * id;
        let draw = match place {
            SamplingPlace::GpuPinned => pinned(batch, hop),
            _ => Work::Traversal(drawn(hop, id)),
        };
        let segments = Work::Rows(RowWork::Allocate(arrays(hop, id)));
        let (all, of_destinations) = (Table::new(destinations + edges, id), Table::new(destinations, id));
        [
            ("count edges to draw", Work::Traversal(indexed((destinations, 2 * id), ids, ids))),
            ("sum counts", pass(ids, ids)),
            ("draw neighbours", draw),
            ("clear table of nodes", pass(0, all.bytes())),
            ("insert nodes", all.insert()),
            ("count new nodes", all.find(all.items, 0)),
            ("number new nodes", all.find(all.items, sources * id)),
            ("clear table of destinations", pass(0, of_destinations.bytes())),
            ("insert destinations", of_destinations.insert()),
            ("number edges", pass(0, edges * id)),
            ("renumber sources", all.find(edges, edges * id)),
            ("renumber destinations", of_destinations.find(edges, edges * id)),
        ]
        .into_iter()
        .chain(of_driver.then_some(("allocate arrays of edges", segments)))
    };
    batch.hops.iter().flat_map(of_hop).collect()
}

/// Draws from lists in the memory of the GPU.
fn drawn(hop: &BatchHop, id: u64) -> Traversal {
    let read = indexed((hop.edges, id), 2 * hop.destinations * id, 3 * hop.edges * id);
    Traversal {
        edges: hop.rounds * u64::from(WARP),
        destinations: hop.destinations,
        longest: hop.longest.saturating_sub(hop.fan_out),
        walk: Walk::Draw,
        ..read
    }
}

/// Arrays of a hop: ends and numbers of the edges, each as long as if no list were shorter; numbers
/// of the edges of the block, and both ends in new numbers; all nodes, before and after they are
/// told apart.
fn arrays(hop: &BatchHop, id: u64) -> Segments {
    let most = hop.destinations * hop.fan_out;
    let nodes = hop.destinations + hop.edges;
    Segments { count: 8, bytes: (3 * most + 3 * hop.edges + 2 * nodes) * id }
}

/// Reads lists in page-locked memory of the host.
fn pinned(batch: &Batch, hop: &BatchHop) -> Work {
    let lists = RowReads {
        rows: hop.destinations,
        table_rows: batch.table_rows,
        row_bytes: INDEX_BYTES * hop.edges.div_ceil(hop.destinations.max(1)).max(1),
        pitch: INDEX_BYTES,
        element_bytes: INDEX_BYTES,
        offset: 0,
        order: Order::Random,
        aligned: false,
    };
    let from = Afar::Host(Sockets::Each);
    Work::Rows(RowWork::Read { rows: lists, from, multiprocessors: u32::MAX })
}

/// A pass over memory.
fn pass(read: u64, written: u64) -> Work {
    Work::Stream(Stream::pass(StreamClass::Elementwise, (read, written)))
}

/// Hash table of numbers of nodes, with a place for each item and as many again.
struct Table {
    items: u64,
    id: u64,
}

impl Table {
    const fn new(items: u64, id: u64) -> Self {
        Self { items, id }
    }

    /// Bytes of an entry: a node, its new number, and the place of its first item.
    const fn entry(&self) -> u64 {
        2 * self.id + INDEX_BYTES
    }

    const fn bytes(&self) -> u64 {
        2 * self.items.next_power_of_two() * self.entry()
    }

    /// Puts each item where its hash says: two atomics.
    fn insert(&self) -> Work {
        let atomics = self.items * (self.id + INDEX_BYTES);
        let items = indexed((0, self.entry()), self.items * self.id, 0);
        Work::Traversal(Traversal { edges: self.items, atomics, ..items })
    }

    /// Finds a number of items again.
    fn find(&self, items: u64, written: u64) -> Work {
        Work::Traversal(indexed((items, self.entry()), items * self.id, written))
    }
}
