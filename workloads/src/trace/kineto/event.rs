//! One event of a Kineto trace.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::scalar::{Extent, Scalar};
use crate::trace::recording::{
    ActivityKind, DeviceEvent, HostEvent, Label, LaunchShape, NameId, RecordedWait, Recording,
};

/// The place of a process among others.
#[derive(Deserialize)]
pub(super) struct DistributedInfo {
    pub(super) rank: Option<u64>,
    pub(super) world_size: Option<u64>,
}

/// Events read so far.
#[derive(Default)]
pub(super) struct Reading {
    pub(super) recording: Recording,
    /// Events, kept or not.
    pub(super) events: u64,
    threads: BTreeMap<[Label; 2], u32>,
    streams: BTreeSet<(i64, i64)>,
    /// Begin of the first event (us).
    first: Option<f64>,
}

/// Most threads and streams of a file: more are no program.
const LANES_MAX: usize = 4_096;

/// Longest time that one event may take, and farthest from the first that one may begin (us): a
/// day.
const SPAN_MAX: f64 = 86_400e6;

impl Reading {
    fn add(&mut self, event: &Event) {
        self.events += 1;
        let Event { phase, category, .. } = event;
        let Some(category) = Category::of(category).filter(|_| phase == "X") else {
            let what = if category.is_empty() { format!("phase `{phase}`") } else { category.clone() };
            // As many different ones as a reader would look at.
            if self.recording.counts.ignored.len() < 64 || self.recording.counts.ignored.contains_key(&what) {
                *self.recording.counts.ignored.entry(what).or_default() += 1;
            }
            return;
        };
        let kept = self.keep(category, event);
        let counts = &mut self.recording.counts;
        *match kept {
            Ok(()) => counts.understood.entry(category.name()).or_default(),
            Err(reason) => counts.refused.entry(reason).or_default(),
        } += 1;
    }

    fn keep(&mut self, category: Category, event: &Event) -> Result<(), &'static str> {
        let Event { begin, duration, args, .. } = event;
        let begin = begin.filter(|begin| begin.is_finite()).ok_or("no begin")?;
        let duration = duration.filter(|duration| duration.is_finite()).ok_or("no duration")?;
        if duration < 0.0 {
            return Err("a negative duration");
        }
        // Clocks of epochs have more digits than nanoseconds in `f64`; what has passed since the
        // first event has not.
        let begin = begin - *self.first.get_or_insert(begin);
        if duration > SPAN_MAX || begin.abs() > SPAN_MAX {
            return Err("a time more than a day from the first");
        }
        let (begin, end) = ((begin * 1e3) as i64, ((begin + duration) * 1e3) as i64);
        let name = event.name.ok_or("no name")?;
        let correlation = args.correlation;
        match category {
            Category::Operator | Category::Call => {
                let thread = self.thread(event)?;
                let event = HostEvent { thread, name, begin, end, correlation };
                let list = match category {
                    Category::Operator => &mut self.recording.operators,
                    _ => &mut self.recording.calls,
                };
                list.push(event);
            }
            Category::Activity(kind) => {
                let stream = self.stream(event)?;
                let is_collective = ["nccl", "rccl"]
                    .iter()
                    .any(|library| self.recording.names.name(name).starts_with(library));
                let kind = if is_collective { ActivityKind::Collective } else { kind };
                let Args { bytes, launch, .. } = *args;
                let activity = DeviceEvent { stream, name, kind, begin, end, correlation, bytes, launch };
                self.recording.activities.push(activity);
            }
            Category::Wait => {
                let correlation = correlation.ok_or("no correlation")?;
                let device = args.device.unwrap_or(0);
                let lets_stream_wait = self.recording.names.name(name) == "Stream Wait Event";
                let waiting = args.stream.filter(|_| lets_stream_wait);
                let awaited =
                    if lets_stream_wait { args.awaited_stream } else { args.awaited_stream.or(args.stream) };
                let [waiting, stream] =
                    [waiting, awaited].map(|stream| Some((device, stream.filter(|&it| it >= 0)?)));
                let event = args.event_record;
                self.recording.waits.push(RecordedWait { correlation, waiting, stream, event });
            }
        }
        Ok(())
    }

    /// The number of the thread of an event.
    fn thread(&mut self, event: &Event) -> Result<u32, &'static str> {
        let labels = [event.process.clone(), event.thread.clone()];
        let [Some(process), Some(thread)] = labels else { return Err("no thread") };
        let threads = &mut self.recording.threads;
        if let Some(&known) = self.threads.get(&[process.clone(), thread.clone()]) {
            return Ok(known);
        }
        if threads.len() >= LANES_MAX {
            return Err("more threads than a program has");
        }
        threads.push(thread.clone());
        self.threads.insert([process, thread], threads.len() as u32 - 1);
        Ok(threads.len() as u32 - 1)
    }

    /// Device and stream of an event: as its arguments say, or else its process and thread.
    fn stream(&mut self, event: &Event) -> Result<(i64, i64), &'static str> {
        let number = |label: &Option<Label>| match label {
            Some(Label::Number(number)) => Some(*number),
            _ => None,
        };
        let device = event.args.device.or_else(|| number(&event.process)).unwrap_or(0);
        let stream = event.args.stream.or_else(|| number(&event.thread)).ok_or("no stream")?;
        if self.streams.insert((device, stream)) && self.streams.len() > LANES_MAX {
            return Err("more streams than a program has");
        }
        Ok((device, stream))
    }
}

