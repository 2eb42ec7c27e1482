//! Does it fit: what fills memory, the fullest device over time, and what speed costs in memory.

use std::collections::BTreeSet;

use indexmap::IndexMap;
use maud::{Markup, html};
use plotters::style::{Color, RGBAColor};

use super::{Page, allocator, figure, first, legend, picker};
use crate::finding::{retrying, verdict, without_allocator};
use crate::plots::palette::GREY;
use crate::plots::rows::{self, Bar, Segment};
use crate::plots::trade_off::{self, Dot};
use crate::plots::{PlotError, memory_curve};
use crate::quantity;
use crate::summary::{DevicePeak, FRAGMENTS, Failure, MemoryCurve, MemoryPoint, RunSummary};
use crate::table::used;

/// Devices of one chart.
const DEVICES_MAX: usize = 32;
/// Runs of the chart of speed against memory.
const DOTS_MAX: usize = 2_000;
/// Variants without a place in that chart which are named.
const FAILED_MAX: usize = 6;
/// Charts of one picker.
const CHARTS_MAX: usize = 12;
/// Word for bytes of segments of an allocator beyond tensors.
const FRAGMENTS_SHOWN: &str = "fragments";
/// Word for bytes that are not the allocator's.
const OUTSIDE: &str = "outside the allocator";

pub(super) fn section(page: &Page<'_>) -> Result<Markup, PlotError> {
    let charts = html! {
        @let judged = [without_allocator(&page.comparison), retrying(&page.comparison)];
        @for sentence in judged.into_iter().flatten() { p { (sentence) "." } }
        (filled(page)?)
        (super::swap::plans(page))
        (super::kept::table(page))
        (over_time(page)?)
        @if page.points().len() == 1 { (trade_off(page)?) }
    };
    Ok(html! { @if !charts.0.is_empty() { section { (page.heading("Does it fit?")) (charts) } } })
}

/// The one chart of memory: of every run the device closest to its capacity, and of the run that is
/// picked every device.
fn filled(page: &Page<'_>) -> Result<Markup, PlotError> {
    let runs: Vec<&RunSummary> = page.focus.iter().copied().filter(|run| has_memory(run)).collect();
    if runs.is_empty() {
        return Ok(html! {});
    }
    let fullest: Vec<Fill<'_>> = runs.iter().filter_map(|run| Fill::fullest(run)).collect();
    let mut charts = vec![("every variant".to_owned(), draw(page, &fullest)?)];
    for run in runs.iter().take(CHARTS_MAX) {
        let every = run.peak_memory_bytes.len();
        let devices = run.peak_memory_bytes.iter().step_by(every.div_ceil(DEVICES_MAX).max(1));
        let fills: Vec<Fill<'_>> =
            devices.map(|device| Fill::of(run, device).called(device.device.clone())).collect();
        if every > 1 || !run.allocator.is_empty() {
            let table = (!run.allocator.is_empty()).then(|| allocator::table(run));
            charts.push((
                run.variant.clone(),
                html! { (draw(page, &fills)?) @if let Some(table) = table { (table) } },
            ));
        }
    }
    let question = format!("What fills the memory{}?", page.place);
    let aid = "The device closest to its capacity at its fullest moment: tensors by kind, fragments of the framework's allocator, what \
               is outside it. The upright line is the capacity; beyond it is what was asked for where it does not fit.";
    let all: Vec<String> = fullest.iter().flat_map(|fill| fill.kinds(page)).collect();
    let kinds = page.kinds.iter().filter(|(kind, _)| all.iter().any(|one| one == kind));
    let extra = [FRAGMENTS_SHOWN, OUTSIDE].into_iter().filter(|kind| all.iter().any(|one| one == kind));
    let kinds: Vec<_> = kinds.chain(extra.map(|kind| (kind, colour(page, kind)))).collect();
    Ok(figure(&question, aid, &kinds, &picker(&charts, 0)))
}

fn has_memory(run: &RunSummary) -> bool {
    let failed = run.failure.as_ref().is_some_and(|failure| !failure.holders_bytes.is_empty());
    failed || !run.peak_memory_bytes.is_empty()
}

fn draw(page: &Page<'_>, fills: &[Fill<'_>]) -> Result<Markup, PlotError> {
    let bars: Vec<Bar> = fills.iter().map(|fill| fill.bar(page)).collect();
    rows::draw(&format!("Memory by kind of {}", fills.first().map_or("", |fill| &fill.name)), &bars)
}

