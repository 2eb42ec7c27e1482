//! The proof of a search: every plan of the space by what became of it.

use maud::{Markup, html};

use super::{Page, figure, sortable, with_code};
use crate::plots::PlotError;
use crate::plots::front::{self as plot, Dot, Objective};
use crate::quantity;
use crate::searched::{beside, broken, extreme, front, objective, outcomes, setting, ties};
use crate::summary::{Extreme, RunSummary, SearchProof};

/// The section; nothing where all points were run.
pub(super) fn section(page: &Page<'_>) -> Result<Markup, PlotError> {
    let Some(proof) = &page.summary.search else { return Ok(html! {}) };
    let row = |what: &str, plans: u64| {
        html! {
            tr {
                td { (with_code(what)) }
                td.number data-sort=(plans) { (plans) }
                td.number { (quantity::percent(plans as f64 / proof.plans as f64)) }
            }
        }
    };
    let by_outcome: Vec<_> = outcomes(proof).iter().map(|(what, plans)| row(what, *plans)).collect();
    let by_rule: Vec<_> = broken(proof).map(|(rule, plans)| row(rule, plans)).collect();
    let aid = "Without any contention a plan takes at least the time of its own operators, with the fill and drain of its pipeline. Plans whose bound is no better than the best by more than the gap are not simulated.";
    let ties = ties(proof, &page.summary.variants);
    Ok(html! {
        @if let Some(asked) = &proof.extreme { (of_values(page, asked)) }
        (of_front(page, proof)?)
        (beside_best(page, proof))
        section {
            (page.heading("How is that proven?"))
            @if let Some(ties) = ties { p { (ties) } }
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
    })
}

/// Values of the quantity that was asked for, and its last one without each technique.
fn of_values(page: &Page<'_>, asked: &Extreme) -> Markup {
    let table = |titles: Vec<String>, rows: Vec<Vec<String>>| {
        let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
        let rows: Vec<Markup> = rows.iter().map(|cells| row_of(&titles, cells)).collect();
        sortable(&titles, &rows)
    };
    html! {
        section {
            (page.heading("Which value is the last that fits?"))
            (figure(
                "What was found of each value?",
                "A value is asked with one plan that fitted another, or with all plans, those first that hold least. The value behind \
                 the last one was asked with all; values in between, and those far beyond, were not all tried.",
                &[],
                &table(extreme::titles(asked), extreme::rows(asked)),
            ))
            @if !asked.without.is_empty() {
                (figure(
                    "What do techniques change?",
                    "Each row is found by the same search without one technique of the plan.",
                    &[],
                    &table(extreme::titles_without(asked), extreme::without(asked)),
                ))
            }
        }
    }
}

/// Plans that no other beats in all objectives; nothing where there is one objective.
fn of_front(page: &Page<'_>, proof: &SearchProof) -> Result<Markup, PlotError> {
    let runs = &page.summary.variants;
    let (Some(titles), [x, y, ..]) = (front::titles(proof), &proof.minimise[..]) else {
        return Ok(html! {});
    };
    let Some(first) = runs.first() else { return Ok(html! {}) };
    let dot = |run: &RunSummary| {
        let at = (objective::value(x, run)?, objective::value(y, run)?);
        Some(Dot { at, label: setting(&run.variant, &run.point) })
    };
    let dots: Vec<Dot> = runs.iter().filter_map(dot).collect();
    let text = |of: &str| {
        let of = of.to_owned();
        move |value: f64| objective::text(&of, value, first)
    };
    let [of_x, of_y] = [objective::title(x), objective::title(y)];
    let question = "Which plans does no other beat?";
    let aid = "A plan that is better in one objective is worse in another. Left and down are better.";
    let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    let rows: Vec<Markup> = front::rows(proof, runs).iter().map(|cells| row_of(&titles, cells)).collect();
    let x = Objective { title: &of_x, text: &text(x) };
    let y = Objective { title: &of_y, text: &text(y) };
    Ok(html! {
        section {
            (page.heading("What can be traded?"))
            @if dots.len() > 1 { (figure(question, aid, &[], &plot::draw(question, &dots, &x, &y)?)) }
            (sortable(&titles, &rows))
        }
    })
}

/// Other kinds of plans, and the best one on slower parts.
fn beside_best(page: &Page<'_>, proof: &SearchProof) -> Markup {
    let best = page.summary.variants.first();
    let rows = |titles: &[&str], rows: Vec<Vec<String>>| -> Vec<Markup> {
        rows.iter().map(|cells| row_of(titles, cells)).collect()
    };
    let kinds = best.map(|best| beside::alternatives(proof, best)).unwrap_or_default();
    let titles = beside::titles(proof);
    let titles = titles.each_ref().map(String::as_str);
    let kinds = rows(&titles, kinds);
    let changes = rows(&beside::CHANGES, beside::changes(proof));
    html! {
        @if !kinds.is_empty() || !changes.is_empty() {
            section {
                (page.heading("What else could be done?"))
                @if !kinds.is_empty() {
                    (figure(
                        "What is lost without each technique, and by rules of thumb?",
                        "Each kind has its own best plan, found by the same search.",
                        &[],
                        &sortable(&titles, &kinds),
                    ))
                    @for (name, source) in beside::sources(proof) { p.aid { (name) ": " (source) "." } }
                }
                @if !changes.is_empty() {
                    (figure(
                        "On which slower parts is another plan better?",
                        "The best plans, from the first on, were simulated on each of these machines.",
                        &[],
                        &sortable(&beside::CHANGES, &changes),
                    ))
                }
            }
        }
    }
}

/// A row below titles, of which those of numbers begin with `>`.
fn row_of(titles: &[&str], cells: &[String]) -> Markup {
    html! { tr { @for (title, cell) in titles.iter().zip(cells) { td.number[title.starts_with('>')] { (cell) } } } }
}
