//! What is timed of a GPU: launches, kernels, copies, allocations, and all that beside each other.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Access, Pattern};
use super::{in_words, worded};
use hw_models::kernels::{Dtype, Gemm};

/// Kernels that do nothing, launched one after the other; timed on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Launch {
    /// Arguments of 8 bytes: 1, 4 or 16.
    pub arguments: u32,
    /// The host waits for each to end.
    pub waited: bool,
}

/// Kernels that turn for a while, one after the other without a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spin {
    /// How long each turns (clocks of an SM).
    pub clocks: u32,
    /// They are nodes of a graph, not launched one by one.
    pub graph: bool,
}

/// A chain of kernels that do nothing; timed on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Graph {
    /// How many.
    pub nodes: u32,
    /// What is timed of it.
    pub step: Step,
}

/// What is done to a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// It is made executable.
    Instantiate,
    /// It is launched; the host does not wait for its end.
    Launch,
}

/// Work that is executed without end: a board warms up, and what it draws tells what the work costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sustained {
    /// The work.
    pub work: Work,
    /// What is multiplied: the power that a board draws depends on it.
    pub data: Data,
    /// When it is timed.
    pub phase: Phase,
}

/// What operands hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Data {
    /// Random numbers between -1 and 1.
    Random,
    /// Zeros.
    Zeros,
}

/// Parts of a long load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Its first 50 ms, after a rest.
    Begun,
    /// After four seconds of it.
    Held,
}

/// A pass over arrays in memory of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryPass {
    /// What is done to every element.
    pub pattern: Pattern,
    /// Type of the elements.
    pub dtype: Dtype,
    /// Of each array (bytes).
    pub bytes: u64,
    /// The same arrays again and again, rather than others that the cache does not hold.
    pub again: bool,
}

/// A copy between host and GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transfer {
    /// Which way.
    pub direction: Direction,
    /// Memory of the host.
    pub host: HostSide,
    /// The host waits for each to end.
    pub waited: bool,
    /// Streams of copies each way, of which one execution is a copy on each of one way; 0 where one stream has the link for itself.
    pub against: u32,
    /// Its size (bytes).
    pub bytes: u64,
}

/// Ways between host and GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// From the host to the GPU.
    ToDevice,
    /// From the GPU to the host.
    ToHost,
}

/// Memory of a host, as a GPU sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostSide {
    /// Page-locked: the GPU reads and writes it by itself.
    Pinned,
    /// Ordinary: the driver copies it through memory of its own.
    Pageable,
}

/// Rows at random places of pinned memory of the host, each by threads of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZeroCopy {
    /// What is done to them.
    pub access: Access,
    /// Size of a row (bytes), a multiple of 32.
    pub row: u64,
    /// Rows begin at lines of 128 bytes, rather than at any sector of 32.
    pub aligned: bool,
    /// The table they are in (bytes).
    pub bytes: u64,
    /// What the link to the host carries in one direction, its packets' overhead included (MB/s): known, not measured.
    pub link: u64,
}

/// Blocks of a file, one after the other, between a drive and memory of a GPU (cuFile of GPUDirect Storage): no buffer of the
/// host is on the way, unless the driver of the drive knows no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Storage {
    /// What is done to them.
    pub access: Access,
    /// Their size (bytes).
    pub block: u64,
}

/// Memory that is allocated and given back at once; timed on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allocation {
    /// Which memory.
    pub memory: Allocated,
    /// How much (bytes).
    pub bytes: u64,
}

/// Kinds of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Allocated {
    /// Of the GPU (`cuMemAlloc`).
    Device,
    /// Of the GPU, from the driver's pool and in the order of a stream (`cuMemAllocAsync`).
    Pool,
    /// Of the host, page-locked (`cuMemHostAlloc`).
    Pinned,
}

/// Work that is timed while other work goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Beside {
    /// What is timed.
    pub timed: Work,
    /// What goes on meanwhile.
    pub meanwhile: Work,
}

/// Work of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// Matrix products.
    Product(Gemm),
    /// Copies within its memory (bytes of an array).
    Pass(u64),
    /// Copies from pinned memory of the host (bytes).
    ToDevice(u64),
    /// Copies to pinned memory of the host (bytes).
    ToHost(u64),
    /// So many blocks that hold an SM each and do nothing, as a collective's do while they wait.
    Hold(u32),
    /// None.
    Nothing,
}

impl Work {
    /// The product that fills all SMs, which is square; none of other shapes and other work.
    pub fn square(&self) -> Option<&Gemm> {
        match self {
            Self::Product(product) if product.m == product.n => Some(product),
            _ => None,
        }
    }

