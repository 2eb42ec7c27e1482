//! Blocks with links to their neighbours, and the free ones of each pool in the order in which they are taken.

use std::collections::BTreeMap;

use super::blocks::{ADDRESSES, Blocks, Pool, State, Taken};
use super::{Segments, Settings, sizes};

/// No block.
const NONE: u32 = u32::MAX;

/// All blocks.
pub(super) struct Caches {
    settings: Settings,
    blocks: Vec<Block>,
    /// Entries of `blocks` to use again.
    vacant: Vec<u32>,
    /// Few: two for each stream.
    pools: Vec<Shelf>,
    segments: u32,
    held: Segments,
}

#[derive(Clone, Copy)]
struct Block {
    pool: u32,
    segment: u32,
    /// Its place in the segment.
    at: u64,
    bytes: u64,
    state: State,
    before: u32,
    after: u32,
}

/// A pool.
struct Shelf {
    pool: Pool,
    free: Row,
    /// By segment and place.
    unmapped: BTreeMap<(u32, u64), u32>,
}

/// Free blocks by size, segment and place. There are some hundreds at a time, as neighbours are
/// merged, of some ten sizes: for so few sorted rows are faster than a tree.
#[derive(Default)]
struct Row {
    /// Blocks of each size, ascending; the first to be taken is the last of its size.
    sizes: Vec<(u64, Vec<Placed>)>,
    /// Empty lists to use again.
    spare: Vec<Vec<Placed>>,
}

/// Segment and place of a block, and which it is.
type Placed = (u32, u64, u32);

impl Row {
    fn position(&self, bytes: u64) -> usize {
        self.sizes.partition_point(|&(size, _)| size < bytes)
    }

    fn insert(&mut self, bytes: u64, block: Placed) {
        let position = self.position(bytes);
        if self.sizes.get(position).is_none_or(|&(size, _)| size != bytes) {
            self.sizes.insert(position, (bytes, self.spare.pop().unwrap_or_default()));
        }
        let alike = &mut self.sizes[position].1;
        alike.insert(alike.partition_point(|&other| other > block), block);
    }

    fn remove(&mut self, bytes: u64, block: Placed) {
        let position = self.position(bytes);
        let alike = &mut self.sizes[position].1;
        alike.remove(alike.partition_point(|&other| other > block));
        self.tidy(position);
    }

    /// Removes the first block of at least `bytes` if its size `serves`.
    fn remove_first(&mut self, bytes: u64, serves: impl Fn(u64) -> bool) -> Option<u32> {
        let position = self.position(bytes);
        let (_, alike) = self.sizes.get_mut(position).filter(|(size, _)| serves(*size))?;
        let (.., first) = alike.pop()?;
        self.tidy(position);
        Some(first)
    }

    /// Drops a size of which there is no block.
    fn tidy(&mut self, position: usize) {
        if self.sizes[position].1.is_empty() {
            self.spare.push(self.sizes.remove(position).1);
        }
    }

    /// Sizes and blocks from `bytes` on, the smallest first.
    fn from(&self, bytes: u64) -> impl DoubleEndedIterator<Item = (u64, u32)> {
        let sizes = self.sizes[self.position(bytes)..].iter();
        sizes.flat_map(|(size, alike)| alike.iter().rev().map(|&(.., block)| (*size, block)))
    }
}

