//! Map of winners: the fastest variant of every cell over two swept axes.

use indexmap::{IndexMap, IndexSet};
use serde::{Deserialize, Serialize};

use crate::axis;
use crate::quantity;
use crate::ranking::{Comparison, Point};
use crate::standing::{Entry, Standing};
use crate::summary::RunSummary;

/// Fastest variants over two axes; values stand in the order of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Winners {
    /// Axis along a row of the map.
    pub columns: Axis,
    /// Axis down a column of the map.
    pub rows: Axis,
    /// Cells by row, then by column.
    pub cells: Vec<Vec<Winner>>,
}

/// Swept axis of a map.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axis {
    /// Swept path.
    pub path: String,
    /// Its values as written.
    pub values: Vec<String>,
}

/// Cell of a map.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Winner {
    /// Variants that no other is faster than, in the order of the file; empty if nothing runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fastest: Vec<String>,
    /// Step time of the first of them.
    pub step_time_s: Option<f64>,
    /// Fastest of the other variants. `None`: no other runs.
    pub next: Option<String>,
    /// Speed of the first over that of `next`, above 1.
    pub lead: Option<f64>,
}

impl Winners {
    /// The map of an experiment that compares variants over cases of two axes, both of numbers.
    /// `None`: any other experiment.
    pub fn of(runs: &[RunSummary], axes: &[String], cases: &[String]) -> Option<Self> {
        Self::over_cases(&Comparison::of(runs, axes, cases))
    }

    pub(crate) fn over_cases(comparison: &Comparison<'_>) -> Option<Self> {
        let paths: Vec<_> = comparison.case_naming.paths().map(|(path, _)| path).collect();
        let [columns, rows] = paths[..] else { return None };
        let map = Self::over(comparison, columns, rows).filter(|_| comparison.is_of_variants)?;
        let numbers = map.axes().iter().all(|axis| axis.is_of_numbers());
        numbers.then_some(map)
    }

    /// The map over two swept paths, at the best values of all others. `None`: some cell was not run.
    pub(crate) fn over(comparison: &Comparison<'_>, columns: &str, rows: &str) -> Option<Self> {
        let axis = |path: &str| {
            let values = comparison.points.iter().filter_map(|point| point.values.get(path));
            let values: IndexSet<&String> = values.collect();
            Axis { path: path.to_owned(), values: values.into_iter().cloned().collect() }
        };
        let mut runs: IndexMap<[Option<&String>; 2], Vec<&RunSummary>> = IndexMap::new();
        for Point { values, runs: of_point } in &comparison.points {
            runs.entry([values.get(columns), values.get(rows)]).or_default().extend(of_point);
        }
        let (columns, rows) = (axis(columns), axis(rows));
        let row = |row: &String| -> Option<Vec<Winner>> {
            let cell = |column| Some(Winner::among(comparison, runs.get(&[Some(column), Some(row)])?));
            columns.values.iter().map(cell).collect()
        };
        let cells = rows.values.iter().map(row).collect::<Option<_>>()?;
        Some(Winners { columns, rows, cells })
    }

    /// Columns, then rows.
    pub(crate) fn axes(&self) -> [&Axis; 2] {
        [&self.columns, &self.rows]
    }

    /// Variants that lead somewhere, in the order of the map.
    pub(crate) fn leaders(&self) -> IndexSet<&str> {
        self.cells.iter().flatten().filter_map(Winner::leader).collect()
    }
}

impl Axis {
    fn is_of_numbers(&self) -> bool {
        self.values.iter().all(|value| axis::number(value).is_some())
    }

    /// Unit of all values (`GB/s`). `None`: bare numbers, words, or units that differ.
    pub(crate) fn unit(&self) -> Option<&str> {
        let unit = |value| axis::parts(value).1;
        let shared = self.values.first().map(|value| unit(value)).filter(|_| self.is_of_numbers())?;
        (!shared.is_empty() && self.values.iter().all(|value| unit(value) == shared)).then_some(shared)
    }
}

impl Winner {
    fn among(comparison: &Comparison<'_>, runs: &[&RunSummary]) -> Self {
        let standing = Standing::of(runs, comparison.speed, |run| run.variant.clone());
        // Of equals the plainer one, written first, leads, whatever memory it needs. What is a tie only by its errors follows.
        let place =
            |entry: &&Entry<'_>| (entry.is_close(), runs.iter().position(|run| run.variant == entry.name));
        let mut tied: Vec<&Entry<'_>> = standing.tied.iter().collect();
        tied.sort_by_key(place);
        let next = standing.slower.first();
        Winner {
            fastest: tied.iter().map(|entry| entry.name.clone()).collect(),
            step_time_s: tied.first().and_then(|entry| entry.run.step_time()),
            next: next.map(|entry| entry.name.clone()),
            lead: tied.first().zip(next).map(|(first, next)| first.value / next.value),
        }
    }

    /// The variant that a cell is named after. `None`: nothing runs.
    pub(crate) fn leader(&self) -> Option<&str> {
        self.fastest.first().map(String::as_str)
    }

    /// `half`, or `nothing +2` where two more are as fast.
    pub(crate) fn named(&self) -> String {
        match self.leader() {
            Some(leader) if self.fastest.len() > 1 => format!("{leader} +{}", self.fastest.len() - 1),
            Some(leader) => leader.to_owned(),
            None => "nothing runs".to_owned(),
        }
    }

    /// `1.04×`, the lead over the next variant.
    pub(crate) fn times(&self) -> Option<String> {
        self.lead.map(quantity::times)
    }
}
