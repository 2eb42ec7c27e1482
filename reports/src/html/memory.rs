//! Does it fit: what each device held at its peak, the fullest one over time, and what speed costs in memory.

use std::collections::BTreeSet;

use indexmap::IndexMap;
use maud::{Markup, html};

use super::{Page, allocator, figure, first, legend, picker};
use crate::finding::{retrying, verdict, without_allocator};
use crate::plots::rows::{self, Bar, Segment};
use crate::plots::trade_off::{self, Dot};
use crate::plots::{PlotError, memory_curve};
use crate::quantity;
use crate::summary::{DevicePeak, Failure, MemoryCurve, RunSummary};
use crate::table::used;

/// Devices of one chart.
const DEVICES_MAX: usize = 32;
/// Runs of the chart of speed against memory.
const DOTS_MAX: usize = 2_000;
/// Variants without a place in that chart which are named.
const FAILED_MAX: usize = 6;
/// Charts of one picker.
const CHARTS_MAX: usize = 12;

pub(super) fn section(page: &Page<'_>) -> Result<Markup, PlotError> {
    let charts = html! {
        @let judged = [without_allocator(&page.comparison), retrying(&page.comparison)];
        @for sentence in judged.into_iter().flatten() { p { (sentence) "." } }
        (peaks(page)?)
        (super::swap::plans(page))
        (super::kept::table(page))
        (allocator::peaks(page)?)
        (holders(page)?)
        (over_time(page)?)
        @if page.points().len() == 1 { (trade_off(page)?) }
    };
    Ok(html! { @if !charts.0.is_empty() { section { (page.heading("Does it fit?")) (charts) } } })
}

fn peaks(page: &Page<'_>) -> Result<Markup, PlotError> {
    let runs: Vec<_> =
        page.focus.iter().copied().filter(|run| !run.peak_memory_bytes.is_empty()).take(CHARTS_MAX).collect();
    if runs.is_empty() {
        return Ok(html! {});
    }
    let mut charts = Vec::new();
    for run in &runs {
        let devices: Vec<_> =
            run.peak_memory_bytes.iter().step_by(run.peak_memory_bytes.len().div_ceil(DEVICES_MAX)).collect();
        let bars: Vec<_> = devices.into_iter().map(|device| bar(page, device)).collect();
        charts.push((run.variant.clone(), rows::draw(&format!("Peak memory of {}", run.variant), &bars)?));
    }
    let question = format!("How full does each device get{}?", page.place);
    let aid = "What a device held at its fullest moment, by kind; the upright line is its capacity.";
    let kinds =
        runs.iter().flat_map(|run| &run.peak_memory_bytes).flat_map(|device| device.by_kind_bytes.keys());
    let kinds = legend(kinds.map(String::as_str), |name| page.kinds.of(name));
    Ok(figure(&question, aid, &kinds, &picker(&charts, first(page, &runs))))
}

fn bar(page: &Page<'_>, device: &DevicePeak) -> Bar {
    let segment = |(kind, bytes): (&String, &u64)| Segment {
        value: *bytes as f64,
        fill: page.kinds.of(kind),
        label: quantity::bytes(*bytes),
        hover: format!(
            "{}: {kind} {}, at {}",
            device.device,
            quantity::bytes(*bytes),
            quantity::seconds(device.at_s)
        ),
    };
    let resident = match device.resident_micro_batches {
        Some(1) => ", 1 micro-batch".to_owned(),
        Some(count) => format!(", {count} micro-batches"),
        None => String::new(),
    };
    Bar {
        name: device.device.clone(),
        segments: device.by_kind_bytes.iter().map(segment).collect(),
        note: format!("{}{resident}", used(device)),
        limit: device.capacity_bytes.map(|capacity| capacity as f64),
        ..Bar::default()
    }
}

