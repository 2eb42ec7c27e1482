//! The answer on a terminal: the finding, a table of the runs, where the step goes, what was promised and published.

use std::io::{self, Write};

use comfy_table::{CellAlignment, LineStyle, TableStyle};

use crate::quantity;
use crate::ranking::{Point, Speed, best};
use crate::state;
use crate::summary::{Difference, RunSummary, Summary};
use crate::table::Table;

/// Rows of the table of runs; what is beyond stays in the files.
const ROWS_MAX: usize = 30;
/// Runs without result that are explained at length.
const FAILURES_MAX: usize = 3;
/// Characters of the longest bar.
const BAR: f64 = 24.0;
/// Characters of the longest word in a table.
const WORD_MAX: usize = 48;

/// How to write for a terminal.
#[derive(Clone, Copy, Debug, Default)]
pub struct Style {
    /// Whether to colour with ANSI sequences. Colour is never the only carrier of a meaning.
    pub colour: bool,
}

/// Writes the summary for people.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut impl Write, summary: &Summary, style: Style) -> io::Result<()> {
    let speed = Speed::of(&summary.variants);
    let points = Point::all(&summary.variants);
    writeln!(out, "{}", style.bold(&clean(&summary.finding)))?;
    runs(out, summary, &points, speed)?;
    if let Some((_, run)) = best(&points, speed) {
        time(out, run, style)?;
    }
    failures(out, &summary.variants, style)?;
    expectations(out, summary, style)?;
    published(out, summary, style)
}

fn runs(out: &mut impl Write, summary: &Summary, points: &[Point<'_>], speed: Speed) -> io::Result<()> {
    let table = Table::of(points, &summary.axes, speed);
    let count = summary.variants.len();
    let shown: Vec<_> = table.rows(count > ROWS_MAX).take(ROWS_MAX).collect();
    if shown.is_empty() {
        return Ok(());
    }
    let titles = table.columns().into_iter().map(|column| (column.title, column.numeric)).collect();
    let rows = shown.iter().map(|row| row.cells.iter().map(|cell| cell.text.clone()).collect()).collect();
    writeln!(out, "\n{}", grid(titles, rows))?;
    if shown.len() < count {
        writeln!(out, "  the fastest variant of each point; all {count} runs are in results.csv")?;
    }
    Ok(())
}

fn time(out: &mut impl Write, run: &RunSummary, style: Style) -> io::Result<()> {
    let step: f64 = run.time_breakdown_s.values().sum();
    if step.is_nan() || step <= 0.0 {
        return Ok(());
    }
    let heading = format!("where the step of {} goes", run.label());
    writeln!(out, "\n{}", style.bold(&clean(&heading)))?;
    let width =
        run.time_breakdown_s.keys().map(|state| shorten(state).chars().count()).max().unwrap_or_default();
    for (state, time) in state::in_order(&run.time_breakdown_s).filter(|(_, time)| *time > 0.0) {
        let share = time / step;
        let (state, time) = (shorten(state), quantity::seconds(time));
        let share_text = quantity::percent(share);
        writeln!(out, "  {state:width$}  {time:>8}  {share_text:>7}  {}", bar(share))?;
    }
    Ok(())
}

/// Explains the first run without result of each variant.
fn failures(out: &mut impl Write, runs: &[RunSummary], style: Style) -> io::Result<()> {
    let failed: Vec<_> = runs.iter().filter_map(|run| Some((run, run.failure.as_ref()?))).collect();
    let mut explained: Vec<&str> = Vec::new();
    for (run, failure) in &failed {
        if explained.len() == FAILURES_MAX || explained.contains(&run.variant.as_str()) {
            continue;
        }
        explained.push(&run.variant);
        let heading = format!("{}: {}", run.label(), failure.message);
        writeln!(out, "\n{}", style.bold(&clean(&heading)))?;
        for (what, text) in failure.facts() {
            writeln!(out, "  {what:9}  {}", clean(&text))?;
        }
    }
    match failed.len() - explained.len() {
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
    writeln!(out, "\n{}", style.bold("published beside ours"))?;
    let titles =
        [("figure", false), ("published", true), ("ours", true), ("difference", true), ("source", false)];
    let rows = summary.published.iter().take(ROWS_MAX).map(|citation| {
        let difference = citation.difference.map_or(quantity::NONE.to_owned(), Difference::text);
        vec![
            citation.text.clone(),
            citation.published.clone(),
            citation.ours.clone(),
            difference,
            citation.source.clone(),
        ]
    });
    let titles = titles.iter().map(|(title, numeric)| ((*title).to_owned(), *numeric)).collect();
    writeln!(out, "{}", grid(titles, rows.collect()))?;
    if summary.published.len() > ROWS_MAX {
        writeln!(out, "  all {} figures are in results.json", summary.published.len())?;
    }
    Ok(())
}

/// Lines of a table with a rule below its titles; numbers to the right.
fn grid(titles: Vec<(String, bool)>, rows: Vec<Vec<String>>) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─')));
    table.set_header(titles.iter().map(|(title, _)| shorten(title)));
    for row in rows {
        table.add_row(row.iter().map(|text| shorten(text)));
    }
    for (column, _) in table.column_iter_mut().zip(titles).filter(|(_, (_, numeric))| *numeric) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.lines().map(|line| format!(" {}", line.trim_end())).collect::<Vec<_>>().join("\n")
}

/// A bar of at most [`BAR`] characters, to an eighth of a character.
fn bar(share: f64) -> String {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * BAR * 8.0).round() as usize;
    "█".repeat(eighths / 8) + PARTS[eighths % 8]
}

/// Without control characters, which could move the cursor or change colours.
fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Clean, and cut to [`WORD_MAX`] characters.
fn shorten(text: &str) -> String {
    let text = clean(text);
    match text.char_indices().nth(WORD_MAX) {
        Some(_) => text.chars().take(WORD_MAX - 1).chain(['…']).collect(),
        None => text,
    }
}

impl Style {
    fn bold(self, text: &str) -> String {
        self.wrap("1", text)
    }

    fn good(self, text: &str) -> String {
        self.wrap("32", text)
    }

    fn bad(self, text: &str) -> String {
        self.wrap("31", text)
    }

    fn wrap(self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}
