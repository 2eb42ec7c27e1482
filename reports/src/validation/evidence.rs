//! What errors go with: the inputs of the rows, and what the predictions are made of.

use indexmap::{IndexMap, IndexSet};
use serde::Serialize;

use super::statistics::kendall_tau;
use super::{Part, Row, Statistics};

/// Errors of the rows that have one value of an input.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ByInput {
    /// The input.
    pub column: String,
    /// Its value.
    pub value: String,
    /// The errors.
    pub statistics: Statistics,
}

/// How much of the predictions a cause is, in all rows and where they are worst.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ByShare {
    /// The cause.
    pub cause: String,
    /// Its mean share of all predictions.
    pub all: f64,
    /// Its mean share of the tenth of the predictions that are farthest too fast.
    pub fastest: f64,
    /// The same of those farthest too slow.
    pub slowest: f64,
    /// Rank correlation of its share and the signed error.
    pub kendall_tau: Option<f64>,
}

/// Values of an input that are told apart, and rows that they have on average: fewer tell nothing.
const VALUES_MAX: usize = 12;
const ROWS_MIN: usize = 2;

impl Part {
    /// Errors by value of each input that has a few.
    pub fn by_input(&self) -> Vec<ByInput> {
        let mut found = Vec::new();
        for column in self.rows.first().into_iter().flat_map(|row| row.inputs.keys()) {
            let mut values: IndexMap<&str, Vec<&Row>> = IndexMap::new();
            for row in &self.rows {
                let value = row.inputs.get(column).map_or("", String::as_str);
                values.entry(value).or_default().push(row);
            }
            if !(2..=VALUES_MAX).contains(&values.len()) || self.rows.len() < ROWS_MIN * values.len() {
                continue;
            }
            values.sort_by(|a, _, b, _| number(a).total_cmp(&number(b)).then_with(|| a.cmp(b)));
            found.extend(values.into_iter().map(|(value, rows)| ByInput {
                column: column.clone(),
                value: value.to_owned(),
                statistics: Statistics::of(rows),
            }));
        }
        found
    }

    /// The causes that predictions are made of, the largest first.
    pub fn by_share(&self) -> Vec<ByShare> {
        let mut ordered: Vec<&Row> = self.rows.iter().collect();
        ordered.sort_by(|a, b| a.error().total_cmp(&b.error()));
        let tenth = ordered.len().div_ceil(10);
        let causes: IndexSet<&String> = self.rows.iter().flat_map(|row| row.shares.keys()).collect();
        let mut found: Vec<ByShare> = causes
            .into_iter()
            .map(|cause| {
                let share = |row: &&Row| row.shares.get(cause).copied().unwrap_or_default();
                let mean = |rows: &[&Row]| rows.iter().map(share).sum::<f64>() / rows.len().max(1) as f64;
                let pairs: Vec<_> = ordered.iter().map(|row| (share(row), row.error())).collect();
                ByShare {
                    cause: cause.clone(),
                    all: mean(&ordered),
                    fastest: mean(&ordered[..tenth]),
                    slowest: mean(&ordered[ordered.len() - tenth..]),
                    kendall_tau: kendall_tau(&pairs),
                }
            })
            .collect();
        found.sort_by(|a, b| b.all.total_cmp(&a.all));
        found
    }
}

/// What a value is sorted by; words come last.
fn number(value: &str) -> f64 {
    crate::axis::number(value).unwrap_or(f64::INFINITY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::Tolerance;

    fn row(tensor: &str, predicted: f64, waiting: f64) -> Row {
        Row {
            inputs: IndexMap::from([
                ("tensor".to_owned(), tensor.to_owned()),
                ("id".to_owned(), tensor.to_owned()),
            ]),
            measured: 1.0,
            predicted,
            shares: IndexMap::from([("compute".to_owned(), 1.0 - waiting), ("waiting".to_owned(), waiting)]),
            ..Row::default()
        }
    }

    #[test]
    fn errors_are_told_by_value_and_by_share() {
        let rows = vec![row("8", 0.5, 0.4), row("2", 0.9, 0.1), row("8", 0.7, 0.3), row("2", 1.1, 0.0)];
        let part = Part::new(String::new(), Tolerance::default(), rows, Vec::new());
        let by_input = part.by_input();
        let told = by_input.iter().map(|one| (one.column.as_str(), one.value.as_str(), one.statistics.rows));
        let told: Vec<_> = told.collect();
        assert_eq!(told, [("tensor", "2", 2), ("tensor", "8", 2), ("id", "2", 2), ("id", "8", 2)]);
        assert!((by_input[1].statistics.bias + 0.4).abs() < 1e-12);
        let shares = part.by_share();
        assert_eq!((shares[0].cause.as_str(), shares[1].cause.as_str()), ("compute", "waiting"));
        // The more waiting, the more too fast.
        assert_eq!((shares[1].fastest, shares[1].slowest, shares[1].kendall_tau), (0.4, 0.0, Some(-1.0)));
    }
}
