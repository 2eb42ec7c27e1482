//! The words for what a rank's compute lane does. At each moment it is in exactly one state, decided by what released
//! it next, so the states of a rank add up to its step. Every table and plot uses these words and no others.
//!
//! A word may carry a kind after a colon: `communication: all-reduce`, `compute: forward`.

use indexmap::IndexMap;

/// Useful work.
pub const COMPUTE: &str = "compute";
/// Work done again to save memory.
pub const RECOMPUTE: &str = "recompute";
/// Waiting for the host to launch the next kernel.
pub const LAUNCH_BOUND: &str = "launch-bound";
/// Waiting for room in a memory.
pub const WAITING_FOR_MEMORY: &str = "waiting for memory";
/// Waiting for bytes to come or go.
pub const WAITING_FOR_TRANSFER: &str = "waiting for a transfer";
/// In a collective or message whose peers have all arrived.
pub const COMMUNICATION: &str = "communication";
/// In a collective whose last peer has not arrived.
pub const SKEW: &str = "skew";
/// Waiting for a message whose producer had not started.
pub const PIPELINE_BUBBLE: &str = "pipeline bubble";
/// Nothing left to do in this step.
pub const IDLE: &str = "idle at the end";

/// Useful work at the nominal bandwidth of memory.
pub const BYTES: &str = "compute: bytes";
/// Products at the peak rate of their type, beyond that.
pub const ARITHMETIC: &str = "compute: arithmetic";
/// The rest of it, in which multiprocessors idle or wait.
pub const OCCUPANCY: &str = "compute: occupancy";

/// Kernels of a stream, of a replayed trace or an executed program.
pub const KERNELS: &str = "kernels";
/// Copies and fills of a stream.
pub const COPIES: &str = "copies";
/// Collectives of a stream that move data.
pub const COLLECTIVES: &str = "collectives";
/// From an activity of a stream to the next.
pub const GAPS: &str = "gaps";
/// Interpreter of a host thread.
pub const PYTHON: &str = "python";
/// Operators of the framework on a host thread.
pub const DISPATCH: &str = "dispatch";
/// Calls of the device's runtime.
pub const RUNTIME_CALLS: &str = "runtime calls";
/// Batches that are made or awaited.
pub const LOADER: &str = "loader";
/// A host thread waits for its device.
pub const WAITING_FOR_DEVICE: &str = "waiting for the device";
/// A host thread waits for another.
pub const WAITING_FOR_THREAD: &str = "waiting for a thread";
/// A host thread finds the queue of launches full.
pub const QUEUE_FULL: &str = "launch queue full";
/// A stream waits for another.
pub const WAITING_FOR_STREAM: &str = "waiting for a stream";
/// Graphs are captured and kernels compiled.
pub const BUILDING: &str = "capturing and compiling";
/// A thread waits for a value that another hands over.
pub const WAITING_FOR_FEED: &str = "waiting for a feed";
/// A thread waits to be told its path.
pub const WAITING_FOR_PATH: &str = "waiting for the path";
/// A thread waits for the next batch.
pub const WAITING_FOR_BATCH: &str = "waiting for a batch";
/// Another thread holds the interpreter lock.
pub const INTERPRETER_LOCK: &str = "interpreter lock";

/// All words, in the order of every legend and stack: work first, then what keeps from working.
pub const ALL: [&str; 26] = [
    COMPUTE,
    RECOMPUTE,
    KERNELS,
    COPIES,
    COLLECTIVES,
    GAPS,
    PYTHON,
    DISPATCH,
    RUNTIME_CALLS,
    LOADER,
    BUILDING,
    WAITING_FOR_DEVICE,
    WAITING_FOR_THREAD,
    QUEUE_FULL,
    WAITING_FOR_STREAM,
    WAITING_FOR_FEED,
    WAITING_FOR_PATH,
    WAITING_FOR_BATCH,
    INTERPRETER_LOCK,
    LAUNCH_BOUND,
    WAITING_FOR_MEMORY,
    WAITING_FOR_TRANSFER,
    COMMUNICATION,
    SKEW,
    PIPELINE_BUBBLE,
    IDLE,
];

/// Words of time in which a lane works, of a replayed trace or an executed program.
const LANE_WORK: [&str; 9] =
    [KERNELS, COPIES, COLLECTIVES, GAPS, PYTHON, DISPATCH, RUNTIME_CALLS, LOADER, BUILDING];

/// True if a lane works in this state, and does not wait for another lane.
pub(crate) fn is_work(state: &str) -> bool {
    LANE_WORK.contains(&state)
}

/// The word without its kind: `communication` of `communication: all-reduce`.
pub fn word(state: &str) -> &str {
    state.split_once(':').map_or(state, |(word, _)| word).trim()
}

/// The kind without its word, if it has one: `all-reduce` of `communication: all-reduce`.
pub fn kind(state: &str) -> Option<&str> {
    state.split_once(':').map(|(_, kind)| kind.trim()).filter(|kind| !kind.is_empty())
}

/// The entries of a breakdown in the order of [`ALL`], others last; within a word as they come.
pub(crate) fn in_order(breakdown: &IndexMap<String, f64>) -> impl Iterator<Item = (&str, f64)> {
    let entries = breakdown.iter().map(|(state, time)| (state.as_str(), *time)).collect();
    sorted(entries, |(state, _)| state).into_iter()
}

/// Anything that goes by a state, in the order of [`ALL`].
pub(crate) fn sorted<'a, T>(mut entries: Vec<T>, state: impl Fn(&T) -> &'a str) -> Vec<T> {
    entries
        .sort_by_key(|entry| ALL.iter().position(|known| *known == word(state(entry))).unwrap_or(ALL.len()));
    entries
}
