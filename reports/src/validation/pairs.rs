//! Measured differences between two plans beside their intervals: in a ratio what both plans share cancels.

use serde::Serialize;

use super::Row;
use super::intervals::COVERED;
use crate::quantity;

/// Pairs of rows of one set, model and machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Pairs {
    /// How many.
    pub count: usize,
    /// Pairs whose measured ratio lies in its interval.
    pub within: usize,
    /// Width of the interval of a ratio over what it would be if the two plans shared no error, by pair in ascending order.
    #[serde(skip)]
    pub narrower: Vec<f64>,
}

impl Pairs {
    /// All pairs among rows that say the same in `alike`; none where there are none with errors that are known.
    pub fn of<'a>(rows: impl IntoIterator<Item = &'a Row>, alike: &[String]) -> Option<Self> {
        let rows: Vec<&Row> = rows.into_iter().filter(|row| row.uncertainty.is_some()).collect();
        let same =
            |a: &&Row, b: &&Row| alike.iter().all(|column| a.inputs.get(column) == b.inputs.get(column));
        let mut found = Self::default();
        for (a, b) in pairs(&rows, same) {
            found.add(a, b);
        }
        found.narrower.sort_by(f64::total_cmp);
        (found.count > 0).then_some(found)
    }

    fn add(&mut self, a: &Row, b: &Row) {
        let Some((ours, theirs)) = a.uncertainty.as_ref().zip(b.uncertainty.as_ref()) else { return };
        let half = |[least, most]: [f64; 2]| (most / least).ln() / 2.0;
        let interval = ours.interval_of_ratio(theirs, a.predicted / b.predicted);
        let apart = half(ours.interval(1.0)).hypot(half(theirs.interval(1.0)));
        self.count += 1;
        self.within += usize::from((interval[0]..=interval[1]).contains(&(a.measured / b.measured)));
        self.narrower.push(half(interval) / apart);
    }

    /// All of several; none of none.
    pub fn together<'a>(all: impl IntoIterator<Item = &'a Self>) -> Option<Self> {
        let mut found = Self::default();
        for Self { count, within, narrower } in all {
            found.count += count;
            found.within += within;
            found.narrower.extend(narrower);
        }
        found.narrower.sort_by(f64::total_cmp);
        (found.count > 0).then_some(found)
    }

    /// Share of the pairs whose measured ratio lies in its interval, 0 to 1.
    pub fn coverage(&self) -> f64 {
        self.within as f64 / self.count as f64
    }

    /// The median of how much narrower the interval of a ratio is than if nothing cancelled.
    pub fn median_narrower(&self) -> f64 {
        self.narrower.get(self.narrower.len().saturating_sub(1) / 2).copied().unwrap_or(1.0)
    }

    /// `92.0 % of 310 pairs within, 0.48 as wide as if nothing cancelled`, and what is wrong with that.
    pub(super) fn in_words(&self) -> String {
        let [least, most] = COVERED;
        let wrong = match self.coverage() {
            coverage if coverage < least => ": too narrow",
            coverage if coverage > most => ": wider than need be",
            _ => "",
        };
        let (coverage, narrower) = (quantity::percent(self.coverage()), self.median_narrower());
        let pairs = if self.count == 1 { "pair" } else { "pairs" };
        format!(
            "{coverage} of {} {pairs} within, {narrower:.2} as wide as if nothing cancelled{wrong}",
            self.count
        )
    }
}

/// Pairs of rows that are the `same`, each once.
pub fn pairs<R>(rows: &[R], same: impl Fn(&R, &R) -> bool + Copy) -> impl Iterator<Item = (&R, &R)> {
    let before = move |(at, a)| rows[..at].iter().filter(move |b| same(a, b)).map(move |b| (a, b));
    rows.iter().enumerate().flat_map(before)
}

#[cfg(test)]
mod tests {
    use indexmap::IndexMap;

    use super::*;
    use crate::summary::{CommonError, Uncertainty};

    /// A row off by an error of 0.1 that all share and one of 0.01 of its own.
    fn row(model: &str, number: usize, measured: f64) -> Row {
        let error = |deviation| CommonError { weight: 1.0, deviation };
        let errors = IndexMap::from([("all".to_owned(), error(0.1)), (number.to_string(), error(0.01))]);
        Row {
            inputs: IndexMap::from([("model".to_owned(), model.to_owned())]),
            measured,
            predicted: 1.0,
            uncertainty: Some(Uncertainty { errors, ..Uncertainty::default() }),
            ..Row::default()
        }
    }

    #[test]
    fn what_all_share_cancels_between_rows_of_a_model() {
        let rows = [row("a", 0, 1.1), row("a", 1, 1.11), row("a", 2, 1.2), row("b", 3, 9.0)];
        let pairs = Pairs::of(&rows, &["model".to_owned()]).expect("three of a");
        // 1.1 and 1.11 are 0.9 % apart, within 1.645 sqrt(2) 0.01 = 2.3 %; 1.2 is 8 to 9 % from both.
        assert_eq!((pairs.count, pairs.within), (3, 1));
        let expected = 0.01 / 0.1_f64.hypot(0.01);
        assert!((pairs.median_narrower() - expected).abs() < 1e-9);
        assert_eq!(Pairs::of(&rows[3..], &[]), None);
        assert_eq!(Pairs::together([&pairs, &pairs]).map(|both| (both.count, both.within)), Some((6, 2)));
    }
}
