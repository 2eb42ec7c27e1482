//! The proof of a search: every plan of the space by what became of it.

use maud::{Markup, html};

use super::{Page, figure, sortable};
use crate::quantity;
use crate::searched::{broken, outcomes, ties};

/// The section; nothing where all points were run.
pub(super) fn section(page: &Page<'_>) -> Markup {
    let Some(proof) = &page.summary.search else { return html! {} };
    let row = |what: &str, plans: u64| {
        html! {
            tr {
                td { (what) }
                td.number data-sort=(plans) { (plans) }
                td.number { (quantity::percent(plans as f64 / proof.plans as f64)) }
            }
        }
    };
    let by_outcome: Vec<_> = outcomes(proof).iter().map(|(what, plans)| row(what, *plans)).collect();
    let by_rule: Vec<_> = broken(proof).map(|(rule, plans)| row(rule, plans)).collect();
    let aid = "Without any contention a plan takes at least the time of its own operators, with the fill and drain of its pipeline. Plans whose bound is no better than the best by more than the gap are not simulated.";
    html! {
        section {
            h2 { "How is that proven?" }
            @if let Some(ties) = ties(&page.summary.variants) { p { (ties) } }
            (figure("What became of each plan?", aid, &[], &sortable(&["outcome", ">plans", ">share"], &by_outcome)))
            @if !by_rule.is_empty() {
                (figure(
                    "Which rules and limits do plans break?",
                    "A plan that breaks several counts for each.",
                    &[],
                    &sortable(&["rule or limit", ">plans", ">share"], &by_rule),
                ))
            }
        }
    }
}
