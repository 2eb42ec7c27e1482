//! Formats of the edges of a sampled block, as DGL makes them: a sampler leaves pairs of ends, and
//! a kernel that sums at one end needs the edges sorted by it (`UnitGraph::GetInCSR`, `GetOutCSR`
//! of `src/graph/unit_graph.cc`, `COOToCSR` of `src/array/cuda/coo2csr.cu`). A block is new in each
//! step, so that no step finds them made.
//!
//! Up to release 0.8 arrays are the driver's (`AllocDataSpace` of
//! `src/runtime/cuda/cuda_device_api.cc`): giving one back waits for the device.

use hw_models::allocator::Segments;

use crate::graph::operator::StreamClass;
use crate::model::names::{Name, name};

use super::super::layer::End;
use super::super::system::Formats;
use super::Emission;

/// Bits of a digit of CUB's radix sort (`DeviceRadixSortPolicy`): counts, their sums and a scatter
/// are a kernel each.
const DIGIT_BITS: u32 = 7;
/// Bytes of the counts of all values of a digit.
const COUNTS_BYTES: u64 = 4 << DIGIT_BITS;
/// Bytes of the number of an edge that is sorted along (`Sort` of `src/array/cuda/array_sort.cu`).
const EDGE_BYTES: u64 = 8;
/// Bytes of memory that an element at a random place takes.
const SECTOR_BYTES: u64 = 32;

impl Emission<'_> {
    /// The edges sorted by the nodes at an end, where kernels that sum there need a sampled block
    /// so; made by the first of them.
    pub(super) fn sorted_by(&mut self, end: End) -> Option<Name> {
        let id = self.graph.ids.filter(|_| self.rules.formats != Formats::AsGiven)?;
        let sorted = self.scoped(Name::of(match end {
            End::Source => "edges by source",
            End::Destination => "edges by destination",
        }));
        if !self.formats.insert(end) {
            return Some(sorted);
        }
        let (edges, nodes) = (self.graph.edges(), self.graph.rows(end.nodes()));
        let own = |part| name(sorted, part);
        let mut copied = Vec::new();
        for part in ["ends", "other ends"] {
            self.array(own(part), (edges * id, edges * id), &[]);
            copied.push(own(part));
        }
        self.array(own("numbers"), (0, edges * EDGE_BYTES), &[]);
        let mut pairs = vec![copied[0], own("numbers")];
        let bits = u64::BITS - nodes.saturating_sub(1).leading_zeros();
        for digit in 0..u64::from(bits.div_ceil(DIGIT_BITS)) {
            let [counts, sums, scattered] = ["counts", "sums", "digit"].map(|part| own(part).numbered(digit));
            let moved = edges * (id + EDGE_BYTES);
            self.launched(counts, StreamClass::Reduction, (edges * id, COUNTS_BYTES), &pairs);
            self.launched(sums, StreamClass::Elementwise, (COUNTS_BYTES, COUNTS_BYTES), &[counts]);
            let reads = [pairs.as_slice(), &[sums]].concat();
            self.launched(scattered, StreamClass::Permutation, (moved, moved), &reads);
            pairs = vec![scattered];
        }
        let found = edges * (EDGE_BYTES + SECTOR_BYTES);
        self.launched(own("columns"), StreamClass::Permutation, (found, edges * id), &[copied[1], pairs[0]]);
        let casts = u64::from(id < EDGE_BYTES);
        let mut numbers = pairs[0];
        if casts > 0 {
            let traffic = (edges * EDGE_BYTES, edges * id);
            self.launched(own("short numbers"), StreamClass::Elementwise, traffic, &pairs);
            numbers = own("short numbers");
        }
        let kept = edges * 2 * id + nodes * id;
        self.launched(sorted, StreamClass::Elementwise, (edges * id, nodes * id), &[own("columns"), numbers]);
        let last = self.draft.operators.last_mut().expect("one was written");
        last.writes = vec![(sorted, kept)];
        // Both ends, numbers, sorted ends and numbers are given back at once, the rest with the
        // block.
        let (count, temporary) = (7 + casts, edges * (3 * id + 2 * EDGE_BYTES));
        self.by_driver(Segments { count, bytes: temporary + edges * id * (1 + casts) + nodes * id });
        Some(sorted)
    }

    /// Numbers of edges at an end of each node, which layers scale by (`out_degrees` and
    /// `in_degrees` of `python/dgl/heterograph.py`: numbers of the nodes, a test of these of which
    /// the host waits for the result, the degrees; then a cast, a bound and a function of theirs).
    pub(super) fn degrees(&mut self, end: End) -> Option<Name> {
        let sorted = self.sorted_by(end)?;
        let (nodes, id) = (self.graph.rows(end.nodes()), self.graph.ids?);
        let own = |part| name(name(sorted, "degrees"), part);
        let (indices, numbers) = (nodes * id, nodes * 4);
        self.array(own("nodes"), (0, indices), &[]);
        self.array(own("known"), (indices, indices), &[own("nodes")]);
        let count = own("number known");
        self.draft.stream(count, StreamClass::Reduction, (indices, id), &[own("known")], &[(count, id)]);
        self.by_driver(Segments { count: 3, bytes: 3 * indices });
        let counted = own("counted");
        self.array(counted, (3 * indices, indices), &[own("nodes"), sorted]);
        let mut last = counted;
        for (part, read) in [("cast", indices), ("bounded", numbers), ("scale", numbers)] {
            let next = own(part);
            self.stream(next, (read, numbers), &[last], &[(next, numbers)]);
            last = next;
        }
        Some(last)
    }

    /// A kernel of a call of its own that fills an array.
    fn array(&mut self, array: Name, (read, written): (u64, u64), reads: &[Name]) {
        self.stream(array, (read, written), reads, &[(array, written)]);
    }

    /// A kernel of the call before it, which fills what it writes.
    fn launched(&mut self, kernel: Name, class: StreamClass, (read, written): (u64, u64), reads: &[Name]) {
        self.draft.stream(kernel, class, (read, written), reads, &[(kernel, written)]).members = 0;
    }

    /// Lets the last operator give segments back to the driver, where arrays are from there.
    fn by_driver(&mut self, segments: Segments) {
        if self.rules.formats == Formats::ConvertedByDriver {
            let last = self.draft.operators.last_mut().expect("one was written");
            (last.awaited, last.driver) = (true, segments);
        }
    }
}
