//! The answer on a terminal: the finding, a table of the runs, where the step goes, what was promised and published.
//!
//! [`brief::write`] has what fits on a screen, [`write()`] all of it.

pub mod brief;
mod campaign;
mod gains;
mod lanes;
mod program;
mod replay;
mod searched;
mod style;
mod swap;
mod time;
mod winners;

use std::io::{self, Write};

use comfy_table::{CellAlignment, LineStyle, TableStyle};

use crate::explained::{explained_of, facts};
use crate::finding::{
    approximate, conditions, drive_states, idle, notes, rests_on, retrying, unsteady, without_allocator,
};
use crate::matrix::{Down, Matrix};
use crate::published::{Grid, Line, Published};
use crate::quantity;
use crate::ranking::{Comparison, Point};
use crate::searched::ties;
use crate::summary::{
    AllocatorPeak, Citation, CommunicationUse, DriveUse, KeptActivations, Moment, RunSummary, Summary,
};
use crate::table::Table;
pub use style::{Style, ascii};

/// Rows of a table; what is beyond stays in the files.
const ROWS_MAX: usize = 30;
/// Characters a line of the grid of variants and points may have.
const WIDTH_MAX: usize = 100;
/// Columns of that grid: none is narrower than four characters.
const COLUMNS_MAX: usize = WIDTH_MAX / 4;
/// Stages whose memory is told.
const STAGES_MAX: usize = 4;
/// Runs without result that are explained at length.
const FAILURES_MAX: usize = 3;
/// Characters of the longest word in a table.
const WORD_MAX: usize = 72;

/// Writes the summary for people.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut impl Write, summary: &Summary, style: Style) -> io::Result<()> {
    let comparison = Comparison::of(&summary.variants, &summary.axes, &summary.cases);
    writeln!(out, "{}", style.bold(&clean(&summary.finding)))?;
    let conditions = conditions(summary, &comparison);
    if !conditions.is_empty() {
        writeln!(out, "{}", clean(&conditions))?;
    }
    let shown = comparison.shown();
    winners::map(out, &comparison, summary.winners.as_ref(), style)?;
    if comparison.points.len() > 1 && comparison.variants().len() > 1 {
        matrix(out, &comparison, summary.variants.len(), style)?;
        if let Some((point, _)) = shown {
            writeln!(out, "\n{}", style.bold(&clean(&format!("at {}", comparison.label(point)))))?;
            runs(out, &comparison, std::slice::from_ref(point))?;
        }
    } else {
        writeln!(out)?;
        runs(out, &comparison, &comparison.points)?;
    }
    searched::search(out, style, summary)?;
    for warning in warnings(summary, &comparison) {
        writeln!(out, "\n{}", clean(&warning))?;
    }
    if let Some((point, run)) = shown {
        let named = comparison.naming.run(run);
        let titles = &["variant", "of", "what stays", ">bytes", ">asks for", ">simulated"];
        section(out, style, "which activations stay, by profiled steps", titles, kept(&point.runs))?;
        replay::replays(out, &comparison, (&point.runs, run), style)?;
        program::programs(out, &comparison, (&point.runs, run), style)?;
        campaign::campaigns(out, style, &point.runs, (run, &named))?;
        let lines = time::lines(run, &comparison, usize::MAX, style);
        if !lines.is_empty() {
            writeln!(out, "\n{}", lines.join("\n"))?;
        }
        gains::table(out, style, &point.runs)?;
        let heading = format!("communication of a rank in a step of {named}");
        let titles = &["kind", ">times", ">bytes", ">exposed", ">of the step"];
        section(out, style, &heading, titles, communication(run))?;
        let titles = &["array", ">holds", ">of", ">read", ">written", ">lasts"];
        section(out, style, &format!("drives in a step of {named}"), titles, drives(run))?;
        swap::plans(out, style, (run, &named), &summary.variants)?;
        allocator(out, run, &comparison, style)?;
        if let Some(line) = rests_on(run) {
            writeln!(out, "\nthe step rests on: {}", clean(&line))?;
        }
        for file in &summary.calibrations {
            writeln!(out, "calibrated: {}", clean(&file.in_words()))?;
        }
    }
    failures(out, &summary.variants, &comparison, style)?;
    expectations(out, summary, style)?;
    published(out, summary, style)
}

