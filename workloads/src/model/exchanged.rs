//! What data-parallel ranks exchange beside the passes of a model that is laid on stages.
//!
//! | shared (ZeRO, Rajbhandari et al., SC 2020) | gathers | sums of gradients | |---|---|---| |
//! nothing | - | all-reduce of buckets, in the last backward pass | | optimizer states (1) | once
//! a step, in the first forward pass | reduce-scatter of buckets, in the last backward pass | |
//! gradients (2) | the same | reduce-scatter in every backward pass; a bucket is whole from its
//! first gradient on | | parameters (3) | for every forward pass, and every backward pass | the
//! same |
//!
//! Blocks of the model (embedding, layers, head) are gathered together. Where one stage has the
//! whole model and works on one micro-batch at a time, embedding and head are one: the root of
//! PyTorch's FSDP, which stays from the first forward to the last backward operator.
//!
//! By module, each product gathers its weight, which stays until the gradients of both of its
//! operands are there (hooks of DeepSpeed's `fetch_sub_module` and `release_sub_module`).

use std::ops::Range;

use crate::exchange::{Exchange, LaunchedBy, ReadAhead, Tie};
use crate::graph::operator::{Medium, Role};
use crate::graph::part::PartKind;
use crate::graph::{OpId, Phase, Purpose, Storage, StorageId};
use crate::model::hosted::transfer;

use super::laid::{Laid, Part};
use super::transformer::{
    Collective, CollectiveKind, DataParallel, Dtype, Gather, GatherLimit, GatherUnit, Group, Operator,
    Sharding, States, Work,
};

/// Adds to `laid` what the ranks of `data` exchange beside passes, in the types of `states`.
/// `one_at_a_time` says that a stage ends the backward pass of a micro-batch before it begins the
/// next, `narrow` that weights which are multiplied in 8 bits are gathered so.
pub(crate) fn exchange(
    laid: &mut Laid,
    states: States,
    data: &DataParallel,
    one_at_a_time: bool,
    narrow: bool,
) -> Vec<Exchange> {
    let parts = std::mem::take(&mut laid.parts);
    let has = |parts: &[Part], kind| parts.iter().any(|part| part.kind == kind);
    let mut exchanging = Exchanging { laid, states, data, narrow, exchanges: Vec::new() };
    for position in parts.chunk_by(|a, b| (a.stage, a.chunk) == (b.stage, b.chunk)) {
        let whole = has(position, PartKind::Embedding) && has(position, PartKind::Head);
        let gather = data.gathers_beside();
        let by_module = gather.is_some_and(|gather| gather.unit == GatherUnit::Module);
        let root = whole && one_at_a_time && data.parts_parameters() && !by_module;
        if let Some(gather) = gather {
            exchanging.gathers(position, gather, root);
        }
        if data.reduces_beside() || data.leaves_beside() {
            exchanging.sums(position, root);
        }
    }
    let exchanges = exchanging.exchanges;
    laid.parts = parts;
    exchanges
}

struct Exchanging<'a> {
    laid: &'a mut Laid,
    states: States,
    data: &'a DataParallel,
    /// Weights that are multiplied in 8 bits are gathered so.
    narrow: bool,
    exchanges: Vec<Exchange>,
}

/// Parameters that are gathered together.
#[derive(Clone, Copy)]
struct Unit {
    group: Group,
    parameters: u64,
    /// Parameters among them that are gathered in 8 bits.
    narrow: u64,
}

/// Operators that complete gradients of so many parameters, one after the other: the first, the
/// last.
#[derive(Clone, Copy)]
struct Bucket {
    first: OpId,
    last: OpId,
    parameters: u64,
    group: Group,
}

/// An operator that completes gradients of so many parameters, and who holds those.
pub(crate) type Completed = (OpId, u64, Group);

