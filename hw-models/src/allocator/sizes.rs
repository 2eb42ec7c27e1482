//! Sizes of blocks and of segments.

use super::Settings;
use crate::settings::Count;

/// A kibibyte.
const KIB: u64 = 1 << 10;
/// A mebibyte.
const MIB: u64 = 1 << 20;

/// Blocks are multiples of this.
pub const BLOCK_MIN: u64 = 512;
/// Largest small block.
pub const SMALL_MAX: u64 = MIB;
/// A segment of small blocks, and a page of an expandable one.
pub const SMALL_SEGMENT: u64 = 2 * MIB;
/// A segment of large blocks, and a page of an expandable one.
pub const LARGE_SEGMENT: u64 = 20 * MIB;
/// From here on a block has a segment of its own...
pub const OWN_SEGMENT_MIN: u64 = 10 * MIB;
/// ... which is a multiple of this.
pub const OWN_SEGMENT_MULTIPLE: u64 = 2 * MIB;
/// More than this is out of memory on every device, and no sum of what is held overflows.
pub(super) const DEVICE_MAX: u64 = KIB << 40;

/// Bytes of the block for `bytes`, at most 2^50.
///
/// With `roundup_power2_divisions` of d, sizes above 512 d are rounded up to the next of the d equal steps between one
/// power of two and the next.
#[inline]
pub fn block(bytes: u64, settings: &Settings) -> u64 {
    let divisions = settings.roundup_power2_divisions.map_or(1, Count::get);
    let multiple = if divisions > 1 && bytes > BLOCK_MIN * divisions {
        // A power of two is a multiple of its own steps.
        (1 << bytes.ilog2()) / divisions
    } else {
        BLOCK_MIN
    };
    bytes.max(1).next_multiple_of(multiple)
}

/// Bytes of the segment that the driver is asked for where no block of `block` bytes is free.
pub const fn segment(block: u64) -> u64 {
    if block <= SMALL_MAX {
        SMALL_SEGMENT
    } else if block < OWN_SEGMENT_MIN {
        LARGE_SEGMENT
    } else {
        block.next_multiple_of(OWN_SEGMENT_MULTIPLE)
    }
}

/// Bytes of a page of an expandable segment.
pub(super) const fn page(small: bool) -> u64 {
    if small { SMALL_SEGMENT } else { LARGE_SEGMENT }
}

/// Whether what is left of a block from which `block` bytes are taken becomes a block again.
#[inline]
pub(super) fn splits(block: u64, left: u64, small: bool, settings: &Settings) -> bool {
    if small || settings.expandable_segments {
        left >= BLOCK_MIN
    } else {
        block < settings.oversize() && left > SMALL_MAX
    }
}

/// Whether a free block of `free` bytes may serve `block` bytes: oversize ones serve only oversize requests, and none
/// that leaves as much as a segment.
#[inline]
pub(super) fn serves(block: u64, free: u64, settings: &Settings) -> bool {
    let oversize = settings.oversize();
    if block < oversize { free < oversize } else { free < block + LARGE_SEGMENT }
}
