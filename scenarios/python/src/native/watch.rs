//! Work beside an interpreter: it goes on with other threads meanwhile, and Ctrl-C is heard.

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use scenarios::run::Progress;

use super::failure::bug;

/// Time between two looks for signals.
const TICK: Duration = Duration::from_millis(50);
/// Stack of the thread that works: that of a program's first thread.
const STACK: usize = 8 << 20;

/// Tells work when to stop.
#[derive(Clone)]
pub(super) struct Watch {
    interrupted: Arc<AtomicBool>,
    until: Option<Instant>,
}

impl Watch {
    /// A watch that also stops the work after a `budget`.
    pub(super) fn within(&self, budget: Option<Duration>) -> Self {
        let until = budget.and_then(|budget| Instant::now().checked_add(budget));
        Self { until, ..self.clone() }
    }
}

impl Progress for Watch {
    fn begin(&self, _: u64) {}

    fn done(&self) {}

    fn stop(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed) || self.until.is_some_and(|until| Instant::now() >= until)
    }
}

/// Works on a thread of its own, without the interpreter lock, while the caller's waits for signals.
///
/// # Errors
/// The exception of a signal, which is raised at once: simulations under way end by themselves, and
/// none begins after them. A panic, which is a bug.
pub(super) fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce(&Watch) -> T + Send + 'static,
) -> PyResult<T> {
    let watch = Watch { interrupted: Arc::default(), until: None };
    let interrupted = Arc::clone(&watch.interrupted);
    let (done, ends) = mpsc::channel();
    let working = move || {
        // Nobody listens any more after a signal.
        let _ = done.send(panic::catch_unwind(AssertUnwindSafe(|| work(&watch))));
    };
    thread::Builder::new().stack_size(STACK).spawn(working).map_err(PyOSError::new_err)?;
    // Only this thread listens; the lock lets the closure without interpreter borrow the channel.
    let ends = Mutex::new(ends);
    loop {
        let end = py.detach(|| ends.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(TICK));
        match end {
            Ok(Ok(result)) => return Ok(result),
            Ok(Err(payload)) => return Err(bug(reason(&*payload))),
            Err(RecvTimeoutError::Disconnected) => return Err(bug("a thread is gone")),
            Err(RecvTimeoutError::Timeout) => {
                if let Err(signal) = py.check_signals() {
                    interrupted.store(true, Ordering::Relaxed);
                    return Err(signal);
                }
            }
        }
    }
}

/// Words of a panic.
fn reason(payload: &(dyn std::any::Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no reason given")
}
