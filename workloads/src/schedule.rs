//! The schedule: per stage, lanes of items over storages, with the micro-batch as parameter. Techniques that change
//! *where* a tensor is act here. No type of this module has a field for a duration, a rate or an efficiency: how long
//! anything takes is in the [cost book](crate::cost) alone.

use std::collections::{BTreeMap, BTreeSet};

use crate::chain::Hop;
use crate::graph::{OpId, StorageId};
use crate::transfer::Tier;

/// What all lanes do in one step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// Micro-batches per step.
    pub micro_batches: u32,
    /// Memory of the stages.
    pub stages: Vec<StageMemory>,
    /// Streams of items; the compute lanes come first, in the order of the stages.
    pub lanes: Vec<Lane>,
    /// Counters that lanes wait for each other with; what each stands for, for errors.
    pub signals: Vec<String>,
    /// Operators that hosts issue one after the other.
    pub issues: Vec<Vec<OpId>>,
    /// Signals that a host gives, or waits for as well as its GPU, where it comes to the item as it
    /// issues operators.
    pub by_hosts: BTreeSet<SignalId>,
}

/// The memory of a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageMemory {
    /// Bytes; `u64::MAX` where unlimited.
    pub capacity: u64,
    /// Bytes of those that the allocator of the framework cannot use for tensors.
    pub fragments: u64,
    /// Bytes held throughout, by kind.
    pub persistent: Vec<(&'static str, u64)>,
    /// Bytes that each rank holds throughout in the memory of its host, by kind.
    pub hosted: Vec<(&'static str, u64)>,
    /// The same of what copies between the two read and write.
    pub exchanged: Vec<(&'static str, u64)>,
    /// Bytes of that memory that are page-locked for each rank, for what is copied; none: as many as it needs.
    pub locked: Option<u64>,
    /// Bytes that each rank holds throughout on drives, by kind.
    pub on_drives: Vec<(&'static str, u64)>,
    /// Bytes of all rows of features in memories of hosts or on drives, which ranks share.
    pub rows: u64,
    /// Most micro-batches (of one chunk each) that may be resident at a time; none: as many as fit.
    pub resident_bound: Option<u32>,
    /// Whether who finds no room waits until others give some back, rather than having run out of memory.
    pub waits: bool,
}

impl StageMemory {
    /// Bytes held throughout.
    pub fn held(&self) -> u64 {
        self.persistent.iter().fold(0, |sum, &(_, bytes)| sum.saturating_add(bytes))
    }

    /// Bytes held throughout in the memory of a host; all that is locked for a rank is.
    pub fn held_by_host(&self) -> u64 {
        let sum =
            |kinds: &[(&str, u64)]| kinds.iter().fold(0, |sum: u64, &(_, bytes)| sum.saturating_add(bytes));
        sum(&self.hosted).saturating_add(self.locked.unwrap_or_else(|| sum(&self.exchanged)))
    }

    /// Page-locked bytes that are left for what comes and goes.
    pub fn buffers(&self) -> Option<u64> {
        let held = self.exchanged.iter().fold(0, |sum: u64, &(_, bytes)| sum.saturating_add(bytes));
        self.locked.map(|locked| locked.saturating_sub(held))
    }

    /// Bytes for what comes and goes.
    pub fn room(&self) -> u64 {
        self.usable().saturating_sub(self.held())
    }

    /// Bytes for tensors.
    pub fn usable(&self) -> u64 {
        self.capacity.saturating_sub(self.fragments)
    }
}

/// A counter of a [`Schedule`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SignalId(pub u32);

/// Operators that a host issues: index into [`Schedule::issues`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct IssueId(pub u32);

/// An in-order stream of items of one stage, like a CUDA stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// Its stage.
    pub stage: u32,
    /// What it does.
    pub kind: LaneKind,
    /// Multiprocessors of its GPU that its kernels get.
    pub multiprocessors: Multiprocessors,
    /// The different things it does.
    pub blocks: Vec<Block>,
    /// What it does in one step, in order.
    pub calls: Vec<Call>,
    /// How much the numbers of its calls grow from one step to the next.
    pub numbers: u32,
}

/// Multiprocessors of a GPU that kernels of a lane get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Multiprocessors {
    /// Multiprocessors that no other kernel has.
    #[default]
    Free,
    /// A number of free ones, at most.
    AtMost(u32),
    /// The number of all: no kernel of another lane runs at the same time.
    Alone(u32),
}

impl Multiprocessors {
    /// Most that a kernel gets.
    pub const fn most(self) -> u32 {
        match self {
            Self::Free => u32::MAX,
            Self::AtMost(most) | Self::Alone(most) => most,
        }
    }
}

/// What a lane does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LaneKind {
    /// Executes operators.
    Compute,
    /// Sends messages to another stage, one after the other.
    Link {
        /// Where to.
        to: u32,
    },
    /// Copies storages to the partner stage.
    Evict,
    /// Copies them back.
    Load,
    /// Copies storages to host memory.
    Offload,
    /// Copies them back.
    Reload,
    /// Runs collectives beside the operators.
    Collective,
    /// Gathers parameters that data-parallel ranks share, ahead of the operators that read them.
    Gather,
    /// Sums gradients over data-parallel ranks, behind the operators that write them.
    Reduce,
    /// Updates parameters on the host.
    HostUpdate,
    /// Copies them back to the GPU.
    Return,
    /// Reads parameters from drives, ahead of gathers.
    ReadParameters,
    /// Reads states of the optimizer from drives.
    ReadStates,
    /// Writes them, gradients, and parameters to drives.
    WriteStates,
    /// Draws neighbours of the nodes of batches.
    Sample,
    /// Reads rows of features of batches.
    GatherRows,
    /// Copies them to the GPU.
    CopyRows,
    /// Issues what the others execute.
    Host,
}

