//! What is timed: one point of a probe, as data.

mod framework;
mod gpu;
mod gpus;
mod host;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::KernelShape;
use hw_models::kernels::{Attention, Gemm, GroupedGemm, Stream};

pub use framework::{Backward, Kernel, Operation, Operator, Tensor, Update};
pub use gpu::{
    Allocated, Allocation, Beside, Data, Direction, Graph, HostSide, Launch, MemoryPass, Phase, Spin, Step,
    Storage, Sustained, Transfer, Work, ZeroCopy,
};
pub use gpus::{Collective, PeerCopy, SendReceive, Ways};
pub use host::{Access, Disk, Gather, HostMemory, Pages, Pattern, Route};

/// Something that a device executes again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "task", rename_all = "kebab-case")]
pub enum Task {
    /// Threads that stream through memory of the host.
    HostMemory(HostMemory),
    /// Threads that copy rows from random places of the host's memory.
    Gather(Gather),
    /// Blocks of a file.
    Disk(Disk),
    /// A block is written to a file and forced to the drive.
    Flush {
        /// Its size (bytes).
        block: u64,
    },
    /// Kernels that do nothing are launched.
    Launch(Launch),
    /// Kernels that take no time but their own, one after the other.
    Spin(Spin),
    /// A graph of kernels.
    Graph(Graph),
    /// A matrix product, of operands that the cache does not hold.
    Product(Gemm),
    /// Products of groups in one call.
    Grouped(GroupedGemm),
    /// Work again and again, until the board is as warm as it gets.
    Sustained(Sustained),
    /// A pass over memory of a GPU.
    Pass(MemoryPass),
    /// A copy between host and GPU.
    Transfer(Transfer),
    /// A row that a kernel reads from memory of the host, or writes there.
    ZeroCopy(ZeroCopy),
    /// Blocks of a file go to a GPU, or come from there.
    Storage(Storage),
    /// Memory is allocated and given back.
    Allocation(Allocation),
    /// Work of a GPU beside other work.
    Beside(Beside),
    /// A copy between GPUs.
    PeerCopy(PeerCopy),
    /// A collective of GPUs.
    Collective(Collective),
    /// Messages between GPUs.
    SendReceive(SendReceive),
    /// An operator of a framework.
    Operator(Operator),
    /// Gradients by a framework.
    Backward(Backward),
    /// A step of a framework's optimizer.
    Update(Update),
    /// A tensor of a framework.
    Tensor(Tensor),
    /// A kernel of a framework.
    Kernel(Kernel),
    /// Flash attention, as a framework has it.
    Attention(Attention),
}

impl Task {
    /// Bytes that one execution moves: an array that is written counts once, though a cache may read it first.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::HostMemory(HostMemory { pattern, bytes, .. })
            | Self::Pass(MemoryPass { pattern, bytes, .. }) => pattern.arrays().saturating_mul(*bytes),
            Self::Gather(Gather { row, .. }) | Self::ZeroCopy(ZeroCopy { row, .. }) => *row,
            Self::Disk(Disk { block, .. }) | Self::Flush { block } | Self::Storage(Storage { block, .. }) => {
                *block
            }
            Self::Product(product) => product.bytes(),
            Self::Sustained(Sustained { work, .. }) => work.bytes(),
            Self::Grouped(grouped) => grouped.groups.bytes(),
            Self::Transfer(Transfer { bytes, .. })
            | Self::Allocation(Allocation { bytes, .. })
            | Self::PeerCopy(PeerCopy { bytes, .. })
            | Self::Collective(Collective { bytes, .. })
            | Self::SendReceive(SendReceive { bytes, .. })
            | Self::Tensor(Tensor { bytes, .. }) => *bytes,
            Self::Kernel(kernel) => {
                let Stream { bytes_read, bytes_written, .. } = kernel.stream();
                bytes_read.saturating_add(bytes_written)
            }
            Self::Attention(attention) => attention.bytes(),
            Self::Launch(_) | Self::Spin(_) | Self::Graph(_) | Self::Beside(_) => 0,
            Self::Operator(_) | Self::Backward(_) | Self::Update(_) => 0,
        }
    }

    /// Whether a framework executes it.
    pub const fn is_of_framework(&self) -> bool {
        matches!(
            self,
            Self::Operator(_)
                | Self::Backward(_)
                | Self::Update(_)
                | Self::Tensor(_)
                | Self::Kernel(_)
                | Self::Attention(_)
        )
    }

    /// The kernel that it times, if that is one which the model of kernels knows.
    pub fn kernel(&self) -> Option<KernelShape> {
        match self {
            Self::Product(product) => Some(KernelShape::Gemm(*product)),
            Self::Grouped(groups) => Some(KernelShape::Grouped(*groups)),
            Self::Kernel(kernel) => Some(KernelShape::Cold(kernel.stream())),
            Self::Attention(attention) => Some(KernelShape::Attention(*attention)),
            _ => None,
        }
    }

    /// Bytes that one execution writes to a drive.
    pub const fn written(&self) -> u64 {
        match *self {
            Self::Disk(Disk { access: Access::Write, block, .. })
            | Self::Storage(Storage { access: Access::Write, block })
            | Self::Flush { block } => block,
            _ => 0,
        }
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HostMemory(task) => task.fmt(f),
            Self::Gather(task) => task.fmt(f),
            Self::Disk(task) => task.fmt(f),
            Self::Flush { block } => write!(f, "flush of a block of {block} B"),
            Self::Launch(task) => task.fmt(f),
            Self::Spin(task) => task.fmt(f),
            Self::Graph(task) => task.fmt(f),
            Self::Product(product) => product.fmt(f),
            Self::Grouped(groups) => groups.fmt(f),
            Self::Sustained(task) => task.fmt(f),
            Self::Pass(task) => task.fmt(f),
            Self::Transfer(task) => task.fmt(f),
            Self::ZeroCopy(task) => task.fmt(f),
            Self::Storage(task) => task.fmt(f),
            Self::Allocation(task) => task.fmt(f),
            Self::Beside(task) => task.fmt(f),
            Self::PeerCopy(task) => task.fmt(f),
            Self::Collective(task) => task.fmt(f),
            Self::SendReceive(task) => task.fmt(f),
            Self::Operator(task) => task.fmt(f),
            Self::Backward(task) => task.fmt(f),
            Self::Update(task) => task.fmt(f),
            Self::Tensor(task) => task.fmt(f),
            Self::Kernel(task) => task.fmt(f),
            Self::Attention(attention) => attention.fmt(f),
        }
    }
}

/// Tasks in words.
macro_rules! in_words {
    ($($kind:ident as $task:ident => $words:expr;)+) => {
        $(impl fmt::Display for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let $task = self;
                f.write_str(&$words)
            }
        })+
    };
}

/// Words as files have them.
macro_rules! worded {
    ($($kind:ident { $($word:ident = $text:literal),+ $(,)? })+) => {
        $(impl fmt::Display for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$word => $text),+ })
            }
        })+
    };
}
use {in_words, worded};
