//! Cases of a comparison: the problems to be solved, as far as a sweep has several.
//!
//! Swept paths are *choices* (micro-batch, parallelism, techniques), of which the best is looked
//! for, or *cases* (model, sequence, machine), which are given. Speeds are compared within a case:
//! a smaller model is no better setting.

use indexmap::IndexMap;

use crate::ranking::Point;
use crate::summary::RunSummary;

/// All runs that solve one problem.
pub(crate) struct Case<'a> {
    /// Paths of cases and their values; empty where there is one problem only.
    pub(crate) values: IndexMap<String, String>,
    /// In the order of the file.
    pub(crate) runs: Vec<&'a RunSummary>,
}

impl<'a> Case<'a> {
    /// The cases of `points`, which differ in the values at `paths`, in order of first appearance.
    pub(crate) fn group(points: &[Point<'a>], paths: &[String]) -> Vec<Self> {
        let mut cases: IndexMap<Vec<Option<&str>>, Case<'a>> = IndexMap::new();
        for point in points {
            let key = paths.iter().map(|path| point.values.get(path).map(String::as_str)).collect();
            let case = cases.entry(key).or_insert_with(|| Case {
                values: paths
                    .iter()
                    .filter_map(|path| Some((path.clone(), point.values.get(path)?.clone())))
                    .collect(),
                runs: Vec::new(),
            });
            case.runs.extend(&point.runs);
        }
        cases.into_values().collect()
    }
}
