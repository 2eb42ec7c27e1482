//! Plans of a set of steps: rows that do the same work, of which one would be picked.

use calibration::{Row, Table};
use indexmap::{IndexMap, IndexSet};
use reports::validation::{MeasuredPlan, Regret};
use schemars::JsonSchema;
use serde::Deserialize;

use super::set::Steps;
use super::settings::{Setting, number, of_column};
use super::steps::measurement;
use super::{Judged, cells};

/// Columns that say which rows do the same work.
///
/// These are rows of one model, sequence, batch, machine, precision and release of the software, so
/// that nothing but the plan explains why one takes longer.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SameWork {
    /// Columns in which they say the same.
    columns: Vec<String>,
    /// Columns whose product is the batch, where plans choose it: times of a sequence are compared.
    #[serde(default)]
    batch: Vec<String>,
    /// The column with the number of data ranks, where plans differ in it.
    data_ranks: Option<String>,
    /// The column with the sequences in a micro-batch, where plans differ in it.
    micro_batch: Option<String>,
}

/// Regret over all rows of the table, with those that do not judge errors
/// ([`OneOf`](super::one_of::OneOf)).
///
/// `judged` holds the figures of every row, in the order of the table. `None`: the set does not say
/// which rows do the same work.
pub(super) fn regret(steps: &Steps, table: &Table, judged: &[Judged]) -> Option<Regret> {
    let same = steps.same_work.as_ref()?;
    // A row of the table has one figure after the other, the time of its step first.
    let times = judged.iter().step_by(steps.figures().count());
    let plan = |(row, judged): (Row<'_>, &Judged)| same.plan(steps, &cells(table.columns(), &row), judged);
    Some(Regret::new(table.rows().zip(times).filter_map(|pair| plan(pair).ok())))
}

impl SameWork {
    /// A row as a plan.
    ///
    /// # Errors
    /// Rows without a measurement, and columns that the table lacks.
    fn plan(
        &self,
        steps: &Steps,
        cells: &IndexMap<String, String>,
        judged: &Judged,
    ) -> Result<MeasuredPlan, String> {
        let told = |columns: &mut dyn Iterator<Item = &String>| -> Result<IndexMap<String, String>, String> {
            columns.map(|column| Ok((column.clone(), of_column(cells, column)?.to_owned()))).collect()
        };
        let settings: IndexSet<&String> = steps.settings.values().flat_map(Setting::columns).collect();
        let batch: f64 = self.batch.iter().map(|column| number(cells, column)).product::<Result<_, _>>()?;
        let count = |column: &String| number(cells, column).map(|count| count as u64);
        let data_ranks = self.data_ranks.as_ref().map(count).transpose()?;
        let micro_batch = self.micro_batch.as_ref().map(count).transpose()?.unwrap_or_default();
        let (measured, _) = measurement(cells, &steps.measured)?;
        Ok(MeasuredPlan {
            place: judged.place.clone(),
            work: told(&mut self.columns.iter())?,
            choices: told(&mut settings.into_iter().filter(|column| !self.columns.contains(column)))?,
            measured: measured / batch,
            predicted: judged.row.as_ref().ok().map(|row| row.predicted / batch),
            ranks_and_micro_batch: data_ranks.map(|ranks| [ranks, micro_batch]),
        })
    }
}

#[cfg(test)]
mod tests {
    use reports::validation;

    use super::*;
    use crate::validation::embedded;
    use crate::validation::set::Measurements;

    fn steps(name: &str) -> Steps {
        let set = embedded::set(name).expect("it is embedded");
        let Measurements::Steps(steps) = set.measurements else { panic!("{name} has steps") };
        *steps
    }

    /// Figures of all rows of a set, each as long as `predicted` says.
    fn judged(steps: &Steps, predicted: impl Fn(usize) -> Result<f64, String>) -> Vec<Judged> {
        let table = embedded::table(&steps.data);
        let figure = |(index, row): (usize, Row<'_>)| {
            let judged = Judged {
                part: String::new(),
                place: row.line().to_string(),
                inputs: IndexMap::new(),
                row: predicted(index).map(|predicted| validation::Row { predicted, ..Default::default() }),
            };
            vec![judged; steps.figures().count()]
        };
        table.rows().enumerate().flat_map(figure).collect()
    }

    /// A column that the table lacks would leave rows out in silence.
    #[test]
    fn columns_of_every_set_are_in_its_table() {
        let mut sets = 0;
        for name in embedded::names() {
            let set = embedded::set(name).expect("it is embedded");
            let Measurements::Steps(steps) = set.measurements else { continue };
            let Some(same) = &steps.same_work else { continue };
            sets += 1;
            let judged = judged(&steps, |_| Ok(1.0));
            let table = embedded::table(&steps.data);
            for (row, judged) in table.rows().zip(judged.iter().step_by(steps.figures().count())) {
                let plan = same.plan(&steps, &cells(table.columns(), &row), judged).expect(name);
                assert_eq!(plan.work.len(), same.columns.len(), "{name}");
                assert!(!plan.choices.is_empty(), "{name}");
            }
        }
        assert!(sets >= 5);
    }

    #[test]
    fn rows_that_do_not_judge_are_plans_all_the_same() {
        let steps = steps("vtrain-single-node");
        assert!(steps.one_of.is_some());
        let found = regret(&steps, &embedded::table(&steps.data), &judged(&steps, |row| Ok(row as f64)))
            .expect("it says which do the same");
        let summary = found.summary.expect("many do");
        assert_eq!((summary.groups, found.largest_group), (83, 17));
        assert!(summary.most_data_ranks.is_some());
    }

    #[test]
    fn rows_without_a_prediction_are_in_their_group() {
        let steps = steps("vtrain-multi-node");
        let every_second =
            |row: usize| if row.is_multiple_of(2) { Err("no room".to_owned()) } else { Ok(1.0) };
        let found = regret(&steps, &embedded::table(&steps.data), &judged(&steps, every_second))
            .expect("it says which do the same");
        let count = |of: fn(&validation::PlanGroup) -> usize| found.groups.iter().map(of).sum::<usize>();
        assert_eq!((count(|group| group.plans), count(|group| group.unpredicted)), (51, 26));
    }

    /// Eight sequences in 2 s are slower than sixteen in 3 s.
    #[test]
    fn plans_with_batches_of_their_own_are_compared_by_sequence() {
        let steps: Steps = serde_yaml::from_str(
            "{ data: simumax.csv, measured: { column: step, unit: s, metric: step_time_s }, scenario: {}, \
             settings: { training.accumulate: { column: count } }, \
             same_work: { columns: [model], batch: [dp, count], data_ranks: dp } }",
        )
        .expect("steps");
        let plan = |count: &str, step: &str, predicted: f64| {
            let cells = [("model", "a"), ("dp", "2"), ("count", count), ("step", step)];
            let cells = cells.map(|(column, cell)| (column.to_owned(), cell.to_owned()));
            let judged = Judged {
                part: String::new(),
                place: count.to_owned(),
                inputs: IndexMap::new(),
                row: Ok(validation::Row { predicted, ..Default::default() }),
            };
            let same = steps.same_work.as_ref().expect("it is there");
            same.plan(&steps, &IndexMap::from(cells), &judged)
        };
        let [small, large] = [plan("4", "2", 4.0), plan("8", "3", 4.0)].map(|plan| plan.expect("a plan"));
        assert_eq!((small.measured, small.predicted), (0.25, Some(0.5)));
        assert_eq!((large.measured, large.predicted), (0.1875, Some(0.25)));
        assert_eq!(small.work, large.work);
        assert_eq!(small.choices["count"], "4");
        assert_eq!(small.ranks_and_micro_batch, Some([2, 0]));
        assert_eq!(plan("4", "none", 4.0).unwrap_err(), "`step` is `none`, no measurement");
    }
}
