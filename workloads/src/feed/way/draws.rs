//! Draws of neighbours by a GPU, hop by hop: the edges to draw of each node are counted, drawn from
//! its list, and both ends numbered anew through a hash table, as in DGL
//! (`src/array/cuda/rowwise_sampling.cu`, `src/graph/transform/cuda/cuda_to_block.cu`,
//! `src/runtime/cuda/cuda_hashtable.cu`).
//!
//! States of random numbers, the candidates of a long list that a draw passes over, and the host's
//! calls between kernels are left out, so that real samplers are slower.

use crate::graph::operator::{Afar, Order, RowReads, RowWork, Sockets, Stream, StreamClass, Traversal, Work};

use super::{Batch, BatchHop, EDGE, SamplingPlace, Task, indexed};

/// Kernels of all hops; a number of a node has `id` bytes.
pub(super) fn tasks(batch: &Batch, id: u64, place: SamplingPlace) -> Vec<Task> {
    let of_hop = |hop: &BatchHop| {
        let BatchHop { destinations, sources, edges } = *hop;
        let ids = destinations * id;
        let draw = match place {
            SamplingPlace::GpuPinned => pinned(batch, hop),
            _ => Work::Traversal(indexed((edges, id), 2 * ids, 3 * edges * id)),
        };
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
            ("renumber sources", all.find(edges, edges * id)),
            ("renumber destinations", of_destinations.find(edges, edges * id)),
        ]
    };
    batch.hops.iter().flat_map(of_hop).collect()
}

/// Reads lists in page-locked memory of the host.
fn pinned(batch: &Batch, hop: &BatchHop) -> Work {
    let lists = RowReads {
        rows: hop.destinations,
        table_rows: batch.table_rows,
        row_bytes: EDGE * hop.edges.div_ceil(hop.destinations.max(1)).max(1),
        pitch: EDGE,
        element_bytes: EDGE,
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
        2 * self.id + EDGE
    }

    const fn bytes(&self) -> u64 {
        2 * self.items.next_power_of_two() * self.entry()
    }

    /// Puts each item where its hash says: two atomics.
    fn insert(&self) -> Work {
        let atomics = self.items * (self.id + EDGE);
        let items = indexed((0, self.entry()), self.items * self.id, 0);
        Work::Traversal(Traversal { edges: self.items, atomics, ..items })
    }

    /// Finds a number of items again.
    fn find(&self, items: u64, written: u64) -> Work {
        Work::Traversal(indexed((items, self.entry()), items * self.id, written))
    }
}
