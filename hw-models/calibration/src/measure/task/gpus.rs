//! What is timed of several GPUs of one machine: copies from one to another, and collectives.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{in_words, worded};
use hw_models::collectives::CollectiveKind;

/// Copies from a GPU to one that it reaches (`cuMemcpyPeerAsync`), one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeerCopy {
    /// Whether the other GPU copies as well.
    pub ways: Ways,
    /// Size of each (bytes).
    pub bytes: u64,
}

/// Ways between two GPUs that are busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ways {
    /// The one that is timed.
    One,
    /// Both.
    Both,
}

/// A collective of a communication library, of numbers in half precision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Collective {
    /// What is done.
    pub kind: CollectiveKind,
    /// GPUs that take part.
    pub ranks: u32,
    /// Size of the whole tensor (bytes), see [`Collective::bytes`](hw_models::collectives::Collective::bytes).
    pub bytes: u64,
}

/// A message from each GPU to the next one, around a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SendReceive {
    /// GPUs that take part.
    pub ranks: u32,
    /// Of each message (bytes).
    pub bytes: u64,
}

in_words! {
    PeerCopy as task => {
        let PeerCopy { ways, bytes } = task;
        format!("copy of {bytes} B to another GPU, {ways}")
    };
    Collective as task => {
        let Collective { kind, ranks, bytes } = task;
        format!("{kind} of {bytes} B by {ranks} GPUs")
    };
    SendReceive as task => {
        let SendReceive { ranks, bytes } = task;
        format!("messages of {bytes} B around {ranks} GPUs")
    };
}

worded! {
    Ways { One = "one way", Both = "which copies as well" }
}
