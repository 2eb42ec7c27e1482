//! Reasons why a plan cannot be simulated.

use thiserror::Error;

use crate::check::Problem;
use crate::diagnostic::Diagnostic;
use crate::hardware::HardwareError;
use crate::passes::host_buffers::ShortBuffers;
use crate::schedule::StageMemory;
use crate::transfer::Conflict;

/// Why a plan cannot be simulated.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum PlanError {
    /// Something in it is out of range; all of it.
    #[error("{}", list(.0))]
    Invalid(Vec<Diagnostic>),
    /// Two techniques decide about one storage.
    #[error(transparent)]
    Conflict(#[from] Conflict),
    /// Stages that cannot hold a single micro-batch, whatever the schedule.
    #[error("{}", list(.0))]
    DoesNotFit(Vec<Shortfall>),
    /// Stages whose ranks have too little page-locked memory at their hosts.
    #[error("{}", list(.0))]
    BuffersDoNotFit(Vec<ShortBuffers>),
    /// Hosts that cannot hold what their ranks keep there.
    #[error("{}", list(.0))]
    HostDoesNotFit(Vec<FullHost>),
    /// What the hardware models cannot answer.
    #[error(transparent)]
    Hardware(#[from] HardwareError),
    /// A pass broke the schedule: a mistake in this crate.
    #[error("{}", list(.0))]
    Broken(Vec<Problem>),
}

fn list<T: std::fmt::Display>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// A stage that cannot hold what it needs for one micro-batch.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "stage {stage} needs {needed} B for `{block}` of a single micro-batch ({persistent} B of them held throughout), \
     but its device has {capacity} B"
)]
pub struct Shortfall {
    /// The stage.
    pub stage: u32,
    /// The block that needs most.
    pub block: String,
    /// Bytes it needs, with what the stage holds throughout.
    pub needed: u64,
    /// Bytes held throughout.
    pub persistent: u64,
    /// The same by kind, the largest first.
    pub holders: Vec<(&'static str, u64)>,
    /// The kind of most bytes that the block needs beside them.
    pub requested: &'static str,
    /// Bytes there are for tensors.
    pub capacity: u64,
}

impl Shortfall {
    /// That of a stage whose `block` needs so many bytes, with what the stage holds throughout, most of the rest `requested`.
    pub(crate) fn of(
        (stage, memory): (u32, &StageMemory),
        block: &str,
        needed: u64,
        requested: &'static str,
    ) -> Self {
        let mut holders = memory.persistent.clone();
        holders.sort_by_key(|&(_, bytes)| std::cmp::Reverse(bytes));
        let (block, persistent, capacity) = (block.to_owned(), memory.held(), memory.usable());
        Self { stage, block, needed, persistent, holders, requested, capacity }
    }
}

/// A host whose memory, or an array of whose drives, cannot hold what its ranks keep there throughout.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{memory}` has {capacity} B, but {ranks} ranks keep {needed} B there throughout")]
pub struct FullHost {
    /// The memory, by its name in the machine.
    pub memory: String,
    /// How many ranks keep something there.
    pub ranks: u32,
    /// Bytes that they keep there, by kind.
    pub holders: Vec<(&'static str, u64)>,
    /// All of them.
    pub needed: u64,
    /// Bytes there are.
    pub capacity: u64,
}
