//! What is timed: one point of a probe, as data.

use std::fmt;

use serde::{Deserialize, Serialize};

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
}

/// Threads that stream through arrays in memory of the host, each through a part of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostMemory {
    /// What they do.
    pub pattern: Pattern,
    /// How many.
    pub threads: u32,
    /// Of each array (bytes).
    pub bytes: u64,
}

/// What is done to every element of arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// `a[i] = s`
    Write,
    /// `s += a[i]`
    Read,
    /// `a[i] = b[i]`
    Copy,
    /// `a[i] = b[i] + s c[i]`
    Triad,
}

/// Threads that copy rows from random places of one array to arrays of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gather {
    /// Size of a row (bytes).
    pub row: u64,
    /// How many threads.
    pub threads: u32,
    /// What they copy from (bytes).
    pub bytes: u64,
}

/// Blocks of a file, so many in flight at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    /// What is done to them.
    pub access: Access,
    /// By which way.
    pub route: Route,
    /// At random places rather than one after the other.
    pub random: bool,
    /// Their size (bytes).
    pub block: u64,
    /// How many are in flight.
    pub depth: u32,
}

/// What is done to blocks of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// From the drive.
    Read,
    /// To the drive.
    Write,
}

/// Ways between a process and a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Route {
    /// Past the page cache (`O_DIRECT`).
    Direct,
    /// Through the page cache, which holds nothing of the file.
    Cold,
    /// Through the page cache, which holds all of the file.
    Cached,
}

impl Task {
    /// Bytes that one execution moves: an array that is written counts once, though a cache may read it first.
    pub const fn bytes(&self) -> u64 {
        match *self {
            Self::HostMemory(HostMemory { pattern, bytes, .. }) => pattern.arrays().saturating_mul(bytes),
            Self::Gather(Gather { row, .. }) => row,
            Self::Disk(Disk { block, .. }) | Self::Flush { block } => block,
        }
    }

    /// Bytes that one execution writes to a drive.
    pub const fn written(&self) -> u64 {
        match *self {
            Self::Disk(Disk { access: Access::Write, block, .. }) | Self::Flush { block } => block,
            _ => 0,
        }
    }
}

impl Pattern {
    /// Arrays it goes through.
    pub const fn arrays(self) -> u64 {
        match self {
            Self::Write | Self::Read => 1,
            Self::Copy => 2,
            Self::Triad => 3,
        }
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HostMemory(HostMemory { pattern, threads, bytes }) => {
                write!(f, "memory {pattern} of {bytes} B by {threads} threads")
            }
            Self::Gather(Gather { row, threads, bytes }) => {
                write!(f, "gather rows of {row} B from {bytes} B by {threads} threads")
            }
            Self::Disk(Disk { access, route, random, block, depth }) => {
                let order = if *random { "random" } else { "sequential" };
                write!(f, "{route} {access} of {order} blocks of {block} B, {depth} in flight")
            }
            Self::Flush { block } => write!(f, "flush of a block of {block} B"),
        }
    }
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

worded! {
    Pattern { Write = "write", Read = "read", Copy = "copy", Triad = "triad" }
    Access { Read = "read", Write = "write" }
    Route { Direct = "direct", Cold = "cold", Cached = "cached" }
}
