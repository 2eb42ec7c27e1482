//! Memory of a host, and its drive.

use super::{Constant, GIGA, Law, MICRO, Unit};
use crate::measure::{Access, Disk, Gather, HostMemory, Pages, Pattern, Route, Task};

/// A core alone, and all that the memory gives.
const RATES: [Constant; 2] =
    [Constant::new("core", Unit::GbPerS, 10.0), Constant::new("all", Unit::GbPerS, 50.0)];
/// Before the bytes of a block, and all that the drive gives.
const TRANSFER: [Constant; 2] =
    [Constant::new("latency", Unit::Us, 100.0), Constant::new("rate", Unit::GbPerS, 2.0)];
/// Of small blocks at random places.
const OPERATIONS: [Constant; 2] =
    [Constant::new("latency", Unit::Us, 100.0), Constant::new("operations", Unit::Kiops, 100.0)];
const RATE: [Constant; 1] = [Constant::new("rate", Unit::GbPerS, 2.0)];

pub(super) const LAWS: [Law; 15] = [
    Law::new("memory.write", &RATES, |x, task| memory(x, task, Pattern::Write)),
    Law::new("memory.read", &RATES, |x, task| memory(x, task, Pattern::Read)),
    Law::new("memory.copy", &RATES, |x, task| memory(x, task, Pattern::Copy)),
    Law::new("memory.triad", &RATES, |x, task| memory(x, task, Pattern::Triad)),
    Law {
        name: "memory.gather",
        constants: &[
            Constant::new("row", Unit::Us, 0.1),
            Constant::new("core", Unit::GbPerS, 5.0),
            Constant::new("all", Unit::GbPerS, 20.0),
        ],
        seconds: gather,
    },
    Law::new("disk.read", &TRANSFER, |x, task| direct(x, task, Access::Read)),
    Law::new("disk.write", &TRANSFER, |x, task| direct(x, task, Access::Write)),
    Law::new("disk.read-huge", &RATE, |x, task| in_huge_pages(x, task, Access::Read)),
    Law::new("disk.write-huge", &RATE, |x, task| in_huge_pages(x, task, Access::Write)),
    Law::new("disk.random-read", &OPERATIONS, |x, task| random(x, task, Access::Read)),
    Law::new("disk.random-write", &OPERATIONS, |x, task| random(x, task, Access::Write)),
    Law::new("disk.cold-read", &RATE, |x, task| through_cache(x, task, Access::Read, Route::Cold)),
    Law::new("disk.cached-read", &RATE, |x, task| through_cache(x, task, Access::Read, Route::Cached)),
    Law::new("disk.cached-write", &RATE, |x, task| through_cache(x, task, Access::Write, Route::Cached)),
    Law { name: "disk.flush", constants: &[Constant::new("latency", Unit::Us, 1_000.0)], seconds: flush },
];

/// `bytes / min(threads core, all)`: cores add up until the memory gives no more.
fn memory(constants: &[f64], task: &Task, of: Pattern) -> Option<f64> {
    let &[core, all] = constants else { return None };
    match task {
        Task::HostMemory(HostMemory { pattern, threads, .. }) if *pattern == of => {
            Some(task.bytes() as f64 / ((f64::from(*threads) * core).min(all) * GIGA))
        }
        _ => None,
    }
}

/// `max((row + bytes / core) / threads, bytes / all)` for each row.
fn gather(constants: &[f64], task: &Task) -> Option<f64> {
    let &[start, core, all] = constants else { return None };
    let Task::Gather(Gather { row, threads, .. }) = *task else { return None };
    let bytes = row as f64 / GIGA;
    Some(((start * MICRO + bytes / core) / f64::from(threads)).max(bytes / all))
}

/// `max(block / rate, (latency + block / rate) / depth)`: blocks in flight hide each other's latency until the drive gives
/// no more.
fn direct(constants: &[f64], task: &Task, of: Access) -> Option<f64> {
    let &[latency, rate] = constants else { return None };
    match *task {
        Task::Disk(Disk {
            access,
            route: Route::Direct,
            random: false,
            block,
            depth,
            pages: Pages::Small,
        }) if access == of => {
            let transfer = block as f64 / (rate * GIGA);
            Some(transfer.max((latency * MICRO + transfer) / f64::from(depth)))
        }
        _ => None,
    }
}

/// `block / rate`, where enough blocks are in flight.
fn in_huge_pages(constants: &[f64], task: &Task, of: Access) -> Option<f64> {
    let &[rate] = constants else { return None };
    match *task {
        Task::Disk(Disk { access, block, pages: Pages::Huge, .. }) if access == of => {
            Some(block as f64 / (rate * GIGA))
        }
        _ => None,
    }
}

/// `max(1 / operations, latency / depth)`.
fn random(constants: &[f64], task: &Task, of: Access) -> Option<f64> {
    let &[latency, operations] = constants else { return None };
    match *task {
        Task::Disk(Disk { access, route: Route::Direct, random: true, depth, .. }) if access == of => {
            Some((1e-3 / operations).max(latency * MICRO / f64::from(depth)))
        }
        _ => None,
    }
}

fn through_cache(constants: &[f64], task: &Task, of: Access, by: Route) -> Option<f64> {
    let &[rate] = constants else { return None };
    match *task {
        Task::Disk(Disk { access, route, block, .. }) if access == of && route == by => {
            Some(block as f64 / (rate * GIGA))
        }
        _ => None,
    }
}

fn flush(constants: &[f64], task: &Task) -> Option<f64> {
    let &[latency] = constants else { return None };
    matches!(task, Task::Flush { .. }).then_some(latency * MICRO)
}
