//! Decisions about tensors that leave the GPU for memory that the step fits in.

use std::io::{self, Write};

use super::{Style, section};
use crate::quantity;
use crate::summary::RunSummary;
use crate::summary::swap::SwapPlan;

/// The plans of a run of this name, and how many programs of all runs were solved to a proven
/// optimum.
pub(super) fn plans(
    out: &mut impl Write,
    style: Style,
    (run, named): (&RunSummary, &str),
    runs: &[RunSummary],
) -> io::Result<()> {
    let heading = format!("what {named} swaps, planned for links that copies share");
    let titles =
        &["", ">tensors", ">bytes", ">made again", ">must leave", ">expected", ">at least", "solver"];
    let row = |plan: &SwapPlan| {
        let mut cells = vec![plan.of.clone(), format!("{} of {}", plan.away, plan.tensors)];
        cells.extend([plan.away_bytes, plan.again_bytes, plan.must_leave_bytes].map(quantity::bytes));
        cells.extend([plan.expected_s, plan.bound_s].map(quantity::seconds));
        cells.push(plan.solved().to_owned());
        cells
    };
    section(out, style, &heading, titles, run.swap.iter().map(row).collect())?;
    solved(out, runs)
}

fn solved(out: &mut impl Write, runs: &[RunSummary]) -> io::Result<()> {
    let asked = || runs.iter().flat_map(|run| &run.swap).filter_map(|plan| Some((plan, plan.proven?)));
    let (all, proven) = (asked().count(), asked().filter(|(_, proven)| *proven).count());
    if all == 0 {
        return Ok(());
    }
    let gap = quantity::percent(asked().map(|(plan, _)| plan.gap()).fold(0.0, f64::max));
    let slots = asked().find_map(|(plan, _)| plan.slots);
    let slots = slots.map_or_else(String::new, |slots| format!(" of {slots} time slots"));
    writeln!(
        out,
        "\n{proven} of {all} swap programs{slots} were solved to a proven optimum; plans are at most {gap} from their bounds"
    )
}
