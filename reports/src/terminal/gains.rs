//! Where a gain comes from: the difference of two steps by cause.

use std::io::{self, Write};

use super::{Style, section};
use crate::compared::by_cause;
use crate::quantity;
use crate::ranking::Comparison;
use crate::summary::RunSummary;

/// Part of the difference that is worth a word.
const SHARE_MIN: f64 = 0.01;
/// Part of a step by which two are the same.
const SAME: f64 = 1e-6;

/// `gain over dgl: compute: bytes 62.0 %, launch-bound 31.0 %`: the gain of a run over the first variant at
/// its point. `None`: it is the first, or no faster.
pub(super) fn gain(run: &RunSummary, comparison: &Comparison<'_>) -> Option<String> {
    let first = first(run, comparison)?;
    let saved = first.step_time()? - run.step_time()?;
    (saved > SAME * first.step_time()?).then(|| format!("gain over {}: {}", first.variant, parts(first, run)))
}

/// A row for each run of a point beside the first: what it takes more or less, and by which causes.
pub(super) fn table(out: &mut impl Write, style: Style, runs: &[&RunSummary]) -> io::Result<()> {
    let mut with_step = runs.iter().filter(|run| run.step_time().is_some());
    let Some(first) = with_step.next() else { return Ok(()) };
    let row = |run: &&RunSummary| {
        let (step, of_first) = (run.step_time()?, first.step_time()?);
        let differs = (step - of_first).abs() > SAME * of_first;
        let change = quantity::change(step / of_first - 1.0);
        differs.then(|| vec![run.variant.clone(), change, parts(first, run)])
    };
    let rows = with_step.filter_map(row).collect();
    let heading = format!("what makes steps shorter or longer than that of {}", first.variant);
    section(out, style, &heading, &["variant", ">change", "by cause, share of it"], rows)
}

/// Causes of the difference of two steps with their shares of it, the largest first.
fn parts(first: &RunSummary, run: &RunSummary) -> String {
    let rows = by_cause([first, run]);
    let all: f64 = rows.iter().filter_map(|row| row.difference()).sum();
    let shares = rows.iter().filter_map(|row| Some((&row.what, row.difference()? / all)));
    let told = shares.filter(|(_, share)| share.abs() >= SHARE_MIN);
    told.map(|(cause, share)| format!("{cause} {}", quantity::percent(share))).collect::<Vec<_>>().join(", ")
}

/// The first variant with a step at the point of a run; none where that is the run itself.
fn first<'a>(run: &RunSummary, comparison: &Comparison<'a>) -> Option<&'a RunSummary> {
    let point =
        comparison.points.iter().find(|point| point.runs.iter().any(|other| std::ptr::eq(*other, run)))?;
    let first = point.runs.iter().find(|run| run.step_time().is_some())?;
    (!std::ptr::eq(*first, run)).then_some(first)
}
