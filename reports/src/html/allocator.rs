//! What the caching allocator of the framework takes of each GPU.

use maud::{Markup, html};

use super::sortable;
use crate::quantity;
use crate::summary::{AllocatorPeak, Moment, RunSummary};

/// Peaks of every stage, with the operators at them.
pub(super) fn table(run: &RunSummary) -> Markup {
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
