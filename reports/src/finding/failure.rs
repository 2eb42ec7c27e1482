//! Why runs have no step time, in words of every length.

use indexmap::IndexMap;

use crate::quantity;
use crate::ranking::Comparison;
use crate::summary::{Failure, FailureKind, RunSummary};

/// Why a run has no step time, as words tell it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Cause {
    Of(FailureKind),
    /// A system lacks what is asked for.
    Unsupported,
}

impl Cause {
    const fn of(failure: &Failure) -> Self {
        if failure.unsupported { Self::Unsupported } else { Self::Of(failure.kind) }
    }
}

/// Why a run has no step time, as a short clause: `does not fit: stage 0 is 4.00 GB short`.
pub fn verdict(run: &RunSummary) -> String {
    let Some(failure) = &run.failure else {
        return failed(Cause::Of(FailureKind::OutOfMemory), true).to_owned();
    };
    format!("{}: {}", failed(Cause::of(failure), true), reason(failure))
}

/// Reason of a failure: `stage 0 is 4.00 GB short`.
pub(super) fn reason(failure: &Failure) -> String {
    match (&failure.store, failure.short_bytes) {
        (Some(store), Some(short)) => format!("{store} is {} short", quantity::bytes(short)),
        _ => failure.message.clone(),
    }
}

/// Who holds the memory that is too small, as a clause: `optimizer states hold 46.1 GB of its 80.0 GB, activations
/// 20.3 GB`; none if nobody knows or all of it
/// is of one kind. Of many kinds the largest that together hold most of it.
pub(crate) fn who_holds(failure: &Failure) -> Option<String> {
    const MOST: f64 = 0.75;
    let all: f64 = failure.holders_bytes.values().map(|bytes| *bytes as f64).sum();
    let mut holders: Vec<_> = failure.holders_bytes.iter().filter(|(_, bytes)| **bytes > 0).collect();
    holders.sort_by_key(|(_, bytes)| std::cmp::Reverse(**bytes));
    if holders.len() < 2 {
        return None;
    }
    let mut told = 0.0;
    holders.retain(|(_, bytes)| {
        let needed = told < all * MOST;
        told += **bytes as f64;
        needed
    });
    let ((kind, bytes), others) = holders.split_first()?;
    let of =
        failure.capacity_bytes.map_or(String::new(), |bytes| format!(" of its {}", quantity::bytes(bytes)));
    let verb = if kind.ends_with('s') { "hold" } else { "holds" };
    let first = format!("{kind} {verb} {}{of}", quantity::bytes(**bytes));
    let others = others.iter().map(|(kind, bytes)| format!("{kind} {}", quantity::bytes(**bytes)));
    Some([first].into_iter().chain(others).collect::<Vec<_>>().join(", "))
}

/// The same as [`verdict`] in a table, where the details stand elsewhere: `does not fit: 4.00 GB short`.
pub(crate) fn brief_verdict(run: &RunSummary) -> String {
    match run.failure.as_ref().and_then(|failure| failure.short_bytes) {
        Some(short) => {
            format!("{}: {} short", failed(Cause::Of(FailureKind::OutOfMemory), true), quantity::bytes(short))
        }
        None => verdict(run),
    }
}

/// The verdict in a word or two: `no fit`.
pub(crate) fn failed_briefly(run: &RunSummary) -> &'static str {
    match run.failure.as_ref().map_or(Cause::Of(FailureKind::OutOfMemory), Cause::of) {
        Cause::Of(FailureKind::OutOfMemory) => "no fit",
        Cause::Of(FailureKind::Deadlock) => "deadlock",
        Cause::Of(FailureKind::Limit) => "limit",
        Cause::Of(FailureKind::Infeasible) => "impossible",
        Cause::Unsupported => "not supported",
    }
}

/// `24 of 54 runs do not fit, 3 are impossible`. `None`: all have a step time, or there is one run.
pub(crate) fn without_result(all: &Comparison<'_>) -> Option<String> {
    let mut causes: IndexMap<Cause, usize> = IndexMap::new();
    for failure in all.runs().filter_map(|run| run.failure.as_ref()) {
        *causes.entry(Cause::of(failure)).or_default() += 1;
    }
    causes.sort_by(|_, a, _, b| b.cmp(a));
    let runs = all.runs().count();
    let counted = causes.iter().enumerate().map(|(place, (cause, count))| {
        let of = if place == 0 { format!(" of {runs} runs") } else { String::new() };
        format!("{count}{of} {}", failed(*cause, *count == 1))
    });
    let counted = counted.collect::<Vec<_>>().join(", ");
    (runs > 1 && !causes.is_empty()).then_some(counted)
}

/// Verb for contenders that run nowhere: `does not fit`, over several points `never fits`.
/// `kind` is `None` if their runs fail for several reasons.
pub(super) fn fails(kind: Option<FailureKind>, one: bool, everywhere: bool) -> String {
    let verb = match (kind, everywhere) {
        (Some(kind), false) => return failed(Cause::Of(kind), one).to_owned(),
        (None, false) => return if one { "gives no result" } else { "give no result" }.to_owned(),
        (None, true) => ["never runs", "never run"],
        (Some(FailureKind::OutOfMemory), true) => ["never fits", "never fit"],
        (Some(FailureKind::Deadlock), true) => ["always deadlocks", "always deadlock"],
        (Some(FailureKind::Limit), true) => ["always reaches its limit", "always reach their limits"],
        (Some(FailureKind::Infeasible), true) => ["is never possible", "are never possible"],
    };
    verb[usize::from(!one)].to_owned()
}

fn failed(cause: Cause, one: bool) -> &'static str {
    match (cause, one) {
        (Cause::Of(FailureKind::OutOfMemory), true) => "does not fit",
        (Cause::Of(FailureKind::OutOfMemory), false) => "do not fit",
        (Cause::Of(FailureKind::Deadlock), true) => "deadlocks",
        (Cause::Of(FailureKind::Deadlock), false) => "deadlock",
        (Cause::Of(FailureKind::Limit), true) => "reached its limit",
        (Cause::Of(FailureKind::Limit), false) => "reached their limits",
        (Cause::Of(FailureKind::Infeasible), true) => "is impossible",
        (Cause::Of(FailureKind::Infeasible), false) => "are impossible",
        (Cause::Unsupported, true) => "is not supported",
        (Cause::Unsupported, false) => "are not supported",
    }
}
