//! What stays on GPUs of the activations that might leave.

use maud::{Markup, html};

use super::{Page, table_of};
use crate::quantity;
use crate::summary::KeptActivations;

/// What the ranks of all variants in focus keep.
pub(super) fn table(page: &Page<'_>) -> Markup {
    let question = format!("Which activations stay{}?", page.place);
    let aid = "Those from the first layer on, or half of one, that asks for more than the simulated step moved when all left: in the time until the backward pass has come back to it all before it is written, and itself written and read. Where all leave, the most that any asks for.";
    let titles = &["variant", "of", "what stays", ">bytes", ">of", ">asked for", ">simulated"];
    table_of(page, |run| &run.kept, (&question, aid), titles, row)
}

fn row(variant: &str, kept: &KeptActivations) -> Markup {
    let measured = kept.measured_bytes_per_s;
    html! {
        tr {
            td { (variant) }
            td { (kept.of) }
            td { (kept.stays()) }
            td.number data-sort=(kept.kept_bytes) { (quantity::bytes(kept.kept_bytes)) }
            td.number data-sort=(kept.candidate_bytes) { (quantity::bytes(kept.candidate_bytes)) }
            td.number data-sort=(kept.needed_bytes_per_s) { (quantity::bytes_per_s(kept.needed_bytes_per_s)) }
            td.number data-sort=[measured] { (measured.map_or_else(|| quantity::NONE.to_owned(), quantity::bytes_per_s)) }
        }
    }
}
