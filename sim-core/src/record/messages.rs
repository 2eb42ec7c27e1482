//! Messages with the waits that they end, whether or not the receiver was there in time.

use std::collections::VecDeque;

use crate::id::{CounterId, StreamId};
use crate::observe::Message;
use crate::outcome::Place;
use crate::program::{Body, Op, Program, StartState};
use crate::time::Time;

/// Messages of a counter that are remembered after their arrival: receivers are not that far
/// behind.
const ARRIVED_MAX: usize = 1 << 16;

/// Matches waits for counters with the messages that end them. An observer hands both on to it, in
/// their order.
#[derive(Clone, Debug)]
pub struct Messages<'a> {
    program: &'a Program,
    counters: Vec<Counted>,
}

/// The sender of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Which stream.
    pub by: StreamId,
    /// When.
    pub departure: Time,
}

#[derive(Clone, Debug, Default)]
struct Counted {
    /// The sum of amounts that have arrived.
    value: u64,
    /// By arrival; of equal ones as they were sent.
    under_way: VecDeque<Message>,
    /// The last ones that have arrived, each with the value that the counter had then.
    arrived: VecDeque<(u64, Sent)>,
}

impl<'a> Messages<'a> {
    /// None yet, of a program.
    pub fn new(program: &'a Program, start: &StartState) -> Self {
        let mut counters = vec![Counted::default(); program.counters as usize];
        for &(counter, value) in &start.counters {
            counters[counter.index()].value = value;
        }
        Self { program, counters }
    }

    /// A message was sent.
    pub fn send(&mut self, message: &Message) {
        let under_way = &mut self.counters[message.counter.index()].under_way;
        let behind = under_way.iter().rev().take_while(|other| other.arrival > message.arrival).count();
        under_way.insert(under_way.len() - behind, *message);
    }

    /// The message that ends a wait for a counter, which was over at `end`. `None`: another
    /// operation, or the counter was there from the start.
    pub fn received(&mut self, place: &Place, op: &Op, end: Time) -> Option<Sent> {
        let (counter, threshold) = self.awaited(place, op)?;
        let counted = &mut self.counters[counter.index()];
        while let Some(&Message { amount, by, departure, .. }) =
            counted.under_way.front().filter(|message| message.arrival <= end)
        {
            counted.under_way.pop_front();
            counted.value = counted.value.saturating_add(amount.into());
            counted.arrived.push_back((counted.value, Sent { by, departure }));
            if counted.arrived.len() > ARRIVED_MAX {
                counted.arrived.pop_front();
            }
        }
        let at = counted.arrived.partition_point(|(value, _)| *value < threshold);
        let is_known = threshold > 0 && (at > 0 || counted.arrived.len() < ARRIVED_MAX);
        counted.arrived.get(at).filter(|_| is_known).map(|(_, sent)| *sent)
    }

    fn awaited(&self, place: &Place, op: &Op) -> Option<(CounterId, u64)> {
        let stream = &self.program.streams[place.stream.index()];
        // Jobs run with the binding of whoever posted them.
        let (&Op::Wait { counter, at_least, .. }, Body::Role(_)) = (op, stream.body) else { return None };
        let slots = &self.program.bindings[stream.binding.index()].slots;
        let threshold = u64::try_from(at_least.at(place.args)).unwrap_or(0);
        Some((CounterId(slots[counter as usize]), threshold))
    }
}