    /// Bytes that one execution moves: an array that is written counts once.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Product(product) => product.bytes(),
            Self::Pass(bytes) => Pattern::Copy.arrays().saturating_mul(*bytes),
            Self::ToDevice(bytes) | Self::ToHost(bytes) => *bytes,
            Self::Hold(_) | Self::Nothing => 0,
        }
    }
}

impl ZeroCopy {
    /// Requests that a row is split into where its first sector is so many bytes into a line (bytes each): memory of the host
    /// is read by lines of 128 bytes, of which only the sectors asked for cross the link.
    pub fn requests(&self, offset: u64) -> impl Iterator<Item = u64> {
        let (mut at, end) = (offset, offset + self.row);
        std::iter::from_fn(move || {
            let next = (at / LINE + 1).saturating_mul(LINE).min(end);
            let length = next.saturating_sub(at);
            at = next;
            (length > 0).then_some(length)
        })
    }

    /// Where rows may begin in a line (bytes).
    pub fn offsets(&self) -> impl Iterator<Item = u64> + use<> {
        let last = if self.aligned { 0 } else { LINE - SECTOR };
        (0..=last).step_by(SECTOR as usize)
    }
}

/// Bytes of a line, and of a sector of it.
const LINE: u64 = 128;
const SECTOR: u64 = 32;

in_words! {
    Launch as task => format!("launch with {} arguments{}", task.arguments, waited(task.waited));
    Spin as task => {
        let from = if task.graph { "graph" } else { "stream" };
        format!("kernels of {} clocks in a {from}", task.clocks)
    };
    Graph as task => format!("{} of a graph of {} kernels", task.step, task.nodes);
    Sustained as task => format!("{} of {}, {}", task.work, task.data, task.phase);
    MemoryPass as task => {
        let again = if task.again { ", again and again" } else { "" };
        format!("{} of {} B of {}{again}", task.pattern, task.bytes, task.dtype)
    };
    Transfer as task => {
        let Transfer { direction, host, bytes, .. } = task;
        let against = match task.against {
            0 => String::new(),
            streams => format!(", by {streams} streams against as many"),
        };
        format!("copy of {bytes} B {direction}, {host}{}{against}", waited(task.waited))
    };
    ZeroCopy as task => {
        let ZeroCopy { access, row, bytes, link, .. } = task;
        let aligned = if task.aligned { "aligned" } else { "unaligned" };
        format!("zero-copy {access} of {aligned} rows of {row} B in {bytes} B over {link} MB/s")
    };
    Storage as task => {
        let Storage { access, block } = task;
        format!("cuFile {access} of blocks of {block} B")
    };
    Allocation as task => format!("allocation of {} B of {} memory", task.bytes, task.memory);
    Beside as task => format!("{} beside {}", task.timed, task.meanwhile);
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Product(product) => product.fmt(f),
            Self::Pass(bytes) => write!(f, "copies of {bytes} B"),
            Self::ToDevice(bytes) => write!(f, "copies of {bytes} B to the device"),
            Self::ToHost(bytes) => write!(f, "copies of {bytes} B to the host"),
            Self::Hold(blocks) => write!(f, "{blocks} blocks that hold an SM each"),
            Self::Nothing => f.write_str("nothing"),
        }
    }
}

fn waited(waited: bool) -> &'static str {
    if waited { ", each waited for" } else { "" }
}

worded! {
    Step { Instantiate = "instantiation", Launch = "launch" }
    Data { Random = "random numbers", Zeros = "zeros" }
    Phase { Begun = "after a rest", Held = "after four seconds" }
    Direction { ToDevice = "to the device", ToHost = "to the host" }
    HostSide { Pinned = "pinned", Pageable = "pageable" }
    Allocated { Device = "device", Pool = "pooled device", Pinned = "pinned" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_crosses_the_link_by_the_lines_it_touches() {
        let row = |row| ZeroCopy { access: Access::Read, row, aligned: false, bytes: 1 << 20, link: 1 };
        let of = |bytes, offset| row(bytes).requests(offset).collect::<Vec<_>>();
        assert_eq!(of(256, 0), [128, 128]);
        assert_eq!(of(256, 32), [96, 128, 32]);
        assert_eq!(of(32, 96), [32]);
        assert_eq!(of(64, 96), [32, 32]);
        assert_eq!(row(32).offsets().collect::<Vec<_>>(), [0, 32, 64, 96]);
    }
}