impl LaneKind {
    /// Name for results, below that of its rank: `compute`.
    pub fn name(self) -> String {
        match self {
            Self::Compute => "compute".to_owned(),
            Self::Link { to } => format!("link[{to}]"),
            Self::Evict => "evict".to_owned(),
            Self::Load => "load".to_owned(),
            Self::Offload => "offload".to_owned(),
            Self::Reload => "reload".to_owned(),
            Self::Collective => "collective".to_owned(),
            Self::Gather => "gather".to_owned(),
            Self::Reduce => "reduce".to_owned(),
            Self::HostUpdate => "host update".to_owned(),
            Self::Return => "return".to_owned(),
            Self::ReadParameters => "read parameters".to_owned(),
            Self::ReadStates => "read states".to_owned(),
            Self::WriteStates => "write states".to_owned(),
            Self::Sample => "sample".to_owned(),
            Self::GatherRows => "gather rows".to_owned(),
            Self::CopyRows => "copy rows".to_owned(),
            Self::Host => "host".to_owned(),
        }
    }

    /// Lanes that copy to a tier and back.
    pub fn copies(to: Tier) -> [Self; 2] {
        if to.is_hbm() { [Self::Evict, Self::Load] } else { [Self::Offload, Self::Reload] }
    }

    /// Whether it runs collectives while the compute lane goes on.
    pub const fn is_beside(self) -> bool {
        matches!(self, Self::Collective | Self::Gather | Self::Reduce | Self::GatherRows)
    }

    /// True if it takes SMs or bandwidth of the memory from the operators of its GPU.
    pub const fn disturbs(self) -> bool {
        !matches!(self, Self::Compute | Self::Host | Self::Link { .. })
    }
}

/// Items executed in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Name for results, `forward`.
    pub name: String,
    /// The items.
    pub items: Vec<Item>,
}

/// An execution of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Index into the lane's blocks.
    pub block: u32,
    /// The micro-batch.
    pub micro_batch: u32,
    /// A running number within the step, for [`Nth::Number`].
    pub number: u32,
}

