//! Traces as TrackEvent protobuf, packet by packet: nothing is kept but the texts.

use std::io::{self, Write};

use indexmap::IndexSet;
use prost::Message;

use super::proto::{
    CounterDescriptor, DebugAnnotation, EXPLICIT, EventType, Interned, InternedData, NEEDS_STATE,
    ProcessDescriptor, SIZE_BYTES, STATE_CLEARED, TracePacket, TrackDescriptor, TrackEvent, Value,
};
use super::{Arrow, Detail, Process, Slice, Tracer, Track, Unit, Word};

/// The only sequence of packets.
const SEQUENCE: u32 = 1;
/// Key of a packet within a file: field 1, with a length.
const PACKET: u8 = 0x0a;
/// Tracks of a process at most: their numbers are beside its own.
const TRACKS_MAX: u64 = 1 << 20;

/// Writes a `.pftrace`.
#[derive(Debug)]
pub struct Perfetto<W> {
    out: W,
    error: Option<io::Error>,
    packet: Vec<u8>,
    texts: IndexSet<String>,
    /// By text, the uses that its number is known for.
    known: Vec<u8>,
    /// Texts to be told with the next packet.
    news: InternedData,
    /// By process, its tracks.
    tracks: Vec<u32>,
    arrows: u64,
    is_begun: bool,
}

/// Uses of a text, each a bit.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
enum Use {
    Category = 1,
    Event = 2,
    Name = 4,
    Text = 8,
}

impl<W: Write> Perfetto<W> {
    /// An empty trace.
    pub fn new(out: W) -> Self {
        Self {
            out,
            error: None,
            packet: Vec::new(),
            texts: IndexSet::new(),
            known: Vec::new(),
            news: InternedData::default(),
            tracks: Vec::new(),
            arrows: 0,
            is_begun: false,
        }
    }

    /// Writes a packet with the texts that it is the first to use.
    fn write(&mut self, packet: TracePacket) {
        let begins = !std::mem::replace(&mut self.is_begun, true);
        let news = std::mem::take(&mut self.news);
        let packet = TracePacket {
            trusted_packet_sequence_id: Some(SEQUENCE),
            sequence_flags: Some(if begins { STATE_CLEARED | NEEDS_STATE } else { NEEDS_STATE }),
            interned_data: Some(news).filter(|news| *news != InternedData::default()),
            ..packet
        };
        self.packet.clear();
        self.packet.push(PACKET);
        let encoded = packet.encode_length_delimited(&mut self.packet).map_err(io::Error::other);
        if self.error.is_none() {
            self.error = encoded.and_then(|()| self.out.write_all(&self.packet)).err();
        }
    }

    /// The number of a text in a use.
    fn number(&mut self, Word(word): Word, used: Use) -> u64 {
        let iid = u64::from(word) + 1;
        let known = &mut self.known[word as usize];
        if *known & used as u8 == 0 {
            *known |= used as u8;
            let told = Interned { iid: Some(iid), name: self.texts.get_index(word as usize).cloned() };
            match used {
                Use::Category => self.news.event_categories.push(told),
                Use::Event => self.news.event_names.push(told),
                Use::Name => self.news.debug_annotation_names.push(told),
                Use::Text => self.news.debug_annotation_string_values.push(told),
            }
        }
        iid
    }

    fn event(&mut self, kind: EventType, track: Track, at: u64, event: TrackEvent) {
        let event = TrackEvent { r#type: Some(kind as i32), track_uuid: Some(uuid(track)), ..event };
        let timestamp = Some(nanoseconds(at));
        self.write(TracePacket { timestamp, track_event: Some(event), ..TracePacket::default() });
    }

    fn describe(&mut self, process: Process, name: &str, counter: Option<CounterDescriptor>) -> Track {
        let tracks = &mut self.tracks[process.0 as usize];
        *tracks += 1;
        let track = Track { process, number: *tracks };
        let descriptor = TrackDescriptor {
            uuid: Some(uuid(track)),
            name: Some(name.to_owned()),
            parent_uuid: Some(uuid(Track { process, number: 0 })),
            counter,
            sibling_order_rank: Some(track.number as i32),
            ..TrackDescriptor::default()
        };
        self.write(TracePacket { track_descriptor: Some(descriptor), ..TracePacket::default() });
        track
    }
}

fn uuid(Track { process, number }: Track) -> u64 {
    (u64::from(process.0) + 1) * TRACKS_MAX + u64::from(number)
}

/// Picoseconds in nanoseconds, to the nearest.
const fn nanoseconds(picoseconds: u64) -> u64 {
    picoseconds.saturating_add(500) / 1_000
}

impl<W: Write> Tracer for Perfetto<W> {
    fn word(&mut self, text: &str) -> Word {
        let at = self.texts.get_index_of(text).unwrap_or_else(|| {
            self.known.push(0);
            self.texts.insert_full(text.to_owned()).0
        });
        Word(at as u32)
    }

