//! Training steps: each row becomes a scenario that is run as any other.

use std::collections::BTreeMap;

use hw_models::calibration::{Row, split};
use indexmap::IndexMap;
use rayon::prelude::*;
use reports::summary::RunSummary;
use reports::validation;

use super::set::Steps;
use super::settings::Setting;
use super::{Judged, cells, embedded};
use crate::expectation::Metric;
use crate::experiment::load;
use crate::run::{self, Progress};

/// The root of all randomness; sets have none.
const SEED: u64 = 1;

/// Runs the scenario of every row, in parallel. None if `progress` stopped it.
pub(super) fn judged(title: &str, steps: &Steps, progress: &dyn Progress) -> Option<Vec<(String, Judged)>> {
    let files = files(title, steps);
    let table = embedded::table(&steps.data);
    let rows: Vec<Row<'_>> = table.rows().collect();
    let judge = |row: &Row<'_>| {
        if progress.stop() {
            return None;
        }
        let place = format!("{}:{}", table.name, row.line());
        let cells = cells(table.columns(), row);
        let part = steps.part.as_ref().and_then(|column| cells.get(column)).cloned().unwrap_or_default();
        let judged = one(steps, &files, place, cells);
        progress.done();
        Some((part, judged))
    };
    rows.par_iter().map(judge).collect()
}

/// The scenario that all rows change.
fn files(title: &str, steps: &Steps) -> BTreeMap<String, Vec<u8>> {
    let mut scenario = steps.scenario.clone();
    scenario.insert("name".into(), title.into());
    let text = serde_yaml::to_string(&scenario).expect("what was read from YAML can be written as YAML");
    BTreeMap::from([(FILE.to_owned(), text.into_bytes())])
}

/// The mean absolute error on the rows that a constant is fitted on, with another value of it. None where none is.
pub(super) fn error_where_fitted(title: &str, steps: &Steps, constant: &str) -> Option<f64> {
    let fitted = steps.fitted.as_ref()?;
    let files = files(title, steps);
    let table = embedded::table(&steps.data);
    let rows: Vec<Row<'_>> = table.rows().collect();
    let error = |row: &Row<'_>| {
        let mut inputs = cells(table.columns(), row);
        let measured = inputs.shift_remove(&steps.measured.column);
        let measured = measurement(measured.as_deref(), steps).ok().filter(|_| fits(&inputs, fitted.of))?;
        let (ours, _) = predicted(steps, &files, &inputs, Some(constant)).ok()?;
        Some((ours / measured - 1.0).abs())
    };
    let errors: Vec<f64> = rows.par_iter().filter_map(error).collect();
    (!errors.is_empty()).then(|| errors.iter().sum::<f64>() / errors.len() as f64)
}

/// The name under which the common scenario is read.
const FILE: &str = "scenario.yaml";

fn one(
    steps: &Steps,
    files: &BTreeMap<String, Vec<u8>>,
    place: String,
    mut inputs: IndexMap<String, String>,
) -> Judged {
    let measured = inputs.shift_remove(&steps.measured.column);
    if let Some(fitted) = steps.fitted.as_ref().filter(|fitted| fits(&inputs, fitted.of)) {
        let reason = format!("`{}` was fitted on it", fitted.path);
        return Judged::LeftOut(validation::LeftOut { place, inputs, reason });
    }
    let answer = measurement(measured.as_deref(), steps).and_then(|measured_s| {
        predicted(steps, files, &inputs, None).map(|predicted| (measured_s, predicted))
    });
    match answer {
        Ok((measured_s, (predicted_s, run))) => {
            let shares = shares(&run);
            let interval_s = run.step_time_interval_s.filter(|_| steps.measured.metric == Metric::StepTimeS);
            Judged::Row(validation::Row {
                place,
                inputs,
                measured_s,
                predicted_s,
                interval_s,
                shares,
                explanation: None,
            })
        }
        Err(reason) => Judged::LeftOut(validation::LeftOut { place, inputs, reason }),
    }
}

/// Whether a row is one of those that a constant is fitted on.
fn fits(inputs: &IndexMap<String, String>, of: u64) -> bool {
    let cells: Vec<&str> = inputs.values().map(String::as_str).collect();
    split::hash(&cells).is_multiple_of(of)
}

/// The measured time (s).
fn measurement(cell: Option<&str>, steps: &Steps) -> Result<f64, String> {
    let column = &steps.measured.column;
    let cell = cell.ok_or_else(|| format!("the table has no column `{column}`"))?;
    let number = cell.parse().ok().filter(|number: &f64| *number > 0.0 && number.is_finite());
    number
        .map(|number| number * steps.measured.unit.seconds())
        .ok_or_else(|| format!("`{column}` is `{cell}`, no time"))
}

/// The predicted time (s) with the run it is from; what was fitted has its committed value, or `constant`.
fn predicted(
    steps: &Steps,
    files: &BTreeMap<String, Vec<u8>>,
    inputs: &IndexMap<String, String>,
    constant: Option<&str>,
) -> Result<(f64, RunSummary), String> {
    let says = |column: &str, values: &[String]| inputs.get(column).is_some_and(|cell| values.contains(cell));
    if let Some(row) = steps.left_out.iter().find(|row| says(&row.column, &row.is)) {
        return Err(row.because.clone());
    }
    let set =
        |(path, setting): (&String, &Setting)| setting.of(inputs).map(|value| format!("{path}={value}"));
    let fitted =
        steps.fitted.iter().map(|fitted| format!("{}={}", fitted.path, constant.unwrap_or(&fitted.value)));
    let settings = steps.settings.iter().map(set).chain(fitted.map(Ok));
    let changes = settings.collect::<Result<Vec<_>, _>>()?;
    let experiment = load(files, FILE, &changes).map_err(|failure| {
        failure.problems.iter().map(|problem| problem.message.clone()).collect::<Vec<_>>().join("; ")
    })?;
    let run = run::alone(&experiment, SEED).map_err(|refusal| refusal.to_string())?;
    let metric = steps.measured.metric;
    match metric.of(&run) {
        Some(value) => Ok((value, run)),
        None => Err(run
            .failure
            .map_or_else(|| format!("the run has no {}", metric.name()), |failure| failure.message)),
    }
}

/// What the step is made of.
fn shares(run: &RunSummary) -> IndexMap<String, f64> {
    let step: f64 = run.time_breakdown_s.values().sum();
    run.time_breakdown_s.iter().map(|(cause, time)| (cause.clone(), time / step)).collect()
}
