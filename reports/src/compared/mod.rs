//! Two runs side by side: time by cause, memory by kind, other figures and settings.
//!
//! Rows of causes are a waterfall from one step to the other: their differences add up to that of
//! the steps.

mod markdown;
mod row;
mod terminal;
mod verdict;

use std::io::{self, Write};

use indexmap::{IndexMap, IndexSet};
use serde::Serialize;

use crate::quantity;
use crate::ranking::Speed;
use crate::state;
use crate::summary::{Campaign, Failure, PowerUse, Ratio, RunSummary, SCHEMA_VERSION};
pub use row::{Row, Unit};

pub use markdown::write as markdown;
pub use terminal::write as terminal;

/// Part of a step by which its states may miss it: rounding of sums.
const ROUNDING: f64 = 1e-9;
/// Part of a difference that is worth a word.
const TOLD_MIN: f64 = 0.01;
/// Time of a step that belongs to no cause.
const NO_CAUSE: &str = "not by cause";

/// A run to compare.
#[derive(Clone, Debug)]
pub struct Side<'a> {
    /// Name in sentences and above columns.
    pub name: String,
    /// Folder or scenario that it is from, with what was chosen of it.
    pub source: String,
    /// The run.
    pub run: &'a RunSummary,
    /// Settings by path. `None`: its results have none.
    pub settings: Option<IndexMap<String, String>>,
}

/// One of two runs that were compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Named {
    /// Name in sentences and above columns.
    pub name: String,
    /// Folder or scenario that it is from, with what was chosen of it.
    pub source: String,
}

/// A setting with two values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// Path in the scenario.
    pub path: String,
    /// Value in the first run. `None`: it has no such setting.
    pub a: Option<String>,
    /// Value in the second run.
    pub b: Option<String>,
}

/// Two runs, compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// Version of the result format.
    pub schema_version: u32,
    /// The answer in one sentence of at most 15 words.
    pub finding: String,
    /// First run.
    pub a: Named,
    /// Second run.
    pub b: Named,
    /// Time of the second step over that of the first, with the interval of nine of ten
    /// measurements. `None`: errors are not known, as those of results on disk.
    pub ratio: Option<Ratio>,
    /// Time of a step.
    pub step: Row,
    /// Steps by cause; differences add up to that of `step`. Empty where a run has no step.
    pub time: Vec<Row>,
    /// Exposed communication by kind, part of the time by cause.
    pub communication: Vec<Row>,
    /// Peak of the fullest device.
    pub peak: Row,
    /// Bytes by kind at that peak.
    pub memory: Vec<Row>,
    /// Throughput, utilisation, energy, cost.
    pub figures: Vec<Row>,
    /// Settings that differ. `None`: the results of a run have none.
    pub settings: Option<Vec<Setting>>,
    /// Notes on the comparison: sentences without final full stop.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Compared {
    /// Compares `b` with `a`.
    pub fn of(a: &Side<'_>, b: &Side<'_>) -> Self {
        let runs = [a.run, b.run];
        let step = Row::new("step time", Unit::Seconds, runs.map(RunSummary::step_time));
        let time = by_cause(runs);
        let figures = figures(runs);
        let named = |side: &Side<'_>| Named { name: side.name.clone(), source: side.source.clone() };
        Self {
            schema_version: SCHEMA_VERSION,
            finding: verdict::finding([a, b], &time),
            a: named(a),
            b: named(b),
            ratio: Ratio::of(b.run, a.run),
            communication: communication(runs),
            peak: Row::new("peak memory", Unit::Bytes, runs.map(peak)),
            memory: memory(runs),
            settings: a.settings.as_ref().zip(b.settings.as_ref()).map(|(a, b)| settings(a, b)),
            notes: verdict::notes([a, b]),
            step,
            time,
            figures,
        }
    }

    /// Rows in reading order, parts below what they add up to, each with its depth.
    fn rows(&self) -> Vec<(usize, &Row)> {
        let mut rows = vec![(0, &self.step)];
        rows.extend(self.time.iter().map(|row| (1, row)));
        rows.extend(self.figures.iter().map(|row| (0, row)));
        rows.push((0, &self.peak));
        rows.extend(self.memory.iter().map(|row| (1, row)));
        rows.retain(|(_, row)| row.is_known());
        rows
    }
}

/// Writes `section,what,unit,a,b,difference`, a row for each figure, and settings as `setting`.
///
/// # Errors
/// Errors of `out`.
pub fn csv(out: &mut impl Write, compared: &Compared) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(["section", "what", "unit", "a", "b", "difference"])?;
    let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    let sections = [
        ("step", std::slice::from_ref(&compared.step)),
        ("time", &compared.time),
        ("communication", &compared.communication),
        ("peak", std::slice::from_ref(&compared.peak)),
        ("memory", &compared.memory),
        ("figure", &compared.figures),
    ];
    for (section, rows) in sections {
        for row in rows {
            let [a, b] = row.values.map(number);
            writer.write_record([section, &row.what, row.unit.name(), &a, &b, &number(row.difference())])?;
        }
    }
    for Setting { path, a, b } in compared.settings.iter().flatten() {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        writer.write_record(["setting", path, "", &text(a), &text(b), ""])?;
    }
    writer.flush()
}

