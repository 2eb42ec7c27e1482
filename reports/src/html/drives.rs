//! What is kept on drives, what goes there in a step, and how long they last.

use maud::{Markup, html};

use super::{Page, table_of};
use crate::quantity;
use crate::summary::DriveUse;

/// The arrays of all variants in focus.
pub(super) fn arrays(page: &Page<'_>) -> Markup {
    let question = format!("What goes to drives{}?", page.place);
    let aid = "What each array of drives holds at most, what all that use it read and write in a step, and how long its drives last at that, by their rating.";
    let titles = &["variant", "array", ">holds", ">of", ">read a step", ">written a step", ">lasts"];
    table_of(page, |run| &run.drives, (&question, aid), titles, row)
}

fn row(variant: &str, array: &DriveUse) -> Markup {
    html! {
        tr {
            td { (variant) }
            td { (array.called()) }
            td.number data-sort=(array.peak_bytes) { (quantity::bytes(array.peak_bytes)) }
            td.number data-sort=[array.capacity_bytes] { (array.capacity_bytes.map_or(quantity::NONE.to_owned(), quantity::bytes)) }
            td.number data-sort=(array.read_bytes) { (quantity::bytes(array.read_bytes)) }
            td.number data-sort=(array.written_bytes) { (quantity::bytes(array.written_bytes)) }
            td.number data-sort=[array.lifetime_years] { (array.lasts()) }
        }
    }
}
