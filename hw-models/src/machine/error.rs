//! What can be wrong with the description of a machine.

use crate::catalogue::UnknownEntry;

use super::{GPUS_MAX, SetError};

/// Why a machine cannot be built.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MachineError {
    /// A name that the catalogue does not have.
    #[error(transparent)]
    Unknown(#[from] UnknownEntry),
    /// A name that no part of the machine has.
    #[error(transparent)]
    UnknownPart(#[from] UnknownPart),
    /// A part that cannot be changed as asked.
    #[error(transparent)]
    Set(#[from] SetError),
    /// No node at all.
    #[error("a cluster has at least one node: set `count` to 1 or more")]
    NoNodes,
    /// No GPU at all.
    #[error("{machine} has no GPU: give it at least one")]
    NoGpus {
        /// The node or the parts.
        machine: String,
    },
    /// Too large.
    #[error("{gpus} GPUs are more than the {GPUS_MAX} a machine may have: lower `count`")]
    TooManyGpus {
        /// GPUs asked for.
        gpus: u64,
    },
    /// Too many parts in one node, or spelled out.
    #[error(
        "{parts} parts or links are more than the {limit} a node may have: use a cluster of several nodes"
    )]
    TooManyParts {
        /// Parts asked for.
        parts: u64,
        /// The most.
        limit: usize,
    },
    /// Nodes that nothing joins.
    #[error(
        "{count} nodes `{node}` need network interfaces, and it has none: take a node with some, or `count: 1`"
    )]
    NoNics {
        /// The node.
        node: String,
        /// How many of it.
        count: u32,
    },
    /// Nodes without a fabric.
    #[error("{count} nodes `{node}` need a `fabric`, and it has no usual one: name one of the catalogue")]
    NoFabric {
        /// The node.
        node: String,
        /// How many of it.
        count: u32,
    },
    /// A device without a model.
    #[error(
        "node `{node}` has {count} {noun}s and does not say which: set `{noun}` to a name of the catalogue"
    )]
    NoModel {
        /// The node.
        node: String,
        /// `nic` or `ssd`.
        noun: &'static str,
        /// How many.
        count: u32,
    },
    /// Sockets that nothing joins.
    #[error("node `{node}` has several sockets and no `socket_link`: name its link class")]
    NoSocketLink {
        /// The node.
        node: String,
    },
    /// A branch of the PCIe tree that hangs nowhere.
    #[error(
        "node `{node}` has a branch under `{under}`: write `socket[0]` to `socket[{last}]`, or `switch[i]` of an earlier branch"
    )]
    NoSuchRoot {
        /// The node.
        node: String,
        /// What it says.
        under: String,
        /// The last socket.
        last: u32,
    },
    /// A GPU wired with links it does not have.
    #[error(
        "{gpu} (`{model}`) has {has} NVLinks and is wired with {used}: take a GPU with more, or another node"
    )]
    NvLinks {
        /// Name of the part.
        gpu: String,
        /// Its model.
        model: String,
        /// Links it has.
        has: u32,
        /// Links the node asks for.
        used: u32,
    },
    /// NVLink pairs that make no sense.
    #[error("node `{node}` has the NVLink pair [{}, {}, {}]: write two different GPUs below {gpus} and at least one link", pair[0], pair[1], pair[2])]
    BadPair {
        /// The node.
        node: String,
        /// As written.
        pair: [u32; 3],
        /// GPUs of the node.
        gpus: usize,
    },
    /// Two parts of one name.
    #[error("two parts are called `{name}`: names are unique")]
    DuplicatePart {
        /// The name.
        name: String,
    },
    /// Two links between the same parts.
    #[error("`{a}` and `{b}` are linked twice: write one link with more lanes")]
    DuplicateLink {
        /// One end.
        a: String,
        /// The other.
        b: String,
    },
    /// A link that joins what cannot be joined.
    #[error("no link joins `{a}` and `{b}`: {remedy}")]
    BadLink {
        /// One end.
        a: String,
        /// The other.
        b: String,
        /// What can be.
        remedy: &'static str,
    },
    /// A number that no hardware has.
    #[error("`{name}` of {of} is {value}: {expected}")]
    BadConstant {
        /// Catalogue entry or part.
        of: String,
        /// Which number.
        name: &'static str,
        /// As written.
        value: f64,
        /// What it may be.
        expected: &'static str,
    },
    /// Two parts that `degrade` takes for neighbours.
    #[error("`{link}` is no link of this machine: write `FROM -> TO`{remedy}")]
    UnknownLink {
        /// As written.
        link: String,
        /// The neighbours of the first part.
        remedy: String,
    },
    /// A clock where there is none.
    #[error("`{part}` has no clock to slow: only GPUs have; slow its links with `rate`")]
    NoClock {
        /// The part.
        part: String,
    },
}

/// A name that no part has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the machine has no part `{name}`: {remedy}")]
pub struct UnknownPart {
    /// As written.
    pub name: String,
    /// The nearest name, or what there is.
    pub remedy: String,
}

/// Two parts that no path joins.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no path leads from `{from}` to `{to}`: link them, or what they hang on")]
pub struct NoRoute {
    /// Where it should begin.
    pub from: String,
    /// Where it should end.
    pub to: String,
}
