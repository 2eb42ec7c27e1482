//! Handoffs between threads: one lets another work, and goes on when that is done, as Python does
//! with the threads of autograd.
//!
//! ```text
//! from    ... works |given                            resumed| works ...
//! to                      |begun   works   ended|
//! ```
//!
//! Two threads hand over where one works only in gaps of the other. A thread that also works beside
//! the other is a lane of its own.

use super::host::is_annotation;
use super::intervals::Intervals;
use super::recording::Recording;

/// Shortest gap in which another thread may work (ns).
const GAP_MIN: i64 = 20_000;

/// Part of a thread's work that lies in gaps of another, where it works for that one. The other may
/// come back to what is left for itself, as the thread that called autograd does.
const WITHIN_MIN: f64 = 0.9;

/// A thread lets another work and waits for it. Times are in nanoseconds of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Handoff {
    pub(super) from: u32,
    pub(super) to: u32,
    /// The first thread's last work.
    pub(super) given: i64,
    /// The other's first work.
    pub(super) begun: i64,
    /// The other's last work.
    pub(super) ended: i64,
    /// The first thread's next work.
    pub(super) resumed: i64,
    /// Since when the other had not worked.
    pub(super) idle_since: i64,
}

/// Threads that may hand over: those that work most.
const THREADS_MAX: usize = 32;

/// Spans of work of a thread, which follow each other (ns).
type Work = Vec<(i64, i64)>;

/// The handoffs between threads, by time, from the `work` of each since `origin`; `stepping` is the
/// thread that begins steps.
pub(super) fn find(mut work: Vec<(u32, Work)>, origin: i64, stepping: Option<u32>) -> Vec<Handoff> {
    work.sort_by_key(|(lane, work)| (std::cmp::Reverse(worked(work)), *lane));
    work.truncate(THREADS_MAX);
    // Each works in gaps of the other: the one that begins steps lets the other work, or else the
    // first to work.
    let rank = |(lane, work): &(u32, Work)| (stepping != Some(*lane), work.first().copied(), *lane);
    let mut found = Vec::new();
    for to in &work {
        let others = work.iter().filter(|from| rank(from) < rank(to));
        let candidates = others.filter_map(|from| within(&from.1, &to.1, origin, (from.0, to.0)));
        found.extend(candidates.max_by_key(Vec::len).into_iter().flatten());
    }
    found.sort_by_key(|handoff: &Handoff| handoff.given);
    found
}

/// Work of a thread, by positions of its operators and calls.
pub(super) fn work(recording: &Recording, operators: &[u32], calls: &[u32]) -> Work {
    let operators = operators.iter().map(|&event| &recording.operators[event as usize]);
    let operators = operators.filter(|event| !is_annotation(recording.names.name(event.name)));
    let calls = calls.iter().map(|&call| &recording.calls[call as usize]);
    let mut events: Work = operators.chain(calls).map(|event| (event.begin, event.end)).collect();
    events.sort_unstable();
    let mut work = Intervals::default();
    events.into_iter().for_each(|(begin, end)| work.add(begin, end));
    work.list
}

/// The handoffs from a thread to one that works in its gaps; none where it also works beside it.
fn within(
    from: &[(i64, i64)],
    to: &[(i64, i64)],
    origin: i64,
    (from_lane, to_lane): (u32, u32),
) -> Option<Vec<Handoff>> {
    let mut handoffs: Vec<Handoff> = Vec::new();
    let mut inside = 0;
    for pair in from.windows(2) {
        let [(_, given), (resumed, _)] = [pair[0], pair[1]];
        if resumed - given < GAP_MIN {
            continue;
        }
        let first = to.partition_point(|&(begin, _)| begin < given);
        let behind = to.partition_point(|&(_, end)| end <= resumed);
        let Some(&[(begun, _), ..]) = to.get(first..behind) else { continue };
        inside += worked(&to[first..behind]);
        let idle_since = first.checked_sub(1).map_or(origin, |before| to[before].1);
        // One that was at work already, or has just been, did not wait to be let.
        if idle_since > given || begun - idle_since < GAP_MIN {
            continue;
        }
        let (from, to, ended) = (from_lane, to_lane, to[behind - 1].1);
        handoffs.push(Handoff { from, to, given, begun, ended, resumed, idle_since });
    }
    (!handoffs.is_empty() && inside as f64 >= WITHIN_MIN * worked(to) as f64).then_some(handoffs)
}

/// Time of work (ns).
fn worked(work: &[(i64, i64)]) -> i64 {
    work.iter().map(|(begin, end)| end - begin).sum()
}
