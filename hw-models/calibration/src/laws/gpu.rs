//! Launches, graphs, copies, passes over memory and allocations of a GPU.

use super::{Constant, GIGA, Law, MEGA, MICRO, TERA, Unit, at_rate};
use crate::measure::{
    Access, Allocated, Allocation, Data, Direction, Graph, HostSide, Launch, MemoryPass, Pattern, Phase,
    Spin, Step, Storage, Sustained, Task, Transfer, ZeroCopy,
};

const CALL: [Constant; 1] = [Constant::new("call", Unit::Us, 2.0)];
/// Between the end of a kernel and the first clock of the next, and the clock of the SMs.
const GAP: [Constant; 2] = [Constant::new("gap", Unit::Us, 1.0), Constant::new("clock", Unit::Ghz, 1.5)];
const NODES: [Constant; 2] = [Constant::new("base", Unit::Us, 5.0), Constant::new("node", Unit::Us, 0.05)];
/// Between copies that were issued ahead, between one and the next that was issued when it had ended, and the link.
const COPY: [Constant; 3] = [
    Constant::new("issued", Unit::Us, 2.0),
    Constant::new("waited", Unit::Us, 8.0),
    Constant::new("rate", Unit::GbPerS, 25.0),
];
const STAGED: [Constant; 2] =
    [Constant::new("start", Unit::Us, 10.0), Constant::new("rate", Unit::GbPerS, 8.0)];
/// By the number of streams each way.
const AGAINST: [Constant; 4] =
    [against_by("one"), against_by("two"), against_by("three"), against_by("four")];
const PASS: [Constant; 2] =
    [Constant::new("start", Unit::Us, 2.5), Constant::new("rate", Unit::GbPerS, 2_000.0)];
const CACHE: [Constant; 5] = [
    Constant::new("start", Unit::Us, 2.5),
    Constant::new("rate", Unit::GbPerS, 5_000.0),
    Constant::new("memory", Unit::GbPerS, 2_000.0),
    Constant::new("kept", Unit::Mb, 20.0),
    Constant::new("lost", Unit::Mb, 60.0),
];
const ROW: [Constant; 2] =
    [Constant::new("overhead", Unit::Bytes, 24.0), Constant::new("requests", Unit::MegaPerS, 300.0)];
const BLOCK: [Constant; 2] =
    [Constant::new("latency", Unit::Us, 100.0), Constant::new("rate", Unit::GbPerS, 3.0)];
const ALLOCATION: [Constant; 2] =
    [Constant::new("start", Unit::Us, 50.0), Constant::new("rate", Unit::GbPerS, 500.0)];
const LOCKED: [Constant; 2] =
    [Constant::new("start", Unit::Us, 100.0), Constant::new("rate", Unit::GbPerS, 4.0)];
const SUSTAINED: [Constant; 3] = [
    Constant::new("begun", Unit::TeraflopPerS, 300.0),
    Constant::new("held", Unit::Share, 0.9),
    Constant::new("held-on-zeros", Unit::Share, 1.0),
];

const fn against_by(streams: &'static str) -> Constant {
    Constant::new(streams, Unit::GbPerS, 20.0)
}

pub(super) const LAWS: [Law; 25] = [
    Law::new("launch", &CALL, |x, task| launch(x, task, false)),
    Law::new("launch.waited", &CALL, |x, task| launch(x, task, true)),
    Law::new("gap.stream", &GAP, |x, task| gap(x, task, false)),
    Law::new("gap.graph", &GAP, |x, task| gap(x, task, true)),
    Law::new("graph.launch", &NODES, |x, task| graph(x, task, Step::Launch)),
    Law::new("graph.instantiate", &NODES, |x, task| graph(x, task, Step::Instantiate)),
    Law::new("copy.to-device", &COPY, |x, task| copy(x, task, Direction::ToDevice)),
    Law::new("copy.to-host", &COPY, |x, task| copy(x, task, Direction::ToHost)),
    Law::new("copy.pageable.to-device", &STAGED, |x, task| staged(x, task, Direction::ToDevice)),
    Law::new("copy.pageable.to-host", &STAGED, |x, task| staged(x, task, Direction::ToHost)),
    Law::new("copy.against.to-device", &AGAINST, |x, task| against(x, task, Direction::ToDevice)),
    Law::new("copy.against.to-host", &AGAINST, |x, task| against(x, task, Direction::ToHost)),
    Law::new("pass.copy", &PASS, |x, task| pass(x, task, Pattern::Copy)),
    Law::new("pass.scale", &PASS, |x, task| pass(x, task, Pattern::Scale)),
    Law::new("pass.add", &PASS, |x, task| pass(x, task, Pattern::Add)),
    Law::new("pass.triad", &PASS, |x, task| pass(x, task, Pattern::Triad)),
    Law::new("cache", &CACHE, cache),
    Law::new("zero-copy.read", &ROW, |x, task| row(x, task, Access::Read)),
    Law::new("zero-copy.write", &ROW, |x, task| row(x, task, Access::Write)),
    Law::new("storage.read", &BLOCK, |x, task| storage(x, task, Access::Read)),
    Law::new("storage.write", &BLOCK, |x, task| storage(x, task, Access::Write)),
    Law::new("allocation.device", &ALLOCATION, |x, task| allocation(x, task, Allocated::Device)),
    Law::new("allocation.pool", &CALL, pooled),
    Law::new("allocation.pinned", &LOCKED, |x, task| allocation(x, task, Allocated::Pinned)),
    Law::new("sustained", &SUSTAINED, sustained),
];

