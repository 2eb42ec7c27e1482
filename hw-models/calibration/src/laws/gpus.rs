//! Copies between GPUs, messages and collectives.

use super::{Constant, GIGA, Law, MICRO, Unit, at_rate};
use crate::measure::{Collective, PeerCopy, SendReceive, Task, Ways};
use hw_models::collectives::CollectiveKind;

/// The law of messages around a ring.
pub(crate) const SEND_RECEIVE: &str = "send-receive";
/// The law of copies from one GPU to another.
pub(crate) const PEER: &str = "peer.one-way";
/// The same while the other one copies as well.
pub(crate) const PEER_AGAINST: &str = "peer.both-ways";
/// The rate of each.
pub(crate) const RATE: &str = "rate";
/// What comes before the bytes of a message.
pub(crate) const START: &str = "start";

/// Between copies that were issued ahead, and what connects the two.
const COPY: [Constant; 2] = [Constant::new(START, Unit::Us, 2.5), Constant::new(RATE, Unit::GbPerS, 200.0)];
const BOTH: [Constant; 1] = [Constant::new(RATE, Unit::GbPerS, 200.0)];
/// With a receiver that is ready.
const MESSAGE: [Constant; 2] =
    [Constant::new(START, Unit::Us, 15.0), Constant::new(RATE, Unit::GbPerS, 200.0)];
/// Of a call, of each step of its ring, and what a member sends while it receives as much.
const RING: [Constant; 3] = [
    Constant::new("launch", Unit::Us, 10.0),
    Constant::new("step", Unit::Us, 4.0),
    Constant::new("bus", Unit::GbPerS, 200.0),
];

pub(super) const LAWS: [Law; 9] = [
    Law { name: PEER, constants: &COPY, seconds: peer },
    Law { name: PEER_AGAINST, constants: &BOTH, seconds: against },
    Law { name: SEND_RECEIVE, constants: &MESSAGE, seconds: message },
    ring("all-reduce", |x, task| collective(x, task, CollectiveKind::AllReduce)),
    ring("all-gather", |x, task| collective(x, task, CollectiveKind::AllGather)),
    ring("reduce-scatter", |x, task| collective(x, task, CollectiveKind::ReduceScatter)),
    ring("all-to-all", |x, task| collective(x, task, CollectiveKind::AllToAll)),
    ring("broadcast", |x, task| collective(x, task, CollectiveKind::Broadcast)),
    ring("reduce", |x, task| collective(x, task, CollectiveKind::Reduce)),
];

const fn ring(name: &'static str, seconds: fn(&[f64], &Task) -> Option<f64>) -> Law {
    Law { name, constants: &RING, seconds }
}

/// `start + bytes / rate`.
fn peer(constants: &[f64], task: &Task) -> Option<f64> {
    match *task {
        Task::PeerCopy(PeerCopy { ways: Ways::One, bytes }) => at_rate(constants, bytes),
        _ => None,
    }
}

/// `bytes / rate`, of copies that are large and meet others.
fn against(constants: &[f64], task: &Task) -> Option<f64> {
    let &[rate] = constants else { return None };
    match *task {
        Task::PeerCopy(PeerCopy { ways: Ways::Both, bytes }) => Some(bytes as f64 / (rate * GIGA)),
        _ => None,
    }
}

/// `start + bytes / rate`, however many take part: all move in step, as
/// [`send_receive`](hw_models::collectives::send_receive) has it.
fn message(constants: &[f64], task: &Task) -> Option<f64> {
    match *task {
        Task::SendReceive(SendReceive { bytes, .. }) => at_rate(constants, bytes),
        _ => None,
    }
}

/// `launch + steps step + passes bytes / bus`, a ring with [steps](CollectiveKind::steps) in which each member sends the tensor
/// so many [times](CollectiveKind::passes). A library has several ways and takes the best for a size: the law is as far off as
/// its errors say, and scenarios go by the times themselves.
fn collective(constants: &[f64], task: &Task, of: CollectiveKind) -> Option<f64> {
    let &[launch, step, bus] = constants else { return None };
    match *task {
        Task::Collective(Collective { kind, ranks, bytes }) if kind == of => Some(
            (launch + kind.steps(ranks) * step) * MICRO + kind.passes(ranks) * bytes as f64 / (bus * GIGA),
        ),
        _ => None,
    }
}
