//! The way of batches that settings describe: lanes, their work, and what memories hold.

use crate::graph::operator::{
    Dtype, Medium, Order, Role, RowReads, RowWork, TierCopy, Traversal, Walk, Work,
};

use super::settings::{Access, Features, Home, Process, Sampling, SamplingPlace};
use super::{FeedLane, FeedPart, FeedPlan, Freed};

/// A mini-batch in numbers, each the mean of an epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Batch {
    /// Edges that are drawn.
    pub edges: u64,
    /// Nodes whose neighbours are drawn.
    pub drawn_for: u64,
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
    /// Share of the rows that a cache on the GPU has, and the rows that it keeps.
    pub hits: f64,
    /// Rows that the cache keeps.
    pub cached_rows: u64,
}

/// The host and the GPU that make batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Around {
    /// Multiprocessors of the GPU.
    pub multiprocessors: u32,
    /// Ranks that share the memory of a host.
    pub sharing: u32,
    /// Bytes of the GPU's memory.
    pub memory: u64,
}

impl FeedPlan {
    /// The way of a mini-batch.
    pub fn of(features: &Features, sampling: &Sampling, batch: &Batch, around: Around) -> Self {
        let missed = ((batch.rows as f64) * (1.0 - batch.hits)).round() as u64;
        let table = batch.table_rows * batch.row_bytes;
        let of_batch = batch.rows * batch.row_bytes;
        let mut plan = Self { lanes: vec![sample(sampling, features, batch)], ..Self::default() };
        plan.on_gpu = batch.cached_rows * batch.row_bytes;
        let on_gpu = features.home == Home::Gpu;
        let buffers = features.buffers(on_gpu);
        plan.on_gpu += (u64::from(buffers) - 1) * of_batch;
        if on_gpu {
            plan.on_gpu += table;
        } else {
            plan.on_host = table.div_ceil(around.sharing.max(1).into());
        }
        if sampling.place == SamplingPlace::Gpu {
            plan.on_gpu += batch.graph_edges * EDGE + batch.table_rows * EDGE;
        }
        plan.lanes.extend(features.lanes(batch, missed, buffers, around));
        if features.access == Access::HostGather && !on_gpu {
            plan.staged = missed * batch.row_bytes * u64::from(features.prefetched().max(1));
        }
        plan
    }
}

/// Bytes of an index.
const EDGE: u64 = 8;

/// Draws neighbours.
fn sample(sampling: &Sampling, features: &Features, batch: &Batch) -> FeedLane<(&'static str, Work)> {
    let workers = sampling.workers.get() as u32;
    let (work, ahead) = match sampling.place {
        SamplingPlace::Host => {
            let draw = RowWork::Sample { edges: batch.edges, threads: workers.max(1) };
            (vec![("draw neighbours", Work::Rows(draw))], workers)
        }
        SamplingPlace::Gpu => (vec![("draw neighbours", Work::Traversal(drawn(batch)))], 0),
        SamplingPlace::GpuPinned => {
            let lists = RowReads {
                rows: batch.drawn_for,
                table_rows: batch.table_rows,
                row_bytes: EDGE * batch.edges.div_ceil(batch.drawn_for.max(1)).max(1),
                pitch: 0,
                element_bytes: EDGE,
                offset: 0,
                order: Order::Random,
                aligned: false,
            };
            let read = RowWork::Read { rows: lists, multiprocessors: u32::MAX };
            (vec![("draw neighbours", Work::Rows(read))], 0)
        }
    };
    // Another process reads rows while this one draws for the next batch, or draws them as well.
    let is_beside = matches!(features.process, Process::Mps(_)) || features.prefetched() > 0;
    let ahead = if is_beside { ahead.max(1) } else { ahead };
    let (buffers, freed) = if ahead > 0 { (2 * ahead, Freed::Taken) } else { (1, Freed::Trained) };
    FeedLane { part: FeedPart::Sample, tasks: work, buffers, freed }
}

/// A kernel that reads lists of neighbours in the memory of the GPU and writes those it draws.
fn drawn(batch: &Batch) -> Traversal {
    indexed((batch.edges, EDGE), batch.drawn_for * 2 * EDGE, batch.edges * 2 * EDGE)
}

/// A kernel that copies rows of a table in the memory of the GPU.
fn found(batch: &Batch, rows: u64) -> Traversal {
    indexed((rows, batch.row_bytes), rows * EDGE, rows * batch.row_bytes)
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

impl Features {
    /// Buffers of batches in the memory of the GPU.
    fn buffers(&self, on_gpu: bool) -> u32 {
        let ahead = !on_gpu && (matches!(self.process, Process::Mps(_)) || self.prefetched() > 0);
        self.buffers.map_or(if ahead { 2 } else { 1 }, |buffers| buffers.get() as u32)
    }

    /// Lanes that bring rows.
    fn lanes(
        &self,
        batch: &Batch,
        missed: u64,
        buffers: u32,
        around: Around,
    ) -> Vec<FeedLane<(&'static str, Work)>> {
        let from_table = ("gather rows", Work::Traversal(found(batch, batch.rows)));
        let from_cache = (batch.hits > 0.0)
            .then(|| ("gather cached rows", Work::Traversal(found(batch, batch.rows - missed))));
        let gather =
            |tasks, buffers| FeedLane { part: FeedPart::Gather, tasks, buffers, freed: Freed::Trained };
        if self.home == Home::Gpu {
            return vec![gather(vec![from_table], buffers)];
        }
        let order = self.order;
        let rows = RowReads {
            rows: missed,
            table_rows: batch.table_rows,
            row_bytes: batch.row_bytes,
            pitch: 0,
            element_bytes: batch.element_bytes,
            offset: 0,
            order,
            aligned: self.align,
        };
        match self.access {
            Access::HostGather => {
                let threads = self.threads.get();
                let copy = RowWork::Copy { rows: missed, row_bytes: batch.row_bytes, order, threads };
                let bytes = missed * batch.row_bytes;
                let to_gpu = TierCopy { from: Medium::HOST, to: Medium::HBM, bytes, role: Role::Input };
                let prefetch = self.prefetched();
                let ahead = if prefetch > 0 { (prefetch, Freed::Taken) } else { (1, Freed::Trained) };
                let tasks = vec![("copy rows to a buffer", Work::Rows(copy))];
                let first = FeedLane { part: FeedPart::Gather, tasks, buffers: ahead.0, freed: ahead.1 };
                let mut tasks = vec![("copy the buffer", Work::Transfer(to_gpu))];
                tasks.extend(from_cache);
                vec![first, FeedLane { part: FeedPart::Copy, tasks, buffers, freed: Freed::Trained }]
            }
            Access::ZeroCopy => {
                let multiprocessors = match self.process {
                    Process::Mps(share) => {
                        ((f64::from(around.multiprocessors) * share.as_f64()).round() as u32).max(1)
                    }
                    Process::Same | Process::Separate => u32::MAX,
                };
                let read = RowWork::Read { rows, multiprocessors };
                let tasks = [("read rows in place", Work::Rows(read))].into_iter().chain(from_cache);
                vec![gather(tasks.collect(), buffers)]
            }
            Access::Managed => {
                let fault = RowWork::Fault { rows, room: around.memory };
                vec![gather(vec![("bring managed pages", Work::Rows(fault)), from_table], buffers)]
            }
        }
    }
}
