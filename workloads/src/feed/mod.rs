//! Batches on their way to a GPU: what goes on ahead of the visits that read them. Each batch is
//! made by one lane after the other, and a lane goes on with the next as far as its buffers allow.
//! One realiser gives it lanes of its own ([`crate::passes::realise::feed`]).

mod process;
mod settings;
mod way;

use crate::graph::OpId;
use crate::graph::operator::{Sockets, Work};
use crate::schedule::Multiprocessors;

pub use process::{MpsShares, Process};
pub use settings::{
    Access, Cache, CachePolicy, FeatureType, Features, Home, IdType, RowsOnDrives, Sampling, SamplingPlace,
};
pub use way::{Around, Batch, BatchHop, Kept};

/// How a batch comes to the GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeedPlan {
    /// Lanes, one after the other; the GPU takes what the last one makes.
    pub lanes: Vec<FeedLane<(&'static str, Work)>>,
    /// Multiprocessors that kernels of the training process get.
    pub training: Multiprocessors,
    /// Bytes that the GPU holds throughout: features, a cache of them, buffers of batches.
    pub on_gpu: u64,
    /// Bytes of all rows, where they are in memories of hosts or on drives: GPUs share them.
    pub table: u64,
    /// Sockets whose memories hold them. `None`: they are elsewhere.
    pub sockets: Option<Sockets>,
    /// Bytes that each GPU has in the memory of its host: buffers of batches, its part of a cache.
    pub on_host: u64,
}

/// A lane that takes part in making batches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedLane<Task = OpId> {
    /// Its part.
    pub part: FeedPart,
    /// Tasks for a batch, one after the other.
    pub tasks: Vec<Task>,
    /// Multiprocessors that its kernels get.
    pub multiprocessors: Multiprocessors,
    /// Batches that it may have made and that are not freed yet.
    pub buffers: u32,
    /// Moment at which one is freed.
    pub freed: Freed,
}

/// Parts of the way of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FeedPart {
    /// Draws neighbours.
    Sample,
    /// Reads the features of their rows.
    Gather,
    /// Copies them to the GPU.
    Copy,
}

/// Moment at which the buffer of a batch is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freed {
    /// The next lane has done its part.
    Taken,
    /// The GPU has ended the step of the batch.
    Trained,
}
