//! What holds the blocks of an allocator: an interface with two implementations, one fast and one plainly right.

use super::{Segments, StreamNumber};

/// Blocks of segments, by pool.
pub(super) trait Blocks {
    /// Takes a free block of at least `bytes`, if there is one that serves.
    fn take(&mut self, pool: Pool, bytes: u64) -> Option<Taken>;

    /// Takes a block of memory that the driver still has `room` for, if that is enough. Pages of an expandable segment
    /// that were added before room ran out stay.
    fn reserve(&mut self, pool: Pool, bytes: u64, room: u64) -> Option<Taken>;

    /// Returns a block.
    fn give_back(&mut self, block: u32);

    /// Releases an oversize free segment of the pool that would have been large enough, or several; whether they are.
    fn release_oversize(&mut self, pool: Pool, bytes: u64) -> bool;

    /// Releases all that is free as a whole: segments, or pages.
    fn release(&mut self);

    /// All segments, or pages of those that grow.
    fn held(&self) -> Segments;
}

/// Blocks of one stream that may serve each other's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pool {
    pub(super) stream: StreamNumber,
    pub(super) small: bool,
}

/// A block in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    /// Which.
    pub(super) block: u32,
    /// Its size, with what was too little to be a block of its own.
    pub(super) bytes: u64,
}

/// What a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Free,
    Taken,
    /// Addresses of an expandable segment without memory.
    Unmapped,
}

/// Addresses of an expandable segment.
pub(super) const ADDRESSES: u64 = 1 << 62;