/// Who holds the memory of the runs that do not fit, up to where it was asked for more than there is.
fn holders(page: &Page<'_>) -> Result<Markup, PlotError> {
    let failed = page.focus.iter().filter_map(|run| Some((*run, run.failure.as_ref()?)));
    let failed: Vec<_> =
        failed.filter(|(_, failure)| !failure.holders_bytes.is_empty()).take(CHARTS_MAX).collect();
    if failed.is_empty() {
        return Ok(html! {});
    }
    let bars: Vec<_> = failed.iter().map(|(run, failure)| held(page, run, failure)).collect();
    let kinds =
        failed.iter().flat_map(|(_, failure)| failure.holders_bytes.keys().chain(&failure.requested_kind));
    let kinds = legend(kinds.map(String::as_str), |name| page.kinds.of(name));
    let question = format!("Who holds the memory of what does not fit{}?", page.place);
    let aid = "The first memory that was too small, at the moment it was: what it held by kind, and beyond the upright line of its capacity what was asked for.";
    Ok(figure(&question, aid, &kinds, &rows::draw(&question, &bars)?))
}

fn held(page: &Page<'_>, run: &RunSummary, failure: &Failure) -> Bar {
    let segment = |kind: &str, bytes: u64, what: &str| Segment {
        value: bytes as f64,
        fill: page.kinds.of(kind),
        label: quantity::bytes(bytes),
        hover: format!("{}: {kind}{what} {}", run.variant, quantity::bytes(bytes)),
    };
    let held = failure.holders_bytes.iter().map(|(kind, bytes)| segment(kind, *bytes, ""));
    let asked = failure.requested_kind.as_ref().zip(failure.requested_bytes);
    let asked = asked.map(|(kind, bytes)| segment(kind, bytes, ", asked for"));
    let short = failure.short_bytes.map(|bytes| format!(", {} short", quantity::bytes(bytes)));
    Bar {
        name: run.variant.clone(),
        segments: held.chain(asked).collect(),
        note: format!("{}{}", failure.store.as_deref().unwrap_or_default(), short.unwrap_or_default()),
        limit: failure.capacity_bytes.map(|capacity| capacity as f64),
        ..Bar::default()
    }
}

fn over_time(page: &Page<'_>) -> Result<Markup, PlotError> {
    let curves = page.focus.iter().flat_map(|run| run.memory_curves.iter().map(|curve| (*run, curve)));
    let curves: Vec<_> = curves.take(CHARTS_MAX).collect();
    if curves.is_empty() {
        return Ok(html! {});
    }
    let end = |(run, curve): &(&RunSummary, &MemoryCurve)| {
        let last = curve.points.last().map_or(0.0, |point| point.at_s);
        f64::max(last, run.step_time().unwrap_or_default())
    };
    let end_s = curves.iter().map(end).filter(|time| time.is_finite()).fold(0.0, f64::max);
    let mut charts = Vec::new();
    for (run, curve) in &curves {
        let label = format!("{}, {}", run.variant, curve.device);
        let name = format!("Memory over time of {label}");
        charts.push((label, memory_curve::draw(&name, curve, end_s, &page.kinds)?));
    }
    let kinds = curves.iter().flat_map(|(_, curve)| &curve.kinds).map(String::as_str);
    let kinds = legend(kinds, |name| page.kinds.of(name));
    let question = format!("When is the fullest device full{}?", page.place);
    let aid = "Bytes held since the start of the run, stacked by kind, all runs to the same time scale; the line is the capacity.";
    let runs: Vec<_> = curves.iter().map(|(run, _)| *run).collect();
    Ok(figure(&question, aid, &kinds, &picker(&charts, first(page, &runs))))
}

