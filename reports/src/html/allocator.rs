//! What the caching allocator of the framework takes of each GPU.

use maud::{Markup, html};
use plotters::style::Color;

use super::{Page, figure, first, legend, picker, sortable};
use crate::plots::PlotError;
use crate::plots::palette::GREY;
use crate::plots::rows::{self, Bar, Segment};
use crate::quantity;
use crate::summary::{AllocatorPeak, Moment, RunSummary};

/// Stages of one chart.
const STAGES_MAX: usize = 32;
/// Charts of one picker.
const CHARTS_MAX: usize = 12;
/// What segments have beyond tensors.
const FRAGMENTS: &str = "fragments";
/// What is not the allocator's.
const OUTSIDE: &str = "outside the allocator";

/// Peaks of every stage, with the operators at them.
pub(super) fn peaks(page: &Page<'_>) -> Result<Markup, PlotError> {
    let runs: Vec<&RunSummary> =
        page.focus.iter().copied().filter(|run| !run.allocator.is_empty()).take(CHARTS_MAX).collect();
    if runs.is_empty() {
        return Ok(html! {});
    }
    let mut charts = Vec::new();
    for run in &runs {
        let stages = run.allocator.iter().step_by(run.allocator.len().div_ceil(STAGES_MAX));
        let bars: Vec<_> = stages.map(|stage| bar(page, stage)).collect();
        let plot = rows::draw(&format!("What the allocator takes for {}", run.variant), &bars)?;
        charts.push((run.variant.clone(), html! { (plot) (table(run)) }));
    }
    let question = format!("What does the framework take of each GPU{}?", page.place);
    let aid = "Tensors by kind when they have most, then what the caching allocator holds beyond them at its own peak, driver and communicators; the upright line is the GPU.";
    let kinds = runs.iter().flat_map(|run| &run.allocator).flat_map(|stage| stage.by_kind_bytes.keys());
    let mut kinds = legend(kinds.map(String::as_str), |name| page.kinds.of(name));
    kinds.extend([(FRAGMENTS, GREY.mix(0.7)), (OUTSIDE, GREY.mix(0.3))]);
    Ok(figure(&question, aid, &kinds, &picker(&charts, first(page, &runs))))
}

fn bar(page: &Page<'_>, stage: &AllocatorPeak) -> Bar {
    let segment = |kind: &str, bytes: u64, fill| Segment {
        value: bytes as f64,
        fill,
        label: quantity::bytes(bytes),
        hover: format!("{}: {kind} {}", stage.device, quantity::bytes(bytes)),
    };
    let tensors = stage.by_kind_bytes.iter().map(|(kind, bytes)| segment(kind, *bytes, page.kinds.of(kind)));
    let fragments = stage.peak_reserved_bytes.saturating_sub(stage.peak_allocated_bytes);
    let rest = [(FRAGMENTS, fragments, GREY.mix(0.7)), (OUTSIDE, stage.outside_bytes, GREY.mix(0.3))];
    let rest = rest.into_iter().map(|(kind, bytes, fill)| segment(kind, bytes, fill));
    Bar {
        name: stage.device.clone(),
        segments: tensors.chain(rest).collect(),
        note: format!(
            "{} of {}",
            quantity::bytes(stage.needed_bytes()),
            quantity::bytes(stage.capacity_bytes)
        ),
        limit: Some(stage.capacity_bytes as f64),
        ..Bar::default()
    }
}

fn table(run: &RunSummary) -> Markup {
    let titles = &[
        "stage",
        ">tensors",
        ">segments",
        ">fragments",
        ">of the GPU",
        ">retries",
        "most tensors in",
        "most segments in",
    ];
    sortable(titles, &run.allocator.iter().map(row).collect::<Vec<_>>())
}

fn row(stage: &AllocatorPeak) -> Markup {
    let words = |moment: &Option<Moment>| moment.as_ref().map(Moment::words).unwrap_or_default();
    html! {
        tr {
            td { (stage.device) }
            td.number data-sort=(stage.peak_allocated_bytes) { (quantity::bytes(stage.peak_allocated_bytes)) }
            td.number data-sort=(stage.peak_reserved_bytes) { (quantity::bytes(stage.peak_reserved_bytes)) }
            td.number data-sort=(stage.fragmentation) { (quantity::percent(stage.fragmentation)) }
            td.number data-sort=(stage.fullness()) { (quantity::percent(stage.fullness())) }
            td.number data-sort=(stage.retries) { (stage.retries) }
            td { (words(&stage.allocated_in)) }
            td { (words(&stage.reserved_in)) }
        }
    }
}
