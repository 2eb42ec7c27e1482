//! NVMe drives, arrays of them, and the paths between them and memories.
//!
//! ```text
//! drive    a rate for reads and one for writes (a faster one while a cache lasts), both together less than their sum,
//!          operations per second, a latency
//! array    a transfer is cut into chunks that go to all members at once (RAID 0): the slowest member counts
//! path     buffered by the page cache, direct into page-locked memory, direct into a GPU, or by way of a bounce buffer
//! ```
//!
//! A transfer is one activity: demands on the links of every member, each with its part of the bytes, and a cap by the
//! requests that are outstanding. What meets what is the engine's to say.

mod array;
mod drive_set;
mod lifetime;
mod path;
mod pipeline;
mod queue;
mod shares;
mod states;
mod transfer;

pub use array::{Array, ArrayError, arrays_of_node};
pub use drive_set::DriveSet;
pub use lifetime::{Endurance, SECONDS_PER_YEAR};
pub use path::{PATHS, PathCatalogue, PathParameters, Staging};
pub use pipeline::{Stage, pipeline};
pub use queue::Requests;
pub use shares::{Storage, Way};
pub use states::OffloadedStates;
pub use transfer::{Transfer, seconds_at_once};
