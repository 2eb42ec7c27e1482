//! The page of an explanation: a tornado of what-ifs, then the critical path.

use std::io::{self, Write};

use maud::{Markup, html};

use super::stretch::stretches;
use super::{Explanation, WhatIf};
use crate::html::{document, figure, sortable};
use crate::plots::PlotError;
use crate::plots::tornado::{self, Bar};
use crate::quantity;

/// Rows of the table of the path: a stranger reads no more.
const ROWS_MAX: usize = 1_000;

/// Writes one self-contained page.
///
/// # Errors
/// Errors of `out`.
pub fn write(out: &mut impl Write, explanation: &Explanation) -> io::Result<()> {
    let page = render(explanation).map_err(io::Error::other)?;
    out.write_all(page.into_string().as_bytes())
}

fn render(explanation: &Explanation) -> Result<Markup, PlotError> {
    let Explanation { version, name, label, finding, .. } = explanation;
    let tornado = match explanation.step_time_s {
        Some(step) => what_ifs(explanation, step)?,
        None => html! {},
    };
    let body = html! {
        main {
            p.kicker { "foretrain " (version) " · " (label) }
            h1 { (name) }
            p.finding { (finding) }
            section { h2 { "What would help?" } (tornado) }
            section { h2 { "What decides?" } (path(explanation)) }
        }
    };
    Ok(document(name, version, &body))
}

fn what_ifs(explanation: &Explanation, step: f64) -> Result<Markup, PlotError> {
    let question = "How long does a step take with faster and slower parts?";
    let aid = "Each class of parts twice and half as fast, simulated again; the line is the step as it is.";
    let bar = |it: &WhatIf| Bar { name: it.part.clone(), faster: it.twice_s, slower: it.half_s };
    let bars: Vec<Bar> = explanation.what_if.iter().map(bar).collect();
    let legend = [("twice as fast", tornado::FASTER), ("half as fast", tornado::SLOWER)];
    Ok(figure(question, aid, &legend, &tornado::draw(question, step, &bars)?))
}

fn path(explanation: &Explanation) -> Markup {
    let stretches = stretches(&explanation.path);
    if stretches.is_empty() {
        return html! {};
    }
    let all: f64 = explanation.path.iter().map(|visit| visit.time_s).sum();
    let rows: Vec<Markup> = stretches
        .iter()
        .take(ROWS_MAX)
        .map(|stretch| {
            let (begin, time) = (stretch.begin_s(), stretch.time_s());
            html! {
                tr {
                    td.number data-sort=(begin) { (quantity::seconds(begin)) }
                    td.number data-sort=(time) { (quantity::seconds(time)) }
                    td.number data-sort=(time) { (quantity::percent(time / all)) }
                    td { (stretch.place()) }
                    td { (stretch.what()) }
                    td { (stretch.resources()) }
                    td { (stretch.causes()) }
                    td { (stretch.released_by().unwrap_or_default()) }
                }
            }
        })
        .collect();
    let titles = [">at", ">takes", ">share", "place", "work", "on", "cause", "released by"];
    let aid = "Work and waits that the step is as long as, in order; anything else could take longer.";
    figure("Which path is the step as long as?", aid, &[], &sortable(&titles, &rows))
}
