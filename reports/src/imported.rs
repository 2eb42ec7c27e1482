//! A trace as it was understood, and its steps as they were replayed: what `import` says.

use std::io::{self, Write};

use indexmap::IndexMap;
use serde::Serialize;

use crate::quantity;
use crate::summary::{Forecast, ForecastError, LaneTime, StepTime};
use crate::terminal::{Style, clean, grid, numeric};

/// A trace and its replay.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Imported {
    /// Version of the result format.
    pub schema_version: u32,
    /// The trace.
    pub file: String,
    /// Names of the devices that the trace describes, each once.
    pub devices: Vec<String>,
    /// Rank of the process, and number of ranks.
    pub rank: Option<[u64; 2]>,
    /// Events that were understood, by what they are.
    pub understood: IndexMap<String, u64>,
    /// Events that a replay does not need, by category.
    pub ignored: IndexMap<String, u64>,
    /// Events left out, by what is wrong with them.
    pub refused: IndexMap<String, u64>,
    /// Where the file broke off.
    pub truncated: Option<String>,
    /// Findings beside the events, each with a count.
    pub found: IndexMap<String, u64>,
    /// Time by which activities began later than anything that was found explains (s).
    pub unexplained_s: f64,
    /// Changes of what was recorded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
    /// Steps, in order.
    pub steps: Vec<StepTime>,
    /// Steps as forecasts of the next ones. Absent for a changed recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forecast: Option<Forecast>,
    /// Share of the steps that is recorded time of hosts, 0 to 1.
    pub host_share: f64,
    /// The critical path of the steps by cause; adds up to them.
    pub critical_path_s: IndexMap<String, f64>,
    /// Threads, then streams of devices.
    pub lanes: Vec<LaneTime>,
}

/// Most rows of a table; all are in the JSON.
const ROWS_MAX: usize = 24;

/// Part of a time that is worth a word.
const SHARE_MIN: f64 = 0.005;

/// Writes it for people.
///
/// # Errors
/// Errors of `out`.
pub fn write(out: &mut impl Write, imported: &Imported, style: Style) -> io::Result<()> {
    let means = StepTime::mean(&imported.steps);
    let [recorded, replayed, off] = means.words();
    let steps = match imported.steps.len() {
        1 => "1 step".to_owned(),
        count => format!("{count} steps"),
    };
    let on = if imported.devices.is_empty() {
        String::new()
    } else {
        format!(" on {}", imported.devices.join(", "))
    };
    let rank = imported.rank.map_or_else(String::new, |[rank, ranks]| format!(", rank {rank} of {ranks}"));
    let (file, whole) = (&imported.file, format!("{on}{rank}"));
    let headline = match means.recorded_s {
        Some(_) => format!("{file}: {steps} of {recorded}{whole}; replayed {replayed} ({off})"),
        None => format!("{file}: {steps}{whole} without recorded begins; replayed {replayed}"),
    };
    writeln!(out, "{}", style.bold(&clean(&headline)))?;
    for change in &imported.changes {
        writeln!(out, "what if: {}", clean(change))?;
    }
    events(out, imported)?;
    if let Some(truncated) = &imported.truncated {
        writeln!(out, "warning: the file breaks off: {}", clean(truncated))?;
    }
    writeln!(out)?;
    table(out, &imported.steps, imported.forecast.as_ref())?;
    path(out, imported, style)
}

/// Counts of events, and of what was found.
fn events(out: &mut impl Write, imported: &Imported) -> io::Result<()> {
    let parts = [
        ("read", &imported.understood),
        ("not needed", &imported.ignored),
        ("left out", &imported.refused),
        ("found", &imported.found),
    ];
    let rows = parts.into_iter().flat_map(|(part, counts)| {
        let shown = counts.iter().filter(|(_, count)| **count > 0).enumerate();
        shown.map(move |(at, (what, count))| {
            let part = if at == 0 { part } else { "" };
            vec![part.to_owned(), clean(what), count.to_string()]
        })
    });
    writeln!(out, "\n{}", grid(numeric(&["events", "", ">count"]), rows.collect()))
}

/// Steps beside their recordings, and beside the step before them.
pub(crate) fn table(out: &mut impl Write, steps: &[StepTime], forecast: Option<&Forecast>) -> io::Result<()> {
    let mut titles = vec![">step", ">recorded", ">replayed", ">difference"];
    titles.extend(forecast.map_or(&[][..], |_| &[">forecast off", ">naive off"]));
    let row = |(at, step): (usize, &StepTime)| {
        let mut cells = vec![(at + 1).to_string()];
        cells.extend(step.words());
        if let Some(forecast) = forecast {
            let before = at.checked_sub(1).and_then(|before| forecast.relative.get(before));
            let errors = before.map(|ForecastError { replayed, naive }| [*replayed, *naive]);
            let none = || [quantity::NONE; 2].map(str::to_owned);
            cells.extend(errors.map_or_else(none, |errors| errors.map(quantity::change)));
        }
        cells
    };
    let rows = steps.iter().enumerate().map(row).take(ROWS_MAX).collect();
    writeln!(out, "{}", grid(numeric(&titles), rows))?;
    forecast.map_or(Ok(()), |forecast| writeln!(out, "{}", forecast.words()))
}

/// Where the steps go, and how much of it a replay only repeats.
fn path(out: &mut impl Write, imported: &Imported, style: Style) -> io::Result<()> {
    let all: f64 = imported.critical_path_s.values().sum();
    let steps = imported.steps.len() as f64;
    let mut causes: Vec<(&String, f64)> =
        imported.critical_path_s.iter().map(|(cause, time)| (cause, *time)).collect();
    causes.retain(|(_, time)| *time >= SHARE_MIN * all);
    causes.sort_by(|a, b| b.1.total_cmp(&a.1));
    let row = |(cause, time): (&String, f64)| {
        vec![cause.clone(), quantity::seconds(time / steps), quantity::percent(time / all)]
    };
    writeln!(out, "\n{}", style.bold("critical path of a step"))?;
    writeln!(out, "{}", grid(numeric(&["cause", ">time", ">share"]), causes.into_iter().map(row).collect()))?;
    let host = quantity::percent(imported.host_share);
    writeln!(out, "\n{host} of it is recorded time of the host, which a replay repeats")
}
