//! Observation of a run from outside. It costs nothing when absent; runs are pure, so a timeline is a second run with a
//! recorder.

use crate::fixed::Rate;
use crate::id::{FluidId, KindId, StoreId};
use crate::outcome::Place;
use crate::program::Op;
use crate::time::Time;

/// What an observer looks at. The engine does not work out the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Look {
    /// Nothing.
    Nothing,
    /// Operations that took time; segments report their inside when they end.
    Spans,
    /// These, and curves of stores and fluids as they change: segments stay open.
    Curves,
}

/// Receives what happens. Every method does nothing by default.
pub trait Observer {
    /// What is reported.
    fn look(&self) -> Look {
        Look::Curves
    }

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
    fn look(&self) -> Look {
        Look::Nothing
    }
}

/// Several observers of one run, which looks at the most that one of them looks at. None sees fluids.
pub struct Several<'a>(pub Vec<&'a mut dyn Observer>);

impl Observer for Several<'_> {
    fn look(&self) -> Look {
        self.0.iter().map(|observer| observer.look()).max().unwrap_or(Look::Nothing)
    }

    fn span(&mut self, place: Place, op: &Op, start: Time, ready: Time, end: Time) {
        self.0.iter_mut().for_each(|observer| observer.span(place, op, start, ready, end));
    }

    fn store(&mut self, now: Time, store: StoreId, kind: KindId, held: u64) {
        self.0.iter_mut().for_each(|observer| observer.store(now, store, kind, held));
    }
}

/// An observer as the engine is compiled for it. There are three engines, however many observers there are.
pub(crate) trait Watch {
    const SPANS: bool;
    const CURVES: bool;

    fn observer(&mut self) -> &mut dyn Observer;
}

/// Watches spans.
pub(crate) struct Spans<'a>(pub(crate) &'a mut dyn Observer);

/// Watches spans and curves.
pub(crate) struct Curves<'a>(pub(crate) &'a mut dyn Observer);

impl Watch for Unobserved {
    const SPANS: bool = false;
    const CURVES: bool = false;

    fn observer(&mut self) -> &mut dyn Observer {
        self
    }
}

impl Watch for Spans<'_> {
    const SPANS: bool = true;
    const CURVES: bool = false;

    fn observer(&mut self) -> &mut dyn Observer {
        self.0
    }
}

impl Watch for Curves<'_> {
    const SPANS: bool = true;
    const CURVES: bool = true;

    fn observer(&mut self) -> &mut dyn Observer {
        self.0
    }
}
