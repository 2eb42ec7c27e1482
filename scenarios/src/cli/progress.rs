//! How far a verb is, on standard error.

use std::fmt;
use std::io::{self, IsTerminal, Write as _};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use scenarios::run::Progress;

use super::interrupt::interrupted;

/// Time between two lines where standard error is no terminal.
const BETWEEN_LINES: Duration = Duration::from_secs(10);
/// Time between two looks at a line that is drawn anew.
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);

/// A line that says how much is done.
pub(super) struct Bar {
    drawn: ProgressBar,
    /// Things done at a time.
    jobs: f64,
    expected: Expected,
    until: Option<Instant>,
    lines: Option<Lines>,
}

/// Time that all things take, once somebody knows roughly.
type Expected = Arc<OnceLock<Duration>>;

/// Lines written now and then, for logs. Dropping it ends them.
struct Lines {
    end: Option<Sender<()>>,
    writer: Option<JoinHandle<()>>,
}

impl Bar {
    /// A bar on standard error that counts `things`, a line now and then where that is no terminal;
    /// none if `quiet`.
    pub(super) fn new(quiet: bool, things: &str) -> Self {
        let expected = Expected::default();
        let drawn = drawn(quiet, "{wide_bar}", things, &expected);
        // One run may take long.
        drawn.enable_steady_tick(BETWEEN_LOOKS);
        let is_logged = !quiet && !io::stderr().is_terminal();
        let lines = is_logged.then(|| Lines::of(drawn.clone(), things.to_owned(), Arc::clone(&expected)));
        let jobs = thread::available_parallelism().map_or(1.0, |count| count.get() as f64);
        Self { drawn, jobs, expected, until: None, lines }
    }

    /// A bar of things of which a number of jobs are done at a time.
    pub(super) fn at_a_time(mut self, jobs: Option<u16>) -> Self {
        self.jobs = jobs.map_or(self.jobs, f64::from);
        self
    }

    /// A bar that stops the work it counts after a `budget`.
    pub(super) fn within(mut self, budget: Option<Duration>) -> Self {
        self.until = budget.and_then(|budget| Instant::now().checked_add(budget));
        self
    }
}

/// A line on standard error that says what is done, and how many of so many `things` are; none where that is no terminal, or if
/// `quiet`.
pub(super) fn line(quiet: bool, things: &str, many: u64) -> ProgressBar {
    let line = drawn(quiet, "{wide_msg}", things, &Expected::default());
    line.set_length(many);
    line.enable_steady_tick(BETWEEN_LOOKS);
    line
}

fn drawn(quiet: bool, first: &str, things: &str, expected: &Expected) -> ProgressBar {
    let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let style = ProgressStyle::with_template(&format!("{first} {{pos}} of {{len}} {things}, {{time}}"));
    let expected = Arc::clone(expected);
    let time = move |bar: &ProgressState, out: &mut dyn fmt::Write| {
        // A line without its time is better than none.
        let done = [bar.pos(), bar.len().unwrap_or(0)];
        let _ = write!(out, "{}", time(done, bar.elapsed(), expected.get()));
    };
    let style = style.expect("the template names only fields that every bar has").with_key("time", time);
    ProgressBar::with_draw_target(None, target).with_style(style)
}

/// Time that is left of `all` things, if each takes what the mean of those that are `done` took; or
/// of the first thing what has passed.
fn time([done, all]: [u64; 2], passed: Duration, expected: Option<&Duration>) -> String {
    match (done, expected) {
        // Not the estimate of the bar, which follows the last ones: it doubles every few seconds
        // while one takes long.
        (1.., _) if done < all => {
            let left = passed.mul_f64((all - done) as f64 / done as f64);
            format!("{} left", HumanDuration(left))
        }
        (0, Some(&all)) => format!("{} of about {}", HumanDuration(passed), HumanDuration(all)),
        _ => format!("{} so far", HumanDuration(passed)),
    }
}

impl Progress for Bar {
    fn begin(&self, runs: u64) {
        self.drawn.reset();
        self.drawn.set_length(runs);
    }

    fn expect(&self, core_s: f64, runs: u64) {
        let at_a_time = self.jobs.min(runs as f64).max(1.0);
        if core_s > 0.0
            && let Ok(all) = Duration::try_from_secs_f64(core_s / at_a_time)
        {
            // The first to tell knows of all runs.
            let _ = self.expected.set(all);
        }
    }

    fn done(&self) {
        self.drawn.inc(1);
    }

    fn stop(&self) -> bool {
        interrupted() || self.until.is_some_and(|until| Instant::now() >= until)
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.lines.take();
        self.drawn.finish_and_clear();
    }
}

impl Lines {
    fn of(bar: ProgressBar, things: String, expected: Expected) -> Self {
        let (end, ended) = mpsc::channel();
        let writer = thread::spawn(move || {
            while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(BETWEEN_LINES) {
                let Some(all) = bar.length() else { continue };
                let done = bar.position();
                let time = time([done, all], bar.elapsed(), expected.get());
                // Where standard error is closed there is nobody to tell.
                let _ = writeln!(io::stderr(), "{done} of {all} {things}, {time}");
            }
        });
        Self { end: Some(end), writer: Some(writer) }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.end.take();
        // A writer that panicked has no more to say.
        let _ = self.writer.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Time left grows while one thing takes long, by its share of the mean and no faster.
    #[test]
    fn what_is_left_follows_the_mean() {
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        assert_eq!(time([5, 6], minutes(10), None), "2 minutes left");
        assert_eq!(time([5, 6], minutes(20), None), "4 minutes left");
        assert_eq!(time([1, 4], minutes(1), None), "3 minutes left");
        assert_eq!(time([0, 4], minutes(1), Some(&minutes(9))), "60 seconds of about 9 minutes");
        assert_eq!(time([4, 4], minutes(2), None), "2 minutes so far");
    }
}
