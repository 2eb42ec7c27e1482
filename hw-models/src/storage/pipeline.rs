//! Items that pass through stages in turn, so many of them under way at a time.

use sim_core::fixed::Rate;
use sim_core::id::{CauseId, StreamId};
use sim_core::platform::{Demand, Platform};
use sim_core::program::{Activity, Affine, Body, Call, Op, Program};
use sim_core::time::Time;

/// What one stage does with each item.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// For results.
    pub name: String,
    /// Before its bytes flow.
    pub latency: Time,
    /// Bytes of an item, in units of its demands.
    pub bytes: u64,
    /// Its speed at most (byte/s).
    pub at_most: f64,
    /// What it demands.
    pub demands: Vec<Demand>,
}

/// Adds a stream for each stage. A stage takes an item when the one before has done it; the first takes another when fewer than
/// `buffers` are under way: with one buffer stages never overlap. The stream of the last is given.
///
/// # Panics
/// If there are no stages.
pub fn pipeline(
    platform: &mut Platform,
    program: &mut Program,
    stages: Vec<Stage>,
    (items, buffers): (u32, u32),
    cause: CauseId,
) -> StreamId {
    let done: Vec<u32> = stages.iter().map(|_| program.counter().0).collect();
    let last = *done.last().expect("a pipeline has stages");
    let mut stream = None;
    for (at, stage) in stages.into_iter().enumerate() {
        let route = platform.route(stage.demands);
        let cap = if stage.at_most.is_finite() { Rate::per_second(stage.at_most) } else { Rate::UNLIMITED };
        let activity = Activity { latency: stage.latency, cap, ..Activity::moving(stage.bytes, 0, cause) };
        let costs = program.cost_table(vec![activity], Vec::new());
        // What an item of number n waits for, as many items as that: the stage before has done n + 1; the last n + 1 - buffers.
        let (before, ahead) = match at {
            0 => (last, 1 - i32::try_from(buffers).unwrap_or(i32::MAX)),
            _ => (done[at - 1], 1),
        };
        let binding = program.binding([route.0, before, done[at]], Some(costs));
        let block = program.block(
            stage.name.clone(),
            [
                Op::Wait { counter: 1, at_least: Affine::offset(ahead, 0), cause },
                Op::Run { activity: Affine::constant(0) },
                Op::Add { counter: 2, amount: 1, after: None },
            ],
        );
        let role = program.role([Call::counting(block, 0, items)]);
        stream = Some(program.stream(stage.name, binding, Body::Role(role)));
    }
    stream.expect("a pipeline has stages")
}
