//! Every constant that the times rest on, with where it comes from: the last table of the page.

use indexmap::IndexMap;
use maud::{Markup, html};

use super::{Page, ROWS_AT_ONCE};
use crate::quantity;
use crate::summary::ConstantOrigin;

/// Rows of the table; all are in results.json.
const ROWS_MAX: usize = 1_000;

pub(super) fn section(page: &Page<'_>) -> Markup {
    let constants = &page.summary.constants;
    if constants.is_empty() {
        return html! {};
    }
    let units = constants.iter().any(|constant| !constant.unit.is_empty());
    html! {
        section {
            (page.heading("Which constants does it rest on?"))
            p { (counted(constants)) }
            @for file in &page.summary.calibrations {
                p { (file.in_words()) "; " (of_file(constants, &file.file)) "." }
            }
            div.wide.tall[constants.len() > ROWS_AT_ONCE] {
                table.sortable.filterable {
                    thead {
                        tr { th { "of" } th { "constant" } th.number { "value" } @if units { th { "unit" } } th { "origin" } th { "confidence" } th { "source" } }
                    }
                    tbody { @for constant in constants.iter().take(ROWS_MAX) { (row(constant, units)) } }
                }
            }
            @if constants.len() > ROWS_MAX {
                p.aid { "The first " (ROWS_MAX) " of " (constants.len()) " constants; all are in results.json." }
            }
        }
    }
}

fn row(constant: &ConstantOrigin, units: bool) -> Markup {
    let value = Some(constant.value).filter(|value| value.is_finite());
    html! {
        tr {
            td { (constant.of) }
            td { (constant.name) }
            td.number data-sort=[value] { (quantity::exact(constant.value)) }
            @if units { td { (constant.unit) } }
            td { (constant.origin) }
            td { @if constant.doubtful() { span.bad { "! " (constant.confidence) } } @else { (constant.confidence) } }
            td { (constant.source) }
        }
    }
}

/// `4 of the 12 constants below are from it`
fn of_file(constants: &[ConstantOrigin], file: &str) -> String {
    let from = constants.iter().filter(|constant| constant.source.starts_with(&format!("{file}: "))).count();
    format!("{from} of the {} constants below are from it", constants.len())
}

/// `12 constants: 7 measured elsewhere, 5 data sheet. Confidence is low for 2 of them.`
fn counted(constants: &[ConstantOrigin]) -> String {
    let mut origins: IndexMap<&str, usize> = IndexMap::new();
    for constant in constants {
        *origins.entry(&constant.origin).or_default() += 1;
    }
    origins.sort_by(|_, a, _, b| b.cmp(a));
    let origins: Vec<_> = origins.iter().map(|(origin, count)| format!("{count} {origin}")).collect();
    let doubtful = constants.iter().filter(|constant| constant.doubtful()).count();
    let doubt = match doubtful {
        0 => "None is of low confidence.".to_owned(),
        1 => "One, marked !, is of low confidence: measure it before anything hangs on it.".to_owned(),
        more => {
            format!("{more}, marked !, are of low confidence: measure them before anything hangs on them.")
        }
    };
    match constants.len() {
        1 => format!("One constant, {}. {doubt}", origins.join(", ").trim_start_matches("1 ")),
        all => format!("{all} constants: {}. {doubt}", origins.join(", ")),
    }
}
