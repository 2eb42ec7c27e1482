//! Kineto traces: the Chrome JSON of PyTorch's profiler, plain or packed with gzip or zstd, one
//! event at a time.
//!
//! | dialect | host events | device events | waits of streams |
//! |---|---|---|---|
//! | 2021 | `Operator`, `Runtime` | `Kernel`, `Memcpy`, `Memset` | inferred |
//! | 2022, 2023 | `cpu_op`, `cuda_runtime` | `kernel`, `gpu_memcpy`, ... | inferred |
//! | with `cuda_sync` | as 2023 | as 2023 | by event ids |
//!
//! Flows between calls and activities are left out: both have the same `correlation`.

mod event;
mod scalar;

use std::fmt;
use std::io::{self, BufReader, Read};

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use thiserror::Error;

use super::packed::unpacked;
use super::recording::{DeviceFacts, Recording};
use event::{EventSeed, Reading};

/// Most events that are kept of one file.
const EVENTS_MAX: u64 = 8_000_000;

/// Most bytes between two quotes: what is longer is no name.
const TEXT_MAX: usize = 1 << 24;

/// Why a file gives no recording.
#[derive(Debug, Error)]
pub enum KinetoError {
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// It is no JSON from its beginning on.
    #[error("is no trace in JSON: {0}")]
    Syntax(serde_json::Error),
    /// It holds nothing that a replay can use.
    #[error("has no activity of a device and no call of its runtime: record it with `ProfilerActivity.CUDA`")]
    Nothing,
    /// It holds more than is kept.
    #[error("has more than {EVENTS_MAX} events: record fewer steps")]
    TooLong,
}

/// Reads a trace, packed or not.
///
/// # Errors
/// See [`KinetoError`]. One that breaks off gives what came before, and says so in its counts.
pub fn read(input: impl Read) -> Result<Recording, KinetoError> {
    parse(unpacked(input)?)
}

fn parse(input: impl Read) -> Result<Recording, KinetoError> {
    let input = BufReader::with_capacity(1 << 16, Quoted { input, since: 0 });
    let mut reading = Reading::default();
    let mut json = serde_json::Deserializer::from_reader(input);
    let read = serde::Deserializer::deserialize_any(&mut json, FileSeed(&mut reading));
    let too_long = reading.events >= EVENTS_MAX;
    let mut recording = reading.recording;
    match read {
        _ if too_long => return Err(KinetoError::TooLong),
        Ok(()) => {}
        Err(error) if recording.activities.is_empty() && recording.calls.is_empty() => {
            return Err(match error.is_io() {
                true => KinetoError::Io(error.into()),
                false => KinetoError::Syntax(error),
            });
        }
        Err(error) => recording.counts.truncated = Some(error.to_string()),
    }
    if recording.activities.is_empty() && recording.calls.is_empty() {
        return Err(KinetoError::Nothing);
    }
    recording.sort();
    Ok(recording)
}

/// Refuses text without an end, which would be kept whole.
struct Quoted<R> {
    input: R,
    since: usize,
}

impl<R: Read> Read for Quoted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buffer)?;
        self.since = match buffer[..count].iter().rposition(|&byte| byte == b'"') {
            Some(quote) => count - quote,
            None => self.since + count,
        };
        if self.since > TEXT_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a text of more than 16 MiB"));
        }
        Ok(count)
    }
}

/// A whole file: an object with its events, or a list of them.
struct FileSeed<'a>(&'a mut Reading);

impl<'de> Visitor<'de> for FileSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with `traceEvents`, or a list of events")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "traceEvents" => map.next_value_seed(EventsSeed(self.0))?,
                "deviceProperties" => {
                    let devices: Vec<DeviceFacts> = map.next_value()?;
                    self.0.recording.devices =
                        devices.into_iter().map(|device| (device.id, device)).collect();
                }
                "distributedInfo" => {
                    let event::DistributedInfo { rank, world_size } = map.next_value()?;
                    self.0.recording.rank = rank.zip(world_size);
                }
                _ => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<(), A::Error> {
        EventsSeed(self.0).visit_seq(seq)
    }
}

/// A list of events.
struct EventsSeed<'a>(&'a mut Reading);

impl<'de> DeserializeSeed<'de> for EventsSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for EventsSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while self.0.events < EVENTS_MAX && seq.next_element_seed(EventSeed(self.0))?.is_some() {}
        if self.0.events >= EVENTS_MAX {
            return Err(serde::de::Error::custom("too many events"));
        }
        Ok(())
    }
}
