//! Training steps: each row becomes a scenario that is run as any other.

use std::collections::BTreeMap;

use hw_models::calibration::Row;
use indexmap::IndexMap;
use rayon::prelude::*;
use reports::summary::RunSummary;
use reports::validation;

use super::set::Steps;
use super::settings::Setting;
use super::{Judged, cells, embedded};
use crate::experiment::load;
use crate::run::{self, Progress};

/// The root of all randomness; sets have none.
const SEED: u64 = 1;

/// Runs the scenario of every row, in parallel. None if `progress` stopped it.
pub(super) fn judged(title: &str, steps: &Steps, progress: &dyn Progress) -> Option<Vec<(String, Judged)>> {
    let mut scenario = steps.scenario.clone();
    scenario.insert("name".into(), title.into());
    let text = serde_yaml::to_string(&scenario).expect("what was read from YAML can be written as YAML");
    let files = BTreeMap::from([(FILE.to_owned(), text.into_bytes())]);
    let table = embedded::table(&steps.data);
    let rows: Vec<Row<'_>> = table.rows().collect();
    let judge = |row: &Row<'_>| {
        if progress.stop() {
            return None;
        }
        let place = format!("{}:{}", table.name, row.line());
        let judged = one(steps, &files, place, cells(table.columns(), row));
        progress.done();
        Some((String::new(), judged))
    };
    rows.par_iter().map(judge).collect()
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
    let answer = measurement(measured.as_deref(), steps)
        .and_then(|measured_s| predicted(steps, files, &inputs).map(|predicted| (measured_s, predicted)));
    match answer {
        Ok((measured_s, (predicted_s, run))) => {
            let shares = shares(&run);
            Judged::Row(validation::Row { place, inputs, measured_s, predicted_s, shares })
        }
        Err(reason) => Judged::LeftOut(validation::LeftOut { place, inputs, reason }),
    }
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

/// The predicted time (s) with the run it is from.
fn predicted(
    steps: &Steps,
    files: &BTreeMap<String, Vec<u8>>,
    inputs: &IndexMap<String, String>,
) -> Result<(f64, RunSummary), String> {
    let says = |column: &str, values: &[String]| inputs.get(column).is_some_and(|cell| values.contains(cell));
    if let Some(row) = steps.left_out.iter().find(|row| says(&row.column, &row.is)) {
        return Err(row.because.clone());
    }
    let set =
        |(path, setting): (&String, &Setting)| setting.of(inputs).map(|value| format!("{path}={value}"));
    let changes = steps.settings.iter().map(set).collect::<Result<Vec<_>, _>>()?;
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
