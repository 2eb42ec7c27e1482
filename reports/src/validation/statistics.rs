//! Statistics of predictions beside measurements.

use serde::Serialize;

use super::Row;

/// Errors of predictions, as fractions of the measurement, of ratios as differences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Statistics {
    /// How many.
    pub rows: usize,
    /// Mean absolute error.
    pub mape: f64,
    /// Median absolute error, by nearest rank.
    pub median: f64,
    /// 95th percentile of the absolute error, by nearest rank: under 20 rows the worst one.
    pub p95: f64,
    /// The error farthest from 0, with its sign.
    pub worst: f64,
    /// Mean error, above 0 where predictions are slow.
    pub bias: f64,
    /// Rank correlation of predictions and measurements (Kendall's tau-b), -1 to 1; none where either are all equal.
    pub kendall_tau: Option<f64>,
}

impl Statistics {
    /// Of rows; zeros for none.
    pub fn of<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Self {
        let (errors, pairs): (Vec<f64>, Vec<(f64, f64)>) =
            rows.into_iter().map(|row| (row.error(), (row.predicted, row.measured))).unzip();
        let mut sorted = errors.clone();
        sorted.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
        let rows = errors.len();
        let at = |share: f64| {
            let rank = (share * rows as f64).ceil() as usize;
            sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
        };
        let mean = |sum: f64| if rows == 0 { 0.0 } else { sum / rows as f64 };
        Self {
            rows,
            mape: mean(errors.iter().map(|error| error.abs()).sum()),
            median: at(0.5).abs(),
            p95: at(0.95).abs(),
            worst: at(1.0),
            bias: mean(errors.iter().sum()),
            kendall_tau: kendall_tau(&pairs),
        }
    }
}

/// Kendall's tau-b (Biometrika 33, 1945): pairs in the same order less pairs in the opposite order, over the geometric
/// mean of those that are not tied on either side. Quadratic, which a few thousand rows can afford.
pub(super) fn kendall_tau(pairs: &[(f64, f64)]) -> Option<f64> {
    let (mut agree, mut apart_left, mut apart_right) = (0i64, 0i64, 0i64);
    for (at, a) in pairs.iter().enumerate() {
        for b in &pairs[..at] {
            let (left, right) = (a.0.total_cmp(&b.0) as i64, a.1.total_cmp(&b.1) as i64);
            agree += left * right;
            apart_left += left.abs();
            apart_right += right.abs();
        }
    }
    let apart = apart_left as f64 * apart_right as f64;
    (apart > 0.0).then(|| agree as f64 / apart.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::Unit;

    fn statistics(pairs: &[(f64, f64)], unit: Unit) -> Statistics {
        let row = |&(predicted, measured): &(f64, f64)| Row { unit, measured, predicted, ..Row::default() };
        Statistics::of(&pairs.iter().map(row).collect::<Vec<_>>())
    }

    #[test]
    fn ratios_are_off_by_differences() {
        // 1.4 instead of 1.3, and 1.95 instead of 2: 10 points and 5 points, whatever the ratio.
        let found = statistics(&[(1.4, 1.3), (1.95, 2.0)], Unit::Ratio);
        assert!((found.mape - 0.075).abs() < 1e-12 && (found.worst - 0.1).abs() < 1e-12, "{found:?}");
        assert!((found.bias - 0.025).abs() < 1e-12, "{found:?}");
    }

    #[test]
    fn five_rows_by_hand() {
        // Errors: +10 %, -20 %, 0, +50 %, -10 %.
        let pairs = [(110.0, 100.0), (160.0, 200.0), (300.0, 300.0), (600.0, 400.0), (450.0, 500.0)];
        let found = statistics(&pairs, Unit::Seconds);
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} against {b}");
        assert_eq!(found.rows, 5);
        close(found.mape, 0.18);
        close(found.median, 0.1);
        close(found.p95, 0.5);
        close(found.worst, 0.5);
        close(found.bias, 0.06);
        // Nine pairs in the same order, one (600 and 450) in the opposite.
        close(found.kendall_tau.expect("no ties"), 0.8);
    }

    #[test]
    fn the_worst_keeps_its_sign_and_percentiles_are_rows() {
        let pairs: Vec<(f64, f64)> = (1..=20).map(|n| (1.0 - f64::from(n) / 100.0, 1.0)).collect();
        let found = statistics(&pairs, Unit::Bytes);
        let percent = [found.median, found.p95, found.worst].map(|error| (100.0 * error).round());
        assert_eq!(percent, [10.0, 19.0, -20.0]);
    }

    #[test]
    fn ties_count_on_neither_side() {
        // Concordant 2, discordant 0, one tie on the left: 2 / sqrt(2 x 3).
        let tau = kendall_tau(&[(1.0, 1.0), (1.0, 2.0), (2.0, 3.0)]).expect("not all are tied");
        assert!((tau - 2.0 / 6f64.sqrt()).abs() < 1e-12, "{tau}");
        assert_eq!(kendall_tau(&[(1.0, 1.0), (1.0, 2.0)]), None);
        assert_eq!(kendall_tau(&[]), None);
        assert_eq!(Statistics::of([]), Statistics::default());
    }
}
