//! Dispositions: where each storage is between its uses, and who decided so. Techniques fill this table; one realiser
//! per kind of disposition turns it into operations ([`crate::realise`]). What is not in it is kept.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::graph::{OpGraph, OpId, StorageId};

/// What happens to a storage between its uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// It is dropped after the forward pass and produced again by this operator.
    Recompute(OpId),
    /// Some micro-batches of it stay in the memory of another stage for a while.
    Move {
        /// That stage.
        to: u32,
        /// Which and when, by ascending micro-batch; trips leave and return in this order.
        trips: Vec<Trip>,
        /// Most micro-batches resident at home.
        bound: u32,
        /// Most micro-batches at the partner, one in transit included.
        away: u32,
    },
}

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

    /// All that was decided, by storage.
    pub fn iter(&self) -> impl Iterator<Item = (StorageId, &Disposition)> {
        self.decided.iter().map(|(&storage, (_, disposition))| (storage, disposition))
    }
}