/// One thing a lane does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Item {
    /// Executes an operator.
    Execute(OpId),
    /// Takes the bytes of a storage in a stage's memory. There must be room, as with a framework's allocator, unless who finds
    /// none [waits](StageMemory::waits).
    Allocate(StorageId, Tier),
    /// Gives them back.
    Free(StorageId, Tier),
    /// Copies a storage.
    Copy {
        /// Which.
        storage: StorageId,
        /// Where it is.
        from: Tier,
        /// Where it has room.
        to: Tier,
    },
    /// Copies a storage out of its stage's memory, whose bytes are given back when it is [idle](Item::Idle), too. Does nothing if it has
    /// been [recalled](Item::Recall).
    Depart {
        /// Which.
        storage: StorageId,
        /// Where it goes.
        to: Tier,
    },
    /// The forward pass uses a storage that departs no more.
    Idle(StorageId),
    /// A storage that departs stays, unless its copy out has ended.
    Recall(StorageId),
    /// Copies a storage back, when its bytes at home have been given back. Does nothing if it stays.
    Return {
        /// Which.
        storage: StorageId,
        /// Where it is.
        from: Tier,
    },
    /// Gives back the bytes of a storage that departs, after its last use: when its copy out has ended, if one is under way.
    Dismiss(StorageId),
    /// One more micro-batch is resident; waits where the stage's bound is reached.
    Enter(Tier),
    /// One less.
    Leave(Tier),
    /// Issues operators as far as the first may start without waiting for one of the others later.
    Lead(IssueId),
    /// Issues the rest of them.
    Follow(IssueId),
    /// Counts a signal up.
    Signal(SignalId),
    /// Counts a signal up for every micro-batch of the step.
    SignalStep(SignalId),
    /// Sends a message: the signal counts up when it arrives, the lane goes on at once.
    Send(SignalId, Hop),
    /// Carries a message: the signal counts up when it arrives, the lane is busy until then.
    Carry(SignalId, Hop),
    /// Waits until a signal has counted so far.
    Await {
        /// The signal.
        signal: SignalId,
        /// How far.
        nth: Nth,
        /// What the time waited counts as.
        why: Why,
    },
    /// Waits until all ranks of the stage are here.
    Meet,
    /// Notes the time.
    Mark,
}

/// Which count of a signal to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Nth {
    /// The one of the call's micro-batch.
    MicroBatch,
    /// The one of the call's micro-batch in the step before; in the first step none is waited for.
    StepBefore,
    /// The one of a number of micro-batches before the call's, be they of steps before; before the
    /// first none is waited for.
    Before(u32),
    /// The one so many before that of the call's number; 0 is its own.
    Number(u32),
}

/// What the time before an awaited signal is under way counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// The producer has not finished.
    Bubble,
    /// The other side of a message has not come.
    Skew,
    /// A message is under way.
    Communication,
    /// Bytes are being copied.
    Transfer,
    /// The host has not issued the work yet.
    Launch,
    /// Memory that is to be used again has not been given back.
    Memory,
}

impl Item {
    /// Waits for the count of a signal that is the call's micro-batch's.
    pub const fn wait(signal: SignalId, why: Why) -> Self {
        Self::Await { signal, nth: Nth::MicroBatch, why }
    }
}

impl Schedule {
    /// Adds a signal.
    pub fn signal(&mut self, what: String) -> SignalId {
        self.signals.push(what);
        SignalId(self.signals.len() as u32 - 1)
    }

    /// The compute lane of a stage.
    pub fn compute(&mut self, stage: u32) -> Option<&mut Lane> {
        self.lanes.get_mut(stage as usize).filter(|lane| lane.kind == LaneKind::Compute)
    }
}

impl Lane {
    /// A lane without blocks.
    pub fn new(stage: u32, kind: LaneKind) -> Self {
        let multiprocessors = Multiprocessors::Free;
        Self { stage, kind, multiprocessors, blocks: Vec::new(), calls: Vec::new(), numbers: 0 }
    }

    /// Adds a block.
    pub fn block(&mut self, name: impl Into<String>, items: Vec<Item>) -> u32 {
        self.blocks.push(Block { name: name.into(), items });
        self.blocks.len() as u32 - 1
    }

    /// Inserts items into calls, before the items at some positions of their blocks. Calls of a
    /// block with equal insertions share a new block.
    pub(crate) fn insert(&mut self, insertions: Vec<Insertions>) {
        let mut made: BTreeMap<(u32, Insertions), u32> = BTreeMap::new();
        for (call, new) in insertions.into_iter().enumerate().filter(|(_, new)| !new.is_empty()) {
            let block = self.calls[call].block;
            self.calls[call].block = *made.entry((block, new)).or_insert_with_key(|(_, new)| {
                let Block { name, mut items } = self.blocks[block as usize].clone();
                for (&at, new) in new.iter().rev() {
                    items.splice(at..at, new.iter().copied());
                }
                self.blocks.push(Block { name, items });
                self.blocks.len() as u32 - 1
            });
        }
    }

    /// Name for results, `stage[3].compute`.
    pub fn name(&self) -> String {
        format!("stage[{}].{}", self.stage, self.kind.name())
    }
}

/// Items that a call gets, by the position in its block that they come before.
pub(crate) type Insertions = BTreeMap<usize, Vec<Item>>;
