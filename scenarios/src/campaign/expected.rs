//! Expected time of a run that fails, and the interval between checkpoints that makes it least.
//!
//! Failures of the job are exponentially distributed with mean M. Every tau of work training waits
//! delta for a checkpoint; after a failure R passes until the first step. A failure may strike at any
//! time, also while a checkpoint is written or training restarts. The exact expected time of work T
//! is (Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", Future
//! Generation Computer Systems 22, 2006, equation 13)
//!
//! ```text
//! E(tau) = M e^(R/M) (e^((tau + delta)/M) - 1) T / tau
//! ```
//!
//! A checkpoint that is written in the background is durable a lag w after training goes on. From
//! one durable moment to the next tau + delta pass; a failure in between costs R, and the w of work
//! behind the durable checkpoint once more. With p = e^(-(tau + delta)/M) the first try lasts
//! M (1 - p) on average, and each failure adds M (e^((R + w + tau + delta)/M) - 1):
//!
//! ```text
//! E = [M (1 - p) + (1 - p) M (e^((R + w)/M) / p - 1)] T / tau = M e^((R + w)/M) (1/p - 1) T / tau
//! ```
//!
//! So the lag adds to the restart. Where writes take longer than tau + delta, training waits for
//! them: w is a whole interval then, and delta what is missing.

/// A training run that may fail.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Course {
    /// Time of all steps, T (s).
    pub work_s: f64,
    /// Time that training waits at each checkpoint, delta (s).
    pub pause_s: f64,
    /// Time from there until the checkpoint is durable, w (s).
    pub lag_s: f64,
    /// Failures of the job; none when absent.
    pub failures: Option<Failing>,
}

/// Failures of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Failing {
    /// Mean time between two, M (s).
    pub mean_s: f64,
    /// Time from a failure to the first step, R (s).
    pub restart_s: f64,
}

impl Course {
    /// Expected time (s) with a checkpoint every `interval_s` of work; infinite beyond what numbers
    /// hold.
    pub fn expected_s(&self, interval_s: f64) -> f64 {
        let cycle_s = self.cycle_s(interval_s);
        let per_work = match self.failures {
            None => cycle_s,
            Some(Failing { mean_s, restart_s }) => {
                mean_s * ((restart_s + self.lag_s) / mean_s).exp() * (cycle_s / mean_s).exp_m1()
            }
        };
        per_work * (self.work_s / interval_s)
    }

    /// Share of the expected time that makes progress, 0 to 1.
    pub fn goodput(&self, interval_s: f64) -> f64 {
        self.work_s / self.expected_s(interval_s)
    }

    /// The interval (s) of least expected time, at most the whole work; `None` without failures,
    /// where a longer one is always better.
    pub fn best_interval_s(&self) -> Option<f64> {
        let failing = self.failures?;
        let unhindered = best_interval_s(self.pause_s, failing.mean_s);
        Some(unhindered.max(self.lag_s - self.pause_s).min(self.work_s))
    }

    /// Time from one checkpoint to the next without failures.
    pub(super) fn cycle_s(&self, interval_s: f64) -> f64 {
        (interval_s + self.pause_s).max(self.lag_s)
    }
}

/// The interval of least expected time for checkpoints of `pause_s` and failures every `mean_s`.
///
/// Where the derivative of E vanishes e^((tau + delta)/M) (1 - tau/M) = 1, or with x = tau/M
///
/// ```text
/// ln(1 - x) + x + delta/M = 0
/// ```
///
/// of which the left side falls from delta/M at 0 without end towards 1: bisection finds the one
/// root to the last digit.
pub fn best_interval_s(pause_s: f64, mean_s: f64) -> f64 {
    let is_below = |x: f64| (-x).ln_1p() + x + pause_s / mean_s > 0.0;
    let (mut below, mut above) = (0.0_f64, 1.0_f64);
    loop {
        let middle = f64::midpoint(below, above);
        if middle <= below || middle >= above {
            return middle * mean_s;
        }
        if is_below(middle) {
            below = middle;
        } else {
            above = middle;
        }
    }
}

/// Interval of Young ("A first order approximation to the optimum checkpoint interval",
/// Communications of the ACM 17, 1974): sqrt(2 delta M).
pub fn young_s(pause_s: f64, mean_s: f64) -> f64 {
    (2.0 * pause_s * mean_s).sqrt()
}

/// Interval of Daly (2006, equation 37): two terms more of the expansion in delta/M.
pub fn daly_s(pause_s: f64, mean_s: f64) -> f64 {
    let half = pause_s / (2.0 * mean_s);
    if half >= 1.0 {
        return mean_s;
    }
    young_s(pause_s, mean_s) * (1.0 + half.sqrt() / 3.0 + half / 9.0) - pause_s
}
