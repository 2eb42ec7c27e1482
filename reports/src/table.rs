//! The table of runs, the same on the terminal and in the report.

use crate::finding::brief_verdict;
use crate::naming::Naming;
use crate::quantity;
use crate::ranking::{Comparison, Point, Speed, ratio_behind, slower, tied};
use crate::summary::{DevicePeak, RunSummary};

/// A table whose columns are those with anything to show. Rows are made as they are read: a sweep may have a million.
pub(crate) struct Table<'a> {
    kinds: Vec<Kind<'a>>,
    points: &'a [Point<'a>],
    speed: Speed,
}

/// One column.
pub(crate) struct Column {
    pub(crate) title: String,
    /// Whether it is read as numbers, and so aligned to the right.
    pub(crate) numeric: bool,
}

/// One run.
pub(crate) struct Row<'a> {
    pub(crate) run: &'a RunSummary,
    /// True if nothing at its point is faster.
    pub(crate) leads: bool,
    pub(crate) cells: Vec<Cell>,
}

/// One cell: what is read, and what it is sorted by where that is a number.
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) number: Option<f64>,
}

impl<'a> Table<'a> {
    /// The runs of `points`, some of a comparison, whose paths tell them apart if they are several.
    pub(crate) fn of(comparison: &'a Comparison<'a>, points: &'a [Point<'a>]) -> Self {
        let Comparison { naming, speed, .. } = comparison;
        let mut kinds: Vec<Kind<'_>> = vec![Kind::Variant];
        if points.len() > 1 {
            kinds.extend(naming.paths().map(|(path, name)| Kind::Axis { path, name, naming }));
        }
        kinds.extend([
            Kind::StepTime,
            Kind::Interval,
            Kind::Spread,
            Kind::Rate(*speed),
            Kind::Bubble,
            Kind::Mfu,
            Kind::Memory,
        ]);
        kinds.extend(comparison.is_of_activations().then_some(Kind::Activations));
        kinds.retain(|kind| {
            kind.always() || points.iter().any(|point| point.runs.iter().any(|run| kind.has(run)))
        });
        Table { kinds, points, speed: *speed }
    }

    pub(crate) fn columns(&self) -> Vec<Column> {
        let mut columns: Vec<_> = self.kinds.iter().map(Kind::column).collect();
        columns.push(Column { title: "verdict".to_owned(), numeric: false });
        columns
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = Row<'a>> {
        self.points.iter().flat_map(move |point| {
            let fastest = point.ranked(self.speed).first().copied();
            let compared = fastest.filter(|_| point.runs.len() > 1);
            point.runs.iter().map(move |run| {
                let mut cells: Vec<_> = self.kinds.iter().map(|kind| kind.cell(run)).collect();
                cells.push(place(run, compared, self.speed));
                let ties = |value| fastest.is_some_and(|(_, fastest)| tied(fastest, value));
                Row { run, leads: self.speed.value(run).is_some_and(ties), cells }
            })
        })
    }
}

/// How a run did at its point: the fastest, by how much slower, or why not at all. Without `fastest` it was alone.
fn place(run: &RunSummary, fastest: Option<(&RunSummary, f64)>, speed: Speed) -> Cell {
    let Some(value) = speed.value(run) else {
        return Cell { text: brief_verdict(run), number: Some(f64::MAX) };
    };
    let Some((first, fastest)) = fastest else { return Cell { text: "fits".to_owned(), number: Some(1.0) } };
    let text = match (std::ptr::eq(first, run), tied(fastest, value)) {
        (true, _) => "fastest".to_owned(),
        (false, true) => "as fast".to_owned(),
        (false, false) => slower(fastest / value, ratio_behind((first, fastest), (run, value))),
    };
    Cell { text, number: Some(fastest / value) }
}

/// What a column shows of a run.
enum Kind<'a> {
    Variant,
    Axis { path: &'a str, name: &'a str, naming: &'a Naming },
    StepTime,
    Interval,
    Spread,
    Rate(Speed),
    Bubble,
    Mfu,
    Memory,
    Activations,
}

impl Kind<'_> {
    /// Whether the column stands even when it is empty.
    fn always(&self) -> bool {
        matches!(self, Kind::Variant | Kind::Axis { .. } | Kind::StepTime)
    }

    fn has(&self, run: &RunSummary) -> bool {
        self.cell(run).number.is_some()
    }

    fn column(&self) -> Column {
        let title = match self {
            Kind::Variant => "variant".to_owned(),
            Kind::Axis { name, .. } => (*name).to_owned(),
            Kind::StepTime => "step time".to_owned(),
            Kind::Interval => "90 % of cases".to_owned(),
            Kind::Spread => "over seeds".to_owned(),
            Kind::Rate(speed) => format!("{}/s", speed.thing()),
            Kind::Bubble => "bubble".to_owned(),
            Kind::Mfu => "MFU".to_owned(),
            Kind::Memory => "peak memory".to_owned(),
            Kind::Activations => "activation peak".to_owned(),
        };
        Column { title, numeric: !matches!(self, Kind::Variant | Kind::Axis { .. }) }
    }

    fn cell(&self, run: &RunSummary) -> Cell {
        let share = |value: Option<f64>| (value.map(quantity::percent), value);
        let (text, number) = match self {
            Kind::Variant => (Some(run.variant.clone()), None),
            Kind::Axis { path, naming, .. } => {
                let written = run.point.get(*path);
                let words = written.map(|written| naming.value(path, written).into_owned());
                (words, written.and_then(|written| crate::axis::number(written)))
            }
            Kind::StepTime => (run.step_time().map(quantity::seconds), run.step_time()),
            Kind::Interval => {
                let ends = run.step_time_interval_s.filter(|_| run.step_time().is_some());
                let text = |[least, most]: [f64; 2]| {
                    format!("{} to {}", quantity::seconds(least), quantity::seconds(most))
                };
                (ends.map(text), ends.map(|[least, most]| most - least))
            }
            Kind::Spread => {
                let spread = run.step_time_spread.filter(|spread| spread.mean_s > 0.0);
                let ends = spread
                    .map(|spread| (spread.min_s / spread.mean_s - 1.0, spread.max_s / spread.mean_s - 1.0));
                let text = |(least, most)| format!("{} {}", quantity::change(least), quantity::change(most));
                (ends.map(text), ends.map(|(least, most)| most - least))
            }
            Kind::Rate(speed) => {
                let rate = speed.value(run).filter(|_| matches!(speed, Speed::Tokens | Speed::Samples));
                (rate.map(quantity::count), rate)
            }
            Kind::Bubble => share(run.bubble_fraction),
            Kind::Mfu => share(run.mfu),
            Kind::Memory => {
                let worst = run.worst_device();
                (worst.map(used), worst.map(|device| device.peak_bytes as f64))
            }
            Kind::Activations => (
                run.peak_activation_bytes.map(quantity::bytes),
                run.peak_activation_bytes.map(|bytes| bytes as f64),
            ),
        };
        let number = number.filter(|number| number.is_finite());
        Cell { text: text.unwrap_or_else(|| quantity::NONE.to_owned()), number }
    }
}

/// `31.2 GB of 40.0 GB`.
pub(crate) fn used(device: &DevicePeak) -> String {
    let peak = quantity::bytes(device.peak_bytes);
    device.capacity_bytes.map_or(peak.clone(), |capacity| format!("{peak} of {}", quantity::bytes(capacity)))
}
