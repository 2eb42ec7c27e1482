//! Training steps: each row becomes a scenario that is run as any other.

use std::collections::BTreeMap;

use calibration::{Row, Table};
use indexmap::IndexMap;
use rayon::prelude::*;
use reports::summary::{FailureKind, RunSummary};
use reports::validation;
use serde_yaml::Mapping;

use super::set::{Measured, Steps};
use super::settings::{Setting, of_column};
use super::{Judged, cells, embedded};
use crate::expectation::Metric;
use crate::experiment::{Experiment, load};
use crate::run::{self, Progress};
use crate::text::problem::Failure;

/// The root of all randomness; sets have none.
pub(super) const SEED: u64 = 1;

/// Runs a row, with its inputs and with settings on top of its own.
pub(super) type Run<'r> =
    dyn Fn(Row<'_>, &IndexMap<String, String>, &[String]) -> Result<RunSummary, String> + Sync + 'r;

/// Runs every row of a set that is embedded. None if `progress` stopped it.
pub(super) fn shipped(title: &str, steps: &Steps, progress: &dyn Progress) -> Option<Vec<Judged>> {
    let files = files(title, &steps.scenario);
    let run = |_: Row<'_>, inputs: &IndexMap<String, String>, more: &[String]| {
        simulated(&files, &[&settings(&steps.settings, inputs)?, more].concat())
    };
    judged(steps, &embedded::table(&steps.data), &run, progress)
}

/// Runs every row of a table, in parallel. None if `progress` stopped it.
pub(super) fn judged(
    steps: &Steps,
    table: &Table,
    run: &Run<'_>,
    progress: &dyn Progress,
) -> Option<Vec<Judged>> {
    let rows: Vec<Row<'_>> = table.rows().collect();
    let judge = |row: &Row<'_>| {
        if progress.stop() {
            return None;
        }
        let place = format!("{}:{}", table.name, row.line());
        let cells = cells(table.columns(), row);
        let inputs = inputs(steps, &cells);
        let judged = one(steps, &|more| run(*row, &inputs, more), &place, &cells);
        progress.done();
        Some(judged)
    };
    let judged: Option<Vec<_>> = rows.par_iter().map(judge).collect();
    Some(judged?.into_iter().flatten().collect())
}

/// The scenario that all rows change.
pub(super) fn files(title: &str, scenario: &Mapping) -> BTreeMap<String, Vec<u8>> {
    let mut scenario = scenario.clone();
    scenario.insert("name".into(), title.into());
    let text = serde_yaml::to_string(&scenario).expect("what was read from YAML can be written as YAML");
    BTreeMap::from([(FILE.to_owned(), text.into_bytes())])
}

/// The name under which the common scenario is read.
pub(super) const FILE: &str = "scenario.yaml";

/// Runs of a row by what is set on top of it, or why there is none.
type Runs<'s> = BTreeMap<&'s [String], Result<RunSummary, String>>;

/// Measurements of a row.
fn one(
    steps: &Steps,
    run: &dyn Fn(&[String]) -> Result<RunSummary, String>,
    place: &str,
    cells: &IndexMap<String, String>,
) -> Vec<Judged> {
    let inputs = inputs(steps, cells);
    let run = |more| predicted(steps, run, &inputs, more);
    let mut runs = Runs::new();
    for figure in steps.figures() {
        for more in [Some(&figure.with), figure.over.as_ref()].into_iter().flatten() {
            runs.entry(more).or_insert_with(|| run(more));
        }
    }
    let of_row = steps.part.as_ref().and_then(|column| cells.get(column)).cloned().unwrap_or_default();
    let judged = |figure: &Measured| Judged {
        part: figure.part.clone().unwrap_or_else(|| of_row.clone()),
        place: place.to_owned(),
        inputs: told(&inputs, figure),
        row: measurement(cells, figure).and_then(|measured| of_figure(&runs, figure, measured)),
    };
    steps.figures().map(judged).collect()
}

/// The inputs of a figure; of a speed-up with its name, by which those of a row are told apart.
fn told(inputs: &IndexMap<String, String>, figure: &Measured) -> IndexMap<String, String> {
    let of = figure.over.is_some().then(|| ("of".to_owned(), figure.column.clone()));
    inputs.clone().into_iter().chain(of).collect()
}

/// A figure of a row beside its prediction.
fn of_figure(
    runs: &Runs<'_>,
    figure: &Measured,
    measured: (f64, validation::Unit),
) -> Result<validation::Row, String> {
    let run = |more: &[String]| runs[more].as_ref().map_err(String::clone);
    let row = compared(run(&figure.with)?, figure.metric, measured)?;
    let Some(over) = &figure.over else { return Ok(row) };
    let predicted = self::figure(run(over)?, figure.metric)? / row.predicted;
    Ok(validation::Row { predicted, uncertainty: None, ..row })
}

