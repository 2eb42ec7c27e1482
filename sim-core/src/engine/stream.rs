//! The state of a stream.

use super::NOBODY;
use super::activities::Claim;
use super::code::Bound;
use super::counters::Release;
use super::ledger::{Account, Ledger};
use super::own_path::OwnPath;
use crate::id::{PoolId, StreamId};
use crate::outcome::ByCause;
use crate::time::Time;

/// One stream.
#[derive(Clone, Debug)]
pub(super) struct StreamState {
    /// Next or present operation, and the end of its block.
    pub(super) pc: u32,
    pub(super) end: u32,
    pub(super) block: u32,
    /// The next call of the role, and executions left of the present one.
    pub(super) call: u32,
    pub(super) left: u32,
    pub(super) args: [i32; 2],
    /// Offsets of its binding.
    pub(super) bound: Bound,
    pub(super) status: Status,
    /// Whether it may have segments: nobody halts it.
    pub(super) has_segments: bool,
    /// Whether it may run ahead of the clock.
    pub(super) runs_ahead: bool,
    /// Start of the present operation.
    pub(super) since: Time,
    /// When it expects its timer.
    pub(super) wake: Time,
    pub(super) threshold: u64,
    pub(super) next_waiter: u32,
    /// The message that ends its wait, once it is under way.
    pub(super) release: Option<Release>,
    /// The activity it runs, or ran last, among those of all bindings.
    pub(super) running: u32,
    pub(super) flow: u32,
    pub(super) claim: Option<Claim>,
    pub(super) ticket: Option<u32>,
    /// Its critical path, right up to `charged`.
    pub(super) path: OwnPath,
    pub(super) charged: Time,
    /// Durations drawn so far: the position in its noise.
    pub(super) drawn: u64,
    pub(super) marks: Vec<Time>,
    pub(super) spent_at_marks: Vec<ByCause>,
    /// Its critical path at its last mark, where paths are cut off at an earlier one.
    pub(super) path_at_mark: Option<Account>,
    pub(super) finished: Option<Time>,
}

impl StreamState {
    /// A stream before its first operation.
    pub(super) fn new(
        (id, bound): (StreamId, Bound),
        has_segments: bool,
        runs_ahead: bool,
        ledger: &mut Ledger,
    ) -> Self {
        Self {
            pc: 0,
            end: 0,
            block: 0,
            call: 0,
            left: 0,
            args: [0; 2],
            bound,
            status: Status::Ready,
            has_segments,
            runs_ahead,
            since: Time::ZERO,
            wake: Time::NEVER,
            threshold: 0,
            next_waiter: NOBODY,
            release: None,
            running: NOBODY,
            flow: NOBODY,
            claim: None,
            ticket: None,
            path: OwnPath::new(id, ledger),
            charged: Time::ZERO,
            drawn: 0,
            marks: Vec::new(),
            spent_at_marks: Vec::new(),
            path_at_mark: None,
            finished: None,
        }
    }
}

/// Where a stream stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// Executing, or about to in this instant.
    Ready,
    /// In the latency of an activity, until `wake`.
    Latency,
    /// In the work of an activity.
    InFlow,
    /// In a segment, until `wake`.
    InSegment,
    /// Ahead of the clock, until `wake`.
    Ahead,
    /// Waits for a counter; a message that releases it arrives at `wake`.
    OnCounter,
    /// Waits for room in a store.
    OnStore,
    /// Waits for units.
    OnPool(PoolId),
    /// Has joined a group.
    InGroup,
    /// Waits for a cell.
    OnCell,
    /// A worker without a job.
    Idle,
    /// Has executed its last operation.
    Done,
}
