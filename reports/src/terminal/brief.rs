//! The answer on one screen: verdict, the best runs, where the time of the best goes, what to do.

mod rows;

use std::io::{self, Write};

use super::{Style, clean, gains, time, warnings};
use crate::explained::explained_of;
use crate::finding::{conditions, rests_on, without_result};
use crate::published::Published;
use crate::quantity;
use crate::ranking::Comparison;
use crate::searched::outcomes;
use crate::summary::{RunSummary, Summary};
use rows::{ROWS_MAX, Rows};

/// Lines of the screen, with that of the report.
pub const LINES_MAX: usize = 25;
/// Fewest rows of the table for which other parts make room.
const ROWS_MIN: usize = 5;
/// States of the step, most of it first.
const STATES_MAX: usize = 4;
/// Variants that do not fit and for which a remedy is told.
const REMEDIES_MAX: usize = 2;
/// Expectations that failed and are told.
const FAILED_MAX: usize = 3;
/// Lines of one note.
const NOTE_LINES_MAX: usize = 2;

/// Writes what fits on one screen; [`super::write`] has the rest.
///
/// # Errors
/// Errors of `out`.
pub fn write(out: &mut impl Write, summary: &Summary, style: Style) -> io::Result<()> {
    let comparison = Comparison::of(&summary.variants, &summary.axes, &summary.cases);
    let best = comparison.shown().map(|(_, run)| run);
    let rows = Rows::of(summary, &comparison);
    let mut lines: Vec<String> = style.wrapped(&summary.finding, "");
    lines.iter_mut().for_each(|line| *line = style.bold(line));
    lines.extend(style.wrapped(&conditions(summary, &comparison), ""));
    // One line is of the report, one is empty before the table.
    let room = (LINES_MAX - 2).saturating_sub(lines.len());
    let least = rows.table(ROWS_MIN, style);
    let last = closing(summary, (&comparison, best), room.saturating_sub(least.len()), style);
    let left = |time: &[String]| room.saturating_sub(last.len() + time.len());
    let mut times = (1..=STATES_MAX).rev().map(|states| time_of(best, &comparison, states, style));
    let time = times.find(|time| left(time) >= least.len()).unwrap_or_default();
    let mut tables = (ROWS_MIN + 1..=ROWS_MAX).rev().map(|most| rows.table(most, style));
    lines.push(String::new());
    lines.extend(tables.find(|table| table.len() <= left(&time)).unwrap_or(least));
    lines.extend(time);
    lines.extend(last);
    lines.iter().try_for_each(|line| writeln!(out, "{line}"))
}

/// States of the best run's step, below an empty line.
fn time_of(
    best: Option<&RunSummary>,
    comparison: &Comparison<'_>,
    states: usize,
    style: Style,
) -> Vec<String> {
    let lines = best.map(|run| time::lines(run, comparison, states, style)).unwrap_or_default();
    if lines.is_empty() { lines } else { [vec![String::new()], lines].concat() }
}