/// Measurement beside the prediction of a run.
pub(super) fn compared(
    run: &RunSummary,
    metric: Metric,
    (measured, unit): (f64, validation::Unit),
) -> Result<validation::Row, String> {
    let is_time = unit == validation::Unit::Seconds;
    Ok(validation::Row {
        unit,
        measured,
        predicted: figure(run, metric)?,
        uncertainty: run.step_time_uncertainty.clone().filter(|_| metric == Metric::StepTimeS),
        shares: if is_time { shares(run) } else { IndexMap::new() },
        ..validation::Row::default()
    })
}

/// The cells of a row that say what was run.
pub(super) fn inputs(steps: &Steps, cells: &IndexMap<String, String>) -> IndexMap<String, String> {
    let measured = steps.figures().map(|measured| &measured.column);
    let outcomes: Vec<&String> = measured.chain(&steps.outcomes).collect();
    let inputs = cells.iter().filter(|(column, _)| !outcomes.contains(column));
    inputs.map(|(column, cell)| (column.clone(), cell.clone())).collect()
}

/// The measurement, in seconds, bytes or times.
pub(super) fn measurement(
    cells: &IndexMap<String, String>,
    figure: &Measured,
) -> Result<(f64, validation::Unit), String> {
    let column = &figure.column;
    let cell = of_column(cells, column)?;
    let number = cell.parse().ok().filter(|number: &f64| *number > 0.0 && number.is_finite());
    let (value, unit) = figure.unit.value();
    number
        .map(|number| (number * value, unit))
        .ok_or_else(|| format!("`{column}` is `{cell}`, no measurement"))
}

/// A figure of a run, or why it has none.
fn figure(run: &RunSummary, metric: Metric) -> Result<f64, String> {
    metric.of(run).ok_or_else(|| match &run.failure {
        Some(failure) => failure.message.clone(),
        None => format!("the run has no {metric}"),
    })
}

/// The run of a row that ran, with `more` set on top. One that is said not to fit has the memory
/// for its time ([`Steps::where_refused`]).
fn predicted(
    steps: &Steps,
    run: &dyn Fn(&[String]) -> Result<RunSummary, String>,
    inputs: &IndexMap<String, String>,
    more: &[String],
) -> Result<RunSummary, String> {
    steps.judges(inputs)?;
    let found = run(more)?;
    let refused = found.failure.as_ref().is_some_and(|failure| failure.kind == FailureKind::OutOfMemory);
    if !refused || steps.where_refused.is_empty() {
        return Ok(found);
    }
    run(&[&steps.where_refused, more].concat())
}

/// What a row sets.
pub(super) fn settings(
    settings: &IndexMap<String, Setting>,
    inputs: &IndexMap<String, String>,
) -> Result<Vec<String>, String> {
    let set =
        |(path, setting): (&String, &Setting)| setting.of(inputs).map(|value| format!("{path}={value}"));
    settings.iter().map(set).collect()
}

/// The run of a scenario with changes.
pub(super) fn simulated(files: &BTreeMap<String, Vec<u8>>, changes: &[String]) -> Result<RunSummary, String> {
    run::alone(&read(files, changes)?, SEED).map_err(|refusal| refusal.to_string())
}

/// A scenario with changes.
pub(super) fn read(files: &BTreeMap<String, Vec<u8>>, changes: &[String]) -> Result<Experiment, String> {
    load(files, FILE, changes).map_err(|failure| in_a_line(&failure))
}

/// All problems of a scenario.
pub(super) fn in_a_line(failure: &Failure) -> String {
    failure.problems.iter().map(|problem| problem.message.clone()).collect::<Vec<_>>().join("; ")
}

/// What the step is made of.
fn shares(run: &RunSummary) -> IndexMap<String, f64> {
    let step: f64 = run.time_breakdown_s.values().sum();
    run.time_breakdown_s.iter().map(|(cause, time)| (cause.clone(), time / step)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speed_up_is_the_time_of_one_run_over_that_of_another() {
        let run =
            |seconds| Ok(RunSummary { fits: true, step_time_s: Some(seconds), ..RunSummary::default() });
        let [with, over] = ["a=1", "a=2"].map(|setting| vec![setting.to_owned()]);
        let mut runs = Runs::from([(&with[..], run(2.0)), (&over[..], run(3.0))]);
        let figure: Measured =
            serde_yaml::from_str("{ column: c, unit: times, metric: step_time_s, with: [a=1], over: [a=2] }")
                .expect("a figure");
        let cells = IndexMap::from([("c".to_owned(), "1.2".to_owned())]);
        let judged = |runs: &Runs<'_>| of_figure(runs, &figure, measurement(&cells, &figure)?);
        let row = judged(&runs).expect("both have a time");
        assert_eq!((row.predicted, row.measured, row.unit), (1.5, 1.2, validation::Unit::Speedup));
        assert!((row.error() - 0.25).abs() < 1e-12);
        assert_eq!(told(&IndexMap::new(), &figure)["of"], "c");
        // One without a time has no speed-up either.
        runs.insert(&over, Err("no room".to_owned()));
        assert_eq!(judged(&runs).unwrap_err(), "no room");
    }
}
