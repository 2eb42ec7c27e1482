//! Co-execution (Kim et al., Terra: Imperative-Symbolic Co-Execution of Imperative Deep Learning
//! Programs, NeurIPS 2021): Python runs its program without dispatching operators, while a thread
//! beside it executes the graph of all traces.
//!
//! The first iterations run eagerly and are traced. Once a trace adds nothing, the graph is made
//! ready. From then on Python checks each operator against the graph, and the two threads meet
//! where one needs something of the other: a feed, a value that is read, the path where traces
//! part. An iteration that departs from all traces stops the graph and ends eagerly.

use super::{Ran, eager};
use crate::lanes::Why;
use crate::program::execution::{FallBack, LaunchedBy, Loops};
use crate::program::issuer::{Issuer, Part, ThreadId};
use crate::program::path::{Region, Step, What};
use crate::program::trace_graph::TraceGraph;

/// Traces so far, and the thread of the graph.
pub(in crate::program) struct CoExecution {
    traces: TraceGraph,
    /// Regions that the graph has been made ready for.
    ready: Vec<Region>,
    is_tracing: bool,
    graph: ThreadId,
    channels: Channels,
    /// Graphs that have been launched, and those for which Python has waited.
    executed: u32,
    awaited: u32,
    /// Regions that the graph launches together with the next ones.
    pending: Vec<Region>,
}

/// Channels between Python and the graph. A channel counts what was given, so that what a stopped
/// graph has not taken is not left over.
struct Channels {
    /// Python begins an iteration.
    begins: u32,
    /// Python hands over a value or tells the path.
    told: u32,
    /// The graph has come to where the path departs.
    reached: u32,
    /// The graph of an iteration has been launched.
    ended: u32,
    /// Nobody gives anything.
    never: u32,
}

impl CoExecution {
    pub(super) fn new(issuer: &mut Issuer<'_>) -> Self {
        let loops: Loops = issuer.execution.beside.loops;
        let graph = match issuer.execution.beside.overlap {
            true => issuer.thread("graph"),
            false => ThreadId::PYTHON,
        };
        if issuer.execution.beside.overlap {
            issuer.share_lock();
        }
        Self {
            traces: TraceGraph::new(loops),
            ready: Vec::new(),
            is_tracing: true,
            graph,
            channels: Channels {
                begins: issuer.channel(),
                told: issuer.channel(),
                reached: issuer.channel(),
                ended: issuer.channel(),
                never: issuer.channel(),
            },
            executed: 0,
            awaited: 0,
            pending: Vec::new(),
        }
    }

    pub(super) fn iteration(&mut self, issuer: &mut Issuer<'_>, path: &[Step]) -> Ran {
        let trace: Vec<Step> = path.iter().copied().filter(|step| step.what.is_traced()).collect();
        if self.is_tracing {
            self.wait_for_graph(issuer, 0);
            eager::steps(issuer, path, issuer.costs.framework.trace.time());
            if !self.traces.merge(&trace) {
                self.make_ready(issuer);
                self.is_tracing = false;
            }
            return Ran::Tracing;
        }
        self.wait_for_graph(issuer, issuer.execution.beside.depth);
        if self.graph != ThreadId::PYTHON {
            issuer.give(ThreadId::PYTHON, self.channels.begins);
            issuer.take(self.graph, self.channels.begins, Why::Thread);
        }
        let Some(departs) = self.traces.departs(&trace) else {
            self.beside(issuer, path, &trace, trace.len());
            if self.traces.is_divided_before(&trace, trace.len()) {
                self.tell(issuer, Why::Path);
            }
            self.launch(issuer);
            self.end(issuer);
            return Ran::CoExecuted;
        };
        let written = self.beside(issuer, path, &trace, departs);
        self.fall_back(issuer, path, &trace, departs, written);
        self.traces.merge(&trace);
        self.is_tracing = true;
        Ran::FellBack
    }

    /// Lets Python wait until at most `depth` graphs are under way.
    fn wait_for_graph(&mut self, issuer: &mut Issuer<'_>, depth: u32) {
        while self.executed - self.awaited > depth {
            issuer.take(ThreadId::PYTHON, self.channels.ended, Why::Depth);
            self.awaited += 1;
        }
    }

    fn make_ready(&mut self, issuer: &mut Issuer<'_>) {
        let known = self.traces.regions();
        let new: Vec<Region> = known.into_iter().filter(|region| !self.ready.contains(region)).collect();
        issuer.work(ThreadId::PYTHON, Part::Build, issuer.building(&new));
        self.ready.extend(new);
    }

