//! An explanation on a terminal.

use std::io::{self, Write};

use indexmap::IndexMap;

use super::stretch::{stretches, visits};
use super::{Beside, Explanation, WhatIf};
use crate::quantity;
use crate::terminal::{Style, cut, grid, numeric};

/// Rows on a screen of the path, of what-ifs, and words of exposed time.
const STRETCHES_MAX: usize = 6;
const PARTS_MAX: usize = 5;
/// Stretches of ranks that are worth reading; fewer are told by visits.
const RANKS_MIN: usize = 4;
/// Rows of either where a recorded step is beside them.
const BESIDE_MAX: usize = 2;
const CAUSES_MAX: usize = 4;
/// Part of the path from which on a stretch is worth a line.
const SHARE_MIN: f64 = 0.001;
/// Column of the work, the widest, and what it has at least.
const WORK: usize = 3;
const WORK_MIN: usize = 20;
/// Characters of another column of words at most.
const WORDS_MAX: usize = 24;

/// Writes what fits on one screen, or with `all` everything.
///
/// # Errors
/// Errors of `out`.
pub fn write(out: &mut impl Write, explanation: &Explanation, all: bool, style: Style) -> io::Result<()> {
    for line in style.wrapped(&explanation.finding, "") {
        writeln!(out, "{}", style.bold(&line))?;
    }
    let Some(step) = explanation.step_time_s else {
        return writeln!(out, "  `foretrain run` says who holds the memory, and what would help");
    };
    if let Some(beside) = &explanation.measured {
        measured(out, beside, step, style)?;
    }
    let most = |rows: usize| if all { usize::MAX } else { rows };
    let path: f64 = explanation.path.iter().map(|visit| visit.time_s).sum();
    if explanation.path.is_empty() {
        let causes = shares(&explanation.critical_path_s, step, usize::MAX);
        let named = &explanation.label;
        let heading = format!("critical path of a step of {named}, {}: {causes}", quantity::seconds(step));
        wrapped(out, style, &heading)?;
    } else {
        let causes = shares(&explanation.critical_path_s, step, most(CAUSES_MAX));
        let named = &explanation.label;
        let heading = format!("critical path of {named}, {}: {causes}", quantity::seconds(path));
        wrapped(out, style, &heading)?;
        let rows = if explanation.measured.is_some() { BESIDE_MAX } else { STRETCHES_MAX };
        on_the_path(out, explanation, path, (all, rows, style))?;
    }
    let exposed = shares(&explanation.exposed_s, step, most(CAUSES_MAX));
    if !exposed.is_empty() && explanation.measured.is_none() {
        writeln!(out)?;
        wrapped(out, style, &format!("a mean rank waits: {exposed}"))?;
        let kinds = shares(&explanation.communication_s, step, most(CAUSES_MAX));
        if !kinds.is_empty() {
            wrapped(out, style, &format!("exposed communication: {kinds}"))?;
        }
    }
    let parts = if explanation.measured.is_some() { BESIDE_MAX } else { PARTS_MAX };
    what_ifs(out, explanation, step, most(parts))
}

/// The recorded step beside the simulated one.
fn measured(out: &mut impl Write, beside: &Beside, step: f64, style: Style) -> io::Result<()> {
    let Beside { file, steps, measured_s, parts } = beside;
    let steps = if *steps == 1 { "one step".to_owned() } else { format!("mean of {steps} steps") };
    wrapped(out, style, &format!("recorded: {file}, {steps}"))?;
    let row = |[lane, kind]: [&str; 2], measured: f64, simulated: f64| {
        let difference = simulated - measured;
        let sign = if difference > 0.0 { "+" } else { "" };
        let mut cells = [lane, kind].map(str::to_owned).to_vec();
        cells.extend([measured, simulated].map(quantity::seconds));
        cells.push(format!("{sign}{}", quantity::seconds(difference)));
        cells
    };
    let whole = row(["GPU", "step"], *measured_s, step);
    let parts = parts.iter().map(|part| row([&part.lane, &part.kind], part.measured_s, part.simulated_s));
    let titles = numeric(&["lane", "time", ">recorded", ">simulated", ">difference"]);
    writeln!(out, "\n{}\n", grid(titles, [whole].into_iter().chain(parts).collect()))
}

fn wrapped(out: &mut impl Write, style: Style, text: &str) -> io::Result<()> {
    style.wrapped(text, "  ").iter().try_for_each(|line| writeln!(out, "{line}"))
}

/// The longest stretches in order, or with `all` every visit.
fn on_the_path(
    out: &mut impl Write,
    explanation: &Explanation,
    path: f64,
    (all, most, style): (bool, usize, Style),
) -> io::Result<()> {
    let of_ranks = stretches(&explanation.path);
    let stretches = if all || of_ranks.len() < RANKS_MIN { visits(&explanation.path) } else { of_ranks };
    let mut shown: Vec<usize> = (0..stretches.len()).collect();
    if !all {
        shown.retain(|&at| stretches[at].time_s() / path >= SHARE_MIN);
        shown.sort_by(|&a, &b| stretches[b].time_s().total_cmp(&stretches[a].time_s()));
        shown.truncate(most);
        shown.sort_unstable();
    }
    let mut rows: Vec<Vec<String>> = Vec::with_capacity(shown.len());
    for &at in &shown {
        let stretch = &stretches[at];
        let (time, resources) = (stretch.time_s(), stretch.resources());
        let first = resources.split(", ").next().unwrap_or_default();
        rows.push(vec![
            quantity::seconds(stretch.begin_s()),
            quantity::seconds(time),
            quantity::percent(time / path),
            format!("{}: {}", stretch.place(), stretch.what()),
            if all { resources.clone() } else { first.to_owned() },
            stretch.released_by().unwrap_or(quantity::NONE).to_owned(),
        ]);
    }
    if !all {
        fit(&mut rows, style);
    }
    let titles = numeric(&[">at", ">takes", ">share", "work", "on", "released by"]);
    writeln!(out, "{}", grid(titles, rows))?;
    let told: f64 = shown.iter().map(|&at| stretches[at].time_s()).sum();
    match stretches.len() - shown.len() {
        0 => Ok(()),
        1 => writeln!(out, "  one shorter stretch takes {}: `--all`", quantity::percent(1.0 - told / path)),
        more => {
            writeln!(out, "  {more} shorter stretches take {}: `--all`", quantity::percent(1.0 - told / path))
        }
    }
}

/// Cuts words so that a row fits on a line.
fn fit(rows: &mut [Vec<String>], style: Style) {
    rows.iter_mut().flat_map(|row| &mut row[WORK + 1..]).for_each(|cell| *cell = cut(cell, WORDS_MAX));
    let titles = ["at", "takes", "share", "", "on", "released by"];
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([titles[column].len()]).max().unwrap_or_default()
    };
    let others: usize = (0..titles.len()).filter(|&column| column != WORK).map(width).sum();
    // Three characters are between two columns, two before the first, and one behind the last.
    let room = style.width.saturating_sub(others + 3 * titles.len()).max(WORK_MIN);
    rows.iter_mut().for_each(|row| row[WORK] = cut(&row[WORK], room));
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
    match hidden {
        0 => {}
        1 => writeln!(out, "  one more part changes less: `--all`")?,
        more => writeln!(out, "  {more} more parts change less: `--all`")?,
    }
    match others[..] {
        [] => Ok(()),
        _ => writeln!(out, "  no effect: {}", others.join(", ")),
    }
}
