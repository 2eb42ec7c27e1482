//! Traces as Chrome's trace-event JSON: an array of events, one a line.

use std::io::{self, Write};

use indexmap::IndexSet;
use serde_json::{Map, Value, json};

use super::{Arrow, Detail, Process, Slice, Tracer, Track, Unit, Word};

/// Category of arrows.
const ARROW: &str = "arrow";

/// Writes a trace as JSON.
#[derive(Debug)]
pub struct Chrome<W> {
    out: W,
    error: Option<io::Error>,
    texts: IndexSet<String>,
    /// Tracks of each process.
    tracks: Vec<u32>,
    /// Names of counters, by process and number.
    counters: Vec<(Track, String)>,
    arrows: u64,
    is_begun: bool,
}

impl<W: Write> Chrome<W> {
    /// An empty trace.
    pub fn new(out: W) -> Self {
        let (texts, tracks, counters) = Default::default();
        Self { out, error: None, texts, tracks, counters, arrows: 0, is_begun: false }
    }

    fn write(&mut self, event: &Value) {
        let separator = if std::mem::replace(&mut self.is_begun, true) { ",\n" } else { "[\n" };
        if self.error.is_none() {
            self.error = write!(self.out, "{separator}{event}").err();
        }
    }

    fn text(&self, Word(word): Word) -> &str {
        self.texts.get_index(word as usize).map_or("", String::as_str)
    }

    fn event(&mut self, phase: &str, Track { process, number }: Track, at: u64, more: Value) {
        let mut event = json!({ "ph": phase, "pid": process.0 + 1, "tid": number, "ts": at as f64 / 1e6 });
        if let (Value::Object(event), Value::Object(more)) = (&mut event, more) {
            event.extend(more);
        }
        self.write(&event);
    }

    fn add(&mut self, process: Process) -> Track {
        let tracks = &mut self.tracks[process.0 as usize];
        *tracks += 1;
        Track { process, number: *tracks }
    }

    /// Names a process, or one of its tracks.
    fn name(&mut self, what: &str, Track { process, number }: Track, name: &str) {
        let pid = process.0 + 1;
        self.write(&json!({ "ph": "M", "pid": pid, "tid": number, "name": what, "args": { "name": name } }));
    }
}

impl<W: Write> Tracer for Chrome<W> {
    fn word(&mut self, text: &str) -> Word {
        let at = self.texts.get_index_of(text);
        Word(at.unwrap_or_else(|| self.texts.insert_full(text.to_owned()).0) as u32)
    }

    fn process(&mut self, name: &str) -> Process {
        let process = Process(self.tracks.len() as u32);
        self.tracks.push(0);
        self.name("process_name", Track { process, number: 0 }, name);
        process
    }

    fn track(&mut self, process: Process, name: &str) -> Track {
        let track = self.add(process);
        self.name("thread_name", track, name);
        track
    }

    fn counter(&mut self, process: Process, name: &str, unit: Unit) -> Track {
        let track = self.add(process);
        let unit = match unit {
            Unit::Bytes => "B",
            Unit::BytesPerSecond => "B/s",
        };
        self.counters.push((track, format!("{name} ({unit})")));
        track
    }

    fn begin(&mut self, track: Track, at: u64, slice: &Slice<'_>) {
        let detail = |&(name, detail): &(Word, Detail)| {
            let value = match detail {
                Detail::Text(text) => json!(self.text(text)),
                Detail::Whole(value) => json!(value),
                Detail::Number(value) => json!(value),
            };
            (self.text(name).to_owned(), value)
        };
        let details: Map<String, Value> = slice.details.iter().map(detail).collect();
        let more =
            json!({ "name": self.text(slice.name), "cat": self.text(slice.category), "args": details });
        self.event("B", track, at, more);
        slice.arrows.iter().for_each(|&arrow| self.arrive(track, at, arrow));
    }

    fn end(&mut self, track: Track, at: u64) {
        self.event("E", track, at, json!({}));
    }

    fn depart(&mut self, track: Track, at: u64, name: Word) -> Arrow {
        self.arrows += 1;
        let name = self.text(name).to_owned();
        self.event("i", track, at, json!({ "name": name, "s": "t" }));
        self.event("s", track, at, json!({ "name": ARROW, "cat": ARROW, "id": self.arrows }));
        Arrow(self.arrows)
    }

    fn arrive(&mut self, track: Track, at: u64, Arrow(id): Arrow) {
        self.event("f", track, at, json!({ "name": ARROW, "cat": ARROW, "id": id, "bp": "e" }));
    }

    fn value(&mut self, counter: Track, at: u64, value: f64) {
        let known = self.counters.iter().find(|(track, _)| *track == counter);
        let name = known.map_or("", |(_, name)| name).to_owned();
        self.event("C", counter, at, json!({ "name": name, "args": { "value": value } }));
    }

    fn finish(&mut self) -> io::Result<()> {
        let end = if self.is_begun { "\n]\n" } else { "[]\n" };
        match self.error.take() {
            Some(error) => Err(error),
            None => self.out.write_all(end.as_bytes()).and_then(|()| self.out.flush()),
        }
    }
}