/// Promises, counts, remedies, evidence, published figures and notes, the weightiest first, of which
/// those that fit into a number of lines.
fn closing(
    summary: &Summary,
    (comparison, best): (&Comparison<'_>, Option<&RunSummary>),
    room: usize,
    style: Style,
) -> Vec<String> {
    let counted = match &summary.search {
        Some(proof) => {
            let outcomes = outcomes(proof).into_iter().map(|(what, plans)| format!("{plans} {what}"));
            Some(format!("plans: {}", outcomes.collect::<Vec<_>>().join(", ")))
        }
        None => without_result(comparison),
    };
    let paragraphs = counted
        .into_iter()
        .chain(best.and_then(|run| gains::gain(run, comparison)))
        .chain(remedies(&summary.variants, comparison))
        .chain(best.and_then(evidence))
        .chain(summary.calibrations.iter().map(|file| format!("calibrated: {}", file.in_words())))
        .chain(published(summary))
        .map(|text| style.wrapped(&text, "  "));
    let paragraphs = [promises(summary, style)].into_iter().chain(paragraphs);
    let mut lines = vec![String::new()];
    for paragraph in paragraphs.chain([noted(&warnings(summary, comparison), style)]) {
        if lines.len() + paragraph.len() <= room {
            lines.extend(paragraph);
        }
    }
    if lines.len() == 1 { Vec::new() } else { lines }
}

/// The first note, and how many more there are.
fn noted(notes: &[String], style: Style) -> Vec<String> {
    let Some((first, others)) = notes.split_first() else { return Vec::new() };
    let mut lines = style.wrapped(&format!("note: {first}"), "  ");
    if lines.len() > NOTE_LINES_MAX {
        lines.truncate(NOTE_LINES_MAX);
        lines.iter_mut().last().into_iter().for_each(|line| line.push('…'));
    }
    lines.extend(match others.len() {
        0 => None,
        1 => Some("  one more note: `--all`".to_owned()),
        more => Some(format!("  {more} more notes: `--all`")),
    });
    lines
}

/// `evidence: 99.8 % measured elsewhere, 0.184 % estimate; 90 % of steps within 25 to 37 s`.
fn evidence(run: &RunSummary) -> Option<String> {
    let rests = rests_on(run).or_else(|| Some(run.provenance.keys().next()?.clone()));
    let interval = run.step_time_interval_s.map(|ends| {
        let [least, most] = ends.map(quantity::seconds);
        format!("90 % of steps within {least} to {most}")
    });
    let parts: Vec<String> = rests.into_iter().chain(interval).collect();
    (!parts.is_empty()).then(|| format!("evidence: {}", parts.join("; ")))
}

/// Remedies of variants that run nowhere, the first of each.
fn remedies(runs: &[RunSummary], comparison: &Comparison<'_>) -> impl Iterator<Item = String> {
    let never = |run: &&RunSummary| {
        comparison.runs().all(|other| other.variant != run.variant || other.failure.is_some())
    };
    let told = explained_of(runs).filter(never).filter_map(|run| {
        let remedy = run.failure.as_ref()?.remedies.first()?;
        let time = remedy.step_time_s.map(|time| format!(" ({} a step)", quantity::seconds(time)));
        let name = comparison.naming.run(run);
        Some(format!("remedy for {name}: {}{}", remedy.action, time.unwrap_or_default()))
    });
    told.take(REMEDIES_MAX)
}

/// Expectations that failed, or that all hold.
fn promises(summary: &Summary, style: Style) -> Vec<String> {
    let all = summary.expectations.len();
    let failed: Vec<_> = summary.expectations.iter().filter(|check| !check.passed).collect();
    if failed.is_empty() {
        let held = match all {
            0 => return Vec::new(),
            1 => "the expectation holds".to_owned(),
            2 => "both expectations hold".to_owned(),
            _ => format!("all {all} expectations hold"),
        };
        return vec![format!("  {} {held}", style.good("✓"))];
    }
    let mut lines: Vec<String> = Vec::new();
    for check in failed.iter().take(FAILED_MAX) {
        let place = check.location.as_ref().map(|place| format!("  {place}")).unwrap_or_default();
        let text = format!("✗ {} ({}){place}", clean(&check.text), clean(&check.measured));
        let wrapped = style.wrapped(&text, "  ").into_iter();
        lines.extend(wrapped.map(|line| line.replacen('✗', &style.bad("✗"), 1)));
    }
    let more = failed.len().saturating_sub(FAILED_MAX);
    lines.extend((more > 0).then(|| format!("  {more} more of {all} expectations failed")));
    lines
}

/// How many published figures agree, and by how much the others differ.
fn published(summary: &Summary) -> Option<String> {
    if summary.published.is_empty() {
        return None;
    }
    let findings = Published::of(&summary.published).findings();
    let ranges = summary.published.iter().filter(|one| one.pair.is_none()).count();
    let ranges = match ranges {
        0 => None,
        1 => Some("one claim beside ours: `--all`".to_owned()),
        many => Some(format!("{many} claims beside ours: `--all`")),
    };
    Some(format!("published: {}", findings.into_iter().chain(ranges).collect::<Vec<_>>().join("; ")))
}
