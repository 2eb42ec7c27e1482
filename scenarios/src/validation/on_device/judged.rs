//! What a device did beside what the simulator says of it.

use indexmap::IndexMap;
use rayon::prelude::*;
use reports::summary::RunSummary;
use reports::validation::{MeasuredPlan, Regret, Row, Unit};

use super::record::{Recorded, Reply};
use super::simulation::{Simulation, files};
use super::workload::{Compared, Figure, Pair, Workloads};
use super::{OnMachine, of};
use crate::expectation::Metric;
use crate::run::Progress;
use crate::schema::FigureKind;
use crate::validation::set::Set;
use crate::validation::{Judged, steps};

/// The figure of a reply that tells how long a step took.
const STEP: &str = "step_s";

/// A row that was measured.
struct Told<'a> {
    place: String,
    row: &'a IndexMap<String, String>,
    /// The row and the GPU.
    inputs: IndexMap<String, String>,
    reply: &'a Reply,
    run: Result<RunSummary, String>,
}

/// The rows of a set that were measured. None if `progress` stopped it.
pub(in super::super) fn judged(
    name: &str,
    set: &Set,
    recorded: &Recorded,
    machine: &OnMachine,
    progress: &dyn Progress,
) -> Option<Vec<Judged>> {
    let workloads = of(set);
    let files = files(&set.title, workloads, machine);
    let cases = workloads.cases();
    let measured: Vec<_> = cases
        .iter()
        .filter_map(|case| Some((case, recorded.of(name).find(|(_, found)| found.row == case.inputs)?)))
        .collect();
    let told = measured.into_par_iter().map(|(case, (line, found))| {
        if progress.stop() {
            return None;
        }
        let given = workloads.given.iter().map(|(path, figure)| {
            found.reply.figure(figure).map(|value| format!("{path}={}", given(figure, value)))
        });
        let settings: Result<Vec<String>, String> =
            case.settings.iter().cloned().map(Ok).chain(given).collect();
        let run = settings.and_then(|settings| Simulation::of(workloads, &files, &settings)?.run());
        progress.done();
        let gpu = ("gpu".to_owned(), machine.gpu.clone());
        Some(Told {
            place: format!("{}:{line}", recorded.name),
            row: &case.inputs,
            inputs: case.inputs.clone().into_iter().chain([gpu]).collect(),
            reply: &found.reply,
            run,
        })
    });
    let told: Vec<Told<'_>> = told.collect::<Option<_>>()?;
    let figures = workloads
        .figures
        .iter()
        .flat_map(|figure| told.iter().map(move |row| row.judged(&figure.part, row.figure(figure))));
    let pairs = workloads.pairs.iter().flat_map(|pair| {
        let figure = workloads.figures.iter().find(|figure| figure.figure == pair.figure);
        let figure = figure.expect("a test says that pairs are of figures that are judged");
        told.iter().filter_map(|row| row.beside_another(pair, figure, &told))
    });
    Some(figures.chain(pairs).collect())
}

/// Regret over rows that do the same work, by the first figure that is judged.
///
/// `None`: the set does not say which rows do.
pub(in super::super) fn regret(workloads: &Workloads, judged: &[Judged]) -> Option<Regret> {
    let same = &workloads.same_work;
    let part = &workloads.figures.first()?.part;
    let plan = |row: &Judged| {
        let figure = row.row.as_ref().ok().filter(|_| row.part == *part)?;
        let of_work = |(axis, _): &(String, String)| same.contains(axis);
        let (work, choices) = row.inputs.clone().into_iter().partition(of_work);
        Some(MeasuredPlan {
            place: row.place.clone(),
            work,
            choices,
            measured: figure.measured,
            predicted: Some(figure.predicted),
            ranks_and_micro_batch: None,
        })
    };
    (!same.is_empty()).then(|| Regret::new(judged.iter().filter_map(plan)))
}

