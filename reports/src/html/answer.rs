//! The answer: one sentence, the numbers of one run, every run in a table, how to get the same
//! again.

use maud::{Markup, html};

use super::{Page, ROWS_AT_ONCE};
use crate::explained::{explained_of, facts};
use crate::summary::{PowerUse, RunSummary, Summary};
use crate::table::{Table, used};
use crate::wording::unbroken;
use crate::{finding, quantity};

/// Rows of the table of runs.
const ROWS_MAX: usize = 500;

pub(super) fn section(page: &Page<'_>) -> Markup {
    let summary = page.summary;
    html! {
        header {
            p.kicker { "foretrain report" }
            h1 { (summary.name) }
            p.finding { (unbroken(&summary.finding)) }
            @let conditions = finding::conditions(summary, &page.comparison);
            @if !conditions.is_empty() { p.conditions { (unbroken(&conditions)) } }
            @if let Some(description) = &summary.description { p { (description) } }
        }
        section {
            @if let Some(run) = page.shown { (headline(page, run)) }
            (promises(page))
            (rests_on(page))
            @if page.points().len() == 1 { (runs(page)) (failures(page)) }
            p.fine {
                (again(summary)) code { (summary.reproduce) } ". Seed " (summary.seed) ", scenario "
                code { (summary.scenario_digest) } ", foretrain " (summary.version) "."
            }
        }
    }
}

/// Introduces the command that gives the results again: a search that its budget ended may get
/// farther on another machine.
fn again(summary: &Summary) -> &'static str {
    match summary.search.as_ref().is_some_and(|proof| proof.left > 0) {
        true => "Again, as far as the budget of the search reaches: ",
        false => "Again, to the same bytes: ",
    }
}

fn headline(page: &Page<'_>, run: &RunSummary) -> Markup {
    let role =
        if page.comparison.cases.len() > 1 { "One of several cases, the best there:" } else { "Best:" };
    let mut numbers = Vec::new();
    numbers.push(("step time", run.step_time().map(quantity::seconds)));
    numbers.push(("tokens", run.tokens_per_s.map(|rate| quantity::rate(rate, "tokens"))));
    numbers.push(("samples", run.samples_per_s.map(|rate| quantity::rate(rate, "samples"))));
    numbers.push(("model FLOPs utilisation", run.mfu.map(quantity::percent)));
    numbers.push(("pipeline bubble", run.bubble_fraction.map(quantity::percent)));
    numbers.push(("power and energy", run.power.as_ref().map(PowerUse::in_words)));
    numbers.push(("peak memory", run.worst_device().map(used)));
    html! {
        @if page.summary.variants.len() > 1 { p.aid { (role) " " strong { (page.label(run)) } } }
        dl.headline {
            @for (name, value) in numbers {
                @if let Some(value) = value { div { dt { (name) } dd { (value) } } }
            }
        }
    }
}

/// How many promises of the file hold; the list of them comes later.
fn promises(page: &Page<'_>) -> Markup {
    let all = page.summary.expectations.len();
    let held = page.summary.expectations.iter().filter(|check| check.passed).count();
    html! {
        @if all > 0 {
            p {
                @if held == all { span.good { "✓" } } @else { span.bad { "✗" } }
                " " (held) " of " (all) " expectations hold (" a href="#expectations" { "which" } ")."
            }
        }
    }
}

/// Evidence of that run's step, if there are several kinds.
fn rests_on(page: &Page<'_>) -> Markup {
    html! {
        @if let Some((run, line)) = page.shown.and_then(|run| Some((run, finding::rests_on(run)?))) {
            p { "The step of " (page.label(run)) " rests on: " (unbroken(&line)) "." }
        }
    }
}

/// Every run, sortable by each column.
pub(super) fn runs(page: &Page<'_>) -> Markup {
    let table = Table::of(&page.comparison, page.points());
    let (columns, count) = (table.columns(), page.summary.variants.len());
    html! {
        div.wide.tall[count > ROWS_AT_ONCE] {
            table.sortable.runs {
                thead { tr { @for column in &columns { th.number[column.numeric] { (column.title) } } } }
                tbody {
                    @for row in table.rows().take(ROWS_MAX) {
                        tr.failed[row.run.step_time().is_none()].leads[row.leads] {
                            @for (cell, column) in row.cells.iter().zip(&columns) {
                                td.number[column.numeric] data-sort=[cell.number] { (unbroken(&cell.text)) }
                            }
                        }
                    }
                }
            }
        }
        @if count > ROWS_MAX {
            p.aid { "The first " (ROWS_MAX) " of " (count) " runs; all are in results.csv." }
        }
    }
}

/// Explains the first failed run of each variant.
pub(super) fn failures(page: &Page<'_>) -> Markup {
    let runs = &page.summary.variants;
    html! {
        @for run in explained_of(runs) {
            @if let Some(failure) = &run.failure {
                div.failure {
                    h3 { (page.label(run)) ": " (failure.message) }
                    dl { @for (what, text) in facts(run, runs) { dt { (what) } dd { (text) } } }
                }
            }
        }
    }
}
