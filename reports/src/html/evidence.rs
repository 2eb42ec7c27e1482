//! What was promised, what others published, and how sure the numbers are.

use maud::{Markup, html};

use super::{Page, figure, points, sortable};
use crate::finding::{approximate, drive_states, notes, unsteady};
use crate::plots::PlotError;
use crate::plots::palette::Categories;
use crate::plots::parity::{self, Ratio};
use crate::plots::rows::{self, Bar, Segment};
use crate::plots::strip::{self, Strip};
use crate::published::{Grid, Published};
use crate::quantity;
use crate::summary::{Citation, Difference, RunSummary, Spread};
use crate::wording::unbroken;

/// Figures of the chart; all are in the table.
const RATIOS_MAX: usize = 40;

pub(super) fn promises(page: &Page<'_>) -> Result<Markup, PlotError> {
    let summary = page.summary;
    let expectations = html! {
        @if !summary.expectations.is_empty() {
            h3 #expectations { "What the scenario expects" }
            div.wide {
                table {
                    thead { tr { th { "kept" } th { "expectation" } th { "simulated" } th { "written in" } } }
                    tbody {
                        @for check in &summary.expectations {
                            tr {
                                td { @if check.passed { span.good { "✓ holds" } } @else { span.bad { "✗ missed" } } }
                                td { (check.text) }
                                td { (check.measured) }
                                td { @if let Some(location) = &check.location { code { (location) } } }
                            }
                        }
                    }
                }
            }
        }
    };
    let published = Published::of(&summary.published);
    let published = html! { @if !summary.published.is_empty() { (parity(&published)?) @for grid in &published.grids { (figures(grid)) } (citations(&published)) } };
    let any = !summary.expectations.is_empty() || !summary.published.is_empty();
    Ok(
        html! { @if any { section { (page.heading("Is it as expected and as published?")) (expectations) (published) } } },
    )
}

/// The figures that do not agree; those that do would be a column of dots on the line.
fn parity(published: &Published<'_>) -> Result<Markup, PlotError> {
    let ratio = |citation: &&Citation| {
        let ratio = citation.pair.map(|pair| pair.ours / pair.published)?;
        Some(Ratio { name: citation.label(), ratio }).filter(|_| ratio.is_finite())
    };
    let ratios: Vec<_> = published.apart.iter().filter_map(ratio).take(RATIOS_MAX).collect();
    let question = "How far are our figures from the published ones?";
    let sentence = published.findings().join("; ");
    if sentence.is_empty() {
        // Only ranges were published, which the table compares.
        return Ok(html! {});
    }
    if ratios.is_empty() {
        return Ok(html! { h3 { (question) } p { (sentence) "." } });
    }
    let aid = format!(
        "{sentence}. Those that differ, ours divided by theirs: on the line they would agree, to the right ours is larger, red is more than 5 % off."
    );
    Ok(figure(question, &aid, &[], &parity::draw(question, &ratios)?))
}