/// Adds one event to what has been read.
pub(super) struct EventSeed<'a>(pub(super) &'a mut Reading);

impl<'de> DeserializeSeed<'de> for EventSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for EventSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut event = Event::default();
        while let Some(field) = map.next_key::<Field>()? {
            match field {
                Field::Other => _ = map.next_value::<IgnoredAny>()?,
                Field::Args => event.args = map.next_value()?,
                field => event.set(&field, map.next_value()?, &mut self.0.recording),
            }
        }
        self.0.add(&event);
        Ok(())
    }
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum Field {
    Ph,
    Cat,
    Name,
    Ts,
    Dur,
    Pid,
    Tid,
    Args,
    #[serde(other)]
    Other,
}

/// An event as it is written, of which every part may be missing. Times are in microseconds.
#[derive(Default)]
struct Event {
    phase: String,
    category: String,
    name: Option<NameId>,
    begin: Option<f64>,
    duration: Option<f64>,
    process: Option<Label>,
    thread: Option<Label>,
    args: Args,
}

impl Event {
    fn set(&mut self, field: &Field, value: Scalar, recording: &mut Recording) {
        match field {
            Field::Ph => self.phase = value.text(),
            Field::Cat => self.category = value.text(),
            Field::Name => self.name = Some(recording.names.id(&value.text())),
            Field::Ts => self.begin = value.number(),
            Field::Dur => self.duration = value.number(),
            Field::Pid => self.process = value.label(),
            Field::Tid => self.thread = value.label(),
            Field::Args | Field::Other => {}
        }
    }
}

/// The arguments that are of interest.
#[derive(Default)]
struct Args {
    correlation: Option<u64>,
    device: Option<i64>,
    stream: Option<i64>,
    bytes: Option<u64>,
    awaited_stream: Option<i64>,
    event_record: Option<u64>,
    launch: Option<LaunchShape>,
}

impl<'de> Deserialize<'de> for Args {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyArgs)
    }
}

struct AnyArgs;

#[derive(Deserialize)]
#[serde(field_identifier)]
enum ArgField {
    #[serde(rename = "correlation")]
    Correlation,
    #[serde(rename = "device")]
    Device,
    #[serde(rename = "stream")]
    Stream,
    #[serde(rename = "bytes")]
    Bytes,
    #[serde(rename = "In msg nelems")]
    Elements,
    #[serde(rename = "dtype")]
    ElementType,
    #[serde(rename = "grid")]
    Grid,
    #[serde(rename = "block")]
    Block,
    #[serde(rename = "registers per thread")]
    Registers,
    #[serde(rename = "shared memory")]
    Shared,
    #[serde(rename = "wait_on_stream")]
    AwaitedStream,
    #[serde(rename = "wait_on_cuda_event_record_corr_id")]
    EventRecord,
    #[serde(other)]
    Other,
}

