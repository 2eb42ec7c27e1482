//! Recorded steps that were replayed: each run beside the recording, the steps of one, its lanes.

use std::io::{self, Write};

use super::{Style, clean, lanes, section};
use crate::imported::table;
use crate::quantity;
use crate::ranking::Comparison;
use crate::summary::{ReplayedTrace, RunSummary, StepTime};

/// Titles of the table of runs.
const TITLES: [&str; 6] =
    ["variant", "what if", ">recorded", ">replayed", ">difference", ">recorded host time"];

/// The runs of a point that replay a trace, and one of them closely.
pub(super) fn replays(
    out: &mut impl Write,
    comparison: &Comparison<'_>,
    (runs, shown): (&[&RunSummary], &RunSummary),
    style: Style,
) -> io::Result<()> {
    let Some(replay) = &shown.replay else { return Ok(()) };
    let rows = runs.iter().filter_map(|run| {
        let (replay, step) = (run.replay.as_ref()?, run.step_time()?);
        let step = StepTime { recorded_s: replay.recorded_step_s, replayed_s: step };
        let [recorded, replayed, change] = step.words();
        let host = quantity::percent(replay.host_share);
        Some(vec![comparison.naming.run(run), replay.what_if_words(), recorded, replayed, change, host])
    });
    section(out, style, &replay.title(), &TITLES, rows.collect())?;
    writeln!(out, "  {}", ReplayedTrace::HOST_SHARE)?;
    if let Some(unchanged) =
        runs.iter().filter_map(|run| run.replay.as_ref()).find(|it| it.what_if.is_empty())
    {
        writeln!(out, "\n{}", style.bold("steps without changes"))?;
        table(out, &unchanged.steps, unchanged.forecast.as_ref())?;
    }
    let found: Vec<Vec<String>> = replay
        .found
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(what, count)| vec![clean(what), count.to_string()])
        .collect();
    section(out, style, "found in the trace", &["", ">count"], found)?;
    let heading = format!("lanes in a step of {}", comparison.naming.run(shown));
    lanes::table(out, style, (&heading, ">of the step"), &replay.lanes)
}
