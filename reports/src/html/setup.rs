//! What was simulated: parameters, the machine, the resolved scenario, what was assumed.

use maud::{Markup, html};

use super::{Page, machine};
use crate::plots::PlotError;

pub(super) fn section(page: &Page<'_>) -> Result<Markup, PlotError> {
    let summary = page.summary;
    Ok(html! {
        section {
            (page.heading("What was simulated?"))
            @if !summary.parameters.is_empty() {
                dl.parameters {
                    @for (name, value) in &summary.parameters { div { dt { (name) } dd { (value) } } }
                }
            }
            (machine::drawing(page)?)
            @if !summary.assumptions.is_empty() {
                p { (assumed(page)) }
                details {
                    summary { "Values that the scenario does not give, and where they come from" }
                    div.wide {
                        table {
                            thead { tr { th { "field" } th { "value" } th { "origin" } } }
                            tbody {
                                @for assumption in &summary.assumptions {
                                    tr { td { code { (assumption.what) } } td { (assumption.value) } td { (assumption.origin) } }
                                }
                            }
                        }
                    }
                }
            }
            details {
                summary { "The whole scenario, after defaults and overrides" }
                pre { code { (summary.resolved_scenario) } }
            }
        }
    })
}

/// How many values were assumed, and how many of them guessed.
fn assumed(page: &Page<'_>) -> String {
    let all = page.summary.assumptions.len();
    let guessed = page
        .summary
        .assumptions
        .iter()
        .filter(|assumption| assumption.origin.starts_with("estimate"))
        .count();
    let guesses = match guessed {
        0 => "none of them a guess".to_owned(),
        1 => "one of them an estimate".to_owned(),
        more => format!("{more} of them estimates"),
    };
    match all {
        1 => format!("One value was assumed, {guesses}."),
        _ => format!("{all} values were assumed, {guesses}."),
    }
}
