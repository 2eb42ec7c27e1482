//! A training run of the steps that were simulated: days, failures, money.

use maud::{Markup, html};

use super::{Page, table_of};
use crate::campaign::{TITLES, cells, facts};
use crate::summary::Campaign;

/// The section; nothing where no run has a campaign.
pub(super) fn section(page: &Page<'_>) -> Markup {
    let question = format!("What does the whole run take{}?", page.place);
    let aid = "The expected time with checkpoints, random failures and restarts, and the share of it that makes progress. Every step takes as long as the simulated one. The last column is per million tokens, or samples where these have no tokens.";
    let table = table_of(page, |run| run.campaign.as_slice(), (&question, aid), &TITLES, row);
    let shown = page.shown.and_then(|run| Some((run, run.campaign.as_ref()?)));
    if page.focus.iter().all(|run| run.campaign.is_none()) {
        return html! {};
    }
    html! {
        section {
            (page.heading("What does training take?"))
            (table)
            @if let Some((run, campaign)) = shown {
                h3 { "What " (page.label(run)) " rests on" }
                dl {
                    @for (subject, text) in facts(campaign) {
                        dt { (subject) }
                        dd { (text) }
                    }
                }
            }
        }
    }
}

fn row(variant: &str, campaign: &Campaign) -> Markup {
    html! {
        tr {
            td { (variant) }
            @for cell in cells(campaign) { td.number data-sort=[cell.sort] { (cell.text) } }
        }
    }
}