impl<'de> Visitor<'de> for AnyArgs {
    type Value = Args;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("arguments")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Args, A::Error> {
        let mut args = Args::default();
        let (mut elements, mut size, mut blocks, mut threads) = (None, None, None, None);
        let (mut registers, mut shared) = (0, 0);
        while let Some(field) = map.next_key::<ArgField>()? {
            match field {
                ArgField::Correlation => args.correlation = map.next_value::<Scalar>()?.count(),
                ArgField::Device => args.device = map.next_value::<Scalar>()?.integer(),
                ArgField::Stream => args.stream = map.next_value::<Scalar>()?.integer(),
                ArgField::Bytes => args.bytes = map.next_value::<Scalar>()?.count(),
                ArgField::Elements => elements = map.next_value::<Scalar>()?.count(),
                ArgField::ElementType => size = element_bytes(&map.next_value::<Scalar>()?.text()),
                ArgField::AwaitedStream => args.awaited_stream = map.next_value::<Scalar>()?.integer(),
                ArgField::EventRecord => args.event_record = map.next_value::<Scalar>()?.count(),
                ArgField::Registers => registers = map.next_value::<Scalar>()?.count().unwrap_or(0),
                ArgField::Shared => shared = map.next_value::<Scalar>()?.count().unwrap_or(0),
                ArgField::Grid => blocks = map.next_value::<Extent>()?.0,
                ArgField::Block => threads = map.next_value::<Extent>()?.0,
                ArgField::Other => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        let small = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        args.launch = blocks.zip(threads).map(|(blocks, threads)| LaunchShape {
            blocks: small(blocks),
            threads: small(threads),
            registers: small(registers),
            shared: small(shared),
        });
        // What a collective sends.
        args.bytes = args.bytes.or(elements.zip(size).and_then(|(count, size)| count.checked_mul(size)));
        Ok(args)
    }

    fn visit_unit<E>(self) -> Result<Args, E> {
        Ok(Args::default())
    }

    fn visit_bool<E>(self, _: bool) -> Result<Args, E> {
        Ok(Args::default())
    }

    fn visit_i64<E>(self, _: i64) -> Result<Args, E> {
        Ok(Args::default())
    }

    fn visit_u64<E>(self, _: u64) -> Result<Args, E> {
        Ok(Args::default())
    }

    fn visit_f64<E>(self, _: f64) -> Result<Args, E> {
        Ok(Args::default())
    }

    fn visit_str<E>(self, _: &str) -> Result<Args, E> {
        Ok(Args::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Args, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Args::default())
    }
}

/// Bytes of an element of a collective, by PyTorch's name of its type.
fn element_bytes(name: &str) -> Option<u64> {
    match name {
        "Byte" | "Char" | "Bool" | "Float8_e4m3fn" | "Float8_e5m2" => Some(1),
        "Half" | "BFloat16" | "Short" => Some(2),
        "Float" | "Int" => Some(4),
        "Double" | "Long" => Some(8),
        _ => None,
    }
}

/// A kind of events, by their category in any dialect.
#[derive(Clone, Copy)]
enum Category {
    Operator,
    Call,
    Activity(ActivityKind),
    Wait,
}

impl Category {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "cpu_op" | "user_annotation" | "Operator" => Self::Operator,
            "cuda_runtime" | "cuda_driver" | "Runtime" => Self::Call,
            "kernel" | "Kernel" => Self::Activity(ActivityKind::Kernel),
            "gpu_memcpy" | "Memcpy" => Self::Activity(ActivityKind::Copy),
            "gpu_memset" | "Memset" => Self::Activity(ActivityKind::Fill),
            "cuda_sync" => Self::Wait,
            _ => return None,
        })
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Operator => "operators and annotations",
            Self::Call => "calls of the runtime",
            Self::Activity(ActivityKind::Kernel | ActivityKind::Collective) => "kernels",
            Self::Activity(ActivityKind::Copy) => "copies",
            Self::Activity(ActivityKind::Fill) => "fills",
            Self::Wait => "waits with their events",
        }
    }
}
