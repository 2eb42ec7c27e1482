//! Observation of a run from outside. It costs nothing when absent; runs are pure, so a timeline is a second run with a
//! recorder.

use std::ops::Range;

use crate::fixed::Rate;
use crate::id::{CounterId, FluidId, KindId, StoreId, StreamId};
use crate::outcome::Place;
use crate::program::Op;
use crate::time::Time;

/// What an observer looks at. The engine does not work out the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Look {
    /// Nothing.
    Nothing,
    /// Operations that took time; segments report their inside when they end.
    Spans,
    /// These, curves of stores and fluids as they change, and messages: segments stay open.
    Curves,
}

/// Receives what happens. Every method does nothing by default.
pub trait Observer {
    /// What is reported.
    fn look(&self) -> Look {
        Look::Curves
    }

    /// The fluids whose load is wanted, where curves are. None by default.
    fn fluids(&self) -> &[FluidId] {
        &[]
    }

    /// An operation that took or could take time (run, join, wait, acquire, hold, await) ended at
    /// `end`. Per stream in order; `ready` is when what it waited for was under way (the last
    /// arrival of a join, the departure of a message), else `end` of a pure wait or `start` of a
    /// run. Waits for counters that were over at once are among them where messages are looked at.
    fn span(&mut self, place: Place, op: &Op, start: Time, ready: Time, end: Time) {
        let _ = (place, op, start, ready, end);
    }

    /// Operations ran in a row, each alone. By default every activity is a span.
    fn segment(&mut self, segment: &Segment<'_>) {
        segment.spans().for_each(|(place, op, start, end)| self.span(place, op, start, start, end));
    }

    /// A stream adds to a counter.
    fn message(&mut self, message: &Message) {
        let _ = message;
    }

    /// A store holds `held` bytes of `kind` from `now` on.
    fn store(&mut self, now: Time, store: StoreId, kind: KindId, held: u64) {
        let _ = (now, store, kind, held);
    }

    /// One of the [`fluids`](Self::fluids) carries `load` from `now` on.
    fn fluid(&mut self, now: Time, fluid: FluidId, load: Rate) {
        let _ = (now, fluid, load);
    }
}

/// An addition to a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The counter.
    pub counter: CounterId,
    /// The amount.
    pub amount: u32,
    /// The sender.
    pub by: StreamId,
    /// When it does.
    pub departure: Time,
    /// When the counter has grown.
    pub arrival: Time,
}

/// Operations of a stream that ran in a row, each alone. Those of one pattern and range are alike: equal operations of
/// equal durations.
#[derive(Clone, Debug)]
pub struct Segment<'a> {
    /// The first operation.
    pub place: Place,
    /// The operations in a row, at equal costs, that it is a part of.
    pub pattern: u32,
    /// Positions in the pattern.
    pub range: Range<u32>,
    /// When the first operation began.
    pub begin: Time,
    /// The operations.
    pub(crate) ops: &'a [Op],
    /// When each began, on a clock of the pattern, and when the last ended.
    pub(crate) begins: &'a [Time],
}

impl<'a> Segment<'a> {
    /// Its activities: where, start and end.
    pub fn spans(&self) -> impl Iterator<Item = (Place, &'a Op, Time, Time)> + use<'a> {
        let (place, begin, first) = (self.place, self.begin, self.begins[0]);
        let at = move |time: Time| begin.saturating_add(time - first);
        let spans = (0..).zip(self.ops).zip(self.begins.windows(2));
        let runs = spans.filter(|((_, op), _)| matches!(op, Op::Run { .. }));
        runs.map(move |((offset, op), times)| {
            (Place { op: place.op + offset, ..place }, op, at(times[0]), at(times[1]))
        })
    }
}

/// Observes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn look(&self) -> Look {
        Look::Nothing
    }
}

/// Several observers of one run, which looks at the most that one of them looks at. None sees fluids.
pub struct Several<'a>(pub Vec<&'a mut dyn Observer>);

impl Observer for Several<'_> {
    fn look(&self) -> Look {
        self.0.iter().map(|observer| observer.look()).max().unwrap_or(Look::Nothing)
    }

    fn span(&mut self, place: Place, op: &Op, start: Time, ready: Time, end: Time) {
        self.0.iter_mut().for_each(|observer| observer.span(place, op, start, ready, end));
    }

    fn segment(&mut self, segment: &Segment<'_>) {
        self.0.iter_mut().for_each(|observer| observer.segment(segment));
    }

    fn message(&mut self, message: &Message) {
        self.0.iter_mut().for_each(|observer| observer.message(message));
    }

    fn store(&mut self, now: Time, store: StoreId, kind: KindId, held: u64) {
        self.0.iter_mut().for_each(|observer| observer.store(now, store, kind, held));
    }
}

/// An observer as the engine is compiled for it. There are three engines, however many observers there are.
pub(crate) trait Watch {
    const SPANS: bool;
    const CURVES: bool;

    fn observer(&mut self) -> &mut dyn Observer;
}

/// Watches spans.
pub(crate) struct Spans<'a>(pub(crate) &'a mut dyn Observer);

/// Watches spans and curves.
pub(crate) struct Curves<'a>(pub(crate) &'a mut dyn Observer);

impl Watch for Unobserved {
    const SPANS: bool = false;
    const CURVES: bool = false;

    fn observer(&mut self) -> &mut dyn Observer {
        self
    }
}

impl Watch for Spans<'_> {
    const SPANS: bool = true;
    const CURVES: bool = false;

    fn observer(&mut self) -> &mut dyn Observer {
        self.0
    }
}

impl Watch for Curves<'_> {
    const SPANS: bool = true;
    const CURVES: bool = true;

    fn observer(&mut self) -> &mut dyn Observer {
        self.0
    }
}
