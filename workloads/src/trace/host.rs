//! Host threads of a recording: work between calls, launches, calls that block, steps, handoffs.
//!
//! Time between two calls is the host's own, by what it was in: an operator, the loader, or
//! neither. A call that blocks ends when what it waits for has, and what it took beyond that.

use std::collections::BTreeMap;

use sim_core::time::Time;

use super::handoffs::{self, Handoff};
use super::intervals::Intervals;
use super::launches::{CallKind, Launches};
use super::recording::{ActivityKind, HostEvent, Recording};
use super::traced::{Findings, time};
use super::waits::{self, ROUNDING};
use crate::lanes::{HostItem, HostTime, Thread, Why};

/// Annotation of PyTorch's profiler around a step.
const STEP: &str = "ProfilerStep#";

/// Annotation of PyTorch's loader around the time in which the next batch is awaited or made.
pub(super) const LOADER: &str = "enumerate(DataLoader)#";

/// Durations of the recorded steps: from the begin of one to that of the next, the last one to its
/// end.
pub(super) fn steps(marks: &[HostEvent]) -> Vec<Time> {
    let ends = marks.iter().skip(1).map(|mark| mark.begin).chain(marks.last().map(|last| last.end));
    marks.iter().zip(ends).map(|(mark, end)| time(end - mark.begin)).collect()
}

/// The annotations of steps, by begin.
pub(super) fn marks(recording: &Recording) -> Vec<HostEvent> {
    let steps = recording.operators.iter().filter(|event| name(recording, event).starts_with(STEP));
    let mut steps: Vec<HostEvent> = steps.copied().collect();
    // One thread's; the annotation is that of the loop over batches.
    let first = steps.first().map(|first| first.thread);
    steps.retain(|step| Some(step.thread) == first);
    steps
}

fn name<'a>(recording: &'a Recording, event: &HostEvent) -> &'a str {
    recording.names.name(event.name)
}

/// Annotations are no work of the framework.
pub(super) fn is_annotation(name: &str) -> bool {
    [STEP, LOADER, "Optimizer.", "##", "autograd::engine"].iter().any(|start| name.starts_with(start))
}

/// The threads that launch, wait or begin steps, and the number of channels between them.
pub(super) fn threads(
    recording: &Recording,
    launches: &Launches,
    marks: &[HostEvent],
    findings: &mut Findings,
) -> (Vec<Thread>, u32) {
    let operators = recording.by_thread(&recording.operators);
    let calls = recording.by_thread(&recording.calls);
    let is_lane = |thread: &u32| {
        let acts = |&id: &u32| {
            let kind = CallKind::of(recording, &recording.calls[id as usize]);
            !launches.of_call(id).is_empty() || !matches!(kind, CallKind::Other)
        };
        calls[*thread as usize].iter().any(acts) || marks.iter().any(|mark| mark.thread == *thread)
    };
    let lanes: Vec<u32> = (0..calls.len() as u32).filter(is_lane).collect();
    let work = |&lane: &u32| {
        let [operators, calls] = [&operators, &calls].map(|events| &events[lane as usize]);
        (lane, handoffs::work(recording, operators, calls))
    };
    let work = lanes.iter().map(work).collect();
    let origin = recording.begin().unwrap_or(0);
    let handoffs = handoffs::find(work, origin, marks.first().map(|mark| mark.thread));
    findings.handoffs = handoffs.len() as u64;
    let mut channels: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    for Handoff { from, to, .. } in &handoffs {
        for way in [(*from, *to), (*to, *from)] {
            let next = channels.len() as u32;
            channels.entry(way).or_insert(next);
        }
    }
    let thread = |&thread: &u32| {
        let mut lane = Lane {
            recording,
            launches,
            findings,
            classes: Classes::of(recording, &operators[thread as usize]),
            cursor: origin,
            last_launched: None,
            items: Vec::new(),
        };
        lane.run(&calls[thread as usize], &points(thread, marks, &handoffs, &channels));
        Thread { name: recording.threads[thread as usize].to_string(), items: lane.items }
    };
    (lanes.iter().map(thread).collect(), channels.len() as u32)
}

/// Something that happens on a thread at a moment.
#[derive(Clone, Copy, Debug)]
struct Point {
    at: i64,
    action: Action,
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Mark,
    Give(u32),
    /// It waits for a handoff, and goes on at a moment, after a delay (ns).
    Take {
        channel: u32,
        resumes: i64,
        delay: i64,
    },
}

/// Events of a thread beside its calls, by time.
fn points(
    thread: u32,
    marks: &[HostEvent],
    handoffs: &[Handoff],
    channels: &BTreeMap<(u32, u32), u32>,
) -> Vec<Point> {
    let mut points = Vec::new();
    for mark in marks.iter().filter(|mark| mark.thread == thread) {
        points.push(Point { at: mark.begin, action: Action::Mark });
    }
    if let Some(last) = marks.last().filter(|last| last.thread == thread) {
        points.push(Point { at: last.end, action: Action::Mark });
    }
    for &Handoff { from, to, given, begun, ended, resumed, idle_since } in handoffs {
        let [there, back] = [channels[&(from, to)], channels[&(to, from)]];
        if thread == from {
            points.push(Point { at: given, action: Action::Give(there) });
            let delay = resumed - ended;
            points.push(Point { at: given, action: Action::Take { channel: back, resumes: resumed, delay } });
        }
        if thread == to {
            let delay = begun - given;
            points.push(Point {
                at: idle_since,
                action: Action::Take { channel: there, resumes: begun, delay },
            });
            points.push(Point { at: ended, action: Action::Give(back) });
        }
    }
    points.sort_by_key(|point| point.at);
    points
}

