//! Observation of a run from outside. An observer is a generic parameter and costs nothing when absent; runs are pure,
//! so a timeline is a second run with a recorder.

use crate::fixed::Rate;
use crate::id::{FluidId, KindId, StoreId};
use crate::outcome::Place;
use crate::program::Op;
use crate::time::Time;

/// Receives what happens. Every method does nothing by default.
pub trait Observer {
    /// Whether spans are wanted; without, segments need not report their inside.
    const SPANS: bool = true;
    /// Whether curves of stores and fluids are wanted; with, segments stay open.
    const CURVES: bool = true;

    /// The fluids whose load is wanted, where curves are. None by default.
    fn fluids(&self) -> &[FluidId] {
        &[]
    }

    /// An operation that took or could take time (run, join, wait, acquire, hold, await) ended at `end`. Per stream in
    /// order; `ready` is when what it waited for was under way (the last arrival of a join, the departure of a message),
    /// else `end` of a pure wait or `start` of a run.
    fn span(&mut self, place: Place, op: &Op, start: Time, ready: Time, end: Time) {
        let _ = (place, op, start, ready, end);
    }

    /// A store holds `held` bytes of `kind` from `now` on.
    fn store(&mut self, now: Time, store: StoreId, kind: KindId, held: u64) {
        let _ = (now, store, kind, held);
    }

    /// One of the [`fluids`](Self::fluids) carries `load` from `now` on.
    fn fluid(&mut self, now: Time, fluid: FluidId, load: Rate) {
        let _ = (now, fluid, load);
    }
}

/// Observes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl Observer for Unobserved {
    const SPANS: bool = false;
    const CURVES: bool = false;
}