/// Figures of one metric, ours above theirs.
fn figures(grid: &Grid<'_>) -> Markup {
    let sources: Vec<_> = grid.sources.iter().copied().collect();
    html! {
        figure {
            figcaption {
                h3 { "The published " (grid.metric) " beside ours" }
                p.aid { "One line for both where they agree to every printed digit. Source: " (sources.join("; ")) "." }
            }
            div.wide {
                table.matrix.figures {
                    thead {
                        @for (name, values) in &grid.head {
                            tr { th colspan="2" { (name) } @for value in values { th.number { (unbroken(value)) } } }
                        }
                    }
                    tbody {
                        @for line in &grid.lines {
                            tr.first[!line.variant.is_empty()] {
                                th scope="row" { (unbroken(line.variant)) }
                                th scope="row" { (line.what) }
                                @for cell in &line.cells { td.number { (unbroken(cell)) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The figures in no grid, the farthest off first.
fn citations(published: &Published<'_>) -> Markup {
    let all = &published.others;
    if all.is_empty() {
        return html! {};
    }
    let has_points = all.iter().any(|citation| !citation.at.is_empty());
    let row = |citation: &&Citation| {
        html! {
            tr {
                td { (unbroken(&citation.text)) }
                @if has_points { td { (unbroken(&citation.at)) } }
                td.number data-sort=[citation.pair.map(|pair| pair.published)] { (citation.published) }
                td.number.told data-sort=[citation.pair.map(|pair| pair.ours)] { (citation.ours) }
                td.number data-sort=[citation.difference.map(Difference::size)] { (citation.verdict()) }
                td { (citation.source) }
            }
        }
    };
    let mut titles = vec!["figure", "at", ">published", ">ours", ">difference", "source"];
    titles.retain(|title| has_points || *title != "at");
    sortable(&titles, &all.iter().map(row).collect::<Vec<_>>())
}

pub(super) fn confidence(page: &Page<'_>) -> Result<Markup, PlotError> {
    let of_point = |page: &Page<'_>| Ok(html! { (provenance(page)?) (spread(page)?) });
    let parts = html! { (points(page, of_point)?)
        @for warning in [unsteady(&page.comparison), approximate(&page.comparison)].into_iter().flatten() {
            p { (warning) "." }
        }
        @for note in drive_states(&page.comparison).into_iter().chain(notes(&page.comparison)) { p { (note) "." } }
    };
    Ok(html! { @if !parts.0.is_empty() { section { (page.heading("How sure is it?")) (parts) } } })
}

fn provenance(page: &Page<'_>) -> Result<Markup, PlotError> {
    let runs: Vec<_> = page.focus.iter().filter(|run| !run.provenance.is_empty()).collect();
    if runs.is_empty() {
        return Ok(html! {});
    }
    let question = format!("What do the times rest on{}?", page.place);
    if let Some(origin) = only_origin(&runs) {
        return Ok(html! { h3 { (question) } p { "All of them: " (origin) "." } });
    }
    let colours = Categories::others(runs.iter().flat_map(|run| run.provenance.keys()).map(String::as_str));
    let bars: Vec<_> = runs
        .iter()
        .map(|run| {
            let shares = run.provenance.iter().filter(|(_, share)| share.is_finite());
            let segment = |(origin, share): (&String, &f64)| Segment {
                value: *share,
                fill: colours.of(origin),
                label: quantity::percent(*share),
                hover: format!("{}: {} {origin}", run.variant, quantity::percent(*share)),
            };
            Bar { name: run.variant.clone(), segments: shares.map(segment).collect(), ..Bar::default() }
        })
        .collect();
    let aid = "Share of the step whose duration was measured here, measured elsewhere, taken from a data sheet or paper, or estimated.";
    Ok(figure(&question, aid, &colours.iter().collect::<Vec<_>>(), &rows::draw(&question, &bars)?))
}

/// The origin of everything, if there is only one.
fn only_origin<'a>(runs: &[&&'a RunSummary]) -> Option<&'a str> {
    let mut origins = runs.iter().flat_map(|run| run.provenance.keys());
    let first = origins.next()?;
    origins.all(|origin| origin == first).then_some(first)
}

/// Step times with all seeds, as dots and as numbers.
fn spread(page: &Page<'_>) -> Result<Markup, PlotError> {
    let runs: Vec<_> = page.focus.iter().filter_map(|run| Some((run, run.step_time_spread?))).collect();
    if runs.is_empty() {
        return Ok(html! {});
    }
    let known = runs.iter().filter(|(run, _)| !run.seed_step_times_s.is_empty());
    let strips = known.map(|(run, _)| Strip {
        name: &run.variant,
        values: &run.seed_step_times_s,
        fill: page.variants.of(&run.variant),
    });
    let strips: Vec<Strip<'_>> = strips.collect();
    let question = format!("How much does chance move the step time{}?", page.place);
    let row = |(run, spread): &(&&RunSummary, Spread)| {
        html! {
            tr {
                td { (run.variant) }
                td.number { (spread.seeds) }
                td.number data-sort=(spread.min_s) { (quantity::seconds(spread.min_s)) }
                td.number data-sort=(spread.mean_s) { (quantity::seconds(spread.mean_s)) }
                td.number data-sort=(spread.max_s) { (quantity::seconds(spread.max_s)) }
                td.number { (quantity::percent((spread.max_s - spread.min_s) / spread.mean_s)) }
            }
        }
    };
    let titles = &["variant", ">seeds", ">shortest", ">mean", ">longest", ">range"];
    let table = sortable(titles, &runs.iter().map(row).collect::<Vec<_>>());
    let dots = match strips.is_empty() {
        true => html! {},
        false => strip::draw(&question, &strips, &quantity::seconds)?,
    };
    let aid = "A dot is the step time with one seed, the upright line the mean; the scale goes from the least to the most of all.";
    Ok(figure(&question, aid, &[], &html! { (dots) (table) }))
}
