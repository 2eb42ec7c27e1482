//! Critical paths leg by leg: which stream they lead through, and when.

use crate::id::StreamId;
use crate::observe::{Handover, Look, Observer};
use crate::time::Time;

/// Every handover of a window of time, of which paths through it are made.
#[derive(Clone, Debug)]
pub struct Handovers {
    from: Time,
    streams: Vec<Received>,
}

/// Handovers to one stream.
#[derive(Clone, Debug, Default)]
struct Received {
    /// Number of those before the window.
    before: u32,
    /// Later ones with their arrival, in order.
    kept: Vec<(Handover, Time)>,
}

/// A part of a path on one stream. Between two legs something is under way from one stream to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leg {
    /// Which stream.
    pub stream: StreamId,
    /// From,
    pub from: Time,
    /// to.
    pub to: Time,
}

impl Handovers {
    /// None yet; those before `from` are forgotten.
    pub fn since(from: Time) -> Self {
        Self { from, streams: Vec::new() }
    }

    /// Legs of the critical path of a stream from the begin of the window to `to`, ascending.
    pub fn path(&self, stream: StreamId, to: Time) -> Vec<Leg> {
        let received = |stream: StreamId| self.streams.get(stream.index());
        let mut count = received(stream)
            .map_or(0, |it| it.before as usize + it.kept.partition_point(|kept| kept.1 <= to));
        let (mut stream, mut until) = (stream, to);
        let mut legs = Vec::new();
        while until > self.from {
            // The last handover before the leg ends; each was made before the one that it led to.
            let last =
                received(stream).and_then(|it| it.kept.get(count.checked_sub(1 + it.before as usize)?));
            let begin = last.map_or(self.from, |&(_, arrival)| arrival.max(self.from));
            if begin < until {
                legs.push(Leg { stream, from: begin, to: until });
            }
            let Some(&(handover, _)) = last else { break };
            (stream, until, count) = (handover.by, handover.departure, handover.nth as usize);
        }
        legs.reverse();
        legs
    }
}

impl Observer for Handovers {
    fn look(&self) -> Look {
        Look::Spans
    }

    fn handover(&mut self, stream: StreamId, handover: Handover, arrival: Time) {
        if self.streams.len() <= stream.index() {
            self.streams.resize(stream.index() + 1, Received::default());
        }
        let received = &mut self.streams[stream.index()];
        if arrival > self.from {
            received.kept.push((handover, arrival));
        } else {
            received.before += 1;
        }
    }
}
