//! What `validate` found on a terminal: a line for each part, then its worst row, then what was left out.

use std::io::{self, Write};

use super::{Part, PlanGroup, Row, SetResult, Statistics, Validation, label};
use crate::quantity;
use crate::state;
use crate::terminal::{Style, clean, grid, numeric};

/// Reasons of a part that are told; all rows are in the files.
const REASONS_MAX: usize = 3;
/// Groups of plans that are told of a set; the page has all.
const GROUPS_MAX: usize = 3;

/// Writes the sets for people.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut impl Write, validation: &Validation, style: Style) -> io::Result<()> {
    let titles = numeric(&[
        "set",
        "part",
        ">n",
        ">MAPE",
        ">median",
        ">p95",
        ">worst",
        ">bias",
        ">τ",
        ">first run",
        "90 % intervals",
        "to reach",
        "verdict",
    ]);
    let mut rows = Vec::new();
    for set in &validation.sets {
        for (index, part) in set.parts.iter().enumerate() {
            let name = if index == 0 { set.name.clone() } else { String::new() };
            let verdict = if part.passed { "within" } else { "beyond" };
            let intervals =
                part.intervals.map_or(quantity::NONE.to_owned(), |intervals| intervals.in_words());
            let ends = [first_reading(part), intervals, part.tolerance.in_words(), verdict.to_owned()];
            rows.push([name, part.name.clone()].into_iter().chain(judged(part)).chain(ends).collect());
        }
    }
    writeln!(out, "{}", grid(titles, rows))?;
    section(
        out,
        "intervals, each set left out of what they rest on",
        &validation.intervals_in_words(),
        style,
    )?;
    let mut regrets = validation.regrets_in_words();
    regrets.extend(validation.sets.iter().flat_map(costliest));
    section(
        out,
        "regret: what the plan that we predict to be fastest takes beyond the best",
        &regrets,
        style,
    )?;
    let verdicts: Vec<String> =
        validation.parts().flat_map(|(set, part)| verdicts(&set.name, part)).collect();
    section(out, "verdicts on memory, with each wrong one", &verdicts, style)?;
    let right = |(set, part): (&SetResult, &Part)| {
        Some(format!("{}: {}", title(&set.name, part), part.speedups?.in_words(&part.tolerance)))
    };
    let right: Vec<String> = validation.parts().filter_map(right).collect();
    section(out, "speed-ups", &right, style)?;
    let judged_by_error = validation.parts().filter(|(_, part)| part.verdicts.is_none());
    let worst: Vec<String> = judged_by_error.filter_map(|(set, part)| worst(&set.name, part)).collect();
    section(out, "the worst row of each", &worst, style)?;
    let left_out: Vec<String> =
        validation.parts().flat_map(|(set, part)| left_out(&set.name, part)).collect();
    section(out, "rows that were not judged", &left_out, style)
}

/// Groups of plans in which the pick costs most, with the pick and the best.
fn costliest(set: &SetResult) -> Vec<String> {
    let groups = set.regret.iter().flat_map(|regret| &regret.groups);
    let told = |group: &PlanGroup| {
        let [picked, best] = group.picked_and_best();
        let (regret, work) = (quantity::percent(group.regret), label(&group.work));
        format!("{}: {regret} at {work}\n    picked {picked}\n    best   {best}", set.name)
    };
    groups.filter(|group| group.regret > 0.0).take(GROUPS_MAX).map(told).collect()
}

/// [`figures`] of a part; of verdicts the share of wrong ones and the bias.
pub(super) fn judged(part: &Part) -> [String; 7] {
    let [rows, mape, median, p95, worst, bias, tau] = figures(&part.statistics);
    let none = || quantity::NONE.to_owned();
    match part.verdicts {
        Some(_) => [rows, mape, none(), none(), none(), bias, none()],
        None => [rows, mape, median, p95, worst, bias, tau],
    }
}