/// Bytes that a device held at its fullest moment, or when it had too little.
struct Fill<'a> {
    name: String,
    held: Vec<(&'a str, u64)>,
    /// Asked for in vain.
    asked: Option<(&'a str, u64)>,
    note: String,
    capacity: Option<u64>,
}

impl<'a> Fill<'a> {
    /// Device of a run that is closest to its capacity, or the one that ran out.
    fn fullest(run: &'a RunSummary) -> Option<Self> {
        let fill = match run.failure.as_ref().filter(|failure| !failure.holders_bytes.is_empty()) {
            Some(failure) => Self::failed(failure),
            None => Self::of(run, run.worst_device()?),
        };
        Some(fill.called(run.variant.clone()))
    }

    fn called(self, name: String) -> Self {
        Self { name, ..self }
    }

    /// Bytes of a device that the allocator takes where that is known, otherwise what tensors held.
    fn of(run: &'a RunSummary, device: &'a DevicePeak) -> Self {
        let resident = match device.resident_micro_batches {
            Some(1) => ", 1 micro-batch".to_owned(),
            Some(count) => format!(", {count} micro-batches"),
            None => String::new(),
        };
        let kinds = |by_kind: &'a IndexMap<String, u64>| {
            by_kind.iter().map(|(kind, bytes)| (kind.as_str(), *bytes)).collect::<Vec<_>>()
        };
        let plain = Self {
            name: String::new(),
            held: kinds(&device.by_kind_bytes),
            asked: None,
            note: format!("{}{resident}", used(device)),
            capacity: device.capacity_bytes,
        };
        let Some(stage) = run.allocator.iter().find(|stage| stage.device == device.device) else {
            return plain;
        };
        let mut held = kinds(&stage.by_kind_bytes);
        held.push((FRAGMENTS, stage.peak_reserved_bytes.saturating_sub(stage.peak_allocated_bytes)));
        held.push((OUTSIDE, stage.outside_bytes));
        let [needed, capacity] = [stage.needed_bytes(), stage.capacity_bytes].map(quantity::bytes);
        Self {
            held,
            note: format!("{needed} of {capacity}{resident}"),
            capacity: Some(stage.capacity_bytes),
            ..plain
        }
    }

    /// Holders of the memory that ran out.
    fn failed(failure: &'a Failure) -> Self {
        let short = failure.short_bytes.map(|bytes| format!(", {} short", quantity::bytes(bytes)));
        Self {
            name: String::new(),
            held: failure.holders_bytes.iter().map(|(kind, bytes)| (kind.as_str(), *bytes)).collect(),
            asked: failure.requested_kind.as_deref().zip(failure.requested_bytes),
            note: format!("{}{}", failure.store.as_deref().unwrap_or_default(), short.unwrap_or_default()),
            capacity: failure.capacity_bytes,
        }
    }

    /// Its kinds in the order of the page, that of every row.
    fn in_order(&self, page: &Page<'_>) -> Vec<(&'a str, u64)> {
        let mut held: Vec<_> = self.held.iter().copied().filter(|(_, bytes)| *bytes > 0).collect();
        let place = |kind: &str| match kind {
            FRAGMENTS => usize::MAX - 1,
            OUTSIDE => usize::MAX,
            kind => page.kinds.place(kind),
        };
        held.sort_by_key(|(kind, _)| place(kind));
        held
    }

    fn kinds(&self, page: &Page<'_>) -> Vec<String> {
        self.in_order(page).into_iter().chain(self.asked).map(|(kind, _)| shown(kind).to_owned()).collect()
    }

    fn bar(&self, page: &Page<'_>) -> Bar {
        let segment = |(kind, bytes): (&str, u64), what: &str| Segment {
            value: bytes as f64,
            fill: colour(page, shown(kind)),
            label: quantity::bytes(bytes),
            hover: format!("{}: {}{what} {}", self.name, shown(kind), quantity::bytes(bytes)),
        };
        let held = self.in_order(page).into_iter().map(|one| segment(one, ""));
        let asked = self.asked.map(|one| segment(one, ", asked for"));
        Bar {
            name: self.name.clone(),
            segments: held.chain(asked).collect(),
            note: self.note.clone(),
            limit: self.capacity.map(|capacity| capacity as f64),
            ..Bar::default()
        }
    }
}

/// Word for a kind of bytes.
fn shown(kind: &str) -> &str {
    if kind == FRAGMENTS { FRAGMENTS_SHOWN } else { kind }
}

fn colour(page: &Page<'_>, kind: &str) -> RGBAColor {
    match kind {
        FRAGMENTS_SHOWN => GREY.mix(0.7),
        OUTSIDE => GREY.mix(0.3),
        kind => page.kinds.of(kind),
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
        charts.push((label, memory_curve::draw(&name, &in_order(page, curve), end_s, &page.kinds)?));
    }
    let kinds = curves.iter().flat_map(|(_, curve)| &curve.kinds).map(String::as_str);
    let kinds = legend(kinds, |name| page.kinds.of(name));
    let question = format!("When is the fullest device full{}?", page.place);
    let aid = "Bytes held since the start of the run, stacked by kind, all runs to the same time scale; the line is the capacity.";
    let runs: Vec<_> = curves.iter().map(|(run, _)| *run).collect();
    Ok(figure(&question, aid, &kinds, &picker(&charts, first(page, &runs))))
}

/// A curve with its kinds in the order of the page.
fn in_order(page: &Page<'_>, curve: &MemoryCurve) -> MemoryCurve {
    let mut order: Vec<usize> = (0..curve.kinds.len()).collect();
    order.sort_by_key(|kind| page.kinds.place(&curve.kinds[*kind]));
    let point = |point: &MemoryPoint| MemoryPoint {
        at_s: point.at_s,
        bytes: order.iter().map(|kind| point.bytes.get(*kind).copied().unwrap_or_default()).collect(),
    };
    MemoryCurve {
        device: curve.device.clone(),
        capacity_bytes: curve.capacity_bytes,
        kinds: order.iter().map(|kind| curve.kinds[*kind].clone()).collect(),
        points: curve.points.iter().map(point).collect(),
    }
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
