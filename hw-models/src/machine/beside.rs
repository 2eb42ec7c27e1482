//! What goes on at a GPU beside its kernels: copies over its link, and blocks that hold SMs. Work without an end ends with the
//! work that it is beside.

use sim_core::id::{CauseId, FluidId, RouteId, StreamId};
use sim_core::platform::{Demand, Platform};
use sim_core::program::{Activity, Affine, Body, Call, Op, Program, Slot};

use super::transfers::both_ways;
use crate::catalogue::CopyRates;

/// The ways of copies to a GPU and from it, over a link of these rates. A copy engine comes first at the memory: it moves a byte
/// there for each of the link.
pub fn copy_ways(platform: &mut Platform, hbm: FluidId, link: CopyRates, cause: CauseId) -> [RouteId; 2] {
    let both = both_ways(platform, "both ways".to_owned(), link, cause);
    let ways = [("to device", link.to_device, both[0]), ("to host", link.from_device, both[1])];
    ways.map(|(name, way, both)| {
        let one = platform.fluid(name, way.alone, cause);
        let both = both.weight(way.against / link.both_ways());
        platform.route([Demand::on(one), both, Demand::on(hbm).prior()])
    })
}

/// Blocks that hold an SM each of the pool in a slot while an activity runs. Kernels give them up at the end of a wave.
pub fn held(pool: Slot, sms: u32, cause: CauseId) -> [Op; 3] {
    [
        Op::Hold { pool, units: sms, priority: 0, cause },
        Op::Run { activity: Affine::constant(0) },
        Op::Drop { pool, units: sms },
    ]
}

/// Adds a stream that executes operations so many times, which have one activity between them: the first of their costs.
pub fn repeated(
    program: &mut Program,
    slots: impl IntoIterator<Item = u32>,
    ops: impl IntoIterator<Item = Op>,
    activity: Activity,
    times: u32,
) -> StreamId {
    let costs = program.cost_table(vec![activity], Vec::new());
    let binding = program.binding(slots, Some(costs));
    let block = program.block("work", ops);
    let role = program.role([Call { repeat: times, ..Call::once(block) }]);
    program.stream("work", binding, Body::Role(role))
}

/// Ends streams that [repeat](repeated) their work in the instant in which another has executed all that it has.
///
/// # Panics
/// If the other serves a queue, which has no end.
pub fn end_with(program: &mut Program, stream: StreamId, repeating: &[StreamId]) {
    let Body::Role(role) = program.streams[stream.index()].body else {
        panic!("`{}` serves a queue", program.streams[stream.index()].name)
    };
    let mut calls = program.roles[role.index()].calls.clone();
    let slots = &mut program.bindings[program.streams[stream.index()].binding.index()].slots;
    let first = slots.len() as Slot;
    slots.extend(repeating.iter().map(|other| other.0));
    // They have one call: there is nothing behind it.
    let halts = (first..).zip(repeating).map(|(stream, _)| Op::Halt { stream, call: 1 });
    calls.push(Call::once(program.block("the end", halts)));
    program.streams[stream.index()].body = Body::Role(program.role(calls));
}