impl Caches {
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            settings,
            blocks: Vec::new(),
            vacant: Vec::new(),
            pools: Vec::new(),
            segments: 0,
            held: Segments::default(),
        }
    }

    fn pool(&mut self, pool: Pool) -> u32 {
        let known = self.pools.iter().position(|shelf| shelf.pool == pool);
        known.unwrap_or_else(|| {
            self.pools.push(Shelf { pool, free: Row::default(), unmapped: BTreeMap::new() });
            self.pools.len() - 1
        }) as u32
    }

    fn get(&self, block: u32) -> Block {
        self.blocks[block as usize]
    }

    fn get_mut(&mut self, block: u32) -> &mut Block {
        &mut self.blocks[block as usize]
    }

    fn add(&mut self, block: Block) -> u32 {
        let id = self.vacant.pop().unwrap_or(self.blocks.len() as u32);
        if id as usize == self.blocks.len() {
            self.blocks.push(block);
        } else {
            self.blocks[id as usize] = block;
        }
        id
    }

    /// Adds a segment that is one block in use.
    fn segment(&mut self, pool: u32, bytes: u64) -> u32 {
        self.segments += 1;
        let segment = self.segments;
        self.add(Block { pool, segment, at: 0, bytes, state: State::Taken, before: NONE, after: NONE })
    }

    /// Puts a block with the free or the unmapped ones.
    fn shelve(&mut self, id: u32, state: State) {
        let Block { pool, segment, at, bytes, .. } = self.get(id);
        self.get_mut(id).state = state;
        let shelf = &mut self.pools[pool as usize];
        if state == State::Unmapped {
            shelf.unmapped.insert((segment, at), id);
            return;
        }
        shelf.free.insert(bytes, (segment, at, id));
    }

    /// Takes a block from the free or the unmapped ones.
    fn unshelve(&mut self, id: u32) {
        let Block { pool, segment, at, bytes, state, .. } = self.get(id);
        let shelf = &mut self.pools[pool as usize];
        if state == State::Unmapped {
            shelf.unmapped.remove(&(segment, at));
        } else {
            shelf.free.remove(bytes, (segment, at, id));
        }
        self.get_mut(id).state = State::Taken;
    }

    /// Tells whether a free block is a whole segment, or has a page.
    fn has_releasable(&self, id: u32) -> bool {
        let Block { before, after, .. } = self.get(id);
        if self.settings.expandable_segments {
            let (from, to) = self.pages(id);
            from < to
        } else {
            before == NONE && after == NONE
        }
    }

    /// Where the first page within a block begins and the last one ends.
    fn pages(&self, id: u32) -> (u64, u64) {
        let Block { pool, at, bytes, .. } = self.get(id);
        let page = sizes::page(self.pools[pool as usize].pool.small);
        (at.next_multiple_of(page), (at + bytes) / page * page)
    }

    /// Cuts a block that is on no shelf after `bytes`; returns what is behind.
    fn cut(&mut self, id: u32, bytes: u64) -> u32 {
        let block = self.get(id);
        let behind =
            self.add(Block { at: block.at + bytes, bytes: block.bytes - bytes, before: id, ..block });
        if block.after != NONE {
            self.get_mut(block.after).before = behind;
        }
        let front = self.get_mut(id);
        (front.bytes, front.after) = (bytes, behind);
        behind
    }

    /// Merges a block that is on no shelf with neighbours that are in `state`; returns the block that it is then.
    fn merge(&mut self, id: u32, state: State) -> u32 {
        let Block { before, after, .. } = self.get(id);
        let alike = |this: &Self, neighbour| neighbour != NONE && this.get(neighbour).state == state;
        if alike(self, after) {
            self.unshelve(after);
            self.join(id, after);
        }
        if alike(self, before) {
            self.unshelve(before);
            self.join(before, id);
            return before;
        }
        id
    }

    /// Adds the block behind another to it.
    fn join(&mut self, front: u32, behind: u32) {
        let Block { bytes, after, .. } = self.get(behind);
        let block = self.get_mut(front);
        (block.bytes, block.after) = (block.bytes + bytes, after);
        if after != NONE {
            self.get_mut(after).before = front;
        }
        self.vacant.push(behind);
    }

    /// Hands out a block that is on no shelf; what is left of it is free.
    fn hand_out(&mut self, id: u32, bytes: u64) -> Taken {
        let Block { pool, bytes: whole, .. } = self.get(id);
        let small = self.pools[pool as usize].pool.small;
        if !sizes::splits(bytes, whole - bytes, small, &self.settings) {
            return Taken { block: id, bytes: whole };
        }
        let rest = self.cut(id, bytes);
        self.shelve(rest, State::Free);
        Taken { block: id, bytes }
    }

    /// Bytes that a free block has or can grow to.
    fn extent(&self, id: u32) -> u64 {
        let Block { bytes, after, .. } = self.get(id);
        let unmapped = after != NONE && self.get(after).state == State::Unmapped;
        bytes + if unmapped { self.get(after).bytes } else { 0 }
    }

    /// The first free block of at least `bytes`; one that can grow counts as large as it can get.
    fn least_extended(&self, pool: u32, bytes: u64) -> Option<u32> {
        let mut fits = self.pools[pool as usize].free.from(bytes).map(|(_, id)| id);
        let mut best = fits.next()?;
        for next in fits {
            if self.extent(next) >= self.extent(best) {
                break;
            }
            best = next;
        }
        Some(best)
    }

    /// The first free or unmapped block of the pool from which `bytes` follow that are free or unmapped.
    fn expandable(&self, pool: u32, bytes: u64) -> Option<u32> {
        let usable = |id: u32| id != NONE && self.get(id).state != State::Taken;
        let starts = self.pools[pool as usize].unmapped.values().map(|&id| {
            let before = self.get(id).before;
            if usable(before) { before } else { id }
        });
        let follows = |start: u32| {
            let (mut id, mut found) = (start, 0);
            while found < bytes && usable(id) {
                (found, id) = (found + self.get(id).bytes, self.get(id).after);
            }
            found >= bytes
        };
        starts.into_iter().find(|&start| follows(start))
    }

    /// Gives memory to the pages of an unmapped block that `bytes` of it need; returns the free block they are part of.
    fn map(&mut self, id: u32, bytes: u64, room: u64) -> Option<u32> {
        let Block { pool, bytes: whole, .. } = self.get(id);
        let small = self.pools[pool as usize].pool.small;
        let mapped = bytes.next_multiple_of(sizes::page(small)).min(whole);
        if mapped > room {
            return None;
        }
        self.unshelve(id);
        if mapped < whole {
            let rest = self.cut(id, mapped);
            self.shelve(rest, State::Unmapped);
        }
        self.held += pages(mapped, small);
        let merged = self.merge(id, State::Free);
        self.shelve(merged, State::Free);
        Some(merged)
    }

    /// Takes the memory from the pages of a free block.
    fn unmap(&mut self, id: u32) {
        let (from, to) = self.pages(id);
        let Block { pool, at, bytes, .. } = self.get(id);
        self.unshelve(id);
        let mut freed = id;
        if from > at {
            freed = self.cut(id, from - at);
            self.shelve(id, State::Free);
        }
        if to < at + bytes {
            let behind = self.cut(freed, to - from);
            self.shelve(behind, State::Free);
        }
        self.held = self.held - pages(to - from, self.pools[pool as usize].pool.small);
        let merged = self.merge(freed, State::Unmapped);
        self.shelve(merged, State::Unmapped);
    }

    /// Releases a free block that is a segment.
    fn release_segment(&mut self, id: u32) {
        self.unshelve(id);
        self.held = self.held - Segments { count: 1, bytes: self.get(id).bytes };
        self.vacant.push(id);
    }
}

