//! Rows in memories of GPUs: all on each, or a part on each.
//!
//! GPUs of a node map each other's memory, and a kernel reads rows wherever they are (chunked and
//! continuous memory of github.com/rapidsai/wholegraph, `gather_op_impl_mapped.cu`). Over all nodes
//! they send each other indices, then the rows that these ask for (its distributed memory,
//! `gather_op_impl_nccl.cu`): two all-to-alls with a kernel before and behind each.

use hw_models::reads::INDEX_BYTES;

use crate::feed::FeedPlan;
use crate::graph::operator::{Afar, Collective, CollectiveKind, Group, RowWork, Work};

use super::{Rows, Task, indexed};

/// Adds what copies rows that each GPU has all of.
pub(super) fn own(plan: &mut FeedPlan, rows: &Rows<'_>) {
    plan.on_gpu += rows.table();
    let mut lane = rows.gather([]);
    lane.tasks = vec![rows.found("gather rows", rows.batch.rows)];
    plan.lanes.push(lane);
}

/// Adds what reads rows of all GPUs of a node.
pub(super) fn striped(plan: &mut FeedPlan, rows: &Rows<'_>) {
    let gpus = u64::from(rows.around.sharing.max(1));
    if gpus == 1 {
        return own(plan, rows);
    }
    plan.on_gpu += rows.table().div_ceil(gpus);
    let here = rows.missed / gpus;
    let from = Afar::Peers { own: here * rows.batch.row_bytes };
    let (reads, multiprocessors) = (rows.reads(rows.missed - here), rows.multiprocessors().most());
    let read = RowWork::Read { rows: reads, from, multiprocessors };
    plan.lanes.push(rows.gather([("read rows of all GPUs", Work::Rows(read))]));
}

/// Adds what exchanges rows among the GPUs of all nodes. Each sends as many as it asks for.
pub(super) fn sharded(plan: &mut FeedPlan, rows: &Rows<'_>) {
    let missed = rows.missed;
    let of_batch = missed * rows.batch.row_bytes;
    // Rows for the others, and those of the others before they are put in order.
    plan.on_gpu += rows.table().div_ceil(rows.around.ranks.max(1).into()) + 2 * of_batch;
    let bucket =
        Work::Traversal(indexed((missed, INDEX_BYTES), missed * INDEX_BYTES, missed * 2 * INDEX_BYTES));
    plan.lanes.push(rows.gather([
        ("sort indices by owner", bucket),
        exchange("exchange indices", missed * INDEX_BYTES),
        rows.found("gather rows for others", missed),
        exchange("exchange rows", of_batch),
        rows.found("put rows in order", missed),
    ]));
}

fn exchange(name: &'static str, bytes: u64) -> Task {
    let (kind, group) = (CollectiveKind::AllToAll, Group::Data);
    (name, Work::Collective(Collective { kind, group, bytes, overlaps_next: false, copied: false }))
}
