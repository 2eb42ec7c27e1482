//! `report.html`: one self-contained page that needs no network and can be read without scripts. Its order is fixed:
//! the answer; over a sweep, where it holds; what was simulated; the whole training run; how fast;
//! where the time goes; one step; memory; what was promised and published; how sure it is; the
//! constants it rests on.

mod alike;
mod allocator;
mod answer;
mod campaign;
mod constants;
mod drives;
mod evidence;
mod kept;
mod lanes;
mod machine;
mod matrix;
mod memory;
mod program;
mod replay;
mod searched;
mod setup;
mod swap;
mod sweep;
mod time;
mod timeline;
mod traffic;
mod waterfall;

use std::cell::RefCell;
use std::io::{self, Write};

use indexmap::{IndexMap, IndexSet};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use plotters::style::RGBAColor;

use crate::plots::PlotError;
use crate::plots::palette::{self, Categories};
use crate::ranking::{Comparison, Point, Speed};
use crate::summary::{FRAGMENTS, RunSummary, Summary};

/// Runs that a chart or a picker of one point shows; a stranger reads no more.
const RUNS_MAX: usize = 24;
/// Points that a reader can pick.
const POINTS_MAX: usize = 12;
/// Rows of a table that stand on the page; more can be scrolled.
const ROWS_AT_ONCE: usize = 20;

/// The style sheet of every page.
const STYLE: &str = include_str!("style.css");

/// Writes the report.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut impl Write, summary: &Summary) -> io::Result<()> {
    let page = render(&Page::new(summary)).map_err(io::Error::other)?;
    out.write_all(page.into_string().as_bytes())
}

/// What every section reads.
struct Page<'a> {
    summary: &'a Summary,
    comparison: Comparison<'a>,
    /// The run that is looked at closely: the best of its point.
    shown: Option<&'a RunSummary>,
    /// The runs beside it at its point; without any run that fits, those of the first point.
    focus: Vec<&'a RunSummary>,
    /// The case of that point: paths and values.
    case: Option<IndexMap<String, String>>,
    /// Where that is, as ` at micro-batch 4`; empty without sweep.
    place: String,
    /// Colours of variants.
    variants: Categories,
    /// Colours of kinds of memory.
    kinds: Categories,
    /// Titles of sections, as they are written.
    contents: RefCell<Vec<&'static str>>,
    /// True where it is shown before a reader picks another point.
    is_first: bool,
}

impl<'a> Page<'a> {
    fn new(summary: &'a Summary) -> Self {
        Self::at(summary, None)
    }

    /// The page for a point, of which the best run is looked at closely; without one that of the best of all.
    fn at(summary: &'a Summary, at: Option<usize>) -> Self {
        let comparison = Comparison::of(&summary.variants, &summary.axes, &summary.cases);
        let best = comparison.shown();
        let (point, shown_run) = match at.and_then(|at| comparison.points.get(at)) {
            Some(point) => (Some(point), comparison.leader_at(point)),
            None => {
                let (point, run) = best.unzip();
                (point.or(comparison.points.first()), run)
            }
        };
        let focus = point.map_or(Vec::new(), |point| point.runs.iter().take(RUNS_MAX).copied().collect());
        let case = point.and_then(|point| comparison.case_of(point)).map(|case| case.values.clone());
        let label = point.map(|point| comparison.label(point)).unwrap_or_default();
        let is_first = at.is_none();
        let place = if label.is_empty() { label } else { format!(" at {label}") };
        let runs = summary.variants.iter();
        let variants = Categories::variants(runs.clone().map(|run| run.variant.as_str()));
        let devices = runs
            .clone()
            .flat_map(|run| &run.peak_memory_bytes)
            .flat_map(|device| device.by_kind_bytes.keys());
        let tensors =
            runs.clone().flat_map(|run| &run.allocator).flat_map(|stage| stage.by_kind_bytes.keys());
        let curves = runs.clone().flat_map(|run| &run.memory_curves).flat_map(|curve| &curve.kinds);
        let failures = runs.filter_map(|run| run.failure.as_ref());
        let holders = failures
            .flat_map(|failure| failure.holders_bytes.keys().chain(&failure.requested_kind))
            .filter(|kind| *kind != FRAGMENTS);
        let kinds =
            Categories::bytes(devices.chain(tensors).chain(curves).chain(holders).map(String::as_str));
        let contents = RefCell::default();
        Page {
            summary,
            shown: shown_run,
            focus,
            case,
            place,
            variants,
            kinds,
            comparison,
            contents,
            is_first,
        }
    }

    /// The title of a section, which the contents bar then has; where several points have it, links go to
    /// that of the point that is shown.
    fn heading(&self, title: &'static str) -> Markup {
        self.contents.borrow_mut().push(title);
        let id = anchor(title);
        html! { h2 id=[self.is_first.then_some(&id)] data-anchor=(id) { (title) } }
    }

    fn points(&self) -> &[Point<'a>] {
        &self.comparison.points
    }

    fn speed(&self) -> Speed {
        self.comparison.speed
    }

    /// What a run is called among all others.
    fn label(&self, run: &RunSummary) -> String {
        self.comparison.naming.run(run)
    }
}

fn render(page: &Page<'_>) -> Result<Markup, PlotError> {
    let summary = page.summary;
    let mut sections = vec![answer::section(page)];
    if page.points().len() > 1 {
        sections.push(sweep::section(page)?);
    }
    sections.push(searched::section(page)?);
    sections.push(setup::section(page)?);
    sections.push(campaign::section(page));
    sections.push(points(page, of_point)?);
    sections.push(evidence::promises(page)?);
    sections.push(evidence::confidence(page)?);
    sections.push(constants::section(page));
    let body = html! {
        (contents(&page.contents.borrow()))
        main { @for section in sections { (section) } }
        script { (PreEscaped(include_str!("script.js"))) }
    };
    Ok(document(&summary.name, &summary.version, &body))
}

