//! What a device did beside what the simulator says of it.

use indexmap::IndexMap;
use rayon::prelude::*;
use reports::summary::RunSummary;
use reports::validation::{Row, Unit};

use super::record::{Recorded, Reply};
use super::simulation::{Simulation, files};
use super::workload::{Compared, Figure, Pair};
use super::{OnMachine, of};
use crate::run::Progress;
use crate::schema::FigureKind;
use crate::validation::set::Set;
use crate::validation::{Judged, steps};

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

impl Told<'_> {
    /// A figure, measured and predicted.
    fn figure(&self, of: &Figure) -> Result<Row, String> {
        let run = self.run.as_ref().map_err(String::clone)?;
        let is_time = of.metric.kind() == FigureKind::Seconds;
        let unit = if is_time { Unit::Seconds } else { Unit::Bytes };
        steps::compared(run, of.metric, (self.reply.figure(&of.figure)?, unit))
    }

    /// A figure beside that of another row, if the set has this one, it was measured, and the two are
    /// far enough apart.
    fn beside_another(&self, pair: &Pair, figure: &Figure, told: &[Self]) -> Option<Judged> {
        let wanted = pair.other(self.row)?;
        let other = told.iter().find(|other| *other.row == wanted)?;
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
