//! Transfers of storages between tiers of memory, and the table of decisions: where each storage is between its uses, and who
//! decided so. Techniques fill the table; realisers turn it into operations ([`crate::passes`]). A storage that is not in it is kept.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::graph::{OpGraph, OpId, StorageId};

pub use crate::graph::tier::{Medium, Tier};

/// Where something is that is away from the GPUs.
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

/// What happens to a storage between its uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// Some micro-batches of it stay in the memory of another stage for a while.
    Move(MoveId),
    /// It is in host memory, or on drives, between the passes.
    Offload(Offload),
}

/// When a storage is away from the GPU, in every micro-batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offload {
    /// Where it is meanwhile.
    pub to: Medium,
    /// It is copied out when this operator of the forward pass has ended: the one that fills it, or a later one.
    pub copied_after: OpId,
    /// Its bytes are given back when it is copied and this operator of the forward pass has ended.
    pub leaves_after: OpId,
    /// It is asked for before this operator of the backward pass.
    pub asked_before: OpId,
    /// This operator is the first that needs it back.
    pub needed_by: OpId,
    /// If it is asked for before its copy has ended it stays, rather than leave and come back.
    pub forwarded: bool,
}

/// Trips that the storages of a stage make together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// The stage.
    pub from: u32,
    /// Where they go.
    pub to: u32,
    /// Which micro-batches and when, ascending; trips leave and return in this order.
    pub trips: Vec<Trip>,
    /// Most micro-batches resident at home.
    pub bound: u32,
    /// Most micro-batches at the partner, one in transit included.
    pub away: u32,
}

/// An entry of [`Dispositions::moves`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoveId(u32);

/// The stay of one micro-batch at a partner. Visits are positions in the order of the home stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trip {
    /// The micro-batch of the step.
    pub micro_batch: u32,
    /// It leaves when this visit has ended.
    pub out_after: u32,
    /// It is fetched when this visit has ended.
    pub back_after: u32,
    /// This visit needs it.
    pub needed_by: u32,
}

/// The dispositions of all storages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dispositions {
    decided: BTreeMap<StorageId, (&'static str, Disposition)>,
    moves: Vec<Move>,
}

/// Two techniques decided about one storage.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{first}` and `{second}` both decide where the {storage} is: {remedy}")]
pub struct Conflict {
    /// Who decided first.
    pub first: &'static str,
    /// Who came second.
    pub second: &'static str,
    /// The storage in words.
    pub storage: String,
    /// How to mend it.
    pub remedy: &'static str,
}

impl Dispositions {
    /// Records what `technique` decided.
    ///
    /// # Errors
    /// If the storage has a disposition already.
    pub fn decide(
        &mut self,
        technique: &'static str,
        graph: &OpGraph,
        storage: StorageId,
        disposition: Disposition,
    ) -> Result<(), Conflict> {
        if let Some(&(first, _)) = self.decided.get(&storage) {
            let remedy = "let recomputation keep some bytes (`keeps`), which can then be moved, or apply the two to \
                          different stages";
            let storage = graph.describe(storage);
            return Err(Conflict { first, second: technique, storage, remedy });
        }
        self.decided.insert(storage, (technique, disposition));
        Ok(())
    }

    /// The disposition of a storage, if it is not simply kept.
    pub fn get(&self, storage: StorageId) -> Option<&Disposition> {
        self.decided.get(&storage).map(|(_, disposition)| disposition)
    }

    /// All storages that are away between the passes.
    pub fn offloads(&self) -> impl Iterator<Item = (StorageId, &Offload)> {
        self.decided.iter().filter_map(|(&storage, (_, disposition))| match disposition {
            Disposition::Offload(offload) => Some((storage, offload)),
            _ => None,
        })
    }

    /// Sends a storage that is offloaded to another medium.
    pub(crate) fn redirect(&mut self, storage: StorageId, medium: Medium) {
        if let Some((_, Disposition::Offload(offload))) = self.decided.get_mut(&storage) {
            offload.to = medium;
        }
    }

    /// Adds trips, for the [`Disposition::Move`] of the storages that make them.
    pub fn plan_move(&mut self, planned: Move) -> MoveId {
        self.moves.push(planned);
        MoveId(self.moves.len() as u32 - 1)
    }

    /// Sends storages to where they are in another table of the same decisions.
    pub(crate) fn redirect_as(&mut self, other: &Self) {
        other.offloads().for_each(|(storage, offload)| self.redirect(storage, offload.to));
    }

    /// All trips, each with the storages that make them.
    pub fn moves(&self) -> impl Iterator<Item = (&Move, Vec<StorageId>)> {
        (0u32..).zip(&self.moves).map(|(id, planned)| {
            let moved = |disposition: &Disposition| *disposition == Disposition::Move(MoveId(id));
            let storages = self.decided.iter().filter(|(_, (_, disposition))| moved(disposition));
            (planned, storages.map(|(&storage, _)| storage).collect())
        })
    }
}
