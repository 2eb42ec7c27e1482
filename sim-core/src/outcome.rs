//! What a run keeps: how it ended, high-water marks, time by cause, use of resources.

use crate::id::{BlockId, CauseId, KindId, StoreId, StreamId};
use crate::program::CAUSES_MAX;
use crate::time::Time;

/// Durations by cause, indexed by [`crate::id::CauseId`].
pub type ByCause = [Time; CAUSES_MAX];

/// The result of a simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// How it ended.
    pub end: End,
    /// When: the latest end of a stream with a role, or the moment the run stopped.
    pub time: Time,
    /// One per stream.
    pub streams: Vec<StreamUse>,
    /// One per store.
    pub stores: Vec<StoreUse>,
    /// One per fluid.
    pub fluids: Vec<FluidUse>,
    /// Activities completed.
    pub activities: u64,
    /// Events processed.
    pub events: u64,
    /// Sets of activities whose shares of fluids were approximated: the fixed point of [`crate::sharing`] stopped before
    /// it had settled.
    pub unsettled: u64,
    /// The critical path of [`crate::Options::path_of`], first to last, without gaps; empty for no
    /// stream.
    pub path: Vec<PathStep>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// Every stream with a role executed its last operation.
    Completed,
    /// An acquire with [`crate::program::Shortage::Fail`] found too little room, or asked for more than the capacity.
    OutOfMemory(OutOfMemory),
    /// Nothing can happen any more and these streams still wait.
    Deadlock(Vec<Waiting>),
    /// A limit was reached.
    Limit(Limit),
    /// The program asks for what does not exist: a size, activity or cell outside its table, bytes or units that were
    /// never taken. A mistake of whoever built the program.
    Invalid {
        /// Which operation.
        place: Place,
        /// What is wrong, after "the operation".
        reason: &'static str,
    },
}

/// Where memory ran out.
#[derive(Clone, Debug, PartialEq)]
pub struct OutOfMemory {
    /// Which operation.
    pub place: Place,
    /// The store.
    pub store: StoreId,
    /// Bytes asked for.
    pub requested: u64,
    /// Bytes of the store.
    pub capacity: u64,
    /// Bytes held, by kind, largest first.
    pub holders: Vec<(KindId, u64)>,
}

/// An operation in execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The stream.
    pub stream: StreamId,
    /// The block it executes.
    pub block: BlockId,
    /// Index of the operation in the block.
    pub op: u32,
    /// The block's arguments.
    pub args: [i32; 2],
}

/// A stream that can never go on.
#[derive(Clone, Debug, PartialEq)]
pub struct Waiting {
    /// Where it stands.
    pub place: Place,
    /// Since when.
    pub since: Time,
    /// For what, in words with the names of platform and program.
    pub for_what: String,
    /// The streams that could release it: members of the group still to come, holders of the pool.
    pub on: Vec<StreamId>,
}

/// Which limit was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Events.
    Events(u64),
    /// Simulated time.
    Time(Time),
}

/// What a stream did.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamUse {
    /// When its last operation ended; none if it did not get there.
    pub finished: Option<Time>,
    /// Times of its marks.
    pub marks: Vec<Time>,
    /// What it had spent at each mark; the difference of two adds up to the time between them.
    pub spent_at_marks: Vec<ByCause>,
    /// How it spent its time until `finished`, exactly.
    pub spent: ByCause,
    /// The critical path by cause: a wait takes over the path of what released it. It leads from the start of the run to
    /// the stream's end and adds up to `finished` exactly; with [`crate::Options::path_from`] it is cut off at the time
    /// of that mark and adds up exactly to the time between it and the stream's last mark.
    pub critical: ByCause,
}

/// A stretch of a critical path: time of one cause on one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathStep {
    /// The stream that spent it; of a message the one that waited for it.
    pub stream: StreamId,
    /// The cause.
    pub cause: CauseId,
    /// When it began.
    pub begin: Time,
    /// How long it lasted.
    pub duration: Time,
}

/// What a store held.
#[derive(Clone, Debug, PartialEq)]
pub struct StoreUse {
    /// High-water mark.
    pub peak: Peak,
    /// Bytes by kind at the end.
    pub held: Vec<u64>,
}

/// The high-water mark of a store.
#[derive(Clone, Debug, PartialEq)]
pub struct Peak {
    /// Bytes.
    pub bytes: u64,
    /// When it was first reached.
    pub at: Time,
    /// By which operation; none for bytes held from the start.
    pub place: Option<Place>,
    /// Bytes by kind at that moment.
    pub by_kind: Vec<u64>,
}

/// What a fluid carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FluidUse {
    /// Units.
    pub served: u128,
    /// Units left in its bucket when the run ended. `None`: it has no bucket.
    pub tokens: Option<u64>,
}
