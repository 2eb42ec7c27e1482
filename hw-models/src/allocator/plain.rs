//! Segments as lists of pieces, scanned for every request: slow and plainly right.

use super::blocks::{ADDRESSES, Blocks, Pool, State, Taken};
use super::{Segments, Settings, sizes};

/// All segments, the oldest first.
pub(super) struct PlainBlocks {
    settings: Settings,
    segments: Vec<Segment>,
    blocks: u32,
}

struct Segment {
    pool: Pool,
    pieces: Vec<Piece>,
}

#[derive(Clone, Copy)]
struct Piece {
    bytes: u64,
    state: State,
    /// The number of the block, if it is taken.
    block: u32,
}

impl PlainBlocks {
    pub(super) fn new(settings: Settings) -> Self {
        Self { settings, segments: Vec::new(), blocks: 0 }
    }

    /// Free pieces of a pool as (size, segment, position), smallest first.
    fn free(&self, pool: Pool) -> Vec<(u64, usize, usize)> {
        let mut free = Vec::new();
        for (segment, of) in self.segments.iter().enumerate().filter(|(_, segment)| segment.pool == pool) {
            let pieces = of.pieces.iter().enumerate().filter(|(_, piece)| piece.state == State::Free);
            free.extend(pieces.map(|(position, piece)| (piece.bytes, segment, position)));
        }
        free.sort_unstable();
        free
    }

    /// Takes `bytes` of a free piece, or all of it.
    fn hand_out(&mut self, segment: usize, position: usize, bytes: u64) -> Taken {
        let small = self.segments[segment].pool.small;
        let pieces = &mut self.segments[segment].pieces;
        let whole = pieces[position].bytes;
        let split = sizes::splits(bytes, whole - bytes, small, &self.settings);
        let taken = Taken { block: self.blocks, bytes: if split { bytes } else { whole } };
        pieces[position] = Piece { bytes: taken.bytes, state: State::Taken, block: taken.block };
        if split {
            pieces.insert(position + 1, Piece { bytes: whole - bytes, state: State::Free, block: 0 });
        }
        self.blocks += 1;
        taken
    }

    /// Reserves what is missing of `bytes` from a piece on; false if there is no room for all of it.
    fn map(&mut self, segment: usize, position: usize, bytes: u64, mut room: u64) -> bool {
        let Segment { pool, pieces } = &mut self.segments[segment];
        let page = sizes::page(pool.small);
        let (mut position, mut missing) = (position, bytes);
        while missing > 0 {
            let piece = pieces[position];
            let mut usable = piece.bytes;
            if piece.state == State::Unmapped {
                usable = missing.next_multiple_of(page).min(piece.bytes);
                if usable > room {
                    return false;
                }
                room -= usable;
                pieces[position] = Piece { bytes: usable, state: State::Free, block: 0 };
                if usable < piece.bytes {
                    pieces.insert(position + 1, Piece { bytes: piece.bytes - usable, ..piece });
                }
            }
            missing = missing.saturating_sub(usable);
            position += 1;
        }
        true
    }

    /// Merges neighbours that are both free or both unmapped.
    fn merge(&mut self) {
        for segment in &mut self.segments {
            segment.pieces.dedup_by(|behind, front| {
                let alike = front.state == behind.state && front.state != State::Taken;
                front.bytes += if alike { behind.bytes } else { 0 };
                alike
            });
        }
    }
}

impl Blocks for PlainBlocks {
    fn take(&mut self, pool: Pool, bytes: u64) -> Option<Taken> {
        let fits: Vec<_> = self.free(pool).into_iter().filter(|&(size, ..)| size >= bytes).collect();
        let mut best = 0;
        if self.settings.expandable_segments {
            let extent = |&(size, segment, position): &(u64, usize, usize)| {
                let after = self.segments[segment].pieces.get(position + 1);
                size + after.filter(|after| after.state == State::Unmapped).map_or(0, |after| after.bytes)
            };
            while best + 1 < fits.len() && extent(&fits[best + 1]) < extent(&fits[best]) {
                best += 1;
            }
        }
        let &(size, segment, position) = fits.get(best)?;
        sizes::serves(bytes, size, &self.settings).then(|| self.hand_out(segment, position, bytes))
    }