/// Charts drawn for one point: that of the best run, and with scripts any of the first points. One
/// choice holds for the whole page.
fn points(
    page: &Page<'_>,
    draw: impl Fn(&Page<'_>) -> Result<Markup, PlotError>,
) -> Result<Markup, PlotError> {
    let shown = page.focus.first().map(|run| &run.point);
    let is_other = |point: &Point<'_>| shown != Some(point.values);
    let others = (0..page.points().len()).filter(|at| is_other(&page.points()[*at])).take(POINTS_MAX - 1);
    let others: Vec<Page<'_>> = others.map(|at| Page::at(page.summary, Some(at))).collect();
    let mut all = vec![(page, draw(page)?)];
    for other in &others {
        all.push((other, draw(other)?));
    }
    if all.len() == 1 || all.iter().all(|(_, drawn)| drawn.0.is_empty()) {
        return Ok(all.swap_remove(0).1);
    }
    let more = page.points().len() - all.len();
    let more = (more > 0).then(|| format!("{more} more points are in the table and in results.csv."));
    Ok(html! {
        div.points data-more=[more] {
            @for (place, (page, drawn)) in all.iter().enumerate() {
                div.point data-name=(page.place.trim_start_matches(" at ")) hidden[place > 0] { (drawn) }
            }
        }
    })
}

/// Speed, causes, step and memory of a point.
fn of_point(page: &Page<'_>) -> Result<Markup, PlotError> {
    Ok(html! {
        (time::speed(page)?)
        (time::causes(page)?)
        (replay::section(page)?)
        (program::section(page)?)
        @if page.is_first { (time::one_step(page)?) }
        (memory::section(page)?)
    })
}

/// The bar that stays while the page is scrolled.
fn contents(titles: &[&str]) -> Markup {
    html! {
        nav.contents aria-label="Contents" {
            details open {
                summary { "Contents" }
                ol {
                    li { a href="#answer" { "Answer" } }
                    @for title in titles { li { a href={ "#" (anchor(title)) } { (title.trim_end_matches('?')) } } }
                }
            }
        }
    }
}

/// Name of a section in links.
fn anchor(title: &str) -> String {
    let words = title.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect::<Vec<_>>().join("-")
}

/// A page that needs nothing but itself.
pub(crate) fn document(title: &str, version: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="generator" content=(format!("foretrain {version}"));
                title { (title) " · foretrain" }
                style { (PreEscaped(STYLE)) }
            }
            body { (body) }
        }
    }
}

/// A chart with the question it answers and one sentence on how to read it.
pub(crate) fn figure(question: &str, aid: &str, legend: &[(&str, RGBAColor)], body: &Markup) -> Markup {
    html! {
        figure {
            figcaption {
                h3 { (question) }
                p.aid { (aid) }
            }
            @if !legend.is_empty() {
                ul.legend {
                    @for (name, colour) in legend {
                        li { span.swatch style=(format!("background:{}", palette::css(*colour))) {} (name) }
                    }
                }
            }
            (body)
        }
    }
}

/// A text whose words in backticks are code.
fn with_code(text: &str) -> Markup {
    let parts: Vec<&str> = text.split('`').collect();
    // Backticks come in pairs, so that every second part is code.
    let paired = parts.len() % 2 == 1;
    html! {
        @if !paired { (text) }
        @for (number, part) in parts.into_iter().enumerate().filter(|_| paired) {
            @if number % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

/// A table of what runs in focus have of something, each a row; nothing where they have none.
fn table_of<'a, T: 'a>(
    page: &Page<'a>,
    of: impl Fn(&'a RunSummary) -> &'a [T],
    (question, aid): (&str, &str),
    titles: &[&str],
    row: impl Fn(&str, &T) -> Markup,
) -> Markup {
    let of_run = |run: &&'a RunSummary| of(run).iter().map(|one| row(&run.variant, one)).collect::<Vec<_>>();
    let rows: Vec<_> = page.focus.iter().flat_map(of_run).collect();
    if rows.is_empty() {
        html! {}
    } else {
        figure(question, aid, &[], &sortable(titles, &rows))
    }
}

/// A table that can be sorted; titles of numbers begin with `>`.
pub(crate) fn sortable(titles: &[&str], rows: &[Markup]) -> Markup {
    html! {
        div.wide.tall[rows.len() > ROWS_AT_ONCE] {
            table.sortable {
                thead {
                    tr { @for title in titles { th.number[title.starts_with('>')] { (title.trim_start_matches('>')) } } }
                }
                tbody { @for row in rows { (row) } }
            }
        }
    }
}

/// The same chart of several runs: all of them one below the other, or with scripts one of them at a time.
fn picker(charts: &[(String, Markup)], first: usize) -> Markup {
    html! {
        div.picker data-first=(first) {
            @for (name, chart) in charts {
                div.choice data-name=(name) {
                    @if charts.len() > 1 { h4 { (name) } }
                    (chart)
                }
            }
        }
    }
}

/// The chart of a picker to begin with: that of the run which is looked at closely.
fn first(page: &Page<'_>, runs: &[&RunSummary]) -> usize {
    runs.iter().position(|run| page.shown.is_some_and(|shown| std::ptr::eq(shown, *run))).unwrap_or_default()
}

/// Names with colours, each once, in order.
fn legend<'a>(
    names: impl Iterator<Item = &'a str>,
    colour: impl Fn(&str) -> RGBAColor,
) -> Vec<(&'a str, RGBAColor)> {
    names.collect::<IndexSet<_>>().into_iter().map(|name| (name, colour(name))).collect()
}
