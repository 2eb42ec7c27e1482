//! How far a verb is, on standard error, and Ctrl-C.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use scenarios::run::Progress;

use super::Exit;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// A line that says how much is done.
pub(super) struct Bar {
    drawn: ProgressBar,
    until: Option<Instant>,
}

impl Bar {
    /// A bar on standard error that counts `things`; none where that is no terminal, or if `quiet`.
    pub(super) fn new(quiet: bool, things: &str) -> Self {
        Self { drawn: drawn(quiet, "{wide_bar}", things), until: None }
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
    let line = drawn(quiet, "{wide_msg}", things);
    line.set_length(many);
    // One thing may take long: what is left of the time is told anew meanwhile.
    line.enable_steady_tick(Duration::from_millis(500));
    line
}

fn drawn(quiet: bool, first: &str, things: &str) -> ProgressBar {
    let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let style = ProgressStyle::with_template(&format!("{first} {{pos}} of {{len}} {things}, {{eta}} left"));
    let style = style.expect("the template names only fields that every bar has");
    ProgressBar::with_draw_target(None, target).with_style(style)
}

impl Progress for Bar {
    fn begin(&self, runs: u64) {
        self.drawn.reset();
        self.drawn.set_length(runs);
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
        self.drawn.finish_and_clear();
    }
}

/// The first Ctrl-C lets the runs under way end, the second does not wait for them.
pub(super) fn catch_interrupts() {
    let handler = || {
        if INTERRUPTED.swap(true, Ordering::Relaxed) {
            std::process::exit(Exit::Interrupted as i32);
        }
    };
    // Without a handler, Ctrl-C ends everything at once, as it does in other programs.
    let _ = ctrlc::set_handler(handler);
}

/// Whether there was a Ctrl-C.
pub(super) fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}
