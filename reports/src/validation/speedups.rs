//! Speed-ups: on which side of 1 they are, and where along a row of the table most is gained.

use indexmap::IndexMap;
use serde::Serialize;

use super::{LeftOut, Row, Tolerance, Unit};

/// How many speed-ups over one way of working are right. What was left out is wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Speedups {
    /// Measured speed-ups, with those left out.
    pub measured: usize,
    /// Predictions on the side of 1 on which the measurement is; 1 itself is on none.
    pub sides: usize,
    /// Rows of the table, each with the speed-ups of ways that add to each other, in their order.
    pub chains: usize,
    /// Rows of the table whose largest factor from one way to the next is where it was measured.
    pub gains: usize,
}

impl Speedups {
    /// Counts them; none if the rows are no speed-ups.
    pub(super) fn of(rows: &[Row], left_out: &[LeftOut]) -> Option<Self> {
        if rows.is_empty() || rows.iter().any(|row| row.unit != Unit::Speedup) {
            return None;
        }
        let mut chains: IndexMap<&str, Vec<&Row>> = IndexMap::new();
        for row in rows {
            chains.entry(&row.place).or_default().push(row);
        }
        let unpredicted = left_out.iter().map(|row| row.place.as_str());
        let mut unpredicted: Vec<&str> = unpredicted.filter(|place| !chains.contains_key(place)).collect();
        unpredicted.dedup();
        let side = |row: &&Row| row.predicted.partial_cmp(&1.0) == row.measured.partial_cmp(&1.0);
        let gain = |chain: &&Vec<&Row>| {
            largest(chain.iter().map(|row| row.predicted)) == largest(chain.iter().map(|row| row.measured))
        };
        Some(Self {
            measured: rows.len() + left_out.len(),
            sides: rows.iter().filter(side).count(),
            chains: chains.len() + unpredicted.len(),
            gains: chains.values().filter(gain).count(),
        })
    }

    /// `26 of 30 on the right side of 1, 8 of 10 gain most where it was measured`, the latter only if
    /// it is judged.
    pub(super) fn in_words(self, judged: &Tolerance) -> String {
        let Self { measured, sides, chains, gains } = self;
        let gain = judged.gains.map(|_| format!(", {gains} of {chains} gain most where it was measured"));
        format!("{sides} of {measured} on the right side of 1{}", gain.unwrap_or_default())
    }
}

/// The place of the largest factor from one speed-up to the next, the first from 1 on.
fn largest(speedups: impl Iterator<Item = f64>) -> Option<usize> {
    let mut before = 1.0;
    let factors = speedups.map(|speedup| speedup / std::mem::replace(&mut before, speedup));
    factors.enumerate().max_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(place, _)| place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::Part;

    #[test]
    fn two_rows_of_a_table_by_hand() {
        let row = |place: &str, measured, predicted| Row {
            place: place.to_owned(),
            unit: Unit::Speedup,
            measured,
            predicted,
            ..Row::default()
        };
        // Measured factors 0.9, 1.22, 2.73, ours 0.95, 1.05, 3: both gain most in the third.
        let first = [row("a", 0.9, 0.95), row("a", 1.1, 0.9975), row("a", 3.0, 2.9925)];
        // Measured factors 0.8, 2, 1.25, ours 1, 1.3, 1.54: another place, and 1 is on no side.
        let second = [row("b", 0.8, 1.0), row("b", 1.6, 1.3), row("b", 2.0, 2.0)];
        let left_out = ["c"; 3].map(|place| LeftOut { place: place.to_owned(), ..LeftOut::default() });
        let found = Speedups::of(&[first.clone(), second.clone()].concat(), &left_out);
        // 0.9975 is on the wrong side, 1 on none, and all of the third row.
        assert_eq!(found, Some(Speedups { measured: 9, sides: 4, chains: 3, gains: 1 }));
        assert_eq!(Speedups::of(&[Row::default()], &left_out), None);
        let passed = |wrong, gains| {
            let limits = Tolerance { wrong_sides: Some(wrong), gains: Some(gains), ..Tolerance::default() };
            Part::new(String::new(), limits, [first.clone(), second.clone()].concat(), left_out.to_vec())
                .passed
        };
        assert!(passed(5, 1) && !passed(4, 1) && !passed(5, 2));
    }
}
