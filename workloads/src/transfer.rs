//! Transfers of storages between tiers of memory, and the table of decisions: where each storage is between its uses, and who
//! decided so. Techniques fill the table; realisers turn it into operations ([`crate::passes`]). A storage that is not in it is kept.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::graph::{OpGraph, OpId, StorageId};

pub use crate::graph::tier::{Medium, Tier};

/// Place of offloaded tensors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outside {
    /// In host memory.
    #[default]
    Host,
    /// On drives.
    Drives,
}

/// Start of the copy of a tensor that leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "StoreWhen")]
pub enum Store {
    /// At the end of the operator that fills it (SSDTrain).
    #[default]
    Produced,
    /// After its last use in the forward pass (vDNN).
    LastUse,
}

/// Storages of a stage that are in another tier between their uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The storages, at least one, which are copied one after the other.
    pub storages: Vec<StorageId>,
    /// Where they are used.
    pub from: Tier,
    /// Where they are meanwhile.
    pub to: Tier,
    /// Micro-batches that leave, and their times.
    pub trips: Trips,
}

impl Transfer {
    /// A storage that every micro-batch has in a medium beside its stage for a while.
    pub fn out(stage: u32, storage: StorageId, medium: Medium, stay: Stay) -> Self {
        let (from, to) = (Tier::hbm(stage), Tier { owner: stage, medium });
        Self { storages: vec![storage], from, to, trips: Trips::Every(stay) }
    }
}

/// Trips of the storages of a [`Transfer`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trips {
    /// Every micro-batch makes one; copies wait where a memory is full.
    Every(Stay),
    /// Some micro-batches make one each; copies wait where a number of micro-batches is reached.
    Listed(Listed),
}

/// A stay in another tier between operators of both passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stay {
    /// The copy out follows this operator of the forward pass: the one that fills it, or a later
    /// one.
    pub copied_after: OpId,
    /// Bytes are given back after the copy out and this operator of the forward pass.
    pub freed_after: OpId,
    /// Operator behind which the GPU waits for the end of the copy out. `None`: it does not wait.
    pub gone_after: Option<OpId>,
    /// Moment in which the copy back is asked for.
    pub asked: Asked,
    /// First operator that needs it back.
    pub needed_by: OpId,
    /// Forwarding: a storage that is asked for before its copy has ended stays.
    pub forwarded: bool,
}

/// The moment in which a copy back is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// The GPU comes to an operator of the backward pass.
    Before(OpId),
    /// The host issues one, from then on that the GPU has begun the backward pass.
    Issued(OpId),
}

impl Asked {
    /// The operator.
    pub const fn op(self) -> OpId {
        let (Self::Before(op) | Self::Issued(op)) = self;
        op
    }
}

/// Trips of some micro-batches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Trips, ascending; they leave and return in this order.
    pub trips: Vec<Trip>,
    /// Most micro-batches resident at home.
    pub bound: u32,
    /// Most micro-batches in the other tier, one in transit included.
    pub away: u32,
}

/// The stay of one micro-batch in another tier. Visits are positions in the order of the home
/// stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trip {
    /// The micro-batch of the step.
    pub micro_batch: u32,
    /// The copy out follows this visit.
    pub copied_after: u32,
    /// The copy back is asked for after this visit.
    pub asked_after: u32,
    /// Visit that needs it back.
    pub needed_by: u32,
}

/// Table of what all storages do between their uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dispositions {
    /// By storage that leaves, the technique that decided so, and the first storage of its transfer.
    decided: BTreeMap<StorageId, (&'static str, StorageId)>,
    /// By first storage.
    transfers: BTreeMap<StorageId, Transfer>,
}

/// Two techniques decided about one storage.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "`{first}` and `{second}` both decide where the {storage} is: remove one of the two, or apply them to different stages"
)]
pub struct Conflict {
    /// Who decided first.
    pub first: &'static str,
    /// Who came second.
    pub second: &'static str,
    /// The storage in words.
    pub storage: String,
}

impl Dispositions {
    /// True if a storage leaves.
    pub fn leaves(&self, storage: StorageId) -> bool {
        self.decided.contains_key(&storage)
    }

    /// Records a transfer that `technique` decided.
    ///
    /// # Errors
    /// If one of its storages leaves already.
    pub fn transfer(
        &mut self,
        technique: &'static str,
        graph: &OpGraph,
        transfer: Transfer,
    ) -> Result<(), Conflict> {
        let first_storage = transfer.storages[0];
        for &storage in &transfer.storages {
            if let Some(&(first, _)) = self.decided.get(&storage) {
                return Err(Conflict { first, second: technique, storage: graph.describe(storage) });
            }
            self.decided.insert(storage, (technique, first_storage));
        }
        self.transfers.insert(first_storage, transfer);
        Ok(())
    }

    /// All transfers, by their first storages.
    pub fn transfers(&self) -> impl Iterator<Item = &Transfer> {
        self.transfers.values()
    }

    /// Transfers between the memories of GPUs.
    pub fn between_gpus(&self) -> impl Iterator<Item = &Transfer> {
        self.transfers().filter(|transfer| transfer.to.is_hbm())
    }

    /// Storages that every micro-batch has outside the memory of GPUs, with their transfers.
    pub fn offloads(&self) -> impl Iterator<Item = (StorageId, &Transfer, &Stay)> {
        let offloads = self.transfers().filter_map(|transfer| match &transfer.trips {
            Trips::Every(stay) if !transfer.to.is_hbm() => Some((transfer, stay)),
            _ => None,
        });
        offloads.flat_map(|(transfer, stay)| transfer.storages.iter().map(move |&it| (it, transfer, stay)))
    }

    /// True if storages leave the memories of GPUs.
    pub fn leave_gpus(&self) -> bool {
        self.transfers().any(|transfer| !transfer.to.is_hbm())
    }

    /// Sends the transfer of a storage to another medium.
    pub(crate) fn redirect(&mut self, storage: StorageId, medium: Medium) {
        if let Some((_, first)) = self.decided.get(&storage)
            && let Some(transfer) = self.transfers.get_mut(first)
        {
            transfer.to.medium = medium;
        }
    }

    /// Sends transfers to where they go in another table of the same decisions.
    pub(crate) fn redirect_as(&mut self, other: &Self) {
        for (first, transfer) in &other.transfers {
            self.redirect(*first, transfer.to.medium);
        }
    }
}
