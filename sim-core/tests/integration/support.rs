//! Short words for building small programs and reading their timelines.

use sim_core::id::{BindingId, CauseId, StreamId};
use sim_core::outcome::{End, Run};
use sim_core::platform::Platform;
use sim_core::program::{Activity, Affine, Call, Op, Program, Shortage, Slot, StartState};
use sim_core::record::{Recorder, Selection};
use sim_core::time::Time;
use sim_core::{Options, simulate, simulate_observed};

/// The only cause most small programs need.
pub(crate) const BUSY: CauseId = CauseId(0);

/// A program whose cause 0 is `busy`.
pub(crate) fn program() -> Program {
    let mut program = Program::default();
    program.cause("busy");
    program
}

pub(crate) fn s(seconds: u64) -> Time {
    Time(seconds * 1_000_000_000_000)
}

pub(crate) fn run(activity: i32) -> Op {
    Op::Run { activity: Affine::constant(activity) }
}

pub(crate) fn add(counter: Slot) -> Op {
    Op::Add { counter, amount: 1, after: None }
}

pub(crate) fn wait(counter: Slot, at_least: i32) -> Op {
    Op::Wait { counter, at_least: Affine::constant(at_least), cause: BUSY }
}

pub(crate) fn acquire(program: &mut Program, store: Slot, size: i32, shortage: Shortage) -> Op {
    let kind = program.kind("bytes");
    Op::Acquire { store, bytes: Affine::constant(size), kind, shortage, priority: 0, cause: BUSY }
}

pub(crate) fn release(program: &mut Program, store: Slot, size: i32) -> Op {
    let kind = program.kind("bytes");
    Op::Release { store, bytes: Affine::constant(size), kind }
}

pub(crate) fn hold(pool: Slot, units: u32, priority: u8) -> Op {
    Op::Hold { pool, units, priority, cause: BUSY }
}

pub(crate) fn lasting(seconds: u64) -> Activity {
    Activity::lasting(s(seconds), BUSY)
}

/// A stream that executes `ops` once.
pub(crate) fn stream(program: &mut Program, name: &str, binding: BindingId, ops: Vec<Op>) -> StreamId {
    let block = program.block(name, ops);
    let role = program.role([Call::once(block)]);
    program.stream(name, binding, sim_core::program::Body::Role(role))
}

/// The run, checked to be the same with segments off.
pub(crate) fn simulated(platform: &Platform, program: &Program) -> Run {
    let start = StartState::default();
    let on = simulate(platform, program, &start, &Options::default()).expect("a valid program");
    let off = simulate(platform, program, &start, &Options { segments: false, ..Options::default() })
        .expect("a valid program");
    assert_eq!(Run { events: 0, ..on.clone() }, Run { events: 0, ..off }, "segments change nothing");
    for stream in &on.streams {
        let total = |by_cause: &[Time]| Time(by_cause.iter().map(|time| time.0).sum());
        if let Some(finished) = stream.finished {
            assert_eq!([total(&stream.spent), total(&stream.critical)], [finished; 2], "time adds up");
        }
    }
    on
}

/// When each stream ended, in seconds; all of them must.
pub(crate) fn ends(platform: &Platform, program: &Program) -> Vec<f64> {
    let run = simulated(platform, program);
    assert_eq!(run.end, End::Completed);
    run.streams.iter().filter_map(|u| u.finished).map(Time::as_secs).collect()
}

/// Spans of a stream as (block, operation, start, end) in seconds.
pub(crate) fn spans(
    platform: &Platform,
    program: &Program,
    stream: StreamId,
) -> Vec<(String, u32, f64, f64)> {
    let mut recorder = Recorder::new(Selection::spans_of([stream]));
    let start = StartState::default();
    simulate_observed(platform, program, &start, &Options::default(), &mut recorder)
        .expect("a valid program");
    let named = recorder.spans.iter().map(|span| {
        let block = program.blocks[span.place.block.index()].name.clone();
        (block, span.place.op, span.start.as_secs(), span.end.as_secs())
    });
    named.collect()
}
