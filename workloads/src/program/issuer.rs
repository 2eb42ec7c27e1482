//! Issuing: what threads do for steps of a path, and what the device executes for it. Modes put
//! these together.

use hw_models::framework::{Framework, Issue, UpdateStyle};
use hw_models::host::{HostCosts, OpClass};
use sim_core::time::Time;

use super::base::{Base, Operator, Operators};
use super::execution::{Execution, Kernels, LaunchedBy};
use super::path::Region;
use super::statement::BatchLoader;
use crate::lanes::{
    ActivityKind, ActivityRef, DeviceItem, DeviceStream, HostItem, HostTime, Lanes, NameId, SectionRef,
    Thread, Why,
};

/// A program's operators, and what issuing them costs.
#[derive(Clone, Copy, Debug)]
pub struct Costs<'a> {
    /// Operators.
    pub base: &'a Base,
    /// Where batches come from.
    pub loader: Option<&'a BatchLoader>,
    /// The framework.
    pub framework: &'a Framework,
    /// The host.
    pub host: &'a HostCosts,
}

/// A thread of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ThreadId(usize);

/// Threads and the stream of a program, as far as they have been written.
pub(super) struct Issuer<'a> {
    pub(super) costs: Costs<'a>,
    pub(super) execution: Execution,
    threads: Vec<Thread>,
    sections: Vec<u32>,
    stream: Vec<DeviceItem>,
    channels: u32,
    /// State of Python's lock: whether another competes for its lock, and how long it has held it.
    lock: Lock,
    /// The thread of backward passes, the channels there and back, and whether it has the word.
    engine: Option<(ThreadId, [u32; 2])>,
    in_engine: bool,
    /// Workers of the loader: thread, channels of batches that are made and taken.
    loaders: Vec<(ThreadId, u32, u32)>,
    batches: u32,
    /// Batches that are used again before the next one is taken.
    kept_batches: u32,
    /// Thread that marks when iterations are done, and the channel over which it hears of them.
    marks: (ThreadId, u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lock {
    /// Nobody else takes it.
    Own,
    Free,
    /// Held for so long (ps).
    Held(u64),
}

/// Part of a host's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Python,
    Dispatch,
    Calls,
    Loader,
    Build,
}

impl ThreadId {
    /// The thread that runs the program.
    pub(super) const PYTHON: Self = Self(0);
}

impl<'a> Issuer<'a> {
    pub(super) fn new(costs: Costs<'a>, execution: Execution) -> Self {
        let mut issuer = Self {
            costs,
            execution,
            threads: Vec::new(),
            sections: Vec::new(),
            stream: Vec::new(),
            channels: 0,
            lock: Lock::Own,
            engine: None,
            in_engine: false,
            loaders: Vec::new(),
            batches: 0,
            kept_batches: 0,
            marks: (ThreadId::PYTHON, 0),
        };
        issuer.thread("python");
        issuer.marks = (issuer.thread(MARKS), issuer.channel());
        let workers = costs.loader.map_or(0, |loader| loader.workers.get());
        for worker in 0..workers {
            let loader = (issuer.thread(&format!("loader {worker}")), issuer.channel(), issuer.channel());
            issuer.loaders.push(loader);
        }
        issuer
    }

    pub(super) fn thread(&mut self, name: &str) -> ThreadId {
        self.threads.push(Thread { name: name.to_owned(), items: Vec::new() });
        self.sections.push(0);
        ThreadId(self.threads.len() - 1)
    }

    pub(super) fn channel(&mut self) -> u32 {
        self.channels += 1;
        self.channels - 1
    }

    /// Lets Python's lock be one that another thread takes, too.
    pub(super) fn share_lock(&mut self) {
        self.lock = Lock::Free;
    }

