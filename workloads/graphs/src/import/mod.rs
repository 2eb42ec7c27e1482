//! Statistics of a graph from its list of edges: text or NPY, plain or packed with gzip.
//!
//! The list is read once, in memory that its size does not bound: counters of each node, or of each
//! pair of a node and an edge type, and a sample of fingerprints to find duplicates.

mod count;
mod fingerprints;
mod npy;
mod packed;
mod pairs;
mod text;

use std::fmt;
use std::io::{BufReader, Cursor, Read};

use crate::settings::Statistics;
use count::Counter;
use packed::Unpacked;

/// Nodes that an edge list may name: their counters take 1 GiB.
pub const MOST_NODES: u64 = 1 << 27;

/// Faults that are told before reading stops.
const MOST_FAULTS: usize = 5;

/// Treatment of an edge list, and figures that it does not have.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Name of the graph.
    pub name: Option<String>,
    /// Adds the reverse of each edge: within the one type, or as a type of its own for each type.
    pub reverse: bool,
    /// Nodes to train on.
    pub training_nodes: Option<u64>,
    /// Features of a node.
    pub features: Option<u64>,
}

/// Statistics of an edge list, and what is peculiar about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// The statistics.
    pub statistics: Statistics,
    /// Edges from a node to itself.
    pub self_loops: u64,
    /// Edges that were there before.
    pub duplicates: Duplicates,
}

/// Edges that an edge list has more than once, each but the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicates {
    /// Found among all edges.
    Counted(u64),
    /// Scaled up from a sample of the edges.
    Estimated(u64),
}

/// A fault of an edge list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Line or byte.
    pub place: String,
    /// Fault, which continues the place.
    pub fault: String,
    /// Remedy.
    pub remedy: String,
}

impl Fault {
    fn new(place: impl Into<String>, fault: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { place: place.into(), fault: fault.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, fault, remedy } = self;
        write!(f, "{place} {fault}: {remedy}")
    }
}

/// Reads an edge list.
///
/// # Errors
/// Faults of the list, the first few.
pub fn read(input: impl Read, options: &Options) -> Result<Imported, Vec<Fault>> {
    let mut unpacked = Unpacked::new(input).map_err(|fault| vec![fault])?;
    let mut start = Vec::new();
    let magic = unpacked.by_ref().take(npy::MAGIC.len() as u64).read_to_end(&mut start);
    magic.map_err(|error| vec![unreadable(&error)])?;
    let array = start == npy::MAGIC;
    let mut input = BufReader::with_capacity(1 << 20, Cursor::new(start).chain(unpacked));
    let mut counter = Counter::default();
    if array {
        npy::read(&mut input, &mut counter).map_err(|fault| vec![fault])?;
    } else {
        text::read(&mut input, &mut counter)?;
    }
    counter.statistics(options).map_err(|fault| vec![fault])
}

/// A failure to read, which may be one of unpacking.
fn unreadable(error: &std::io::Error) -> Fault {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<packed::Bomb>()) {
        Some(bomb) => Fault::new("file", bomb.to_string(), "unpack it with `gunzip` if it is meant so"),
        None => Fault::new("file", format!("cannot be read ({error})"), "copy or download it again"),
    }
}
