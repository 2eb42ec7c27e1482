//! What ranks that share parameters or gradients, with each other or with their hosts, gather and sum, by the operators of their
//! visits.

use std::collections::{BTreeMap, BTreeSet};

use crate::exchange::{Exchange, LaunchedBy, Tie};
use crate::graph::{OpId, Phase, StorageId};
use crate::model::exchanged::completed;
use crate::model::laid::Laid;
use crate::model::transformer::{Collective, DataParallel, Group, Sharding, States};

/// Gathers and sums. Nothing where every GPU has all parameters and gradients.
#[derive(Clone, Debug, Default)]
pub(super) struct Shared {
    /// By the operator that reads it first.
    pub(super) gathers: BTreeMap<OpId, Vec<Gather>>,
    /// By the operator that reads it last, what is gathered.
    pub(super) last_uses: BTreeMap<OpId, Vec<StorageId>>,
    /// By the operator that completes them, gradients of parameters.
    pub(super) completed: BTreeMap<OpId, Vec<Gradient>>,
    /// By the operator that completes the first gradient of a bucket, the buffer that those are copied to one by one.
    pub(super) buffers: BTreeMap<OpId, Vec<(StorageId, u64)>>,
    /// By the operator that completes them, gradients that are summed.
    pub(super) sums: BTreeMap<OpId, Vec<Sum>>,
    /// Whether those leave for the host, which copies them while the passes go on.
    pub(super) leaves: bool,
}

/// A gradient of parameters that ranks share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gradient {
    pub(super) group: Group,
    pub(super) bytes: u64,
    /// Whether it is what its operator is for, which may have a tensor for it.
    pub(super) of_product: bool,
}

/// Gradients that are summed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sum {
    pub(super) group: Group,
    pub(super) bytes: u64,
    /// The buffer that has them; none: they are copied to one when all are there.
    pub(super) buffer: Option<StorageId>,
}

/// Parameters that become whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gather {
    pub(super) storage: StorageId,
    pub(super) bytes: u64,
    /// So many gathers before its own reader the host issues it.
    pub(super) ahead: usize,
    pub(super) is_forward: bool,
    /// Whether what is gathered is copied to each parameter.
    pub(super) is_copied: bool,
    /// Whether the device tells the allocator when it is done with it (`record_stream`).
    pub(super) is_lent: bool,
}

impl Shared {
    pub(super) fn of(laid: &Laid, exchanges: &[Exchange], states: States, data: &DataParallel) -> Self {
        let mut shared = Self { leaves: data.leaves_beside(), ..Self::default() };
        let several = data.sharding >= Sharding::Gradients && data.ranks > 1;
        if !several && !data.parameters_away() && !data.leaves_beside() {
            return shared;
        }
        for Exchange { ops, tie, .. } in exchanges {
            let op = ops[0];
            match *tie {
                Tie::Gather { reader, prefetch, launched } => {
                    let is_copied = data.overlap.gather.is_some_and(|gather| gather.per_parameter);
                    let phase = laid.graph.get(op).phase;
                    let gather = |&storage: &StorageId| Gather {
                        storage,
                        bytes: laid.graph.stored(storage).bytes,
                        ahead: ahead(phase, prefetch, launched),
                        is_forward: phase == Phase::Forward,
                        is_copied,
                        is_lent: launched != LaunchedBy::Device,
                    };
                    let gathers = laid.graph.get(op).writes.iter().map(gather);
                    shared.gathers.entry(reader).or_default().extend(gathers);
                }
                Tie::Reduce { writer, .. } => {
                    // Where hosts sum, what leaves is read by the last of several operators.
                    let Some(summed) = ops.iter().find_map(|&op| laid.graph.get(op).reads.first().copied())
                    else {
                        continue;
                    };
                    let group = laid.exchanged(op).map_or(data.sharers(), |Collective { group, .. }| group);
                    let bytes = laid.graph.stored(summed).bytes;
                    let buffer = Some(summed).filter(|_| data.overlap.bucket.is_some());
                    shared.sums.entry(writer).or_default().push(Sum { group, bytes, buffer });
                }
            }
        }
        let gathered: BTreeSet<StorageId> =
            shared.gathers.values().flatten().map(|gather| gather.storage).collect();
        for (op, storages) in (0u32..).map(OpId).zip(laid.graph.last_uses()) {
            let last: Vec<StorageId> =
                storages.into_iter().filter(|storage| gathered.contains(storage)).collect();
            if !last.is_empty() {
                shared.last_uses.insert(op, last);
            }
        }
        let buffers: BTreeMap<StorageId, u64> =
            shared.sums.values().flatten().filter_map(|sum| Some((sum.buffer?, sum.bytes))).collect();
        for (op, node) in (0u32..).map(OpId).zip(laid.graph.ops()) {
            let first = node.writes.iter().filter_map(|storage| Some((*storage, *buffers.get(storage)?)));
            let first: Vec<(StorageId, u64)> = first.collect();
            if !first.is_empty() {
                shared.buffers.insert(op, first);
            }
        }
        for part in &laid.parts {
            for (op, parameters, group) in completed(laid, part) {
                if data.holding(group) > 1 || data.leaves_beside() {
                    let group = if group == Group::Data { data.sharers() } else { group };
                    let of_product = laid.graph.operator(op).work.weights() == Some(parameters);
                    let bytes = parameters * states.parameter_bytes();
                    shared.completed.entry(op).or_default().push(Gradient { group, bytes, of_product });
                }
            }
        }
        shared
    }
}

/// So many gathers before its own reader the host issues a gather: in a forward pass one less than is gathered ahead, as what
/// the host issues in time is ahead of the device.
fn ahead(phase: Phase, prefetch: u32, launched: LaunchedBy) -> usize {
    let ahead = match launched {
        LaunchedBy::Host { ahead, .. } => ahead,
        LaunchedBy::Device if phase == Phase::Forward => prefetch.saturating_sub(1),
        LaunchedBy::Device => prefetch,
    };
    ahead as usize
}