/// Causes of two steps, the largest difference first. Empty where a run has no step.
fn by_cause(runs: [&RunSummary; 2]) -> Vec<Row> {
    let [Some(a), Some(b)] = runs.map(RunSummary::step_time) else { return Vec::new() };
    let causes = causes(runs);
    let mut rows = by_name([&causes[0], &causes[1]], Unit::Seconds, |seconds| *seconds);
    let sums = runs.map(|run| run.time_breakdown_s.values().sum::<f64>());
    let rest = [a - sums[0], b - sums[1]];
    if rest.iter().any(|rest| rest.abs() > ROUNDING * a.max(b)) {
        rows.push(Row::new(NO_CAUSE, Unit::Seconds, rest.map(Some)));
    }
    largest_first(rows)
}

/// Causes of the difference of two steps with their shares of it, the largest first: `compute: bytes
/// 62.0 %, launch-bound 31.0 %`.
pub fn shares_of_causes(first: &RunSummary, run: &RunSummary) -> String {
    let rows = by_cause([first, run]);
    let all: f64 = rows.iter().filter_map(Row::difference).sum();
    let shares = rows.iter().filter_map(|row| Some((&row.what, row.difference()? / all)));
    let told = shares.filter(|(_, share)| share.abs() >= TOLD_MIN);
    told.map(|(cause, share)| format!("{cause} {}", quantity::percent(share))).collect::<Vec<_>>().join(", ")
}

/// Breakdowns of two steps, with what bounds kernels in place of their compute where both know it.
fn causes(runs: [&RunSummary; 2]) -> [IndexMap<String, f64>; 2] {
    let are_split = runs.iter().all(|run| !run.kernel_time_s.is_empty());
    runs.map(|run| {
        let whole = run.time_breakdown_s.clone().into_iter();
        let others = whole.filter(|(cause, _)| !are_split || cause != state::COMPUTE);
        let split = run.kernel_time_s.clone().into_iter().filter(|_| are_split);
        split.chain(others).collect()
    })
}

/// Kinds of bytes at the peaks of the fullest devices, the largest difference first.
fn memory(runs: [&RunSummary; 2]) -> Vec<Row> {
    let none = IndexMap::new();
    let kinds = runs.map(|run| match (&run.failure, run.worst_device()) {
        (Some(failure), _) => &failure.holders_bytes,
        (None, Some(device)) => &device.by_kind_bytes,
        (None, None) => &none,
    });
    largest_first(by_name(kinds, Unit::Bytes, |bytes| *bytes as f64))
}

/// Bytes of the fullest device, or those that were held when memory ran out.
fn peak(run: &RunSummary) -> Option<f64> {
    let held = |failure: &Failure| failure.holders_bytes.values().sum::<u64>() as f64;
    match &run.failure {
        Some(failure) => Some(held(failure)).filter(|held| *held > 0.0),
        None => run.worst_device().map(|device| device.peak_bytes as f64),
    }
}

/// Communication that nothing hides, by kind, the largest difference first.
fn communication(runs: [&RunSummary; 2]) -> Vec<Row> {
    let exposed = runs.map(|run| {
        run.communication.iter().map(|one| (one.kind.clone(), one.exposed_s)).collect::<IndexMap<_, _>>()
    });
    largest_first(by_name([&exposed[0], &exposed[1]], Unit::Seconds, |seconds| *seconds))
}

/// Throughput, utilisation, energy and cost, as far as a run has them.
fn figures(runs: [&RunSummary; 2]) -> Vec<Row> {
    let campaign =
        |figure: fn(&Campaign) -> Option<f64>| runs.map(|run| run.campaign.as_ref().and_then(figure));
    let power = |figure: fn(&PowerUse) -> Option<f64>| runs.map(|run| run.power.as_ref().and_then(figure));
    let (rate, values) = match [Speed::Tokens, Speed::Samples].map(|speed| runs.map(|run| speed.value(run))) {
        [tokens, _] if tokens.iter().any(Option::is_some) => ("tokens/s", tokens),
        [_, samples] => ("samples/s", samples),
    };
    let rows = [
        Row::new(rate, Unit::Count, values),
        Row::new("MFU", Unit::Share, runs.map(|run| run.mfu)),
        Row::new("bubble", Unit::Share, runs.map(|run| run.bubble_fraction)),
        Row::new("energy of a step", Unit::Joules, power(|power| Some(power.step_energy_j))),
        Row::new("expected time", Unit::Seconds, campaign(|campaign| campaign.expected_s)),
        Row::new("cost", Unit::Count, campaign(|campaign| campaign.cost.as_ref().map(|cost| cost.total))),
    ];
    rows.into_iter().filter(Row::is_known).collect()
}

/// Rows of two maps; what only one has is 0 in the other.
fn by_name<T>(maps: [&IndexMap<String, T>; 2], unit: Unit, value: impl Fn(&T) -> f64) -> Vec<Row> {
    let names: IndexSet<&String> = maps.iter().flat_map(|map| map.keys()).collect();
    let of = |name: &String| maps.map(|map| Some(map.get(name).map_or(0.0, &value)));
    names.into_iter().map(|name| Row::new(name, unit, of(name))).collect()
}

/// Rows by the size of their difference; equal ones as they come.
fn largest_first(mut rows: Vec<Row>) -> Vec<Row> {
    let size = |row: &Row| row.difference().unwrap_or_default().abs();
    rows.sort_by(|a, b| size(b).total_cmp(&size(a)));
    rows
}

/// Settings that differ, in the order of the first run.
fn settings(a: &IndexMap<String, String>, b: &IndexMap<String, String>) -> Vec<Setting> {
    let paths: IndexSet<&String> = a.keys().chain(b.keys()).collect();
    let setting =
        |path: &String| Setting { path: path.clone(), a: a.get(path).cloned(), b: b.get(path).cloned() };
    paths.into_iter().map(setting).filter(|setting| setting.a != setting.b).collect()
}
