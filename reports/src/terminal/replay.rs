//! Recorded steps that were replayed: each run beside the recording, the steps of one, its lanes.

use std::io::{self, Write};

use super::{Style, clean, section};
use crate::imported::table;
use crate::quantity;
use crate::ranking::Comparison;
use crate::state;
use crate::summary::{LaneTime, ReplayedTrace, RunSummary, StepTime};

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
    let lanes = replay.lanes.iter().map(lane).collect();
    section(out, style, &heading, &["lane", ">works", ">of the step", "most", "then", "then"], lanes)
}

/// A lane, and what it spends most of the step on.
fn lane(lane: &LaneTime) -> Vec<String> {
    let all: f64 = lane.time_s.values().sum();
    let works: f64 =
        lane.time_s.iter().filter(|(cause, _)| state::is_work(cause)).map(|(_, time)| time).sum();
    let mut causes: Vec<(&String, &f64)> = lane.time_s.iter().collect();
    causes.sort_by(|a, b| b.1.total_cmp(a.1));
    let told = |(cause, time): (&String, &f64)| format!("{cause} {}", quantity::percent(time / all));
    let mut cells = vec![lane.name.clone(), quantity::seconds(works), quantity::percent(works / all)];
    cells.extend(causes.into_iter().map(told).take(3));
    cells.resize(6, String::new());
    cells
}