/// The error of the first run of a part, where constants were looked for after it.
pub(super) fn first_reading(part: &Part) -> String {
    part.first_reading.map_or(quantity::NONE.to_owned(), quantity::percent)
}

/// How many runs of a part were said to fit, and each that was judged wrongly.
fn verdicts(set: &str, part: &Part) -> Vec<String> {
    let Some(verdicts) = part.verdicts else { return Vec::new() };
    let wrong = |row: &Row| {
        let [measured, ours] = [row.measured, row.predicted].map(|value| row.unit.words(value));
        let evidence = row.evidence.as_ref().map(|evidence| format!(": {evidence}")).unwrap_or_default();
        let likely =
            row.explanation.iter().map(|reason| format!("\n    likely: {reason}")).collect::<String>();
        format!("  measured {measured}, ours {ours}{evidence}\n    {} ({}){likely}", row.label(), row.place)
    };
    let summary = format!("{}: {}", title(set, part), verdicts.in_words());
    [summary].into_iter().chain(part.worst(0).into_iter().map(wrong)).collect()
}

/// `n`, MAPE, median, p95, worst, bias and rank correlation as text.
pub(super) fn figures(errors: &Statistics) -> [String; 7] {
    let Statistics { rows, mape, median, p95, worst, bias, kendall_tau } = *errors;
    if rows == 0 {
        return ["0", "", "", "", "", "", ""]
            .map(|text| if text.is_empty() { quantity::NONE } else { text }.to_owned());
    }
    let [mape, median, p95] = [mape, median, p95].map(quantity::percent);
    let [worst, bias] = [worst, bias].map(quantity::change);
    let tau = kendall_tau.map_or(quantity::NONE.to_owned(), |tau| format!("{tau:.3}"));
    [rows.to_string(), mape, median, p95, worst, bias, tau]
}

fn worst(set: &str, part: &Part) -> Option<String> {
    let row = *part.worst(1).first()?;
    let [measured, ours] = [row.measured, row.predicted].map(|value| row.unit.words(value));
    let shares = state::in_order(&row.shares).filter(|(_, share)| *share >= 0.05);
    let shares: Vec<String> =
        shares.map(|(cause, share)| format!("{cause} {}", quantity::percent(share))).collect();
    let made_of = if shares.is_empty() { String::new() } else { format!("; ours is {}", shares.join(", ")) };
    let error = row.off();
    let likely = row.explanation.iter().map(|reason| format!("\n    likely: {reason}")).collect::<String>();
    Some(format!(
        "{}: measured {measured}, ours {ours}, {error}{made_of}\n    {} ({}){likely}",
        title(set, part),
        row.label(),
        row.place
    ))
}

pub(super) fn left_out(set: &str, part: &Part) -> Vec<String> {
    let reasons = part.reasons();
    let line = |&(reason, count, first): &(&str, usize, &super::LeftOut)| {
        let rows = if count == 1 { "row" } else { "rows" };
        format!(
            "{}: {count} {rows}: {reason}\n    for example {} ({})",
            title(set, part),
            first.label(),
            first.place
        )
    };
    let more: usize = reasons.iter().skip(REASONS_MAX).map(|(_, count, _)| count).sum();
    let others = (more > 0).then(|| format!("{}: {more} more; results.csv has all", title(set, part)));
    reasons.iter().take(REASONS_MAX).map(line).chain(others).collect()
}

fn title(set: &str, part: &Part) -> String {
    if part.name.is_empty() { set.to_owned() } else { format!("{set}, {}", part.name) }
}

/// Lines under a heading; nothing where there are none.
pub(super) fn section(out: &mut impl Write, heading: &str, lines: &[String], style: Style) -> io::Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", style.bold(heading))?;
    for line in lines.iter().flat_map(|line| line.lines()) {
        writeln!(out, "  {}", clean(line))?;
    }
    Ok(())
}