/// Doubts about results, and notes that runs carry, as sentences.
fn warnings(summary: &Summary, comparison: &Comparison<'_>) -> Vec<String> {
    let warnings = [
        summary.search.as_ref().and_then(|proof| ties(proof, &summary.variants)),
        idle(comparison),
        unsteady(comparison),
        without_allocator(comparison),
        retrying(comparison),
        approximate(comparison),
    ];
    let notes = drive_states(comparison).into_iter().chain(notes(comparison));
    warnings.into_iter().flatten().chain(notes).collect()
}

/// Speed over variants and points.
fn matrix(out: &mut impl Write, comparison: &Comparison<'_>, runs: usize, style: Style) -> io::Result<()> {
    let shown = fitting(comparison);
    writeln!(out, "\n{}", style.bold(&comparison.speed.title()))?;
    writeln!(out, "{}", matrix_grid(&shown))?;
    let all = if shown.complete { "all" } else { "some are not shown," };
    writeln!(out, "  * nothing is faster at that point; {all} {runs} runs are in results.csv")
}

/// The points side by side if they fit on a line, otherwise one below the other, with as many variants as fit.
fn fitting<'a>(comparison: &Comparison<'a>) -> Matrix<'a> {
    let fits = |matrix: &Matrix<'_>| widest(&matrix_grid(matrix)) <= WIDTH_MAX;
    let side_by_side = Matrix::of(comparison, Down::Variants, ROWS_MAX, COLUMNS_MAX);
    if comparison.points.len() <= COLUMNS_MAX && fits(&side_by_side) {
        return side_by_side;
    }
    let below = |columns| Matrix::of(comparison, Down::Points, ROWS_MAX, columns);
    (1..=COLUMNS_MAX).rev().map(below).find(fits).unwrap_or(side_by_side)
}

/// The runs of some points, one a row.
fn runs(out: &mut impl Write, comparison: &Comparison<'_>, points: &[Point<'_>]) -> io::Result<()> {
    let table = Table::of(comparison, points);
    let count: usize = points.iter().map(|point| point.runs.len()).sum();
    let titles = table.columns().into_iter().map(|column| (column.title, column.numeric)).collect();
    let rows: Vec<Vec<_>> = table
        .rows()
        .take(ROWS_MAX)
        .map(|row| row.cells.into_iter().map(|cell| cell.text).collect())
        .collect();
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out, "{}", grid(titles, rows))?;
    if count > ROWS_MAX {
        writeln!(out, "  the first {ROWS_MAX} of {count} runs; all are in results.csv")?;
    }
    Ok(())
}

/// Communication of a run, per rank and step.
fn communication(run: &RunSummary) -> Vec<Vec<String>> {
    let row = |one: &CommunicationUse| {
        let share = quantity::percent(one.exposed_s / run.step_time().unwrap_or(f64::NAN));
        let (bytes, exposed) = (quantity::bytes(one.bytes), quantity::seconds(one.exposed_s));
        vec![one.kind.clone(), one.count.to_string(), bytes, exposed, share]
    };
    run.communication.iter().map(row).collect()
}

/// What is kept on drives and goes there, and how long they last.
fn drives(run: &RunSummary) -> Vec<Vec<String>> {
    let row = |array: &DriveUse| {
        let bytes = [array.peak_bytes, array.read_bytes, array.written_bytes].map(quantity::bytes);
        let [holds, read, written] = bytes;
        let capacity = array.capacity_bytes.map_or(quantity::NONE.to_owned(), quantity::bytes);
        vec![array.called(), holds, capacity, read, written, array.lasts()]
    };
    run.drives.iter().map(row).collect()
}

/// What stays of the activations that might leave, in all runs of a point.
fn kept(runs: &[&RunSummary]) -> Vec<Vec<String>> {
    let row = |variant: &String, kept: &KeptActivations| {
        let bytes = [kept.kept_bytes, kept.candidate_bytes].map(quantity::bytes).join(" of ");
        let measured =
            kept.measured_bytes_per_s.map_or_else(|| quantity::NONE.to_owned(), quantity::bytes_per_s);
        let needed = quantity::bytes_per_s(kept.needed_bytes_per_s);
        vec![variant.clone(), kept.of.clone(), kept.stays(), bytes, needed, measured]
    };
    runs.iter().flat_map(|run| run.kept.iter().map(|kept| row(&run.variant, kept))).collect()
}

