//! Where a gain comes from: the difference of two steps by cause.

use std::io::{self, Write};

use super::{Style, section};
use crate::compared::shares_of_causes;
use crate::quantity;
use crate::ranking::Comparison;
use crate::summary::RunSummary;

/// Part of a step by which two are the same.
const SAME: f64 = 1e-6;

/// Gain of a run over the first variant at its point: `gain over dgl: compute: bytes 62.0 %,
/// launch-bound 31.0 %`. `None`: it is the first, or no faster.
pub(super) fn gain(run: &RunSummary, comparison: &Comparison<'_>) -> Option<String> {
    let first = first(run, comparison)?;
    let saved = first.step_time()? - run.step_time()?;
    (saved > SAME * first.step_time()?)
        .then(|| format!("gain over {}: {}", first.variant, shares_of_causes(first, run)))
}

/// A row for each run of a point beside the first: what it takes more or less, and by which causes.
pub(super) fn table(out: &mut impl Write, style: Style, runs: &[&RunSummary]) -> io::Result<()> {
    let mut with_step = runs.iter().filter(|run| run.step_time().is_some());
    let Some(first) = with_step.next() else { return Ok(()) };
    let row = |run: &&RunSummary| {
        let (step, of_first) = (run.step_time()?, first.step_time()?);
        let differs = (step - of_first).abs() > SAME * of_first;
        let change = quantity::change(step / of_first - 1.0);
        differs.then(|| vec![run.variant.clone(), change, shares_of_causes(first, run)])
    };
    let rows = with_step.filter_map(row).collect();
    let heading = format!("what makes steps shorter or longer than that of {}", first.variant);
    section(out, style, &heading, &["variant", ">change", "by cause, share of it"], rows)
}

/// The first variant with a step at the point of a run; none where that is the run itself.
fn first<'a>(run: &RunSummary, comparison: &Comparison<'a>) -> Option<&'a RunSummary> {
    let point =
        comparison.points.iter().find(|point| point.runs.iter().any(|other| std::ptr::eq(*other, run)))?;
    let first = point.runs.iter().copied().find(|run| run.step_time().is_some())?;
    (!std::ptr::eq(first, run)).then_some(first)
}