impl Blocks for Caches {
    fn take(&mut self, pool: Pool, bytes: u64) -> Option<Taken> {
        let pool = self.pool(pool);
        let serves = |free| sizes::serves(bytes, free, &self.settings);
        let block = if self.settings.expandable_segments {
            let block = self.least_extended(pool, bytes).filter(|&id| serves(self.get(id).bytes))?;
            self.unshelve(block);
            block
        } else {
            let block = self.pools[pool as usize].free.remove_first(bytes, serves)?;
            self.get_mut(block).state = State::Taken;
            block
        };
        Some(self.hand_out(block, bytes))
    }

    fn reserve(&mut self, pool: Pool, bytes: u64, room: u64) -> Option<Taken> {
        let index = self.pool(pool);
        if !self.settings.expandable_segments {
            let segment = sizes::segment(bytes);
            if segment > room {
                return None;
            }
            self.held += Segments { count: 1, bytes: segment };
            let block = self.segment(index, segment);
            return Some(self.hand_out(block, bytes));
        }
        if self.pools[index as usize].unmapped.is_empty() {
            let block = self.segment(index, ADDRESSES);
            self.shelve(block, State::Unmapped);
        }
        let before = self.held.bytes;
        let mut block = self.expandable(index, bytes)?;
        while self.get(block).state == State::Unmapped || self.get(block).bytes < bytes {
            let Block { state, bytes: has, after, .. } = self.get(block);
            let (next, missing) =
                if state == State::Unmapped { (block, bytes) } else { (after, bytes - has) };
            block = self.map(next, missing, room - (self.held.bytes - before))?;
        }
        self.unshelve(block);
        Some(self.hand_out(block, bytes))
    }

    fn give_back(&mut self, block: u32) {
        let merged = self.merge(block, State::Free);
        self.shelve(merged, State::Free);
    }

    fn release_oversize(&mut self, pool: Pool, bytes: u64) -> bool {
        let Some(oversize) = self.settings.released() else { return false };
        let (pool, wanted) = (self.pool(pool), bytes.max(oversize));
        let free = &self.pools[pool as usize].free;
        let enough = free.from(wanted).next();
        if let Some((_, enough)) = enough {
            self.release_segment(enough);
            return true;
        }
        let mut released = 0;
        let largest: Vec<(u64, u32)> = free.from(oversize).rev().collect();
        for (bytes, id) in largest {
            if released >= wanted {
                break;
            }
            self.release_segment(id);
            released += bytes;
        }
        released >= wanted
    }

    fn release(&mut self) {
        let free = self.pools.iter().flat_map(|shelf| shelf.free.from(0)).map(|(_, id)| id);
        let releasable: Vec<u32> = free.filter(|&id| self.has_releasable(id)).collect();
        for id in releasable {
            if self.settings.expandable_segments { self.unmap(id) } else { self.release_segment(id) }
        }
    }

    fn held(&self) -> Segments {
        self.held
    }
}

/// Bytes of a segment that grows, by its pages.
fn pages(bytes: u64, small: bool) -> Segments {
    Segments { count: bytes / sizes::page(small), bytes }
}