    /// The lanes, when all has been written.
    pub(super) fn lanes(mut self) -> Lanes {
        self.unlock();
        Lanes {
            threads: self.threads,
            streams: vec![DeviceStream { id: (0, 0), items: self.stream }],
            channels: self.channels,
            locks: u32::from(self.lock != Lock::Own),
            ..Lanes::default()
        }
    }

    /// Activities and items of threads that have been written.
    pub(super) fn written(&self) -> u64 {
        let items: usize = self.threads.iter().map(|thread| thread.items.len()).sum();
        (items + self.stream.len()) as u64
    }

    /// Lets a thread work. Python holds its lock while it interprets.
    pub(super) fn work(&mut self, thread: ThreadId, part: Part, time: Time) {
        if thread != ThreadId::PYTHON || part != Part::Python || self.lock == Lock::Own {
            return self.spend(thread, part, time.0);
        }
        let interval = self.costs.framework.switch_interval.time().0.max(1);
        let mut left = time.0;
        while left > 0 {
            let held = match self.lock {
                Lock::Held(held) => held,
                _ => {
                    self.push(thread, HostItem::Lock(0));
                    0
                }
            };
            let now = left.min(interval - held);
            self.spend(thread, part, now);
            left -= now;
            self.lock = Lock::Held(held + now);
            if held + now == interval {
                self.unlock();
            }
        }
    }

    fn unlock(&mut self) {
        if matches!(self.lock, Lock::Held(_)) {
            self.push(ThreadId::PYTHON, HostItem::Unlock(0));
            self.lock = Lock::Free;
        }
    }

    fn spend(&mut self, thread: ThreadId, part: Part, time: u64) {
        if time == 0 {
            return;
        }
        let items = &mut self.threads[thread.0].items;
        if !matches!(items.last(), Some(HostItem::Work(_))) {
            items.push(HostItem::Work(HostTime::default()));
        }
        let Some(HostItem::Work(worked)) = items.last_mut() else { return };
        *match part {
            Part::Python => &mut worked.python,
            Part::Dispatch => &mut worked.dispatch,
            Part::Calls => &mut worked.calls,
            Part::Loader => &mut worked.loader,
            Part::Build => &mut worked.build,
        } += time;
    }

    /// Works with the lock, and gives it back at once: a thread beside Python's.
    pub(super) fn work_locked(&mut self, thread: ThreadId, time: Time) {
        if self.lock == Lock::Own || time == Time::ZERO {
            return self.spend(thread, Part::Python, time.0);
        }
        self.push(thread, HostItem::Lock(0));
        self.spend(thread, Part::Python, time.0);
        self.push(thread, HostItem::Unlock(0));
    }

    fn push(&mut self, thread: ThreadId, item: HostItem) {
        self.threads[thread.0].items.push(item);
    }

    pub(super) fn give(&mut self, thread: ThreadId, channel: u32) {
        self.push(thread, HostItem::Give(channel));
    }

    pub(super) fn take(&mut self, thread: ThreadId, channel: u32, why: Why) {
        self.release_lock(thread);
        self.push(thread, HostItem::Take(channel, why));
    }

    /// Waits for an activity, and for its end to be noticed.
    pub(super) fn block(&mut self, thread: ThreadId, activity: ActivityRef) {
        self.release_lock(thread);
        self.push(thread, HostItem::Block(activity));
        self.work(thread, Part::Calls, self.costs.host.synchronise.time());
    }

    fn release_lock(&mut self, thread: ThreadId) {
        if thread == ThreadId::PYTHON {
            self.unlock();
        }
    }

    /// Works in a library, with Python's lock or without.
    pub(super) fn third_party(&mut self, time: Time, holds_lock: bool) {
        if holds_lock {
            return self.work(ThreadId::PYTHON, Part::Python, time);
        }
        self.unlock();
        self.spend(ThreadId::PYTHON, Part::Python, time.0);
    }

