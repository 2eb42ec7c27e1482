//! Wavefronts: passes that shared memory makes to serve a load of a warp.
//!
//! Shared memory has 32 banks of a word each. A load of `width` words a lane is served in as many
//! phases, and a phase in as many passes as different words fall into one bank. Loads of two or
//! four words merge pairs of phases where neighbouring lanes ask for the same words.

use crate::catalogue::WARP;

/// Words of the widest load of a lane.
pub(super) const WIDEST: u32 = 4;

/// Words that the lanes of a warp read: the lanes form a grid whose rows have `across` lanes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pattern {
    /// Lanes of a row of the grid.
    pub(super) across: u32,
    /// Words from a lane to the next along a row.
    pub(super) stride: u32,
    /// Words from a row to the next.
    pub(super) row_stride: u32,
    /// Words of a lane.
    pub(super) width: u32,
}

impl Pattern {
    /// Passes over the banks of shared memory.
    pub(super) fn wavefronts(&self) -> u32 {
        let merges = self.width > 1 && self.repeats();
        self.passes(if merges { 2 * WARP / self.width } else { WARP / self.width })
    }

    /// Passes of a load through the first-level cache, which returns a word of each lane a pass.
    pub(super) fn passes_of_cache(&self) -> u32 {
        self.passes(WARP / self.width).max(self.width)
    }

    /// True if each lane reads what its neighbour, or the neighbour but one, reads.
    const fn repeats(&self) -> bool {
        let rows_of_one = self.across <= 2 && self.row_stride == 0;
        (self.stride == 0 && self.across > 1) || rows_of_one
    }

    /// Passes in phases of a number of lanes.
    fn passes(&self, phase: u32) -> u32 {
        let across = self.across.min(phase).max(1);
        let down = phase / across;
        let along = collisions(across, self.stride);
        let rows = collisions(down, self.row_stride);
        // Rows that start in the same bank meet all over again; others fill the gaps of the first.
        let lanes = if self.stride == 0 { 1 } else { across };
        let rows_apart = if self.row_stride == 0 { 1 } else { down };
        let words = lanes * rows_apart * self.width;
        let met = if self.row_stride.is_multiple_of(WARP) { along * rows } else { along.max(rows) };
        WARP / phase * met.max(words.div_ceil(WARP))
    }
}

/// Different words in the fullest bank, of lanes at a stride.
const fn collisions(lanes: u32, stride: u32) -> u32 {
    if stride == 0 {
        return 1;
    }
    // Banks come round after 32 / gcd(stride, 32) lanes; 32 is a power of two.
    let shared = 1 << stride.trailing_zeros();
    let common = if shared < WARP { shared } else { WARP };
    (lanes * common).div_ceil(WARP)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Lane by lane: the words of each phase, bank by bank.
    fn plain(pattern: &Pattern, merging: bool) -> u32 {
        let word =
            |lane: u32| lane % pattern.across * pattern.stride + lane / pattern.across * pattern.row_stride;
        let same = |other: u32| (0..WARP).all(|lane| word(lane) == word(lane ^ other));
        let merges = merging && pattern.width > 1 && (same(1) || same(2));
        let phase = WARP / pattern.width * if merges { 2 } else { 1 };
        let of_phase = |first: u32| {
            let lanes = first..first + phase;
            let words: BTreeSet<u32> =
                lanes.flat_map(|lane| word(lane)..word(lane) + pattern.width).collect();
            (0..WARP).map(|bank| words.iter().filter(|&word| word % WARP == bank).count()).max()
        };
        (0..WARP).step_by(phase as usize).map(|first| of_phase(first).unwrap_or(0) as u32).sum()
    }

    #[test]
    fn wavefronts_are_those_of_counting_banks() {
        for across in [1, 8, 16, 32] {
            for width in [1, 2, 4] {
                for stride in [0, 1, 2, 4, 8, 16, 32, 64] {
                    for row_stride in [0, 1, 2, 4, 8, 16, 32, 64] {
                        // Either all lanes of a row share their words, or all rows do: operands.
                        let operand = stride == 0 || row_stride == 0;
                        let apart = |stride: u32| stride == 0 || stride >= width;
                        if !operand || !apart(stride) || !apart(row_stride) {
                            continue;
                        }
                        let pattern = Pattern { across, stride, row_stride, width };
                        assert_eq!(pattern.wavefronts(), plain(&pattern, true), "{pattern:?}");
                        let passes = plain(&pattern, false).max(width);
                        assert_eq!(pattern.passes_of_cache(), passes, "{pattern:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn copies_of_rows_never_count_more_passes_than_there_are() {
        for across in [8, 16, 32] {
            for width in [1, 2, 4] {
                for stride in [width, 2 * width, 4 * width, 16] {
                    for row_stride in [across * stride, 2 * across * stride] {
                        let pattern = Pattern { across, stride, row_stride, width };
                        assert!(pattern.wavefronts() <= plain(&pattern, true), "{pattern:?}");
                    }
                }
            }
        }
    }
}
