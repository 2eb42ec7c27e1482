//! The answer of a comparison in a sentence, and what a reader should know of it.

use super::{NO_CAUSE, Row, Side};
use crate::finding::brief_verdict;
use crate::quantity;
use crate::ranking::{ALIKE, Speed, tied};
use crate::summary::RunSummary;

/// Part of the difference of two steps from which on a cause is worth a word.
const SHARE_MIN: f64 = 0.25;
/// Work of two steps that is the same.
const SAME_WORK: f64 = 1e-6;

/// The answer: who is faster, and by what.
pub(super) fn finding([a, b]: [&Side<'_>; 2], time: &[Row]) -> String {
    let (Some(before), Some(after)) = (a.run.step_time(), b.run.step_time()) else {
        return without_time([a, b]);
    };
    let runs = [a.run, b.run];
    let same_work = work(runs).is_none_or(|ratio| (ratio - 1.0).abs() < SAME_WORK);
    let ratio = match (same_work, speeds(runs)) {
        (false, Some([before, after])) => after / before,
        _ => before / after,
    };
    if tied(ratio.max(1.0), 1.0) && tied(1.0, ratio.min(1.0)) {
        return equally_fast([a, b]);
    }
    let (gain, word) = if ratio > 1.0 { (ratio, "faster") } else { (ratio.recip(), "slower") };
    if is_tie(runs, ratio) {
        let gain = quantity::gain(gain);
        return format!(
            "{} ties with {}: {gain} {word}, within the error of the difference.",
            b.name, a.name
        );
    }
    let reason = same_work.then(|| mostly(time, after - before)).flatten();
    let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
    format!("{} is {} {word} than {}{reason}.", b.name, quantity::gain(gain), a.name)
}

/// True if the errors that the runs do not share reach farther than their difference, as far as they are known.
fn is_tie(runs: [&RunSummary; 2], ratio: f64) -> bool {
    let [Some(a), Some(b)] = runs.map(|run| run.step_time_uncertainty.as_ref()) else { return false };
    a.ratio_to(b, ratio).is_tie()
}

/// `225 ms less recompute`: the cause that most of the difference is of.
fn mostly(time: &[Row], difference: f64) -> Option<String> {
    let known = time.iter().filter(|row| row.what != NO_CAUSE);
    let of = |row: &&Row| row.difference().unwrap_or_default() * difference.signum();
    let largest = known.max_by(|a, b| of(a).total_cmp(&of(b)))?;
    let part = of(&largest);
    let word = if difference < 0.0 { "less" } else { "more" };
    (part > SHARE_MIN * difference.abs())
        .then(|| format!("{} {word} {}", quantity::seconds(part), largest.what))
}

fn equally_fast([a, b]: [&Side<'_>; 2]) -> String {
    let peaks = [a, b].map(|side| side.run.worst_device().map(|device| device.peak_bytes as f64));
    let memory = match peaks {
        [Some(first), Some(second)] if (second / first - 1.0).abs() > ALIKE => {
            let word = if second < first { "less" } else { "more" };
            format!(", with {} {word} peak memory", quantity::percent((second / first - 1.0).abs()))
        }
        _ => String::new(),
    };
    format!("{} is as fast as {}{memory}.", b.name, a.name)
}

/// The answer where a run has no step time.
fn without_time(sides: [&Side<'_>; 2]) -> String {
    let clause = |side: &Side<'_>| match side.run.step_time() {
        Some(time) => format!("{} takes {} a step", side.name, quantity::seconds(time)),
        None => format!("{} {}", side.name, brief_verdict(side.run)),
    };
    let [a, b] = sides.map(clause);
    format!("{b}; {a}.")
}

/// Samples or tokens per second, where both runs have them.
fn speeds(runs: [&RunSummary; 2]) -> Option<[f64; 2]> {
    [Speed::Tokens, Speed::Samples].into_iter().find_map(|speed| {
        let [a, b] = runs.map(|run| speed.value(run));
        Some([a?, b?])
    })
}

/// Work of the second step over that of the first, where both are known.
fn work(runs: [&RunSummary; 2]) -> Option<f64> {
    let [before, after] = speeds(runs)?;
    let [first, second] = runs.map(RunSummary::step_time);
    Some(after * second? / (before * first?))
}

/// Notes: a different amount of work, errors that are larger than the difference.
pub(super) fn notes(sides: [&Side<'_>; 2]) -> Vec<String> {
    let [a, b] = sides;
    let more = work([a.run, b.run]).filter(|ratio| (ratio - 1.0).abs() >= SAME_WORK).map(|ratio| {
        format!(
            "a step of {} does {} the work of one of {}: compare throughput, not step times",
            b.name,
            quantity::times(ratio),
            a.name
        )
    });
    let lacking: Vec<&str> =
        sides.iter().filter(|side| side.settings.is_none()).map(|side| side.source.as_str()).collect();
    let lacking = (!lacking.is_empty()).then(|| {
        format!(
            "the results of {} hold no settings of this variant: run again to compare them",
            lacking.join(" and ")
        )
    });
    more.into_iter().chain(lacking).collect()
}