    fn process(&mut self, name: &str) -> Process {
        let process = Process(self.tracks.len() as u32);
        self.tracks.push(0);
        let described =
            ProcessDescriptor { pid: Some(process.0 as i32 + 1), process_name: Some(name.to_owned()) };
        let descriptor = TrackDescriptor {
            uuid: Some(uuid(Track { process, number: 0 })),
            process: Some(described),
            child_ordering: Some(EXPLICIT),
            ..TrackDescriptor::default()
        };
        self.write(TracePacket { track_descriptor: Some(descriptor), ..TracePacket::default() });
        process
    }

    fn track(&mut self, process: Process, name: &str) -> Track {
        self.describe(process, name, None)
    }

    fn counter(&mut self, process: Process, name: &str, unit: Unit) -> Track {
        let (unit, unit_name) = match unit {
            Unit::Bytes => (Some(SIZE_BYTES), None),
            Unit::BytesPerSecond => (None, Some("B/s".to_owned())),
        };
        self.describe(process, name, Some(CounterDescriptor { unit, unit_name }))
    }

    fn begin(&mut self, track: Track, at: u64, slice: &Slice<'_>) {
        let name_iid = Some(self.number(slice.name, Use::Event));
        let category_iids = vec![self.number(slice.category, Use::Category)];
        let annotation = |&(name, detail): &(Word, Detail)| DebugAnnotation {
            name_iid: Some(self.number(name, Use::Name)),
            value: Some(match detail {
                Detail::Text(text) => Value::StringValueIid(self.number(text, Use::Text)),
                Detail::Whole(value) => Value::UintValue(value),
                Detail::Number(value) => Value::DoubleValue(value),
            }),
        };
        let debug_annotations = slice.details.iter().map(annotation).collect();
        let terminating_flow_ids = slice.arrows.iter().map(|arrow| arrow.0).collect();
        let event = TrackEvent {
            name_iid,
            category_iids,
            debug_annotations,
            terminating_flow_ids,
            ..TrackEvent::default()
        };
        self.event(EventType::SliceBegin, track, at, event);
    }

    fn end(&mut self, track: Track, at: u64) {
        self.event(EventType::SliceEnd, track, at, TrackEvent::default());
    }

    fn depart(&mut self, track: Track, at: u64, name: Word) -> Arrow {
        self.arrows += 1;
        let name_iid = Some(self.number(name, Use::Event));
        let event = TrackEvent { name_iid, flow_ids: vec![self.arrows], ..TrackEvent::default() };
        self.event(EventType::Instant, track, at, event);
        Arrow(self.arrows)
    }

    fn arrive(&mut self, track: Track, at: u64, arrow: Arrow) {
        let event = TrackEvent { terminating_flow_ids: vec![arrow.0], ..TrackEvent::default() };
        self.event(EventType::Instant, track, at, event);
    }

    fn value(&mut self, counter: Track, at: u64, value: f64) {
        let event = match value.fract() == 0.0 {
            true => TrackEvent { counter_value: Some(value as i64), ..TrackEvent::default() },
            false => TrackEvent { double_counter_value: Some(value), ..TrackEvent::default() },
        };
        self.event(EventType::Counter, counter, at, event);
    }

    fn finish(&mut self) -> io::Result<()> {
        self.error.take().map_or_else(|| self.out.flush(), Err)
    }
}