    /// Ends an iteration, or begins the first one. An iteration is done when Python is through with
    /// it, and the device with all that was launched.
    pub(super) fn mark(&mut self) {
        self.issuing(None);
        let (thread, done) = self.marks;
        self.give(ThreadId::PYTHON, done);
        self.push(thread, HostItem::Take(done, Why::Thread));
        if let Some(last) = self.stream.len().checked_sub(1) {
            self.push(thread, HostItem::Block(ActivityRef { stream: 0, number: last as u32 }));
        }
        self.push(thread, HostItem::Mark);
    }

    /// Begins a section of a thread; gives the one that ends.
    pub(super) fn section(&mut self, thread: ThreadId) -> SectionRef {
        self.push(thread, HostItem::Section);
        self.sections[thread.0] += 1;
        SectionRef { thread: thread.0 as u32, section: self.sections[thread.0] - 1 }
    }

    /// Stops a thread in a section, from Python.
    pub(super) fn stop(&mut self, section: SectionRef) {
        self.unlock();
        self.push(ThreadId::PYTHON, HostItem::Stop(section));
    }

    fn operators(&self, kernels: Kernels) -> &'a Operators {
        match kernels {
            Kernels::Library => &self.costs.base.library,
            Kernels::Merged => &self.costs.base.merged,
        }
    }

    /// Operators of Python's in a region.
    pub(super) fn count(&self, region: Region) -> u64 {
        let all = |issued: Issued| u64::from(issued.times) * (1 + u64::from(issued.views));
        self.split(region, Kernels::Library).map(all).sum()
    }

    /// Issues a region operator by operator; each takes `more` of Python.
    pub(super) fn eager(&mut self, region: Region, more: Time) {
        let thread = self.issuing(Some(region));
        let Costs { framework, host, .. } = self.costs;
        let view = framework.issue(host, OpClass::Metadata, region.is_backward());
        for Issued { issue, times, views, kernel, .. } in self.split(region, Kernels::Library) {
            for _ in 0..times {
                for _ in 0..views {
                    self.work(thread, Part::Python, Time(view.python.0 + more.0));
                    self.work(thread, Part::Dispatch, view.dispatch);
                }
                self.work(thread, Part::Python, Time(issue.python.0 + more.0));
                self.work(thread, Part::Dispatch, issue.dispatch);
                for _ in 0..issue.launches {
                    self.launch(thread, issue.launch, kernel, ActivityKind::Kernel);
                }
            }
        }
    }

    /// Operators of a region as they are issued.
    fn split(&self, region: Region, kernels: Kernels) -> impl Iterator<Item = Issued> + use<'a> {
        let Costs { framework, host, base, .. } = self.costs;
        let in_python = self.execution.enters_regions();
        self.operators(kernels).of(region).iter().map(move |operator| {
            let issue = framework.issue(host, operator.class, region.is_backward());
            let times = match (kernels, region, framework.update) {
                (Kernels::Merged, ..) => 1,
                (Kernels::Library, Region::Update, UpdateStyle::EachParameter) => {
                    u32::try_from(base.tensors).unwrap_or(u32::MAX).max(1)
                }
                (Kernels::Library, ..) => operator.members,
            };
            let node = framework.called(operator.class, &issue, is_generated(operator, kernels), in_python);
            let kernel = Time(operator.kernel(times).0 / u64::from(issue.launches));
            Issued { issue, times, views: operator.views, kernel, node }
        })
    }

    /// Operators of regions that a graph executes.
    fn nodes(&self, regions: &[Region]) -> impl Iterator<Item = Issued> + use<'a> {
        let operators: Vec<_> =
            regions.iter().map(|&region| self.split(region, self.execution.kernels)).collect();
        operators.into_iter().flatten()
    }

    /// Kernels of a graph that executes regions.
    fn kernels(&self, regions: &[Region]) -> Vec<Time> {
        let kernels = |Issued { issue, times, kernel, .. }| {
            std::iter::repeat_n(kernel, (times * issue.launches) as usize)
        };
        self.nodes(regions).flat_map(kernels).collect()
    }

    /// Launches regions from compiled code or the executor of a graph: kernel by kernel, or as one
    /// graph.
    pub(super) fn execute(&mut self, thread: ThreadId, regions: &[Region]) {
        match self.execution.launch {
            LaunchedBy::Kernel => {
                let Costs { framework, host, .. } = self.costs;
                let view = framework.issue(host, OpClass::Metadata, false);
                let view = framework.called(OpClass::Metadata, &view, false, self.execution.enters_regions());
                for Issued { issue, times, views, kernel, node } in self.nodes(regions) {
                    for _ in 0..times {
                        self.work(thread, Part::Dispatch, Time(view.0 * u64::from(views) + node.0));
                        for _ in 0..issue.launches {
                            self.launch(thread, issue.launch, kernel, ActivityKind::Kernel);
                        }
                    }
                }
            }
            LaunchedBy::Graph => self.launch_graph(thread, regions),
        }
    }

    fn launch_graph(&mut self, thread: ThreadId, regions: &[Region]) {
        let host = self.costs.host;
        let kernels = self.kernels(regions);
        if kernels.is_empty() {
            return;
        }
        let call = Time(host.graph_launch.time().0 + kernels.len() as u64 * host.graph_node.time().0);
        let first = self.next_activity();
        self.push(thread, HostItem::Launch(first));
        for kernel in kernels {
            self.activity(kernel, ActivityKind::Kernel, call, host.gap_in_graph.time());
        }
        self.work(thread, Part::Calls, call);
    }

    /// Launches an activity: it may begin when the call has ended.
    fn launch(&mut self, thread: ThreadId, call: Time, time: Time, kind: ActivityKind) -> ActivityRef {
        let gap = self.costs.host.gap_in_stream.time();
        let activity = self.activity(time, kind, call, gap);
        self.push(thread, HostItem::Launch(activity));
        self.work(thread, Part::Calls, call);
        activity
    }

    fn next_activity(&self) -> ActivityRef {
        ActivityRef { stream: 0, number: self.stream.len() as u32 }
    }

    fn activity(&mut self, duration: Time, kind: ActivityKind, latency: Time, gap: Time) -> ActivityRef {
        let activity = self.next_activity();
        self.stream.push(DeviceItem {
            name: NameId(0),
            kind,
            duration,
            skew: Time::ZERO,
            latency,
            gap,
            occupied: None,
            after: Vec::new(),
        });
        activity
    }

    /// Issues a copy of a duration.
    fn copy(&mut self, thread: ThreadId, time: Time) -> ActivityRef {
        let issue = self.costs.framework.issue(self.costs.host, OpClass::Copy, false);
        self.work(thread, Part::Dispatch, issue.dispatch);
        self.launch(thread, issue.launch, time, ActivityKind::Copy)
    }

    /// Copies the last result to the host; gives the copy.
    pub(super) fn copy_result(&mut self, thread: ThreadId) -> ActivityRef {
        self.copy(thread, self.costs.base.from_device.copy(NUMBER))
    }

    /// Copies a number to the device.
    pub(super) fn copy_number(&mut self, thread: ThreadId) {
        self.copy(thread, self.costs.base.to_device[0].copy(NUMBER));
    }

    /// Lets batches that have been taken be used again before the next one.
    pub(super) fn keep_batches(&mut self, count: u32) {
        self.kept_batches = count;
    }

    /// Gets the next batch, made by the loader.
    pub(super) fn next_batch(&mut self) {
        if self.kept_batches > 0 {
            self.kept_batches -= 1;
            return;
        }
        let Some(loader) = self.costs.loader else { return };
        let (number, time) = (self.batches, Time(loader.time.picoseconds()));
        self.batches += 1;
        if self.loaders.is_empty() {
            self.unlock();
            return self.spend(ThreadId::PYTHON, Part::Loader, time.0);
        }
        let workers = self.loaders.len() as u32;
        let (worker, made, taken) = self.loaders[(number % workers) as usize];
        if u64::from(number / workers) >= loader.prefetch.get() {
            self.take(worker, taken, Why::Depth);
        }
        self.spend(worker, Part::Loader, time.0);
        self.give(worker, made);
        self.take(ThreadId::PYTHON, made, Why::Loader);
        self.give(ThreadId::PYTHON, taken);
        self.work(ThreadId::PYTHON, Part::Python, self.costs.framework.message.time());
    }

    /// Copies the batch to the device.
    pub(super) fn copy_batch(&mut self, thread: ThreadId) {
        let Some(loader) = self.costs.loader else { return };
        let [pinned, pageable] = self.costs.base.to_device;
        let way = if loader.pinned { pinned } else { pageable };
        let copy = self.copy(thread, way.copy(loader.bytes.bytes()));
        if !loader.pinned {
            self.block(thread, copy);
        }
    }

    /// Restores parameters that a graph has updated already, from copies of them.
    pub(super) fn restore_parameters(&mut self, thread: ThreadId) {
        self.copy(thread, self.costs.base.copy_parameters);
    }

    /// The thread that issues a region, and what is no region: Python's, or that of backward
    /// passes, for which Python waits.
    pub(super) fn issuing(&mut self, region: Option<Region>) -> ThreadId {
        let wanted = self.costs.framework.engine_thread && region.is_some_and(Region::is_backward);
        if !wanted && !self.in_engine {
            return ThreadId::PYTHON;
        }
        let engine =
            self.engine.unwrap_or_else(|| (self.thread("autograd"), [self.channel(), self.channel()]));
        let (thread, [there, back]) = *self.engine.insert(engine);
        if wanted != self.in_engine {
            let (from, to, channel) = match wanted {
                true => (ThreadId::PYTHON, thread, there),
                false => (thread, ThreadId::PYTHON, back),
            };
            self.give(from, channel);
            self.take(to, channel, Why::Thread);
            // Python waits meanwhile, without its lock.
            self.unlock();
            self.in_engine = wanted;
        }
        if wanted { thread } else { ThreadId::PYTHON }
    }

    /// Time to make graphs of regions ready: operators to be lowered, kernels to be compiled.
    pub(super) fn building(&self, regions: &[Region]) -> Time {
        let framework = self.costs.framework;
        let operators: u64 = regions.iter().map(|&region| self.count(region)).sum();
        let kernels = self.execution.kernels;
        let compiled = regions.iter().map(|&region| {
            let operators = self.operators(kernels).of(region).iter();
            operators.filter(|operator| is_generated(operator, kernels)).count() as u64
        });
        let capture = match self.execution.launch {
            LaunchedBy::Kernel => 0,
            LaunchedBy::Graph => self.kernels(regions).len() as u64 * framework.capture.time().0,
        };
        let compiled = compiled.sum::<u64>() * framework.compile.time().0;
        let lowered = match kernels {
            Kernels::Library => 0,
            Kernels::Merged => operators * framework.build.time().0,
        };
        Time(lowered + compiled + capture)
    }
}

/// An operator as it is issued.
#[derive(Clone, Copy, Debug)]
struct Issued {
    issue: Issue,
    /// How often.
    times: u32,
    /// Operators before each that change shapes alone.
    views: u32,
    /// Time of each of its kernels.
    kernel: Time,
    /// Time in which compiled code or the executor of a graph dispatches it.
    node: Time,
}

/// True if a compiler makes the kernel of an operator; others are those of a library.
fn is_generated(operator: &Operator, kernels: Kernels) -> bool {
    kernels == Kernels::Merged && operator.class.is_generated()
}

/// Name of the thread that marks iterations: no thread of the program.
pub(super) const MARKS: &str = "iterations";

/// Bytes of a number.
const NUMBER: u64 = 4;
