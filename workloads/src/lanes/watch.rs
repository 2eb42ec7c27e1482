//! Observer of lanes: operations of the engine as work, waits and activities of lanes.

use sim_core::observe::{Look, Message, Observer};
use sim_core::outcome::Place;
use sim_core::program::{Body, Op, Program, StartState};
use sim_core::record::{Messages, Sent};
use sim_core::time::Time;

use super::{Lanes, NameId, cause};

/// A stretch of time of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneSpan<'a> {
    /// Index of the lane: threads, then streams of devices.
    pub lane: usize,
    /// A word of [`crate::lanes::cause`].
    pub cause: &'a str,
    /// Name of the activity. `None`: a thread, a wait or a gap.
    pub name: Option<NameId>,
    /// Begin.
    pub start: Time,
    /// End.
    pub end: Time,
}

/// Something that lets a lane go on: a launch, a handoff, the end of what it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneArrow {
    /// Lane that it leaves,
    pub from: usize,
    /// when,
    pub departure: Time,
    /// lane that it comes to,
    pub to: usize,
    /// and when that goes on.
    pub arrival: Time,
}

/// A moment of a lane: its work, or the end of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneEvent<'a> {
    /// A stretch of time.
    Span(LaneSpan<'a>),
    /// The end of its wait, before the span that follows.
    Arrow(LaneArrow),
}

/// Hands the spans of lanes within a window of time to `each`.
pub(super) struct Watch<'a, F> {
    lanes: &'a Lanes,
    program: &'a Program,
    /// By stream of a device, the operation that ends each of its activities.
    ends: Vec<Vec<u32>>,
    window: [Time; 2],
    /// `None`: arrows are not looked at.
    messages: Option<Messages<'a>>,
    each: F,
}

impl<'a, F: FnMut(LaneEvent<'a>)> Watch<'a, F> {
    pub(super) fn new(lanes: &'a Lanes, program: &'a Program, window: [Time; 2], each: F) -> Self {
        let streams = program.streams.iter().skip(lanes.threads.len());
        let ends = streams.map(|stream| ends(program, stream.body)).collect();
        Self { lanes, program, ends, window, messages: None, each }
    }

    /// Looks at arrows, too.
    pub(super) fn with_arrows(self) -> Self {
        Self { messages: Some(Messages::new(self.program, &StartState::default())), ..self }
    }

    fn cause(&self, place: &Place, op: &Op) -> Option<&'a str> {
        let cause = match *op {
            Op::Run { activity } => {
                let binding = self.program.streams[place.stream.index()].binding;
                let costs = self.program.bindings[binding.index()].costs?;
                let activities = &self.program.costs[costs.index()].activities;
                activities.get(activity.at(place.args) as usize)?.cause
            }
            Op::Wait { cause, .. } | Op::Hold { cause, .. } => cause,
            _ => return None,
        };
        Some(&self.program.causes[cause.index()])
    }

    /// The activity that a stream of a device executes.
    fn name(&self, place: &Place, op: &Op, cause: &str) -> Option<NameId> {
        if !matches!(op, Op::Run { .. }) || cause == cause::GAP {
            return None;
        }
        let stream = place.stream.index().checked_sub(self.lanes.threads.len())?;
        let number = self.ends[stream].partition_point(|&end| end < place.op);
        self.lanes.streams[stream].items.get(number).map(|item| item.name)
    }
}

/// Operations that end the activities of a stream: those that count them, as the last one is.
fn ends(program: &Program, body: Body) -> Vec<u32> {
    let Body::Role(role) = body else { return Vec::new() };
    let Some(call) = program.roles[role.index()].calls.first() else { return Vec::new() };
    let ops = &program.blocks[call.block.index()].ops;
    let counter = |op: &Op| if let Op::Add { counter, .. } = op { Some(*counter) } else { None };
    let last = ops.iter().rev().find_map(counter);
    let counts = |op: &Op| last.is_some() && counter(op) == last;
    (0..).zip(ops).filter(|(_, op)| counts(op)).map(|(at, _)| at).collect()
}

impl<'a, F: FnMut(LaneEvent<'a>)> Observer for Watch<'a, F> {
    fn look(&self) -> Look {
        if self.messages.is_some() { Look::Curves } else { Look::Spans }
    }

    fn span(&mut self, place: Place, op: &Op, start: Time, _: Time, end: Time) {
        let [from, to] = self.window;
        let sent = self.messages.as_mut().and_then(|messages| messages.received(&place, op, end));
        if let Some(Sent { by, departure }) = sent.filter(|sent| sent.departure >= from && end <= to) {
            let (from, to) = (by.index(), place.stream.index());
            (self.each)(LaneEvent::Arrow(LaneArrow { from, departure, to, arrival: end }));
        }
        let (start, end) = (start.max(from), end.min(to));
        if start < end
            && let Some(cause) = self.cause(&place, op)
        {
            let name = self.name(&place, op, cause);
            (self.each)(LaneEvent::Span(LaneSpan { lane: place.stream.index(), cause, name, start, end }));
        }
    }

    fn message(&mut self, message: &Message) {
        if let Some(messages) = &mut self.messages {
            messages.send(message);
        }
    }
}
