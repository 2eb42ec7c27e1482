//! The caching allocator of PyTorch as a function of what a host asks of it (pytorch @ 001074d:
//! `c10/cuda/CUDACachingAllocator.cpp`; the rules below are those of its functions `malloc`, `free_block`,
//! `should_split`, `get_free_block`, `release_cached_blocks` and of its note on expandable segments).
//!
//! A framework does not return memory to the driver when a tensor is freed: blocks of *segments* are kept and handed out
//! again. What a GPU must have is therefore not the most bytes of tensors at a time but the most bytes of segments.
//!
//! - Sizes are multiples of 512 B. Up to 1 MiB they are *small* and come from segments of 2 MiB, other ones from
//!   segments of 20 MiB, and from 10 MiB on from segments of their own, multiples of 2 MiB ([`sizes`]).
//! - A block is used for one stream only, and small and large ones do not mix: each stream has two pools.
//! - The smallest free block that is large enough is taken, first by segment and then by place where several are. What
//!   is left of it is a block again if it has 512 B or more (small) or more than 1 MiB (large), else it is lost with it.
//! - A freed block is merged with its free neighbours. One that another stream still uses is returned when that is done.
//! - Where no block will do the driver is asked; where that has no more the whole segments that are free are released,
//!   after waiting for what other streams use, and the driver is asked again.
//! - `expandable_segments`: each pool has one segment that grows by pages of 2 MiB (small) or 20 MiB (large) and from
//!   which free pages are released. Its address space is taken to have no end (PyTorch: 9/8 of the memory).
//!
//! Requests are in the order of the host, which is ahead of the device: nothing here knows a time.
//!
//! ```
//! use hw_models::allocator::{Request, Settings, StreamNumber, replay};
//!
//! let stream = StreamNumber(0);
//! let allocate = |bytes| Request::Allocate { bytes, stream, kind: "activations" };
//! // Of the 40 MiB of the first tensor 15 are left, too little for the third: it has a segment of its own.
//! let list = [allocate(40 << 20), Request::Free(0), allocate(25 << 20), allocate(16 << 20)];
//! let usage = replay(&list, u64::MAX, &Settings::default()).unwrap();
//! assert_eq!((usage.peak_allocated.allocated, usage.peak_reserved.reserved), (41 << 20, 56 << 20));
//! ```

mod blocks;
mod caches;
mod driver;
mod mistakes;
mod plain;
mod replay;
mod settings;
pub mod sizes;
mod workspace;

pub use driver::{DriverCalls, Segments};
pub use mistakes::{Fault, Mistake};
pub use replay::{Moment, Shortage, Usage, replay, replay_plainly};
pub use settings::Settings;
pub use workspace::{FrameworkMemory, MEMORY, Workspace, Workspaces};

/// What a host asks of the allocator. Tensors are numbered in the order of their allocations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Takes memory for the next tensor; none for one of no bytes.
    Allocate {
        /// Bytes asked for.
        bytes: u64,
        /// The stream that will use it.
        stream: StreamNumber,
        /// What it counts as.
        kind: &'static str,
    },
    /// Other streams use the tensor, too (`record_stream`): freed, it is not returned before they are done.
    Lend(u32),
    /// They are done.
    Done(u32),
    /// The host has no use for the tensor any more.
    Free(u32),
}

/// A stream of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamNumber(pub u32);
