//! What a run moved: communication by kind, and what each link carried.

use serde::{Deserialize, Serialize};

use super::LinkKind;

/// One kind of communication of a run, in a step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CommunicationUse {
    /// What it is ("tensor all-reduce", "pipeline message").
    pub kind: String,
    /// Bytes that a rank sends, or has sent back, mean over those that take part.
    pub bytes: u64,
    /// Time in which a rank does nothing but wait for it, mean over all ranks; what is hidden behind work is not in it.
    #[serde(default = "crate::json::nan")]
    pub exposed_s: f64,
    /// How often a rank does it, mean over those that take part.
    pub count: u64,
}

/// What one direction of a link carried in a step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkUse {
    /// Its name (`node[0].nic[1] -> fabric.leaf[0]`).
    pub name: String,
    /// What it is made of.
    pub kind: LinkKind,
    /// Bytes carried.
    pub bytes: u64,
    /// Share of what it could have carried, 0 to 1.
    #[serde(default = "crate::json::nan")]
    pub utilisation: f64,
}
