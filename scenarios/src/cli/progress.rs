//! How far a verb is, on standard error, and Ctrl-C.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};
use scenarios::run::Progress;

use super::Exit;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Time between two lines where standard error is no terminal.
const BETWEEN_LINES: Duration = Duration::from_secs(10);

/// A line that says how much is done.
pub(super) struct Bar {
    drawn: ProgressBar,
    until: Option<Instant>,
    lines: Option<Lines>,
}

/// Lines written now and then, for logs. Dropping it ends them.
struct Lines {
    end: Option<Sender<()>>,
    writer: Option<JoinHandle<()>>,
}

impl Bar {
    /// A bar on standard error that counts `things`, a line now and then where that is no terminal;
    /// none if `quiet`.
    pub(super) fn new(quiet: bool, things: &str) -> Self {
        let drawn = drawn(quiet, "{wide_bar}", things);
        let is_logged = !quiet && !io::stderr().is_terminal();
        let lines = is_logged.then(|| Lines::of(drawn.clone(), things.to_owned()));
        Self { drawn, until: None, lines }
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
        self.lines.take();
        self.drawn.finish_and_clear();
    }
}

impl Lines {
    fn of(bar: ProgressBar, things: String) -> Self {
        let (end, ended) = mpsc::channel();
        let writer = thread::spawn(move || {
            while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(BETWEEN_LINES) {
                let Some(all) = bar.length() else { continue };
                let left = match bar.position() {
                    0 => String::new(),
                    _ => format!(", {} left", HumanDuration(bar.eta())),
                };
                // Where standard error is closed there is nobody to tell.
                let _ = writeln!(io::stderr(), "{} of {all} {things}{left}", bar.position());
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

/// The first Ctrl-C lets the runs under way end, the second does not wait for them. Schedulers of
/// clusters and terminals that close end things by SIGTERM and SIGHUP, which do the same.
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
