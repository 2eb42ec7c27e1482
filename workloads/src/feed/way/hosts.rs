//! Rows in memory of the host: copied by its threads, read in place by those of the GPU, or moved
//! by faults.

use crate::feed::settings::Access;
use crate::feed::{FeedLane, FeedPart, FeedPlan, Freed};
use crate::graph::operator::{Afar, Medium, Role, RowWork, TierCopy, Work};

use super::{Rows, Task};

/// Adds what brings rows of the host.
pub(super) fn fetch(plan: &mut FeedPlan, rows: &Rows<'_>) {
    plan.table = rows.table();
    plan.sockets = Some(rows.features.socket);
    match rows.features.access {
        Access::HostGather | Access::GpuDirect => staged(plan, rows, None),
        Access::ZeroCopy => plan.lanes.push(rows.gather([in_place(rows, rows.missed)])),
        Access::Managed => {
            let fault = RowWork::Fault { rows: rows.reads(rows.missed), room: rows.around.memory };
            let pages = ("bring managed pages", Work::Rows(fault));
            let mut lane = rows.gather([]);
            lane.tasks = vec![pages, rows.found("gather rows", rows.batch.rows)];
            plan.lanes.push(lane);
        }
    }
}

/// Reads rows over the link.
pub(super) fn in_place(rows: &Rows<'_>, count: u64) -> Task {
    let (from, multiprocessors) = (Afar::Host(rows.features.socket), rows.multiprocessors().most());
    let read = RowWork::Read { rows: rows.reads(count), from, multiprocessors };
    ("read rows in place", Work::Rows(read))
}

/// Adds threads of the host that copy rows into a buffer, after another task of theirs, and the
/// copy to the GPU.
pub(super) fn staged(plan: &mut FeedPlan, rows: &Rows<'_>, before: Option<Task>) {
    let (row_bytes, features) = (rows.batch.row_bytes, rows.features);
    let (order, threads, on) = (features.order, features.threads.get(), features.socket);
    let copy = RowWork::Copy { rows: rows.missed, row_bytes, order, threads, on };
    let bytes = rows.missed * row_bytes;
    let prefetch = features.prefetched();
    let (buffers, freed) = if prefetch > 0 { (prefetch, Freed::Taken) } else { (1, Freed::Trained) };
    let tasks = before.into_iter().chain([("copy rows to a buffer", Work::Rows(copy))]).collect();
    plan.lanes.push(FeedLane {
        part: FeedPart::Gather,
        tasks,
        multiprocessors: rows.multiprocessors(),
        buffers,
        freed,
    });
    let to_gpu = TierCopy { from: Medium::HOST, to: Medium::HBM, bytes, role: Role::Input };
    let copied = ("copy the buffer", Work::Transfer(to_gpu));
    // Beside rows of a cache they go from a buffer to their places.
    let placed = (rows.missed < rows.batch.rows).then(|| rows.found("place copied rows", rows.missed));
    plan.on_gpu += placed.map_or(0, |_| bytes);
    let gathered = rows.gather([copied].into_iter().chain(placed));
    plan.lanes.push(FeedLane { part: FeedPart::Copy, ..gathered });
    plan.on_host += bytes * u64::from(prefetch.max(1));
}