    fn reserve(&mut self, pool: Pool, bytes: u64, room: u64) -> Option<Taken> {
        if !self.settings.expandable_segments {
            let segment = sizes::segment(bytes);
            let pieces = vec![Piece { bytes: segment, state: State::Free, block: 0 }];
            return (segment <= room).then(|| {
                self.segments.push(Segment { pool, pieces });
                self.hand_out(self.segments.len() - 1, 0, bytes)
            });
        }
        let of_pool = |segment: &Segment| segment.pool == pool;
        let segment = self.segments.iter().position(of_pool).unwrap_or_else(|| {
            let pieces = vec![Piece { bytes: ADDRESSES, state: State::Unmapped, block: 0 }];
            self.segments.push(Segment { pool, pieces });
            self.segments.len() - 1
        });
        let pieces = &self.segments[segment].pieces;
        // From the free piece before an unmapped one, or from that one.
        let enough = |&from: &usize| {
            let run = pieces[from..].iter().take_while(|piece| piece.state != State::Taken);
            let near = pieces[from..].iter().take(2).any(|piece| piece.state == State::Unmapped);
            near && pieces[from].state != State::Taken && run.map(|piece| piece.bytes).sum::<u64>() >= bytes
        };
        let position = (0..pieces.len()).find(enough)?;
        let served = self.map(segment, position, bytes, room);
        self.merge();
        served.then(|| self.hand_out(segment, position, bytes))
    }

    fn give_back(&mut self, block: u32) {
        for piece in self.segments.iter_mut().flat_map(|segment| &mut segment.pieces) {
            if piece.state == State::Taken && piece.block == block {
                piece.state = State::Free;
            }
        }
        self.merge();
    }

    fn release_oversize(&mut self, pool: Pool, bytes: u64) -> bool {
        let Some(oversize) = self.settings.released() else { return false };
        let wanted = bytes.max(oversize);
        let free = self.free(pool);
        let enough = free.iter().find(|&&(size, ..)| size >= wanted);
        let mut gone = Vec::new();
        let mut released = 0;
        match enough {
            Some(&(size, segment, _)) => (gone, released) = (vec![segment], size),
            None => {
                for &(size, segment, _) in free.iter().rev().filter(|&&(size, ..)| size >= oversize) {
                    if released < wanted {
                        gone.push(segment);
                        released += size;
                    }
                }
            }
        }
        gone.sort_unstable();
        for &segment in gone.iter().rev() {
            self.segments.remove(segment);
        }
        released >= wanted
    }

    fn release(&mut self) {
        if !self.settings.expandable_segments {
            self.segments
                .retain(|segment| segment.pieces.len() > 1 || segment.pieces[0].state != State::Free);
            return;
        }
        for Segment { pool, pieces } in &mut self.segments {
            let page = sizes::page(pool.small);
            let mut at = 0;
            let mut cut = Vec::new();
            for &piece in pieces.iter() {
                let end = at + piece.bytes;
                let (from, to) = (at.next_multiple_of(page), end / page * page);
                if piece.state == State::Free && from < to {
                    let parts =
                        [(from - at, State::Free), (to - from, State::Unmapped), (end - to, State::Free)];
                    let some = parts.into_iter().filter(|&(bytes, _)| bytes > 0);
                    cut.extend(some.map(|(bytes, state)| Piece { bytes, state, block: 0 }));
                } else {
                    cut.push(piece);
                }
                at = end;
            }
            *pieces = cut;
        }
        self.merge();
    }

    fn held(&self) -> Segments {
        let held = self.segments.iter().map(|Segment { pool, pieces }| {
            let pieces = pieces.iter().filter(|piece| piece.state != State::Unmapped);
            let bytes = pieces.map(|piece| piece.bytes).sum();
            let pages = bytes / sizes::page(pool.small);
            Segments { count: if self.settings.expandable_segments { pages } else { 1 }, bytes }
        });
        held.fold(Segments::default(), |all, segment| all + segment)
    }
}
