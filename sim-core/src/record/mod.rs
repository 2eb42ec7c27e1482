//! Recording of spans and curves for chosen streams, stores, fluids and a window of time.

mod messages;

use crate::fixed::Rate;
use crate::id::{FluidId, KindId, StoreId, StreamId};
use crate::observe::{Look, Observer};
use crate::outcome::Place;
use crate::program::Op;
use crate::time::Time;

pub use messages::{Messages, Sent};

/// What to record.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Streams whose spans are kept.
    pub streams: Vec<StreamId>,
    /// Stores whose curves are kept.
    pub stores: Vec<StoreId>,
    /// Fluids whose curves are kept.
    pub fluids: Vec<FluidId>,
    /// Only what happens from here,
    pub from: Time,
    /// to here.
    pub to: Time,
}

impl Selection {
    /// The spans of some streams, whenever.
    pub fn spans_of(streams: impl IntoIterator<Item = StreamId>) -> Self {
        Self {
            streams: streams.into_iter().collect(),
            stores: Vec::new(),
            fluids: Vec::new(),
            from: Time::ZERO,
            to: Time::NEVER,
        }
    }
}

/// An operation that took time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// Which.
    pub place: Place,
    /// What it was.
    pub op: Op,
    /// From,
    pub start: Time,
    /// when what it waited for was under way,
    pub ready: Time,
    /// to.
    pub end: Time,
}

/// Keeps what a [`Selection`] asks for.
#[derive(Clone, Debug)]
pub struct Recorder {
    selection: Selection,
    wanted_streams: Vec<bool>,
    /// Spans, per stream in order.
    pub spans: Vec<Span>,
    /// (time, store, kind, bytes held of that kind from then on).
    pub stores: Vec<(Time, StoreId, KindId, u64)>,
    /// (time, fluid, load from then on).
    pub fluids: Vec<(Time, FluidId, Rate)>,
}

impl Recorder {
    /// A recorder with nothing in it yet.
    pub fn new(selection: Selection) -> Self {
        let most = selection.streams.iter().map(|s| s.index() + 1).max().unwrap_or(0);
        let mut wanted_streams = vec![false; most];
        for stream in &selection.streams {
            wanted_streams[stream.index()] = true;
        }
        Self { selection, wanted_streams, spans: Vec::new(), stores: Vec::new(), fluids: Vec::new() }
    }

    fn in_window(&self, time: Time) -> bool {
        (self.selection.from..=self.selection.to).contains(&time)
    }
}

impl Observer for Recorder {
    fn fluids(&self) -> &[FluidId] {
        &self.selection.fluids
    }

    fn span(&mut self, place: Place, op: &Op, start: Time, ready: Time, end: Time) {
        let wanted = self.wanted_streams.get(place.stream.index()).copied().unwrap_or(false);
        if wanted && end > start && end >= self.selection.from && start <= self.selection.to {
            self.spans.push(Span { place, op: *op, start, ready, end });
        }
    }

    fn store(&mut self, now: Time, store: StoreId, kind: KindId, held: u64) {
        if self.in_window(now) && self.selection.stores.contains(&store) {
            self.stores.push((now, store, kind, held));
        }
    }

    fn fluid(&mut self, now: Time, fluid: FluidId, load: Rate) {
        if self.in_window(now) {
            self.fluids.push((now, fluid, load));
        }
    }
}

/// One hash per stream over everything that took time on it: equal hashes mean equal runs. Per stream, because segments
/// report their inside when they end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventLog {
    hashes: Vec<u64>,
}

impl EventLog {
    /// Offset basis and prime of 64-bit FNV-1a.
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;

    /// The hash of one stream's log.
    pub fn of(&self, stream: StreamId) -> u64 {
        self.hashes.get(stream.index()).copied().unwrap_or(Self::BASIS)
    }
}

impl Observer for EventLog {
    fn look(&self) -> Look {
        Look::Spans
    }

    fn span(&mut self, place: Place, _op: &Op, start: Time, ready: Time, end: Time) {
        if end == start {
            return;
        }
        if self.hashes.len() <= place.stream.index() {
            self.hashes.resize(place.stream.index() + 1, Self::BASIS);
        }
        let hash = &mut self.hashes[place.stream.index()];
        let args = (u64::from(place.args[0] as u32) << 32) | u64::from(place.args[1] as u32);
        let position = (u64::from(place.block.0) << 32) | u64::from(place.op);
        for word in [position, args, start.0, ready.0, end.0] {
            for byte in word.to_le_bytes() {
                *hash = (*hash ^ u64::from(byte)).wrapping_mul(Self::PRIME);
            }
        }
    }
}
