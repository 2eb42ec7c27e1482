//! The pool of large blocks of PyTorch's caching allocator with what large-model support adds:
//! tensors that no operator uses are in a list, first in, first out, from which memory is
//! reclaimed (`reclaim_one`, `reclaim_fragments` and `reclaim_all` of the patch).

use std::collections::{BTreeMap, VecDeque};

use hw_models::allocator::sizes;

use crate::graph::StorageId;

/// A storage of a micro-batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Instance {
    pub(super) storage: StorageId,
    pub(super) micro_batch: u32,
}

/// A block of a segment.
#[derive(Clone, Copy, Debug)]
struct Block {
    bytes: u64,
    /// Tensor that has it. `None`: it is free.
    owner: Option<Instance>,
}

/// Segments, each a row of blocks.
#[derive(Debug)]
pub(super) struct Pool {
    segments: Vec<Vec<Block>>,
    /// Tensors that no operator uses, those first that have been so for longest.
    inactive: VecDeque<Instance>,
    /// By tensor with a block, its segment.
    there: BTreeMap<Instance, usize>,
    /// Soft limit on bytes of segments.
    limit: u64,
}

impl Pool {
    pub(super) fn new(limit: u64) -> Self {
        Self { segments: Vec::new(), inactive: VecDeque::new(), there: BTreeMap::new(), limit }
    }

    /// Bytes of all segments.
    pub(super) fn reserved(&self) -> u64 {
        self.segments.iter().flatten().map(|block| block.bytes).sum()
    }

    /// An operator uses a tensor: it is not reclaimed.
    pub(super) fn pin(&mut self, tensor: Instance) {
        self.inactive.retain(|other| *other != tensor);
    }

    /// Gives a tensor a block, unless it has one. Returns those whose memory was reclaimed.
    pub(super) fn provide(&mut self, tensor: Instance, bytes: u64) -> Vec<Instance> {
        if self.there.contains_key(&tensor) {
            return Vec::new();
        }
        let bytes = bytes.max(1).next_multiple_of(sizes::BLOCK_MIN);
        let mut reclaimed = Vec::new();
        if !self.take(tensor, bytes) && !self.extend_to(tensor, bytes, self.limit) {
            reclaimed = self.reclaim(bytes, tensor.micro_batch);
            if !self.take(tensor, bytes) {
                self.extend_to(tensor, bytes, u64::MAX);
            }
        }
        reclaimed
    }

    /// The pass is done with a tensor: it may be reclaimed.
    pub(super) fn unpin(&mut self, tensor: Instance) {
        if self.there.contains_key(&tensor) {
            self.inactive.push_back(tensor);
        }
    }

    /// Gives the block of a tensor back, merged with its free neighbours.
    pub(super) fn free(&mut self, tensor: Instance) {
        self.inactive.retain(|other| *other != tensor);
        let Some(segment) = self.there.remove(&tensor) else { return };
        let blocks = &mut self.segments[segment];
        for block in blocks.iter_mut().filter(|block| block.owner == Some(tensor)) {
            block.owner = None;
        }
        blocks.dedup_by(|next, before| {
            let merge = next.owner.is_none() && before.owner.is_none();
            before.bytes += if merge { next.bytes } else { 0 };
            merge
        });
    }

    /// Takes the smallest free block that is large enough; what is left of it is a block again if
    /// it is a large one.
    fn take(&mut self, tensor: Instance, bytes: u64) -> bool {
        let places = self.segments.iter().enumerate().flat_map(|(segment, blocks)| {
            blocks.iter().enumerate().map(move |(at, block)| (block, segment, at))
        });
        let fitting = places.filter(|(block, ..)| block.owner.is_none() && block.bytes >= bytes);
        let Some((&Block { bytes: all, .. }, segment, at)) = fitting.min_by_key(|(block, ..)| block.bytes)
        else {
            return false;
        };
        let left = if all - bytes > sizes::SMALL_MAX { all - bytes } else { 0 };
        self.segments[segment][at] = Block { bytes: all - left, owner: Some(tensor) };
        if left > 0 {
            self.segments[segment].insert(at + 1, Block { bytes: left, owner: None });
        }
        self.there.insert(tensor, segment);
        true
    }

    /// Asks the driver for a segment and takes of it, unless all are more than `limit` then.
    fn extend_to(&mut self, tensor: Instance, bytes: u64, limit: u64) -> bool {
        let segment = sizes::segment(bytes);
        if self.reserved().saturating_add(segment) > limit {
            return false;
        }
        self.segments.push(vec![Block { bytes: segment, owner: None }]);
        self.take(tensor, bytes)
    }

    /// Reclaims one tensor whose block is large enough with its free neighbours; else all in
    /// segments that are; else everything.
    fn reclaim(&mut self, bytes: u64, micro_batch: u32) -> Vec<Instance> {
        let inactive = || self.inactive.iter().copied().filter(|tensor| tensor.micro_batch == micro_batch);
        let one = inactive().find(|&tensor| self.with_neighbours(tensor) >= bytes);
        let large = |tensor: &Instance| {
            let blocks = &self.segments[self.there[tensor]];
            blocks.iter().map(|block| block.bytes).sum::<u64>() >= bytes
        };
        let mut chosen: Vec<Instance> = match one {
            Some(tensor) => vec![tensor],
            None => inactive().filter(large).collect(),
        };
        if chosen.is_empty() {
            chosen = inactive().collect();
        }
        chosen.iter().for_each(|&tensor| self.free(tensor));
        chosen
    }

    /// Bytes of the block of a tensor and of the free ones beside it.
    fn with_neighbours(&self, tensor: Instance) -> u64 {
        let blocks = &self.segments[self.there[&tensor]];
        let Some(at) = blocks.iter().position(|block| block.owner == Some(tensor)) else { return 0 };
        let around = at.saturating_sub(1)..(at + 2).min(blocks.len());
        let free = around.filter(|&other| other == at || blocks[other].owner.is_none());
        free.map(|other| blocks[other].bytes).sum()
    }
}