/// Speed against memory, or against what of it activations take where they are what is compared; over a sweep it stands with the
/// other charts of all points.
pub(super) fn trade_off(page: &Page<'_>) -> Result<Markup, PlotError> {
    let of_activations = page.comparison.is_of_activations();
    let bytes = |run: &RunSummary| {
        let all = run.worst_device()?.peak_bytes;
        if of_activations { run.peak_activation_bytes } else { Some(all) }
    };
    // Variants have curves where points differ in what is trained at a time. Without, the runs that
    // no other beats are joined, which do the same work: those of one case.
    let models: BTreeSet<String> = page.comparison.runs().map(|run| model(page, run)).collect();
    let curves = of_activations && models.len() < page.points().len();
    let one_case = page.case.as_ref().filter(|_| !curves);
    let dots: Vec<_> = page
        .summary
        .variants
        .iter()
        .filter(|run| is_of(run, one_case))
        .filter_map(|run| {
            Some(Dot {
                variant: run.variant.clone(),
                label: page.label(run),
                bytes: bytes(run)? as f64,
                along: of_activations.then(|| model(page, run)),
                speed: page.speed().value(run)?,
            })
        })
        .take(DOTS_MAX)
        .collect();
    if dots.len() < 3 {
        return Ok(html! {});
    }
    let speed = format!("{} per second", page.speed().thing());
    let (question, memory) = if of_activations {
        ("What does speed cost in memory for activations", "peak of activations and workspaces")
    } else {
        ("What does speed cost in memory", "peak memory of the fullest device")
    };
    let place = match one_case.map(|case| page.comparison.case_naming.point(case)) {
        Some(case) if !case.is_empty() => format!(" at {case}"),
        _ => String::new(),
    };
    let question = format!("{question}{place}?");
    let question = question.as_str();
    let aid = "Every run that fits, up is faster, left is smaller. A line joins the runs that no other beats in both, the others are \
               rings; or it joins those of a variant that differ in what is trained at a time.";
    let failed = failed_of(page, one_case);
    let runs: Vec<_> =
        page.variants.iter().filter(|(name, _)| dots.iter().any(|dot| dot.variant == *name)).collect();
    let plot = trade_off::draw(question, &dots, (memory, &speed), &page.variants)?;
    Ok(figure(question, aid, &runs, &html! { (plot) @if !failed.is_empty() { p.aid { (failed) } } }))
}

/// True for a run of a case, or of any where none is given.
fn is_of(run: &RunSummary, case: Option<&IndexMap<String, String>>) -> bool {
    case.is_none_or(|case| case.iter().all(|(path, value)| run.point.get(path) == Some(value)))
}

/// Runs that have no place in the chart, by variant, and why.
fn failed_of(page: &Page<'_>, case: Option<&IndexMap<String, String>>) -> String {
    let mut failed: IndexMap<(&str, String), u64> = IndexMap::new();
    for run in page.summary.variants.iter().filter(|run| is_of(run, case)) {
        if page.speed().value(run).is_none() {
            // By how much is told elsewhere.
            let why = verdict(run).split(':').next().unwrap_or_default().to_owned();
            *failed.entry((&run.variant, why)).or_default() += 1;
        }
    }
    let told = |((variant, why), runs): (&(&str, String), &u64)| match runs {
        1 => format!("{variant} ({why})"),
        more => format!("{variant} ({more} runs: {why})"),
    };
    let told: Vec<_> = failed.iter().take(FAILED_MAX).map(told).collect();
    match (told.is_empty(), failed.len() - told.len()) {
        (true, _) => String::new(),
        (false, 0) => format!("Without a place: {}.", told.join(", ")),
        (false, more) => format!("Without a place: {}, and {more} more variants.", told.join(", ")),
    }
}

/// The swept settings of a run but for those of `training`, in words.
fn model(page: &Page<'_>, run: &RunSummary) -> String {
    let naming = &page.comparison.naming;
    let others = naming.paths().filter(|(path, _)| !path.starts_with("training."));
    let value = |(path, name)| Some(format!("{name} {}", naming.value(path, run.point.get(path)?)));
    others.filter_map(value).collect::<Vec<_>>().join(", ")
}
