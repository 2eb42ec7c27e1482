//! Measured times over sizes, interpolated in log-log space.

use serde::Deserialize;

/// Times over sizes that never fall: `points` are (bytes, us). A point below one of a smaller size, as noise leaves
/// them, counts as much as that one.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "Vec<[f64; 2]>")]
pub struct LogTable {
    points: Vec<[f64; 2]>,
}

impl From<Vec<[f64; 2]>> for LogTable {
    fn from(mut points: Vec<[f64; 2]>) -> Self {
        points.retain(|[bytes, us]| bytes.is_finite() && us.is_finite() && *bytes > 0.0 && *us > 0.0);
        points.sort_by(|a, b| a[0].total_cmp(&b[0]));
        points.dedup_by_key(|point| point[0]);
        for i in 1..points.len() {
            points[i][1] = points[i][1].max(points[i - 1][1]);
        }
        Self { points }
    }
}

impl LogTable {
    /// Time of a size (s). Outside the table it follows `model` (s over bytes), scaled to meet the table at its end; an
    /// empty table is the model.
    pub fn seconds(&self, bytes: f64, model: impl Fn(f64) -> f64) -> f64 {
        let (Some(first), Some(last)) = (self.points.first(), self.points.last()) else {
            return model(bytes);
        };
        let along = |end: &[f64; 2]| end[1] * 1e-6 * model(bytes) / model(end[0]);
        if bytes <= first[0] {
            return along(first);
        }
        if bytes >= last[0] {
            return along(last);
        }
        let after = self.points.partition_point(|point| point[0] <= bytes);
        let ([b0, t0], [b1, t1]) = (self.points[after - 1], self.points[after]);
        1e-6 * t0 * (t1 / t0).powf((bytes / b0).ln() / (b1 / b0).ln())
    }

    /// The least time (s).
    pub fn floor(&self) -> f64 {
        self.points.first().map_or(0.0, |point| point[1] * 1e-6)
    }

    /// Its points: (bytes, us), ascending.
    pub fn points(&self) -> &[[f64; 2]] {
        &self.points
    }
}
