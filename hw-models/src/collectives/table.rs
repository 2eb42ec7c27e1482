//! Measured times over sizes, and what they say between and beyond.

use serde::Deserialize;

/// Times over sizes that never fall: `points` are (bytes, us). Where noise lets larger messages be faster, the geometric
/// mean of both counts (isotonic regression: Ayer et al., Annals of Mathematical Statistics, 1955).
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
        // Runs of points that are one: how many, and the sum of the logarithms of their times.
        let mut runs: Vec<(usize, f64)> = Vec::with_capacity(points.len());
        for &[_, us] in &points {
            let mut run = (1, us.ln());
            while let Some(&(count, sum)) =
                runs.last().filter(|last| last.1 / last.0 as f64 > run.1 / run.0 as f64)
            {
                runs.pop();
                run = (count + run.0, sum + run.1);
            }
            runs.push(run);
        }
        let level = runs.iter().flat_map(|&(count, sum)| std::iter::repeat_n((count, sum), count));
        for (point, (count, sum)) in points.iter_mut().zip(level.collect::<Vec<_>>()) {
            if count > 1 {
                point[1] = (sum / count as f64).exp();
            }
        }
        Self { points }
    }
}

impl LogTable {
    /// Time of a size (s). Between two points it grows as `model` (s over bytes, never falling) grows between them, and
    /// beyond the last as much as the model does, so that a start which the model does not know stays the same. Below the first
    /// it is the model, scaled. An empty table is the model.
    pub fn seconds(&self, bytes: f64, model: impl Fn(f64) -> f64) -> f64 {
        let (Some(first), Some(last)) = (self.points.first(), self.points.last()) else {
            return model(bytes);
        };
        if bytes <= first[0] {
            return first[1] * 1e-6 * model(bytes) / model(first[0]);
        }
        if bytes >= last[0] {
            return last[1] * 1e-6 + (model(bytes) - model(last[0])).max(0.0);
        }
        let after = self.points.partition_point(|point| point[0] <= bytes);
        let ([b0, t0], [b1, t1]) = (self.points[after - 1], self.points[after]);
        let (m0, m1) = (model(b0), model(b1));
        let share = if m1 > m0 { (model(bytes) - m0) / (m1 - m0) } else { (bytes - b0) / (b1 - b0) };
        1e-6 * (t0 + (t1 - t0) * share.clamp(0.0, 1.0))
    }

    /// The table on links that are `factor` times as fast: the least time is no transfer and stays.
    #[must_use]
    pub fn at_speed(&self, factor: f64) -> Self {
        let least = self.points.first().map_or(0.0, |point| point[1]);
        let points = self.points.iter().map(|&[bytes, us]| [bytes, least + (us - least) / factor]);
        Self { points: points.collect() }
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
