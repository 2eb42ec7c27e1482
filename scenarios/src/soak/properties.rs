//! What must hold of one run, whatever was run: its figures add up, and its verdict is one.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use reports::state;
use reports::summary::{AllocatorPeak, DevicePeak, FailureKind, LinkUse, RunSummary, Spread};
use sim_core::time::Time;

use super::Breach;

/// Sums of durations are those of picoseconds, but for the rounding of floating-point numbers.
const ROUNDING: f64 = 1e-9;
/// Links that results tell at most: with as many, some may be missing.
const LINKS_TOLD: usize = 32;

/// Everything about a run that cannot be.
pub fn breaches(run: &RunSummary) -> Vec<Breach> {
    let mut found = Vec::new();
    let mut wrong = |property, detail: String| {
        found.push(Breach { property, detail: format!("{}: {detail}", run.label()) });
    };
    verdict(run, &mut wrong);
    if let Some(step) = run.step_time() {
        times(run, step, &mut wrong);
        memory(run, &mut wrong);
        traffic(run, &mut wrong);
    }
    found
}

type Wrong<'w> = &'w mut dyn FnMut(&'static str, String);

/// A run has a step time, or a reason why not; nothing waits for ever.
fn verdict(run: &RunSummary, wrong: Wrong<'_>) {
    const VERDICT: &str = "a number or a verdict";
    match &run.failure {
        None if run.step_time().is_none() => wrong(VERDICT, "neither step time nor failure".to_owned()),
        None => {}
        Some(failure) => {
            if run.fits || run.step_time_s.is_some() {
                wrong(VERDICT, format!("fits, and yet: {}", failure.message));
            }
            if failure.message.is_empty() {
                wrong(VERDICT, "a failure without message".to_owned());
            }
            match failure.kind {
                FailureKind::OutOfMemory if failure.short_bytes.is_none_or(|short| short == 0) => {
                    wrong(VERDICT, format!("out of memory by nothing: {}", failure.message));
                }
                // A step that takes longer than any run may, on a link of 64 B/s, is a verdict.
                FailureKind::Limit if failure.time_s == Some(Time::LAST.as_secs()) => {}
                FailureKind::Deadlock | FailureKind::Limit => {
                    let waiting = failure.waiting.first().cloned().unwrap_or_default();
                    wrong("nothing waits for ever", format!("{}: {waiting}", failure.message));
                }
                _ => {}
            }
        }
    }
}

/// The critical path is as long as the step, and the breakdowns of all ranks and their mean add up to it.
fn times(run: &RunSummary, step: f64, wrong: Wrong<'_>) {
    let mut adds_up = |property, of: &str, times: &IndexMap<String, f64>, expected: f64| {
        let sum: f64 = times.values().sum();
        if (sum - expected).abs() > ROUNDING * expected {
            let part = 100.0 * (sum / expected - 1.0);
            wrong(property, format!("{of} {sum} s of {expected} s ({part:+.4} %)"));
        }
    };
    adds_up("the critical path is the step", "path", &run.critical_path_s, step);
    // Over several seeds the step is a mean, and the breakdowns are those of the first seed.
    let first = run.ranks.first().map_or(step, |rank| rank.time_breakdown_s.values().sum());
    let described = if run.step_time_spread.is_some() { first } else { step };
    for rank in run.ranks.iter().chain(&run.slowest_rank) {
        adds_up("breakdowns add up to the step", &rank.name, &rank.time_breakdown_s, described);
    }
    adds_up("breakdowns add up to the step", "mean", &run.time_breakdown_s, described);
    if !run.kernel_time_s.is_empty() {
        let compute = run.time_breakdown_s.get(state::COMPUTE).copied().unwrap_or_default();
        adds_up("bounds of kernels add up to compute", "kernels", &run.kernel_time_s, compute);
    }
    let shares: f64 = run.provenance.values().sum();
    if (shares - 1.0).abs() > ROUNDING {
        wrong("provenance shares add up to 1", format!("{shares}: {:?}", run.provenance));
    }
    let tight = 1.0 + ROUNDING;
    if let Some(Spread { min_s, mean_s, max_s, .. }) = run.step_time_spread
        && (min_s > mean_s * tight || mean_s > max_s * tight)
    {
        wrong("the spread holds its mean", format!("{min_s}, {mean_s}, {max_s}"));
    }
}

/// Peaks are the sums of their kinds, and within what the device has.
fn memory(run: &RunSummary, wrong: Wrong<'_>) {
    const KINDS: &str = "peaks add up by kind";
    const ROOM: &str = "what fits is within its capacity";
    for DevicePeak { device, capacity_bytes, peak_bytes, by_kind_bytes, .. } in &run.peak_memory_bytes {
        let sum: u64 = by_kind_bytes.values().sum();
        if sum != *peak_bytes {
            wrong(KINDS, format!("{device}: {sum} of {peak_bytes} B"));
        }
        if let Some(capacity) = capacity_bytes.filter(|capacity| peak_bytes > capacity) {
            wrong(ROOM, format!("{device}: {peak_bytes} B of {capacity} B"));
        }
    }
    for peak in &run.allocator {
        let AllocatorPeak { device, peak_allocated_bytes, peak_reserved_bytes, by_kind_bytes, .. } = peak;
        let sum: u64 = by_kind_bytes.values().sum();
        if sum != *peak_allocated_bytes {
            wrong(KINDS, format!("allocator of {device}: {sum} of {peak_allocated_bytes} B"));
        }
        if peak_reserved_bytes < peak_allocated_bytes {
            wrong(ROOM, format!("{device}: {peak_allocated_bytes} B in {peak_reserved_bytes} B of segments"));
        }
        if peak.needed_bytes() > peak.capacity_bytes {
            wrong(
                ROOM,
                format!("allocator of {device}: {} of {} B", peak.needed_bytes(), peak.capacity_bytes),
            );
        }
    }
    for array in &run.drives {
        if !array.by_kind_bytes.is_empty() && array.by_kind_bytes.values().sum::<u64>() != array.peak_bytes {
            wrong(KINDS, format!("{}: {:?} of {} B", array.array, array.by_kind_bytes, array.peak_bytes));
        }
        if let Some(capacity) = array.capacity_bytes.filter(|&capacity| array.peak_bytes > capacity) {
            wrong(ROOM, format!("{}: {} B of {capacity} B", array.array, array.peak_bytes));
        }
    }
}

/// What comes to a switch goes on from it, and what BPipe lends is given back.
fn traffic(run: &RunSummary, wrong: Wrong<'_>) {
    const CONSERVED: &str = "bytes sent are bytes received";
    if run.links.len() < LINKS_TOLD {
        let mut flows: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for LinkUse { name, bytes, .. } in &run.links {
            let Some((from, to)) = name.split_once(" -> ") else { continue };
            flows.entry(from).or_default().0 += bytes;
            flows.entry(to).or_default().1 += bytes;
        }
        // Only switches of PCIe and networks: what joins NVLinks adds up and multiplies on the way.
        let passes = |part: &str| part.contains("].switch[") || part.starts_with("fabric");
        for (part, (sent, received)) in flows.into_iter().filter(|(part, _)| passes(part)) {
            if sent.abs_diff(received) > LINKS_TOLD as u64 + received.max(sent) / 1_000_000 {
                wrong(CONSERVED, format!("{part} receives {received} B and sends {sent} B"));
            }
        }
    }
    let lent: BTreeMap<&str, u64> =
        run.resources.iter().map(|used| (used.name.as_str(), used.bytes)).collect();
    for (name, bytes) in &lent {
        let Some((from, to)) = name.strip_prefix("link stage ").and_then(|rest| rest.split_once(" to "))
        else {
            continue;
        };
        let back = lent.get(format!("link stage {to} to {from}").as_str());
        if back.is_some_and(|back| back != bytes) {
            wrong(CONSERVED, format!("{name}: {bytes} B out and {back:?} B back"));
        }
    }
}