/// A thread on its way through time.
struct Lane<'a> {
    recording: &'a Recording,
    launches: &'a Launches,
    findings: &'a mut Findings,
    classes: Classes,
    /// Until here its time is told (ns).
    cursor: i64,
    /// The last activity that it launched.
    last_launched: Option<u32>,
    items: Vec<HostItem>,
}

impl Lane<'_> {
    fn run(&mut self, calls: &[u32], points: &[Point]) {
        let mut points = points.iter().peekable();
        let mut outer = i64::MIN;
        for &id in calls {
            let call = self.recording.calls[id as usize];
            // A call within another is a part of it, unless it launches.
            if call.begin < outer && self.launches.of_call(id).is_empty() {
                continue;
            }
            outer = call.end;
            while let Some(point) = points.next_if(|point| point.at <= call.begin) {
                self.pass(point);
            }
            self.call(id, call);
        }
        points.for_each(|point| self.pass(point));
    }

    fn pass(&mut self, point: &Point) {
        self.work_until(point.at);
        match point.action {
            Action::Mark => self.items.push(HostItem::Mark),
            Action::Give(channel) => self.items.push(HostItem::Give(channel)),
            Action::Take { channel, resumes, delay } => {
                self.items.push(HostItem::Take(channel, Why::Thread));
                self.work(HostTime { python: time(delay).0, ..HostTime::default() });
                self.cursor = self.cursor.max(resumes);
            }
        }
    }

    fn call(&mut self, id: u32, call: HostEvent) {
        self.work_until(call.begin);
        let launched = self.launches.of_call(id);
        for &activity in launched {
            self.items.push(HostItem::Launch(self.launches.places[activity as usize]));
        }
        let blocks_on = self.awaited(id, &call);
        self.last_launched = launched.last().copied().or(self.last_launched);
        self.findings.blocking_calls += u64::from(!blocks_on.is_empty());
        let end = |&id: &u32| self.recording.activities[id as usize].end;
        let ended = blocks_on.iter().map(end).max().map_or(call.begin, |end| end.max(call.begin));
        for activity in blocks_on {
            self.items.push(HostItem::Block(self.launches.places[activity as usize]));
        }
        // What was told already is no longer its own.
        let own = call.end - ended.max(self.cursor);
        self.work(HostTime { calls: time(own).0, ..HostTime::default() });
        self.cursor = self.cursor.max(call.end);
    }

    /// Activities that a call waits for.
    fn awaited(&self, id: u32, call: &HostEvent) -> Vec<u32> {
        let (recording, launches) = (self.recording, self.launches);
        let kind = CallKind::of(recording, call);
        let last =
            |stream| launches.last_before(recording, stream, call.begin, call.end.saturating_add(ROUNDING));
        let streams = 0..launches.streams.len();
        match kind {
            CallKind::WaitForDevice => streams.filter_map(last).collect(),
            CallKind::WaitForStream => {
                let known = launches.recorded_wait(recording, call).filter(|wait| wait.stream.is_some());
                if let Some(wait) = known {
                    return waits::target(recording, launches, wait, call.end).into_iter().collect();
                }
                let end = |id: &u32| recording.activities[*id as usize].end;
                let ended = streams.filter_map(last).max_by_key(end);
                // One that had ended before the call says nothing of what the call is for: the
                // stream that the thread used last.
                let waited = ended.filter(|id| end(id) > call.begin);
                waited.or(self.last_launched).into_iter().collect()
            }
            CallKind::LetStreamWait => Vec::new(),
            CallKind::Other => {
                let copies = launches.of_call(id).iter().copied().filter(|&id| {
                    let activity = &recording.activities[id as usize];
                    activity.kind == ActivityKind::Copy && activity.end <= call.end
                });
                copies.collect()
            }
        }
    }

    /// Host time up to a moment, by what the thread was in.
    fn work_until(&mut self, moment: i64) {
        if moment > self.cursor {
            let worked = self.classes.between(self.cursor, moment);
            self.work(worked);
            self.cursor = moment;
        }
    }

    fn work(&mut self, more: HostTime) {
        if more.total() == 0 {
            return;
        }
        if let Some(HostItem::Work(time)) = self.items.last_mut() {
            time.python += more.python;
            time.dispatch += more.dispatch;
            time.calls += more.calls;
            time.loader += more.loader;
            time.build += more.build;
        } else {
            self.items.push(HostItem::Work(more));
        }
    }
}

/// When a thread was in operators, and when in its loader: intervals that follow each other (ns).
struct Classes {
    operators: Intervals,
    loader: Intervals,
}

impl Classes {
    fn of(recording: &Recording, events: &[u32]) -> Self {
        let (mut operators, mut loader) = (Intervals::default(), Intervals::default());
        for event in events.iter().map(|&event| &recording.operators[event as usize]) {
            let name = name(recording, event);
            if name.starts_with(LOADER) {
                loader.add(event.begin, event.end);
            } else if !is_annotation(name) {
                operators.add(event.begin, event.end);
            }
        }
        Self { operators, loader }
    }

    fn between(&mut self, begin: i64, end: i64) -> HostTime {
        let loader = self.loader.covered(begin, end);
        let operators = self.operators.covered(begin, end).min(end - begin - loader);
        let [loader, dispatch, python] =
            [loader, operators, end - begin - loader - operators].map(|part| time(part).0);
        HostTime { python, dispatch, calls: 0, loader, build: 0 }
    }
}