/// `call`, whatever the arguments: they are copied as they are.
fn launch(constants: &[f64], task: &Task, of: bool) -> Option<f64> {
    let &[call] = constants else { return None };
    matches!(task, Task::Launch(Launch { waited, .. }) if *waited == of).then_some(call * MICRO)
}

/// `gap + clocks / clock`.
fn gap(constants: &[f64], task: &Task, of: bool) -> Option<f64> {
    let &[gap, clock] = constants else { return None };
    match *task {
        Task::Spin(Spin { clocks, graph }) if graph == of => {
            Some(gap * MICRO + f64::from(clocks) / (clock * GIGA))
        }
        _ => None,
    }
}

/// `base + nodes node`.
fn graph(constants: &[f64], task: &Task, of: Step) -> Option<f64> {
    let &[base, node] = constants else { return None };
    match *task {
        Task::Graph(Graph { nodes, step }) if step == of => Some((base + f64::from(nodes) * node) * MICRO),
        _ => None,
    }
}

/// `issued + bytes / rate`, with `waited` for `issued` where the host waits.
fn copy(constants: &[f64], task: &Task, of: Direction) -> Option<f64> {
    let &[issued, waited_for, rate] = constants else { return None };
    match *task {
        Task::Transfer(Transfer { direction, host: HostSide::Pinned, waited, against: 0, bytes })
            if direction == of =>
        {
            let before = if waited { waited_for } else { issued };
            Some(before * MICRO + bytes as f64 / (rate * GIGA))
        }
        _ => None,
    }
}

/// `start + bytes / rate`, of copies through memory of the driver.
fn staged(constants: &[f64], task: &Task, of: Direction) -> Option<f64> {
    match *task {
        Task::Transfer(Transfer { direction, host: HostSide::Pageable, bytes, .. }) if direction == of => {
            at_rate(constants, bytes)
        }
        _ => None,
    }
}

/// `streams bytes / rate`, of copies that are large and meet others: one on each stream, and the rate of all together.
fn against(constants: &[f64], task: &Task, of: Direction) -> Option<f64> {
    match *task {
        Task::Transfer(Transfer { direction, against: streams @ 1.., bytes, .. }) if direction == of => {
            let rate = constants.get(streams as usize - 1)?;
            Some(f64::from(streams) * bytes as f64 / (rate * GIGA))
        }
        _ => None,
    }
}

/// `start + bytes / rate`, all arrays counted.
fn pass(constants: &[f64], task: &Task, of: Pattern) -> Option<f64> {
    match task {
        Task::Pass(MemoryPass { pattern, again: false, .. }) if *pattern == of => {
            at_rate(constants, task.bytes())
        }
        _ => None,
    }
}

/// Of a pass over the same arrays again, the share `hits = (lost - bytes) / (lost - kept)`, from 0 to 1, comes from the cache:
/// `start + bytes (hits / rate + (1 - hits) / memory)`, as [`KernelModel::cached`](hw_models::kernels::KernelModel::cached)
/// has it.
fn cache(constants: &[f64], task: &Task) -> Option<f64> {
    let &[start, rate, memory, kept, lost] = constants else { return None };
    let Task::Pass(MemoryPass { again: true, .. }) = task else { return None };
    let bytes = task.bytes() as f64;
    let narrow = (lost - kept).max(1e-3 * kept);
    let hits = ((lost - bytes / MEGA) / narrow).clamp(0.0, 1.0);
    Some(start * MICRO + bytes * (hits / rate + (1.0 - hits) / memory) / GIGA)
}

/// Of every request of a row the longer of `(bytes + overhead) / link` and `1 / requests`: packets carry an overhead, and no
/// more requests are on their way than have a tag, so that `requests` is tags by round trip.
fn row(constants: &[f64], task: &Task, of: Access) -> Option<f64> {
    let &[overhead, requests] = constants else { return None };
    let Task::ZeroCopy(row) = task else { return None };
    let ZeroCopy { access, link, .. } = *row;
    let request =
        |bytes: u64| ((bytes as f64 + overhead) / (link as f64 * MEGA)).max(1.0 / (requests * MEGA));
    let from = |offset| row.requests(offset).map(request).sum::<f64>();
    let places = row.offsets().count() as f64;
    (access == of).then(|| row.offsets().map(from).sum::<f64>() / places)
}

/// `latency + block / rate`: one block is on its way at a time.
fn storage(constants: &[f64], task: &Task, of: Access) -> Option<f64> {
    match *task {
        Task::Storage(Storage { access, block }) if access == of => at_rate(constants, block),
        _ => None,
    }
}

/// `start + bytes / rate`, with giving it back.
fn allocation(constants: &[f64], task: &Task, of: Allocated) -> Option<f64> {
    match *task {
        Task::Allocation(Allocation { memory, bytes }) if memory == of => at_rate(constants, bytes),
        _ => None,
    }
}

/// `call`, whatever the bytes: the pool has them.
fn pooled(constants: &[f64], task: &Task) -> Option<f64> {
    let &[call] = constants else { return None };
    matches!(task, Task::Allocation(Allocation { memory: Allocated::Pool, .. })).then_some(call * MICRO)
}

/// `flops / begun`, and after four seconds `flops / (begun held)`: power falls to what the board can carry off, and of
/// zeros it never was as high. Another rate at another clock is that of a product that is no square.
fn sustained(constants: &[f64], task: &Task) -> Option<f64> {
    let &[begun, held, on_zeros] = constants else { return None };
    let Task::Sustained(Sustained { work, data, phase }) = task else { return None };
    let product = work.square()?;
    let share = match (phase, data) {
        (Phase::Begun, _) => 1.0,
        (Phase::Held, Data::Random) => held,
        (Phase::Held, Data::Zeros) => on_zeros,
    };
    Some(product.flops() / (begun * TERA * share))
}