/// A table below a heading; nothing without rows. Titles of numbers begin with `>`.
fn section(
    out: &mut impl Write,
    style: Style,
    heading: &str,
    titles: &[&str],
    mut rows: Vec<Vec<String>>,
) -> io::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    rows.truncate(ROWS_MAX);
    writeln!(out, "\n{}", style.bold(&clean(heading)))?;
    writeln!(out, "{}", grid(numeric(titles), rows))
}

/// Titles that say by a `>` before them that numbers are below.
pub(crate) fn numeric(titles: &[&str]) -> Vec<(String, bool)> {
    let title = |title: &&str| (title.trim_start_matches('>').to_owned(), title.starts_with('>'));
    titles.iter().map(title).collect()
}

/// What the framework's allocator takes for each stage, the fullest ones if they are many.
fn allocator(
    out: &mut impl Write,
    run: &RunSummary,
    comparison: &Comparison<'_>,
    style: Style,
) -> io::Result<()> {
    let heading = format!("what the allocator takes for {}", comparison.naming.run(run));
    let titles = &["stage", ">tensors", ">segments", ">and outside", ">of the GPU", "most tensors in"];
    let row = |stage: &&AllocatorPeak| {
        let bytes = [stage.peak_allocated_bytes, stage.peak_reserved_bytes, stage.needed_bytes()];
        let mut cells = vec![stage.device.clone()];
        cells.extend(bytes.map(quantity::bytes));
        cells.push(quantity::percent(stage.fullness()));
        cells.push(stage.allocated_in.as_ref().map(Moment::words).unwrap_or_default());
        cells
    };
    let mut stages: Vec<_> = run.allocator.iter().collect();
    stages.sort_by(|a, b| b.fullness().total_cmp(&a.fullness()));
    section(out, style, &heading, titles, stages.iter().take(STAGES_MAX).map(row).collect())?;
    match stages.len().saturating_sub(STAGES_MAX) {
        0 => Ok(()),
        more => writeln!(out, "  {more} more stages take less of their GPUs"),
    }
}

/// Explains the first run without result of each variant.
fn failures(
    out: &mut impl Write,
    runs: &[RunSummary],
    comparison: &Comparison<'_>,
    style: Style,
) -> io::Result<()> {
    let explained = explained_of(runs).take(FAILURES_MAX);
    let mut unexplained = runs.iter().filter(|run| run.failure.is_some()).count();
    for (run, failure) in explained.filter_map(|run| Some((run, run.failure.as_ref()?))) {
        unexplained -= 1;
        let heading = format!("{}: {}", comparison.naming.run(run), failure.message);
        writeln!(out, "\n{}", style.bold(&clean(&heading)))?;
        for (what, text) in facts(run, runs) {
            writeln!(out, "  {what:9}  {}", clean(&text))?;
        }
    }
    match unexplained {
        0 => Ok(()),
        1 => writeln!(out, "\none more run has no result; results.csv says why"),
        more => writeln!(out, "\n{more} more runs have no result; results.csv says why"),
    }
}

fn expectations(out: &mut impl Write, summary: &Summary, style: Style) -> io::Result<()> {
    if summary.expectations.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", style.bold("expectations"))?;
    for check in &summary.expectations {
        let mark = if check.passed { style.good("✓") } else { style.bad("✗") };
        let place = check.location.as_ref().filter(|_| !check.passed).map(|place| format!("  {place}"));
        let text = format!("{} ({}){}", check.text, check.measured, place.unwrap_or_default());
        writeln!(out, "  {mark} {}", clean(&text))?;
    }
    Ok(())
}

