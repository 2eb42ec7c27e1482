//! Interrupts: Ctrl-C, and how clusters and terminals that close end things, SIGTERM and SIGHUP.
//!
//! Runs under way may end first, if they do so soon; a second interrupt does not wait for what they
//! leave to be written.

use std::panic::resume_unwind;
use std::process;
use std::sync::OnceLock;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use super::Exit;

/// The first interrupt.
static FIRST: OnceLock<Instant> = OnceLock::new();

/// Time that runs under way have to end after an interrupt.
const PATIENCE: Duration = Duration::from_millis(500);
/// Time between two looks for an interrupt.
const LOOKS: Duration = Duration::from_millis(50);
/// Stack of a thread that works as the main one would.
const STACK: usize = 8 << 20;

/// Makes the first interrupt one that is asked for, and a second the end of the program.
pub(super) fn catch() {
    let handler = || {
        // One that follows at once is the same: `timeout` signals a process and then its group.
        if FIRST.get_or_init(Instant::now).elapsed() >= PATIENCE {
            process::exit(Exit::Interrupted as i32);
        }
    };
    // Without a handler, Ctrl-C ends everything at once, as it does in other programs.
    let _ = ctrlc::set_handler(handler);
}

/// True once there was an interrupt.
pub(super) fn interrupted() -> bool {
    FIRST.get().is_some()
}

/// Does `work`. Where that does not end soon after an interrupt, `leave` says how the program ends
/// without it.
pub(super) fn patiently<T: Send>(work: impl FnOnce() -> T + Send, leave: impl FnOnce() -> Exit) -> T {
    thread::scope(|scope| {
        let (end, ended) = mpsc::channel::<()>();
        let working = move || {
            // Dropped when the work has ended, be it by a panic.
            let _end = end;
            work()
        };
        let thread = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, working);
        let worker = thread.expect("threads are there, as rayon has its own");
        while ended.recv_timeout(LOOKS) == Err(RecvTimeoutError::Timeout) {
            if FIRST.get().is_some_and(|first| first.elapsed() >= PATIENCE) {
                process::exit(leave() as i32);
            }
        }
        worker.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}
