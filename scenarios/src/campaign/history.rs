//! Simulated histories of a run: failures drawn at random, lost work played again.
//!
//! It shares nothing with the closed form but its assumptions ([`super::expected`]), which it tests.
//! Between two failures nothing is random, so a history takes one draw and one division a failure,
//! however many checkpoints pass. Draw i of seed s and history h is number i of stream h of ChaCha8
//! seeded with s: equal bytes on any number of threads.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::expected::{Course, Failing};

/// A run from its first step to its last checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct History {
    /// Time that passed (s).
    pub wall_s: f64,
    /// Failures met.
    pub failures: u64,
    /// Work done twice (s).
    pub lost_s: f64,
}

/// Plays history `number` of a seed, with a checkpoint every `interval_s` of work. `None`: it has more
/// than `failures_max` failures.
pub fn history(
    course: &Course,
    interval_s: f64,
    (seed, number): (u64, u64),
    failures_max: u64,
) -> Option<History> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(number);
    let cycle_s = course.cycle_s(interval_s);
    let mut history = History::default();
    let mut done_s = 0.0;
    loop {
        let restart_s = match (history.failures, course.failures) {
            (1.., Some(Failing { restart_s, .. })) => restart_s,
            _ => 0.0,
        };
        let to_do_s: f64 = course.work_s - done_s;
        // The last interval may be shorter.
        let cycles = (to_do_s / interval_s).ceil();
        let end_s = restart_s + to_do_s + cycles * (cycle_s - interval_s) + course.lag_s;
        let failure_s = course.failures.map_or(f64::INFINITY, |failing| {
            // 1 - u is never 0.
            -failing.mean_s * (1.0 - random.random::<f64>()).ln()
        });
        if end_s <= failure_s {
            history.wall_s += end_s;
            return Some(history);
        }
        history.wall_s += failure_s;
        history.failures += 1;
        if history.failures > failures_max {
            return None;
        }
        let training_s = (failure_s - restart_s).max(0.0);
        let durable = ((training_s - course.lag_s).max(0.0) / cycle_s).floor();
        done_s += durable.min(cycles) * interval_s;
        let whole = (training_s / cycle_s).floor();
        let worked_s = whole * interval_s + (training_s - whole * cycle_s).min(interval_s);
        history.lost_s += (worked_s - durable * interval_s).clamp(0.0, to_do_s);
    }
}