impl Told<'_> {
    /// A figure, measured and predicted.
    fn figure(&self, of: &Figure) -> Result<Row, String> {
        let run = self.run.as_ref().map_err(String::clone)?;
        if of.metric == Metric::BoardPowerW {
            // Power of a step that took now longer, now less is that of neither.
            self.reply.figure(STEP)?;
        }
        let unit = match of.metric.kind() {
            FigureKind::Seconds => Unit::Seconds,
            FigureKind::Number if of.metric == Metric::BoardPowerW => Unit::Watts,
            _ => Unit::Bytes,
        };
        steps::compared(run, of.metric, (self.reply.figure(&of.figure)?, unit))
    }

    /// A figure beside that of another row, if the set has this one, both measurements can be believed
    /// and are far enough apart.
    fn beside_another(&self, pair: &Pair, figure: &Figure, told: &[Self]) -> Option<Judged> {
        let wanted = pair.other(self.row)?;
        let other = told.iter().find(|other| *other.row == wanted)?;
        // The figure of the row itself says why, once.
        self.reply.figure(&figure.figure).and(other.reply.figure(&figure.figure)).ok()?;
        let second = || {
            let measured = pair.again.as_ref().map(|again| self.reply.figure(again)).transpose()?;
            let row = other.figure(figure)?;
            Ok::<_, String>(Row { measured: measured.unwrap_or(row.measured), ..row })
        };
        let both = self.figure(figure).and_then(|row| Ok((row, second()?)));
        if let (Some(share), Ok((row, other))) = (pair.apart_by, &both)
            && (row.measured / other.measured - 1.0).abs() < share.as_f64()
        {
            return None;
        }
        Some(self.judged(&pair.part, both.map(|(row, other)| pair.compared.of(&row, &other))))
    }

    fn judged(&self, part: &str, row: Result<Row, String>) -> Judged {
        Judged { part: part.to_owned(), place: self.place.clone(), inputs: self.inputs.clone(), row }
    }
}

impl Compared {
    /// The figure of two rows.
    fn of(self, first: &Row, second: &Row) -> Row {
        let (unit, of): (_, fn(f64, f64) -> f64) = match self {
            Self::Ratio => (Unit::Ratio, |first, second| first / second),
            Self::SpeedUp => (Unit::Speedup, |first, second| second / first),
            Self::Difference => (first.unit, |first, second| first - second),
        };
        Row {
            unit,
            measured: of(first.measured, second.measured),
            predicted: of(first.predicted, second.predicted),
            ..Row::default()
        }
    }
}

/// A figure as a setting: names of times end in `_s`, others are counts.
fn given(figure: &str, value: f64) -> String {
    if figure.ends_with("_s") { format!("{:.3} ns", value * 1e9) } else { value.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows without a measurement are no plans, nor are figures of memory.
    #[test]
    fn the_plan_that_is_predicted_fastest_is_compared_with_the_fastest() {
        let workloads = "{ workload: step, same_work: [model], scenario: {}, axes: {}, figures: [
            { figure: step_s, metric: step_time_s, part: step },
            { figure: peak_allocated_bytes, metric: peak_allocated_bytes, part: allocated } ] }";
        let workloads: Workloads = serde_yaml::from_str(workloads).expect("workloads");
        let row = |part: &str, model: &str, way: &str, times: Option<[f64; 2]>| {
            let inputs = [("model", model), ("way", way)];
            let figure = |[measured, predicted]: [f64; 2]| Row { measured, predicted, ..Row::default() };
            Judged {
                part: part.to_owned(),
                place: way.to_owned(),
                inputs: inputs.map(|(axis, value)| (axis.to_owned(), value.to_owned())).into(),
                row: times.map(figure).ok_or_else(|| "it scatters".to_owned()),
            }
        };
        let judged = [
            row("step", "a", "first", Some([1.2, 1.0])),
            row("step", "a", "second", Some([1.0, 1.1])),
            row("step", "a", "third", Some([2.0, 2.0])),
            row("step", "a", "fourth", Some([3.0, 3.0])),
            row("step", "a", "fifth", None),
            row("step", "b", "first", Some([1.0, 1.0])),
            row("allocated", "a", "first", Some([1.0, 0.1])),
        ];
        let found = regret(&workloads, &judged).expect("rows of a model do the same work");
        let [group] = &found.groups[..] else { panic!("{found:?}") };
        assert_eq!((group.plans, &*group.picked.place, &*group.best.place), (4, "first", "second"));
        assert!((group.regret - 0.2).abs() < 1e-12 && group.best_of_three == 0.0, "{group:?}");
    }

    #[test]
    fn two_rows_are_compared_by_hand() {
        let row = |measured, predicted| Row { measured, predicted, ..Row::default() };
        let [breaks, none] = [row(0.040, 0.042), row(0.032, 0.036)];
        for (compared, measured, predicted) in [
            (Compared::Ratio, 1.25, 7.0 / 6.0),
            (Compared::SpeedUp, 0.8, 6.0 / 7.0),
            (Compared::Difference, 0.008, 0.006),
        ] {
            let found = compared.of(&breaks, &none);
            let errors = [found.measured - measured, found.predicted - predicted];
            assert!(errors.iter().all(|error| error.abs() < 1e-12), "{compared:?}: {found:?}");
        }
    }
}
