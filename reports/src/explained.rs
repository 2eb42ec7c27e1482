//! Runs without step time that are explained at length: where, when, who held the memory, and what
//! would help.

use std::collections::BTreeSet;

use crate::quantity;
use crate::summary::{Failure, RunSummary};

/// Runs that are explained at most.
const RUNS_MAX: usize = 6;
/// Variants that are named in the explanation of another.
const VARIANTS_MAX: usize = 3;

/// Places of the runs that are explained, given the variant of each and whether it fits: the first
/// of each variant that does not.
pub fn explained<'a>(runs: impl IntoIterator<Item = (&'a str, bool)>) -> Vec<usize> {
    let mut known: BTreeSet<&str> = BTreeSet::new();
    let failed = runs.into_iter().enumerate().filter(|(_, (_, fits))| !fits);
    let first = failed.filter(|(_, (variant, _))| known.insert(variant));
    first.map(|(place, _)| place).take(RUNS_MAX).collect()
}

/// Runs that are explained.
pub(crate) fn explained_of(runs: &[RunSummary]) -> impl Iterator<Item = &RunSummary> {
    explained(runs.iter().map(|run| (run.variant.as_str(), run.failure.is_none())))
        .into_iter()
        .map(|place| &runs[place])
}

/// Facts of a failure beyond its message, as (what, text) in reading order; `run` is one of `runs`.
pub(crate) fn facts(run: &RunSummary, runs: &[RunSummary]) -> Vec<(&'static str, String)> {
    let Some(failure) = &run.failure else { return Vec::new() };
    let mut facts = of(failure);
    facts.extend(variants(run, runs).map(|variants| ("variants", variants)));
    facts.extend(failure.remedies.iter().map(|remedy| ("remedy", remedy.to_string())));
    facts
}

/// Variants that have a step time at the point of `run`, the fastest first.
fn variants(run: &RunSummary, runs: &[RunSummary]) -> Option<String> {
    let beside = runs.iter().filter(|other| other.point == run.point);
    let mut others: Vec<(f64, &str)> =
        beside.filter_map(|other| Some((other.step_time()?, other.variant.as_str()))).collect();
    others.sort_by(|a, b| a.0.total_cmp(&b.0));
    let named = others.iter().take(VARIANTS_MAX);
    let named = named.map(|(time, variant)| format!("`{variant}` ({} per step)", quantity::seconds(*time)));
    let more = others.len().saturating_sub(VARIANTS_MAX);
    let more = (more > 0).then(|| format!("{more} more"));
    let named = named.chain(more).collect::<Vec<_>>().join(", ");
    let fit = if others.len() == 1 { "fits" } else { "fit" };
    (!others.is_empty()).then(|| format!("{fit} here: {named}"))
}

fn of(failure: &Failure) -> Vec<(&'static str, String)> {
    let bytes = |value: Option<u64>| value.map(quantity::bytes);
    let kind = failure.requested_kind.as_ref().map_or(String::new(), |kind| format!(" of {kind}"));
    let asked = bytes(failure.requested_bytes).map(|asked| format!("{asked}{kind}"));
    let capacity = bytes(failure.capacity_bytes).map_or(String::new(), |capacity| format!(" of {capacity}"));
    let moment = failure.time_s.map(|time| format!("{} into the run", quantity::seconds(time)));
    let moment = [moment, failure.operation.as_ref().map(|operation| format!("in {operation}"))];
    let place = [failure.stream.clone(), Some(moment.into_iter().flatten().collect::<Vec<_>>().join(", "))];
    let place = place.into_iter().flatten().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(", ");
    let held = failure.holders_bytes.iter().map(|(kind, held)| format!("{kind} {}", quantity::bytes(*held)));
    let held = held.collect::<Vec<_>>().join(", ");
    let mut facts = vec![
        ("where", failure.store.as_ref().map(|store| format!("{store}{capacity}"))),
        ("when", Some(place).filter(|place| !place.is_empty())),
        ("asked for", asked),
        ("short by", bytes(failure.short_bytes)),
        ("held by", Some(held).filter(|held| !held.is_empty())),
    ];
    facts.extend(failure.waiting.iter().map(|waiting| ("waiting", Some(waiting.clone()))));
    facts.into_iter().filter_map(|(what, text)| Some((what, text?))).collect()
}