impl Exchanging<'_> {
    fn gathers(&mut self, position: &[Part], gather: Gather, root: bool) {
        let reshard_after_forward = gather.reshard_after_forward;
        let [forward_prefetch, backward_prefetch] =
            [gather.forward_prefetch, gather.backward_prefetch].map(|blocks| blocks.get() as u32);
        for part in position {
            let is_root = root && part.kind != PartKind::Layer;
            let of_root = position.iter().filter(|other| other.kind != PartKind::Layer);
            let parameters = match part.kind {
                // It stays with the embedding.
                PartKind::Head if is_root => continue,
                _ if is_root => of_root.clone().map(|part| part.owned).sum(),
                _ if self.data.parts_parameters() => part.read,
                _ => part.trained,
            };
            // Frozen ones need no gather after an update.
            let has_experts = self.data.parts_parameters() || part.trained == part.owned;
            let experts = if has_experts { part.experts } else { 0 };
            for (group, count) in [(self.data.sharers(), parameters - experts), (Group::ExpertData, experts)]
            {
                let held = Unit { group, parameters: count, narrow: self.narrow_weights(part) };
                if !self.is_gathered(held) {
                    continue;
                }
                if gather.unit == GatherUnit::Module {
                    self.gather_modules(part, gather, held);
                    continue;
                }
                if !self.data.parts_parameters() {
                    self.gather(part, (Phase::Update, part.forward.start), forward_prefetch, held);
                    continue;
                }
                let stays = is_root || !reshard_after_forward;
                let ahead = self.gather(part, (Phase::Forward, part.forward.start), forward_prefetch, held);
                self.hold(&ahead, &part.forward);
                if stays {
                    // The root stays for its last part with gradients of inputs, which words have
                    // none of.
                    let of_root = of_root.clone().filter(|_| is_root);
                    let last = of_root.chain([part]).find(|part| !part.backward.is_empty());
                    last.into_iter().for_each(|part| self.hold(&ahead, &part.backward));
                    continue;
                }
                if part.backward.is_empty() {
                    continue;
                }
                let phase = self.laid.graph.get(OpId(part.backward.end - 1)).phase;
                let again = self.gather(part, (phase, part.backward.start), backward_prefetch, held);
                self.hold(&again, &part.backward);
            }
        }
    }

    /// Gathers the weights of a part that the ranks of `all` share one by one, and the rest of them
    /// for all of its operators.
    fn gather_modules(&mut self, part: &Part, gather: Gather, all: Unit) {
        let weights = self.weight_units(part, all);
        let of_weights = weights.iter().map(|(_, unit)| unit.parameters).sum();
        let rest = Unit { parameters: all.parameters.saturating_sub(of_weights), narrow: 0, ..all };
        for (pass, prefetch) in
            [(&part.forward, gather.forward_prefetch), (&part.backward, gather.backward_prefetch)]
        {
            let Some(last) = pass.clone().last() else { continue };
            let (phase, prefetch) = (self.laid.graph.get(OpId(last)).phase, prefetch.get() as u32);
            if self.is_gathered(rest) {
                let filled = self.gather(part, (phase, pass.start), prefetch, rest);
                self.hold(&filled, pass);
            }
            let mut called = None;
            for op in pass.clone() {
                let Some((unit, until)) = self.multiplied(op, &weights) else { continue };
                // A library multiplies a weight as often as it likes in one call of a module.
                let in_call = self.laid.graph.operator(OpId(op)).members == 0;
                let held = called.take_if(|(of, _)| in_call && *of == unit.parameters);
                let filled =
                    held.map_or_else(|| self.gather(part, (phase, op), prefetch, unit), |(_, filled)| filled);
                self.hold(&filled, &(op..until.min(last) + 1));
                called = Some((unit.parameters, filled));
            }
        }
    }

    /// Weights of a part that the ranks of `all` share, each with the operator of its gradient.
    fn weight_units(&self, part: &Part, all: Unit) -> Vec<(u32, Unit)> {
        let unit = |(op, parameters, group)| {
            let group = if group == Group::Data { self.data.sharers() } else { group };
            let narrow = self.laid.graph.operator(op).work.narrow_weights().filter(|_| self.narrow);
            (op.0, Unit { group, parameters, narrow: narrow.unwrap_or(0) })
        };
        let weights = weights(self.laid, part).into_iter().map(unit);
        weights.filter(|(_, unit)| unit.group == all.group).collect()
    }

    /// The weight that an operator multiplies, and the last operator for which it stays then: in
    /// the backward pass that of its gradient.
    fn multiplied(&self, op: u32, weights: &[(u32, Unit)]) -> Option<(Unit, u32)> {
        let Operator { phase, work, .. } = self.laid.graph.operator(OpId(op));
        let parameters = work.multiplies()?;
        let mut weights = weights.iter().filter(|(_, unit)| unit.parameters == parameters);
        let (_, unit) = weights.clone().next()?;
        let forward = matches!(phase, Phase::Forward | Phase::Recompute);
        let gradient = weights.find(|&&(gradient, _)| !forward && gradient > op);
        Some((*unit, gradient.map_or(op, |&(gradient, _)| gradient)))
    }

    /// True if parameters come from other ranks, or from a host.
    fn is_gathered(&self, unit: Unit) -> bool {
        unit.parameters > 0 && (self.exchanges(unit.group) || self.data.parameters_away())
    }

    /// True if a group has several ranks.
    fn exchanges(&self, group: Group) -> bool {
        self.data.holding(group) > 1
    }

    /// Adds a gather for `reader`; gives what it fills, if ranks share that.
    fn gather(
        &mut self,
        part: &Part,
        (phase, reader): (Phase, u32),
        prefetch: u32,
        Unit { group, parameters, narrow }: Unit,
    ) -> Vec<StorageId> {
        let half = self.states.parameter_bytes();
        let bytes = parameters * half - narrow * (half - Dtype::Fp8.bytes());
        let shared = self.data.parts_parameters();
        let fills = self.storage(part, Purpose::Gathered, shared.then_some(bytes));
        let mut writes = fills.clone();
        let mut filling = || [Vec::new(), std::mem::take(&mut writes)];
        let on = (part.stage, part.chunk);
        let (mut ops, mut read) = (Vec::new(), None);
        let share = bytes.div_ceil(self.data.holding(group).into());
        let (drives, host) = (Medium::DRIVES, Medium::HOST);
        if let Some(hosted) = self.data.hosted.filter(|hosted| hosted.parameters.are_on_drives()) {
            let from_drives =
                ("parameters from drives", phase, transfer(Role::Parameter, [drives, host], share));
            let op = self.laid.add_beside(on, from_drives, Default::default());
            read = Some(ReadAhead { op, buffers: hosted.parameter_buffers });
        }
        if self.data.parameters_away() {
            let send =
                ("parameters to the GPU", phase, transfer(Role::Parameter, [host, Medium::HBM], share));
            ops.push(self.laid.add_beside(on, send, filling()));
        }
        if self.exchanges(group) {
            let gather = collective(CollectiveKind::AllGather, group, bytes);
            ops.push(self.laid.add_beside(on, ("gather parameters", phase, gather), filling()));
        }
        let tie = Tie::Gather { reader: OpId(reader), prefetch, launched: self.launched_by(phase, prefetch) };
        let aligned = phase == Phase::Update && self.data.overlap.gather.is_some_and(|gather| gather.align);
        self.exchanges.push(Exchange { ops, read, tie, aligned });
        fills
    }

    /// Weights of a part that are gathered in 8 bits.
    fn narrow_weights(&self, part: &Part) -> u64 {
        if !self.narrow {
            return 0;
        }
        let work = |op: u32| &self.laid.graph.operator(OpId(op)).work;
        part.weight.clone().filter_map(|op| work(op).narrow_weights()).sum()
    }

    /// Who launches gathers: the host issues those of forward passes in time, those of backward
    /// passes one block ahead (`BACKWARD_PRE`). Without parameters that ranks share it takes no
    /// memory for them.
    fn launched_by(&self, phase: Phase, prefetch: u32) -> LaunchedBy {
        let limit = self.data.overlap.gather.map_or(GatherLimit::Device, |gather| gather.limit);
        let ahead = if phase == Phase::Forward { 0 } else { prefetch.min(1) };
        match limit {
            GatherLimit::Device => LaunchedBy::Device,
            _ if self.data.sharding < Sharding::Parameters => LaunchedBy::Device,
            GatherLimit::Host => LaunchedBy::Host { ahead, waits: true },
            GatherLimit::None => LaunchedBy::Host { ahead, waits: false },
        }
    }

    /// The operators of a range need storages from the first to the last.
    fn hold(&mut self, storages: &[StorageId], operators: &Range<u32>) {
        for op in [operators.start, operators.end - 1] {
            self.laid.graph.get_mut(OpId(op)).reads.extend(storages);
        }
    }

    fn sums(&mut self, position: &[Part], root: bool) {
        let mut buckets = Vec::new();
        match self.data.overlap.bucket {
            None => {
                let mut of_root = Vec::new();
                for part in position.iter().rev() {
                    let mut completed = completed(self.laid, part);
                    if root && part.kind != PartKind::Layer {
                        of_root.append(&mut completed);
                        completed = if part.kind == PartKind::Embedding { of_root.clone() } else { continue };
                    }
                    buckets.extend(filled(&completed, u64::MAX));
                }
            }
            Some(bytes) => {
                let completed: Vec<_> =
                    position.iter().rev().flat_map(|part| completed(self.laid, part)).collect();
                let parameters = bytes.div_ceil(self.states.gradient_bytes());
                buckets = filled(&completed, parameters);
                buckets.sort_by_key(|bucket| bucket.last);
            }
        }
        for bucket in buckets {
            if self.data.leaves_beside() || self.exchanges(bucket.group) {
                self.sum(&position[0], bucket);
            }
        }
    }

    fn sum(&mut self, part: &Part, Bucket { first, last, parameters, group }: Bucket) {
        let group = if group == Group::Data { self.data.sharers() } else { group };
        let bytes = parameters * self.states.gradient_bytes();
        let shared = self.data.sharding >= Sharding::Gradients || self.data.leaves_beside();
        let summed = self.storage(part, Purpose::Unreduced, shared.then_some(bytes));
        self.laid.graph.get_mut(first).writes.extend(&summed);
        let phase = if shared { self.laid.graph.get(last).phase } else { Phase::Update };
        let on = (part.stage, part.chunk);
        let mut ops = Vec::new();
        if self.exchanges(group) {
            let kind = match self.data.sharding {
                Sharding::None => CollectiveKind::AllReduce,
                _ => CollectiveKind::ReduceScatter,
            };
            let reduce = ("reduce gradients", phase, collective(kind, group, bytes));
            ops.push(self.laid.add_beside(on, reduce, [summed.clone(), Vec::new()]));
        }
        if let Some(hosted) = self.data.hosted.filter(|hosted| hosted.beside) {
            let share = hosted.on_host(bytes.div_ceil(self.data.holding(group).into()));
            let reads = if ops.is_empty() { summed } else { Vec::new() };
            let way = |way, bytes| transfer(Role::Gradient, way, bytes);
            let back = way([Medium::HOST, Medium::HBM], share);
            let sum = ("sums of gradients to the GPU", Phase::Accumulate, back);
            ops.push(self.laid.add_beside(on, sum, Default::default()));
            let leaving = way([Medium::HBM, Medium::HOST], hosted.leaving(share, self.states));
            let leaving = ("gradients to the host", phase, leaving);
            ops.push(self.laid.add_beside(on, leaving, [reads, Vec::new()]));
        }
        let waits = self.data.hosted.is_some_and(|hosted| hosted.waits);
        let aligned = phase == Phase::Update && self.data.overlap.align && !waits;
        self.exchanges.push(Exchange { ops, read: None, tie: Tie::Reduce { writer: last, waits }, aligned });
    }

    fn storage(&mut self, part: &Part, purpose: Purpose, bytes: Option<u64>) -> Vec<StorageId> {
        let Part { stage, chunk, .. } = *part;
        bytes
            .map(|bytes| self.laid.graph.storage(Storage { stage, chunk, purpose, bytes }))
            .into_iter()
            .collect()
    }
}

