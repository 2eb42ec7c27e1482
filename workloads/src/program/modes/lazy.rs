//! Lazy execution: operators are recorded, and executed by another thread when a value is read or
//! the iteration ends. A record that has not been seen before is compiled.

use super::{Captured, Ran, eager};
use crate::lanes::Why;
use crate::program::issuer::{Issuer, Part, ThreadId};
use crate::program::path::{Region, Step, What};

/// Records, and the thread that executes them.
pub(in crate::program) struct Lazy {
    captured: Captured,
    thread: ThreadId,
    /// Channel over which records are handed over, and the one that tells that an iteration was
    /// executed.
    channels: [u32; 2],
    iterations: u32,
}

impl Lazy {
    pub(super) fn new(issuer: &mut Issuer<'_>) -> Self {
        let thread = issuer.thread("executor");
        let channels = [issuer.channel(), issuer.channel()];
        Self { captured: Captured::default(), thread, channels, iterations: 0 }
    }

    pub(super) fn iteration(&mut self, issuer: &mut Issuer<'_>, path: &[Step]) -> Ran {
        if self.iterations > issuer.execution.beside.depth {
            issuer.take(ThreadId::PYTHON, self.channels[1], Why::Depth);
        }
        self.iterations += 1;
        let mut recorded: Vec<Region> = Vec::new();
        let record = issuer.costs.framework.record.time();
        for step in path {
            match step.what {
                What::Run(region) => {
                    let operators = issuer.count(region);
                    for _ in 0..operators {
                        issuer.work(ThreadId::PYTHON, Part::Python, record);
                    }
                    recorded.push(region);
                }
                What::Fetch(_) | What::Decide(_) => {
                    self.execute(issuer, &std::mem::take(&mut recorded));
                    let copy = issuer.copy_result(self.thread);
                    issuer.block(ThreadId::PYTHON, copy);
                }
                what => eager::python(issuer, what),
            }
        }
        if !recorded.is_empty() {
            self.execute(issuer, &recorded);
        }
        issuer.give(self.thread, self.channels[1]);
        self.captured.ran()
    }

    fn execute(&mut self, issuer: &mut Issuer<'_>, recorded: &[Region]) {
        let message = issuer.costs.framework.message.time();
        issuer.work(ThreadId::PYTHON, Part::Python, message);
        issuer.give(ThreadId::PYTHON, self.channels[0]);
        issuer.take(self.thread, self.channels[0], Why::Feed);
        self.captured.make(issuer, self.thread, recorded);
        issuer.execute(self.thread, recorded);
    }
}
