//! What copies get that are under way at once on a machine, beside processors or not: what the engine says, as of those of a training
//! step.

use sim_core::fixed::Rate;
use sim_core::id::StreamId;
use sim_core::platform::Platform;
use sim_core::program::{Activity, Affine, Op, Program, StartState};
use sim_core::{Options, simulate};

use super::CopyCost;
use crate::machine::{Machine, NoRoute, PartId, ResourceKind, Transfers, end_with, repeated};

/// Copies of a stream that are timed. The others end with them, if they have not come to the most before.
const TIMED: u32 = 20;
const MOST: u32 = 1_000_000;

/// Copies of one stream, one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct CopyStream {
    /// From the first of these parts to the last, by way of the others; one memory alone is what all processors of its host read.
    pub stops: Vec<PartId>,
    /// Bytes of each copy.
    pub bytes: u64,
    /// What it asks for beside its links.
    pub cost: CopyCost,
}

/// The rate (byte/s) of each stream while all the others go on.
///
/// # Errors
/// If nothing joins two parts.
pub fn rates_at_once(machine: &Machine, streams: &[CopyStream]) -> Result<Vec<f64>, NoRoute> {
    (0..streams.len()).map(|timed| rate_beside(machine, streams, timed)).collect()
}

/// The rate (byte/s) of the stream numbered `timed` while the others go on.
///
/// # Errors
/// If nothing joins two parts.
pub fn rate_beside(machine: &Machine, streams: &[CopyStream], timed: usize) -> Result<f64, NoRoute> {
    let times = |number| if number == timed { TIMED } else { MOST };
    let (platform, mut program) = repeating(machine, streams, times)?;
    let stream = StreamId(timed as u32);
    let others: Vec<StreamId> =
        (0..streams.len() as u32).map(StreamId).filter(|other| *other != stream).collect();
    end_with(&mut program, stream, &others);
    let seconds = seconds(&platform, &program)[timed];
    Ok(f64::from(TIMED) * streams[timed].bytes as f64 / seconds)
}

/// Time (s) of one copy of each stream, where all begin together.
///
/// # Errors
/// If nothing joins two parts.
pub fn seconds_at_once(machine: &Machine, streams: &[CopyStream]) -> Result<Vec<f64>, NoRoute> {
    let (platform, program) = repeating(machine, streams, |_| 1)?;
    Ok(seconds(&platform, &program))
}

/// A program of streams, each of which makes its copy that many times.
fn repeating(
    machine: &Machine,
    streams: &[CopyStream],
    times: impl Fn(usize) -> u32,
) -> Result<(Platform, Program), NoRoute> {
    let mut program = Program::default();
    let cause = program.cause("copies");
    let (mut platform, resources) = machine.platform(|_: ResourceKind| cause);
    let mut transfers = Transfers::new(machine, cause);
    for (number, stream) in streams.iter().enumerate() {
        let route = match stream.stops[..] {
            [memory] => platform.route(machine.processors(&resources, memory, 1)),
            _ => {
                let route = machine.route_by_way_of(&stream.stops)?;
                let mut demands = transfers.demands(&mut platform, &resources, &route, stream.cost.passes);
                let ends = (0..machine.gpus()).filter(|&gpu| stream.stops.contains(&machine.gpu(gpu)));
                demands.extend(ends.map(|gpu| resources.gpus[gpu as usize].copied()));
                platform.route(demands)
            }
        };
        let at_most = stream.cost.at_most.map_or(Rate::UNLIMITED, Rate::per_second);
        let activity = Activity {
            latency: stream.cost.latency,
            cap: at_most,
            ..Activity::moving(stream.bytes, 0, cause)
        };
        let copy = [Op::Run { activity: Affine::constant(0) }];
        repeated(&mut program, [route.0], copy, activity, times(number));
    }
    Ok((platform, program))
}

/// End of each stream (s).
fn seconds(platform: &Platform, program: &Program) -> Vec<f64> {
    let run = simulate(platform, program, &StartState::default(), &Options::default());
    let run = run.expect("streams of copies are a program");
    run.streams.iter().map(|stream| stream.finished.expect("copies end").as_secs()).collect()
}