    /// Writes both threads up to a step of the trace; gives the number of steps of the path that
    /// Python has done.
    fn beside(&mut self, issuer: &mut Issuer<'_>, path: &[Step], trace: &[Step], until: usize) -> usize {
        let mut traced = 0;
        for (done, step) in path.iter().enumerate() {
            if !step.what.is_traced() {
                eager::python(issuer, step.what);
                continue;
            }
            if traced == until {
                return done;
            }
            if self.traces.is_divided_before(trace, traced) {
                self.tell(issuer, Why::Path);
            }
            self.step(issuer, step.what);
            traced += 1;
        }
        path.len()
    }

    /// Lets the graph go on where it waits for Python.
    fn tell(&mut self, issuer: &mut Issuer<'_>, why: Why) {
        let message = issuer.costs.framework.message.time();
        self.launch(issuer);
        if self.graph == ThreadId::PYTHON {
            return;
        }
        issuer.work(ThreadId::PYTHON, Part::Python, message);
        issuer.give(ThreadId::PYTHON, self.channels.told);
        issuer.take(self.graph, self.channels.told, why);
        if why == Why::Feed {
            issuer.work_locked(self.graph, message);
        }
    }

    /// A step of both threads.
    fn step(&mut self, issuer: &mut Issuer<'_>, what: What) {
        let validate = issuer.costs.framework.validate.time();
        match what {
            What::Run(region) => {
                for _ in 0..issuer.count(region) {
                    issuer.work(ThreadId::PYTHON, Part::Python, validate);
                }
                self.pending.push(region);
                if self.graph != ThreadId::PYTHON && issuer.execution.launch == LaunchedBy::Kernel {
                    self.launch(issuer);
                }
            }
            What::Batch => {
                issuer.next_batch();
                self.tell(issuer, Why::Feed);
                issuer.copy_batch(self.graph);
            }
            What::Scalar => {
                self.tell(issuer, Why::Feed);
                issuer.copy_number(self.graph);
            }
            What::Fetch(_) | What::Decide(_) => {
                self.launch(issuer);
                let copy = issuer.copy_result(self.graph);
                issuer.block(ThreadId::PYTHON, copy);
            }
            _ => {}
        }
    }

    /// Launches what the graph has come to.
    fn launch(&mut self, issuer: &mut Issuer<'_>) {
        let pending = std::mem::take(&mut self.pending);
        issuer.execute(self.graph, &pending);
    }

    /// Ends an iteration of the graph.
    fn end(&mut self, issuer: &mut Issuer<'_>) {
        if self.graph != ThreadId::PYTHON {
            issuer.give(self.graph, self.channels.ended);
            self.executed += 1;
            issuer.section(self.graph);
        }
    }

    /// Stops the graph where the trace departs from all others, and ends the iteration eagerly.
    fn fall_back(
        &mut self,
        issuer: &mut Issuer<'_>,
        path: &[Step],
        trace: &[Step],
        departs: usize,
        written: usize,
    ) {
        let framework = issuer.costs.framework;
        let replays = issuer.execution.beside.fall_back == FallBack::Replay;
        issuer.work(ThreadId::PYTHON, Part::Python, framework.validate.time());
        let mut updated = replays && trace[..departs].iter().any(|step| step.what == UPDATE);
        if self.graph == ThreadId::PYTHON {
            // What was not executed yet is dropped, or executed first.
            match replays {
                true => self.pending.clear(),
                false => self.launch(issuer),
            }
        } else {
            self.launch(issuer);
            issuer.give(self.graph, self.channels.reached);
            updated |= self.go_astray(issuer, trace, departs);
            let section = issuer.section(self.graph);
            // It is stopped in this iteration, not in the one before.
            self.wait_for_graph(issuer, 0);
            if !replays {
                issuer.take(ThreadId::PYTHON, self.channels.reached, Why::Thread);
            }
            issuer.stop(section);
        }
        let rest = match replays {
            true => path,
            false => &path[written..],
        };
        if updated {
            issuer.restore_parameters(ThreadId::PYTHON);
        }
        let batches = trace[..departs].iter().filter(|step| step.what == What::Batch).count();
        issuer.keep_batches(if replays { batches as u32 } else { 0 });
        eager::steps(issuer, rest, framework.trace.time());
    }

    /// Writes what the graph does behind the step at which the trace departs, before it is stopped:
    /// all that follows in every trace, until it needs something of Python. Tells whether that may
    /// update parameters.
    fn go_astray(&mut self, issuer: &mut Issuer<'_>, trace: &[Step], departs: usize) -> bool {
        let mut updates = false;
        for what in self.traces.alone_behind(trace, departs) {
            updates |= what == UPDATE;
            match what {
                What::Run(region) => self.pending.push(region),
                What::Fetch(_) | What::Decide(_) => {
                    self.launch(issuer);
                    issuer.copy_result(self.graph);
                }
                _ => break,
            }
        }
        self.launch(issuer);
        issuer.take(self.graph, self.channels.never, Why::Path);
        updates
    }
}

/// Changes parameters, which are restored if it should not have been.
const UPDATE: What = What::Run(Region::Update);
