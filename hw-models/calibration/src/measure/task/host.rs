//! What is timed of a host: its memory and its drive.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{in_words, worded};

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
    /// `a[i] = s b[i]`
    Scale,
    /// `a[i] = b[i] + c[i]`
    Add,
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
    /// The memory they go to, or come from.
    #[serde(default, skip_serializing_if = "Pages::are_small")]
    pub pages: Pages,
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

/// Pieces that memory is in. A drive is told of every piece of a block: with small ones, each of them anywhere, a virtual drive
/// that gave 2.5 GB/s to huge ones gave 0.9.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pages {
    /// Of 4 KiB: what a process has that asks for nothing else.
    #[default]
    Small,
    /// Of 2 MiB.
    Huge,
}

impl Pages {
    /// Whether they are what memory is in where nothing is said of it.
    fn are_small(&self) -> bool {
        *self == Self::Small
    }
}

impl Pattern {
    /// Arrays it goes through.
    pub const fn arrays(self) -> u64 {
        match self {
            Self::Write | Self::Read => 1,
            Self::Copy | Self::Scale => 2,
            Self::Add | Self::Triad => 3,
        }
    }
}

in_words! {
    HostMemory as task => {
        let HostMemory { pattern, threads, bytes } = task;
        format!("memory {pattern} of {bytes} B by {threads} threads")
    };
    Gather as task => {
        let Gather { row, threads, bytes } = task;
        format!("gather rows of {row} B from {bytes} B by {threads} threads")
    };
    Disk as task => {
        let Disk { access, route, random, block, depth, pages } = task;
        let order = if *random { "random" } else { "sequential" };
        let huge = if pages.are_small() { "" } else { ", in huge pages" };
        format!("{route} {access} of {order} blocks of {block} B, {depth} in flight{huge}")
    };
}

worded! {
    Pattern { Write = "write", Read = "read", Copy = "copy", Scale = "scale", Add = "add", Triad = "triad" }
    Access { Read = "read", Write = "write" }
    Route { Direct = "direct", Cold = "cold", Cached = "cached" }
    Pages { Small = "small", Huge = "huge" }
}