fn published(out: &mut impl Write, summary: &Summary, style: Style) -> io::Result<()> {
    if summary.published.is_empty() {
        return Ok(());
    }
    let published = Published::of(&summary.published);
    writeln!(out, "\n{}", style.bold("published beside ours"))?;
    for finding in published.findings() {
        writeln!(out, "  {finding}")?;
    }
    if published.apart.is_empty() {
        return Ok(());
    }
    for figures in published.grids.iter().filter(|figures| !figures.agrees()) {
        writeln!(out, "\n{}", figures_grid(figures))?;
    }
    let apart: Vec<_> = published.others.iter().filter(|citation| !citation.agrees()).collect();
    if !apart.is_empty() {
        let shown: Vec<_> = apart.iter().take(ROWS_MAX).collect();
        let place = shown.iter().any(|citation| !citation.at.is_empty());
        let mut titles = vec!["figure", "at", ">published", ">ours", ">difference"];
        titles.retain(|title| place || *title != "at");
        let row = |citation: &&&&Citation| {
            let at = place.then(|| citation.at.clone());
            let figures = [citation.published.clone(), citation.ours.clone(), citation.verdict()];
            [citation.text.clone()].into_iter().chain(at).chain(figures).collect()
        };
        writeln!(out, "\n{}", grid(numeric(&titles), shown.iter().map(row).collect()))?;
    }
    if apart.len() > ROWS_MAX {
        writeln!(out, "  {} more differ less", apart.len() - ROWS_MAX)?;
    }
    writeln!(out, "  all figures and their sources are in the report and in results.json")
}

/// A matrix as text; what nothing is faster than bears a star.
fn matrix_grid(matrix: &Matrix<'_>) -> String {
    let names = matrix.rows.first().map_or(0, |row| row.names.len());
    let columns = matrix.head.first().map_or(0, Vec::len);
    let title = |column: usize| {
        let lines: Vec<_> = matrix.head.iter().map(|line| line[column].as_str()).collect();
        (lines.join("\n"), column >= names)
    };
    let rows = matrix.rows.iter().map(|row| {
        let cells =
            row.cells.iter().map(|cell| format!("{}{}", if cell.leads() { "*" } else { "" }, cell.text));
        row.names.iter().cloned().chain(cells).collect()
    });
    grid((0..columns).map(title).collect(), rows.collect())
}

/// Published figures as text, with as many points as fit.
fn figures_grid(figures: &Grid<'_>) -> String {
    let points = figures.lines.first().map_or(0, |line| line.cells.len());
    let names: Vec<_> = figures.head.iter().map(|(name, _)| name.as_str()).collect();
    let title = |point: usize| {
        let values: Vec<_> = figures.head.iter().map(|(_, values)| &*values[point]).collect();
        (values.join("\n"), true)
    };
    let with = |points: usize| {
        let lines = figures.lines.iter().take(ROWS_MAX);
        let row = |line: &Line<'_>| {
            let names = [line.variant.to_owned(), line.what.to_owned()];
            names.into_iter().chain(line.cells.iter().take(points).cloned()).collect()
        };
        let of = [(figures.metric.to_owned(), false), (names.join("\n"), false)];
        grid(of.into_iter().chain((0..points).map(title)).collect(), lines.map(row).collect())
    };
    let fits = |text: &String| widest(text) <= WIDTH_MAX;
    (2..=points.min(COLUMNS_MAX)).rev().map(with).find(fits).unwrap_or_else(|| with(points.min(1)))
}

fn widest(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or_default()
}

/// Lines of a table with a rule below its titles, which may have several lines; numbers to the right.
pub(crate) fn grid(titles: Vec<(String, bool)>, rows: Vec<Vec<String>>) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─')));
    let lines = |title: &str| title.lines().map(shorten).collect::<Vec<_>>().join("\n");
    table.set_header(titles.iter().map(|(title, _)| lines(title)));
    for row in rows {
        table.add_row(row.iter().map(|text| shorten(text)));
    }
    for (column, _) in table.column_iter_mut().zip(titles).filter(|(_, (_, numeric))| *numeric) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.lines().map(|line| format!(" {}", line.trim_end())).collect::<Vec<_>>().join("\n")
}

/// Without control characters, which could move the cursor or change colours.
pub(crate) fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Clean, and cut to [`WORD_MAX`] characters.
fn shorten(text: &str) -> String {
    cut(&clean(text), WORD_MAX)
}

/// The first characters of a text that has more than `most`.
pub(crate) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some(_) => text.chars().take(most - 1).chain(['…']).collect(),
        None => text.to_owned(),
    }
}