/// A collective that waits for nothing that follows.
const fn collective(kind: CollectiveKind, group: Group, bytes: u64) -> Work {
    Work::Collective(Collective { kind, group, bytes, overlaps_next: false, copied: false })
}

/// Which operators complete gradients of how many parameters of a part: products and convolutions
/// those of their weights, its last operator the rest. A step without a backward pass has none.
pub(crate) fn completed(laid: &Laid, part: &Part) -> Vec<Completed> {
    let Some(last) = part.weight.end.checked_sub(1) else { return Vec::new() };
    let mut completed = weights(laid, part);
    let left = part.trained - completed.iter().map(|(_, weights, _)| weights).sum::<u64>();
    completed.extend((left > 0).then_some((OpId(last), left, Group::Data)));
    completed
}

/// Products and convolutions that make the gradient of a weight of a part.
fn weights(laid: &Laid, part: &Part) -> Vec<Completed> {
    let mut left = part.trained;
    let mut made = Vec::new();
    for op in part.weight.clone() {
        let Operator { phase, work, .. } = laid.graph.operator(OpId(op));
        let weights = work.weights().filter(|_| *phase == Phase::BackwardWeight);
        // The gradient of a tied embedding is complete with that of the embedding.
        if let Some(weights) = weights.filter(|&weights| weights <= left) {
            let of_experts = part.experts > 0 && matches!(work, Work::Grouped(_));
            let group = if of_experts { Group::ExpertData } else { Group::Data };
            made.push((OpId(op), weights, group));
            left -= weights;
        }
    }
    made
}

/// Buckets of at least so many parameters of a group, as gradients are completed; the last one of
/// each group has the rest. A gradient is in one bucket, as in PyTorch's
/// `compute_bucket_assignment_by_size`.
fn filled(completed: &[Completed], parameters: u64) -> Vec<Bucket> {
    let mut buckets: Vec<Bucket> = Vec::new();
    for &(op, count, group) in completed {
        let open = buckets.iter_mut().rev().find(|bucket| bucket.group == group);
        match open.filter(|bucket| bucket.parameters < parameters) {
            Some(bucket) => {
                bucket.last = op;
                bucket.parameters += count;
            }
            None => buckets.push(Bucket { first: op, last: op, parameters: count, group }),
        }
    }
    buckets
}
