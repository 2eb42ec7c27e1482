//! The way of batches that settings describe: lanes, their work, and what memories hold.

mod draws;
mod drives;
mod gpus;
mod hosts;

use hw_models::reads::INDEX_BYTES;

use crate::graph::operator::{Dtype, Medium, Role, RowReads, RowWork, TierCopy, Traversal, Walk, Work};

use crate::schedule::Multiprocessors;

use super::process::Process;
use super::settings::{Features, Home, Sampling, SamplingPlace};
use super::{FeedLane, FeedPart, FeedPlan, Freed};

/// A mini-batch in numbers, each the mean of an epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// Draws of neighbours, from the seeds outward.
    pub hops: Vec<BatchHop>,
    /// Different nodes, whose rows are read.
    pub rows: u64,
    /// Rows of all nodes.
    pub table_rows: u64,
    /// Edges of the graph.
    pub graph_edges: u64,
    /// Bytes of a row.
    pub row_bytes: u64,
    /// Bytes of a number.
    pub element_bytes: u64,
    /// Rows that a cache on the GPU keeps, and the share of the rows of a batch that it has.
    pub on_gpu: Kept,
    /// Rows that a cache on the host keeps before drives, and the share that it has and the GPU has
    /// not.
    pub on_host: Kept,
}

/// Draws of neighbours of the nodes that were reached before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHop {
    /// Nodes whose neighbours are drawn.
    pub destinations: u64,
    /// Different nodes after it, destinations included.
    pub sources: u64,
    /// Edges that are drawn.
    pub edges: u64,
    /// Edges that are drawn of a node at most.
    pub fan_out: u64,
    /// Rounds in which the threads of warps pass over what lists have more than that.
    pub rounds: u64,
    /// Edges of the longest list.
    pub longest: u64,
}

impl Batch {
    /// Edges of all hops.
    pub fn edges(&self) -> u64 {
        self.hops.iter().map(|hop| hop.edges).sum()
    }
}

/// Rows that a cache keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Kept {
    /// Rows.
    pub rows: u64,
    /// Share of the rows of a batch that are found there.
    pub hits: f64,
}

/// The host, the GPU and the system that make batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Around {
    /// Multiprocessors of the GPU.
    pub multiprocessors: u32,
    /// Ranks on a node.
    pub sharing: u32,
    /// Ranks on all nodes.
    pub ranks: u32,
    /// Bytes of the GPU's memory.
    pub memory: u64,
    /// The system takes arrays of edges from the driver and gives them back in each step.
    pub arrays_of_driver: bool,
}

/// A task of a lane.
type Task = (&'static str, Work);

/// Rows of a batch that their home serves.
struct Rows<'a> {
    features: &'a Features,
    batch: &'a Batch,
    around: Around,
    /// Rows that the GPU's cache does not have.
    missed: u64,
    /// Buffers of batches in the memory of the GPU.
    buffers: u32,
}

impl FeedPlan {
    /// The way of a mini-batch.
    pub fn of(features: &Features, sampling: &Sampling, batch: &Batch, around: Around) -> Self {
        let missed = ((batch.rows as f64) * (1.0 - batch.on_gpu.hits)).round() as u64;
        let buffers = features.buffers();
        let mut plan = Self { lanes: vec![sample(sampling, features, batch, around)], ..Self::default() };
        plan.training = features.process.training(around.multiprocessors);
        plan.on_gpu = batch.on_gpu.rows * batch.row_bytes;
        plan.on_gpu += (u64::from(buffers) - 1) * batch.rows * batch.row_bytes;
        if sampling.place == SamplingPlace::Gpu {
            plan.on_gpu += (batch.graph_edges + batch.table_rows) * sampling.ids.bytes();
        }
        let rows = Rows { features, batch, around, missed, buffers };
        match features.home {
            Home::HostPinned | Home::Host => hosts::fetch(&mut plan, &rows),
            Home::Gpu => gpus::own(&mut plan, &rows),
            Home::Striped => gpus::striped(&mut plan, &rows),
            Home::Sharded => gpus::sharded(&mut plan, &rows),
            Home::Drives => drives::fetch(&mut plan, &rows),
        }
        if sampling.place == SamplingPlace::Host {
            let arrived = plan.lanes.last_mut().expect("a lane samples");
            arrived.tasks.insert(0, copied(sampling, batch));
        }
        plan
    }
}

