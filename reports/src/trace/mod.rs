//! Traces for viewers: tracks of slices within slices, arrows between them, and counters, written
//! as they happen.
//!
//! - [`Perfetto`]: TrackEvent protobuf of <https://ui.perfetto.dev>, of any length.
//! - [`Chrome`]: trace-event JSON, which more tools read, for small runs.
//!
//! Times are picoseconds. Perfetto resolves nanoseconds, to which begins and ends are rounded; JSON
//! keeps all digits.

mod chrome;
mod perfetto;
pub mod proto;

use std::io;

pub use chrome::Chrome;
pub use perfetto::Perfetto;

/// Slices of the longest run that is written as JSON: viewers hold all of it as text.
pub const JSON_SLICES_MAX: u64 = 1_000_000;

/// A file under construction. What cannot be written is told at the end.
pub trait Tracer {
    /// A text, to be used several times.
    fn word(&mut self, text: &str) -> Word;
    /// A group of tracks: what a rank does.
    fn process(&mut self, name: &str) -> Process;
    /// A track of slices.
    fn track(&mut self, process: Process, name: &str) -> Track;
    /// A track of values over time.
    fn counter(&mut self, process: Process, name: &str, unit: Unit) -> Track;
    /// A slice begins, within the one that is open on its track.
    fn begin(&mut self, track: Track, at: u64, slice: &Slice<'_>);
    /// The innermost slice of a track ends.
    fn end(&mut self, track: Track, at: u64);
    /// An arrow begins; it ends where it is named.
    fn depart(&mut self, track: Track, at: u64, name: Word) -> Arrow;
    /// An arrow ends at no slice.
    fn arrive(&mut self, track: Track, at: u64, arrow: Arrow);
    /// A counter has a value from here on.
    fn value(&mut self, counter: Track, at: u64, value: f64);
    /// Writes what is left.
    ///
    /// # Errors
    /// The first of the writer's.
    fn finish(&mut self) -> io::Result<()>;
}

/// A text of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word(u32);

/// A group of tracks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process(u32);

/// A track of slices or of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Track {
    process: Process,
    number: u32,
}

/// An arrow from one track to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrow(u64);

/// A stretch of time of a track.
#[derive(Clone, Copy, Debug)]
pub struct Slice<'a> {
    /// Its name.
    pub name: Word,
    /// Its category.
    pub category: Word,
    /// Further facts, by name.
    pub details: &'a [(Word, Detail)],
    /// Arrows that end at it.
    pub arrows: &'a [Arrow],
}

/// Something that is known of a slice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Detail {
    /// A text.
    Text(Word),
    /// A whole number.
    Whole(u64),
    /// Any number.
    Number(f64),
}

/// Unit of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
}
