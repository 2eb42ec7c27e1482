//! An explanation on a terminal.

use std::io::{self, Write};

use indexmap::IndexMap;

use super::stretch::{stretches, visits};
use super::{Explanation, WhatIf};
use crate::quantity;
use crate::terminal::{Style, cut, grid, numeric};

/// Rows on a screen of the path, of what-ifs, and words of exposed time.
const STRETCHES_MAX: usize = 6;
const PARTS_MAX: usize = 5;
const CAUSES_MAX: usize = 4;
/// Part of the path from which on a stretch is worth a line.
const SHARE_MIN: f64 = 0.001;
/// Characters of the narrowest column of words.
const WORDS_MIN: usize = 18;

/// Writes what fits on one screen, or with `all` everything.
///
/// # Errors
/// Errors of `out`.
pub fn write(out: &mut impl Write, explanation: &Explanation, all: bool, style: Style) -> io::Result<()> {
    for line in style.wrapped(&explanation.finding, "") {
        writeln!(out, "{}", style.bold(&line))?;
    }
    let Some(step) = explanation.step_time_s else { return Ok(()) };
    let most = |rows: usize| if all { usize::MAX } else { rows };
    let path: f64 = explanation.path.iter().map(|visit| visit.time_s).sum();
    if explanation.path.is_empty() {
        let causes = shares(&explanation.critical_path_s, step, usize::MAX);
        let named = &explanation.variant;
        let heading = format!("critical path of a step of {named}, {}: {causes}", quantity::seconds(step));
        wrapped(out, style, &heading)?;
    } else {
        let causes = shares(&explanation.critical_path_s, step, most(CAUSES_MAX));
        let named = &explanation.variant;
        let heading = format!("critical path of {named}, {}: {causes}", quantity::seconds(path));
        wrapped(out, style, &heading)?;
        writeln!(out)?;
        on_the_path(out, explanation, path, (all, style))?;
    }
    let exposed = shares(&explanation.exposed_s, step, most(CAUSES_MAX));
    if !exposed.is_empty() {
        writeln!(out)?;
        wrapped(out, style, &format!("a mean rank waits: {exposed}"))?;
        let kinds = shares(&explanation.communication_s, step, most(CAUSES_MAX));
        if !kinds.is_empty() {
            wrapped(out, style, &format!("exposed communication: {kinds}"))?;
        }
    }
    what_ifs(out, explanation, step, most(PARTS_MAX))
}

fn wrapped(out: &mut impl Write, style: Style, text: &str) -> io::Result<()> {
    style.wrapped(text, "  ").iter().try_for_each(|line| writeln!(out, "{line}"))
}

/// The longest stretches in order, or with `all` every visit.
fn on_the_path(
    out: &mut impl Write,
    explanation: &Explanation,
    path: f64,
    (all, style): (bool, Style),
) -> io::Result<()> {
    let stretches = if all { visits(&explanation.path) } else { stretches(&explanation.path) };
    let mut shown: Vec<usize> = (0..stretches.len()).collect();
    if !all {
        shown.retain(|&at| stretches[at].time_s() / path >= SHARE_MIN);
        shown.sort_by(|&a, &b| stretches[b].time_s().total_cmp(&stretches[a].time_s()));
        shown.truncate(STRETCHES_MAX);
        shown.sort_unstable();
    }
    // What is left of a line beside numbers, the resource, the rank before, and room between them.
    let room = if all { usize::MAX } else { style.width.saturating_sub(67).max(WORDS_MIN) };
    let row = |&at: &usize| {
        let stretch = &stretches[at];
        let resources = stretch.resources();
        let first = resources.split(", ").next().unwrap_or_default();
        vec![
            quantity::seconds(stretch.begin_s()),
            quantity::seconds(stretch.time_s()),
            quantity::percent(stretch.time_s() / path),
            cut(&format!("{}: {}", stretch.place(), stretch.what()), room),
            if all { resources.clone() } else { cut(first, WORDS_MIN) },
            cut(stretch.released_by().unwrap_or(quantity::NONE), if all { room } else { WORDS_MIN }),
        ]
    };
    let titles = numeric(&[">at", ">takes", ">share", "work", "on", "released by"]);
    writeln!(out, "{}", grid(titles, shown.iter().map(row).collect()))?;
    let told: f64 = shown.iter().map(|&at| stretches[at].time_s()).sum();
    match stretches.len() - shown.len() {
        0 => Ok(()),
        1 => writeln!(out, "  one shorter stretch takes {}: `--all`", quantity::percent(1.0 - told / path)),
        more => {
            writeln!(out, "  {more} shorter stretches take {}: `--all`", quantity::percent(1.0 - told / path))
        }
    }
}

/// `compute 80.1 %, communication 19.9 %`: parts of a step, as they come.
fn shares(times: &IndexMap<String, f64>, step: f64, most: usize) -> String {
    let mut largest: Vec<(&String, f64)> = times.iter().map(|(name, time)| (name, *time)).collect();
    largest.sort_by(|a, b| b.1.total_cmp(&a.1));
    let told = largest.into_iter().filter(|(_, time)| time / step >= 0.0005).take(most);
    told.map(|(name, time)| format!("{name} {}", quantity::percent(time / step)))
        .collect::<Vec<_>>()
        .join(", ")
}

fn what_ifs(out: &mut impl Write, explanation: &Explanation, step: f64, most: usize) -> io::Result<()> {
    let (deciding, others) = explanation.deciding();
    let cells = |time: Option<f64>| match time {
        None => [quantity::NONE.to_owned(), quantity::NONE.to_owned()],
        Some(time) => [quantity::seconds(time), quantity::change(time / step - 1.0)],
    };
    let row = |it: &&WhatIf| {
        let ([twice, faster], [half, slower]) = (cells(it.twice_s), cells(it.half_s));
        vec![it.part.clone(), twice, faster, half, slower]
    };
    if !deciding.is_empty() {
        let titles = numeric(&["what if", ">twice as fast", ">", ">half as fast", ">"]);
        writeln!(out, "\n{}", grid(titles, deciding.iter().take(most).map(row).collect()))?;
    }
    let hidden = deciding.len().saturating_sub(most);
    if hidden > 0 {
        writeln!(out, "  {hidden} more parts change less: `--all`")?;
    }
    match others[..] {
        [] => Ok(()),
        _ => writeln!(out, "  no effect: {}", others.join(", ")),
    }
}
