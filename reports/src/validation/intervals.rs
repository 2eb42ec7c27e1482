//! Whether measurements lie where predictions say.

use serde::Serialize;

use super::Row;
use crate::quantity;

/// The share of measurements that intervals for nine in ten should hold, least and most.
pub(super) const COVERED: [f64; 2] = [0.85, 0.95];
/// An interval that tells something is at most so many times the mean absolute error wide.
const WIDTH_MOST: f64 = 4.0;

/// The intervals of rows, of times or of memory.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Intervals {
    /// Share of the rows with an interval whose measurement lies in it, 0 to 1.
    pub coverage: f64,
    /// Mean distance of the ends, relative to the prediction.
    pub width: f64,
    /// Mean distance of the ends over the mean absolute error of these rows; none where that is 0.
    pub errors_wide: Option<f64>,
}

impl Intervals {
    /// Those of rows that have one; none where none has.
    pub fn of<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Option<Self> {
        let known: Vec<_> = rows.into_iter().filter_map(|row| Some((row, row.interval?))).collect();
        let mean = |value: &dyn Fn(&Row, [f64; 2]) -> f64| {
            known.iter().map(|&(row, ends)| value(row, ends)).sum::<f64>() / known.len() as f64
        };
        let within = |row: &Row, [least, most]: [f64; 2]| (least..=most).contains(&row.measured);
        let width = mean(&|row, [least, most]| (most - least) / row.predicted);
        let error = mean(&|row, _| row.error().abs());
        (!known.is_empty()).then(|| Self {
            coverage: mean(&|row, ends| f64::from(u8::from(within(row, ends)))),
            width,
            errors_wide: (error > 0.0).then(|| width / error),
        })
    }

    /// True if either half is more than twice the mean error.
    pub(super) fn is_too_wide(&self) -> bool {
        self.errors_wide.is_some_and(|wide| wide > WIDTH_MOST)
    }

    /// `93.1 % within, 18.2 % wide`, and what is wrong with that.
    pub(super) fn in_words(&self) -> String {
        let [least, most] = COVERED;
        let wrong = match self.coverage {
            coverage if coverage < least => ": too narrow",
            _ if self.is_too_wide() => ": too wide",
            coverage if coverage > most => ": wider than need be",
            _ => "",
        };
        format!("{} within, {} wide{wrong}", quantity::percent(self.coverage), quantity::percent(self.width))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_rows_by_hand() {
        let row = |measured, interval| Row { measured, predicted: 1.0, interval, ..Row::default() };
        let rows = [row(1.1, Some([0.9, 1.2])), row(0.5, Some([0.9, 1.1])), row(2.0, None)];
        let found = Intervals::of(&rows).expect("two have an interval");
        assert!((found.coverage - 0.5).abs() < 1e-12 && (found.width - 0.25).abs() < 1e-12);
        // Errors of 1/11 and 1.
        assert!((found.errors_wide.unwrap() - 0.25 / (6.0 / 11.0)).abs() < 1e-12);
        assert!(found.in_words().ends_with("too narrow"));
        assert_eq!(Intervals::of(&rows[2..]), None);
    }
}
