//! How often a task is executed before its time is believed.
//!
//! A sample is a batch of executions that takes a millisecond or more, so that the clock's resolution does not count. After
//! [`WARM_UPS`] batches samples are taken until there are [`SAMPLES`] of them and [`LEAST_SECONDS`] have gone, but once
//! there are [`LEAST_SAMPLES`] not beyond [`MOST_SECONDS`]. Their median stands for the task; where they scatter by more than [`QUIET`] around it
//! (median absolute deviation), as many again are taken once, and if that does not help the task is flagged as noisy.

use super::{Disk, Route, Task};

/// Batches that are executed before the first sample.
pub const WARM_UPS: u32 = 3;
/// Samples of a task, unless they take too long.
pub const SAMPLES: usize = 10;
/// Fewest samples of a task, however long they take: two of five may be far off without moving the median.
pub const LEAST_SAMPLES: usize = 5;
/// Shortest time that samples of a task take together (s).
pub const LEAST_SECONDS: f64 = 0.02;
/// Time after which no sample of a task is begun (s).
pub const MOST_SECONDS: f64 = 0.2;
/// Median absolute deviation, relative to the median, up to which samples agree.
pub const QUIET: f64 = 0.02;
/// Change of a sentinel that means that the device is not what it was.
pub const DRIFT: f64 = 0.03;
/// Executions of a batch on a GPU from which on they are nodes of graphs.
pub const IN_GRAPHS: u32 = 20;
/// Shortest batch (s).
const BATCH_SECONDS: f64 = 1e-3;
/// Most executions of a batch.
const MOST_EXECUTIONS: f64 = 1e6;

/// How long samples of a task are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// Shortest batch (s).
    pub batch_s: f64,
    /// Shortest time of all samples (s).
    pub least_s: f64,
    /// Time after which no sample is begun (s).
    pub most_s: f64,
}

impl Rules {
    const ORDINARY: Self = Self { batch_s: BATCH_SECONDS, least_s: LEAST_SECONDS, most_s: MOST_SECONDS };

    /// Those for a task. A drive has caches and queues of its own: a batch of its blocks is 50 ms long, and a task
    /// a third of a second.
    pub const fn of(task: &Task) -> Self {
        match task {
            // A board warms up and cools down within batches as long as these.
            Task::Sustained(_) => Self { batch_s: 0.05, least_s: 1.0, most_s: 2.0 },
            // The page cache is memory, and what is written to it counts as if it reached the drive.
            Task::Disk(Disk { route: Route::Cached, .. }) => Self::ORDINARY,
            Task::Disk(_) | Task::Flush { .. } | Task::Storage(_) => {
                Self { batch_s: 0.05, least_s: 0.3, most_s: 0.45 }
            }
            _ => Self::ORDINARY,
        }
    }

    /// Executions of a batch, of which one takes so long (s).
    pub fn executions(&self, one_s: f64) -> u32 {
        (self.batch_s / one_s.max(1e-9)).ceil().clamp(1.0, MOST_EXECUTIONS) as u32
    }
}

/// The middle of some values, the mean of both where their number is even; zero for none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        odd if odd % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

/// Median distance from the median, relative to it.
pub fn scatter(values: &[f64]) -> f64 {
    let middle = median(values);
    let distances: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    if middle > 0.0 { median(&distances) / middle } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_ten_that_is_far_off_moves_nothing() {
        let mut values = vec![10.0, 10.1, 9.9, 10.0, 10.0, 10.2, 9.8, 10.0, 10.1];
        assert_eq!(median(&values), 10.0);
        values.push(30.0);
        assert_eq!(median(&values), 10.0);
        assert!((scatter(&values) - 0.01).abs() < 1e-12, "{}", scatter(&values));
        assert_eq!(median(&[]), 0.0);
        assert_eq!(median(&[1.0, 2.0]), 1.5);
    }

    #[test]
    fn a_batch_is_a_millisecond_of_executions() {
        let rules = Rules { batch_s: 1e-3, least_s: 0.02, most_s: 0.2 };
        assert_eq!(rules.executions(3e-6), 334);
        assert_eq!(rules.executions(0.01), 1);
        assert_eq!(rules.executions(0.0), 1_000_000);
    }
}