/// Copies drawn edges, both ends of each, and the numbers of the rows to the GPU.
fn copied(sampling: &Sampling, batch: &Batch) -> Task {
    let bytes = (2 * batch.edges() + batch.rows) * sampling.ids.bytes();
    let copy = TierCopy { from: Medium::HOST, to: Medium::HBM, bytes, role: Role::Input };
    ("copy drawn edges", Work::Transfer(copy))
}

/// Draws neighbours.
fn sample(sampling: &Sampling, features: &Features, batch: &Batch, around: Around) -> FeedLane<Task> {
    let workers = sampling.workers.get() as u32;
    let (tasks, ahead) = match sampling.place {
        SamplingPlace::Host => {
            let draw = RowWork::Sample { edges: batch.edges(), threads: workers.max(1) };
            (vec![("draw neighbours", Work::Rows(draw))], workers)
        }
        place => (draws::tasks(batch, sampling.ids.bytes(), place, around.arrays_of_driver), 0),
    };
    // Another process reads rows while this one draws for the next batch, or draws them as well.
    let is_beside = features.process != Process::Same || features.prefetched() > 0;
    let ahead = if is_beside { ahead.max(1) } else { ahead };
    let (buffers, freed) = if ahead > 0 { (2 * ahead, Freed::Taken) } else { (1, Freed::Trained) };
    let multiprocessors = features.process.reading(around.multiprocessors);
    FeedLane { part: FeedPart::Sample, tasks, multiprocessors, buffers, freed }
}

/// A kernel that reads different rows by index, and other bytes in order.
fn indexed((rows, row_bytes): (u64, u64), streamed: u64, written: u64) -> Traversal {
    let bytes = rows * row_bytes;
    Traversal {
        dtype: Dtype::Fp32,
        edges: rows,
        gathered: bytes,
        table: bytes,
        streamed,
        cached: 0,
        written,
        destinations: 0,
        longest: 0,
        row_bytes,
        atomics: 0,
        walk: Walk::Block,
    }
}

impl Rows<'_> {
    /// Copies rows of a table in the memory of the GPU.
    fn found(&self, name: &'static str, rows: u64) -> Task {
        let row_bytes = self.batch.row_bytes;
        (name, Work::Traversal(indexed((rows, row_bytes), rows * INDEX_BYTES, rows * row_bytes)))
    }

    /// Copies those that the cache of the GPU has, if any.
    fn cached(&self) -> Option<Task> {
        let hits = self.batch.on_gpu.hits > 0.0;
        hits.then(|| self.found("gather cached rows", self.batch.rows - self.missed))
    }

    /// A lane of the GPU that ends with rows in a buffer of the batch.
    fn gather(&self, tasks: impl IntoIterator<Item = Task>) -> FeedLane<Task> {
        let tasks = tasks.into_iter().chain(self.cached()).collect();
        let multiprocessors = self.multiprocessors();
        let (buffers, freed) = (self.buffers, Freed::Trained);
        FeedLane { part: FeedPart::Gather, tasks, multiprocessors, buffers, freed }
    }

    /// Reads of a number of rows of the table.
    fn reads(&self, rows: u64) -> RowReads {
        let Batch { table_rows, row_bytes, element_bytes, .. } = *self.batch;
        let Features { order, align: aligned, .. } = *self.features;
        let pitch = row_bytes;
        RowReads { rows, table_rows, row_bytes, pitch, element_bytes, offset: 0, order, aligned }
    }

    /// Bytes of the rows of all nodes.
    const fn table(&self) -> u64 {
        self.batch.table_rows * self.batch.row_bytes
    }

    /// Multiprocessors that kernels get which read rows.
    fn multiprocessors(&self) -> Multiprocessors {
        self.features.process.reading(self.around.multiprocessors)
    }
}

impl Features {
    /// Buffers of batches in the memory of the GPU.
    fn buffers(&self) -> u32 {
        let on_gpus = matches!(self.home, Home::Gpu | Home::Striped | Home::Sharded);
        let ahead = !on_gpus && (self.process != Process::Same || self.prefetched() > 0);
        self.buffers.map_or(if ahead { 2 } else { 1 }, |buffers| buffers.get() as u32)
    }
}
