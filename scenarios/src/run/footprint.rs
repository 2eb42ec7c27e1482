//! `memory.footprint_ratio`: GPUs with a part of the memory that a plan needs at its peak, by its allocator, when nothing is away.

use reports::quantity;
use workloads::plan::Built;

use super::allocation::Verdict;
use super::failure;
use super::one::{Prepared, Simulation, Unbuilt, prepare};
use crate::schema::{Scenario, Share};

/// What a plan needs, and how many times as much as its GPUs have that shall be.
pub(super) struct Footprint {
    /// Bytes of the GPU that needs most.
    needed: u64,
    ratio: f64,
}

impl Footprint {
    /// That of a scenario; `None`: it asks for none.
    pub(super) fn of(scenario: &Scenario) -> Result<Option<Self>, Unbuilt> {
        let Some(ratio) = scenario.memory.footprint_ratio.map(Share::as_f64) else { return Ok(None) };
        let mut plain = scenario.clone();
        plain.techniques = plain.techniques.with_activations_on_gpus();
        (plain.memory.footprint_ratio, plain.run.noise) = (None, None);
        let Prepared { built, verdict, .. } = prepare(&plain)?;
        if let Verdict::Stores(reason) = &verdict {
            let reason = reason.as_deref().unwrap_or("its stages are profiles");
            let message = format!("what it needs without `memory.footprint_ratio` is not known: {reason}");
            return Err(Unbuilt::Reported(Box::new(failure::infeasible(message))));
        }
        let simulation = Simulation::of(&plain, &built, 0);
        let needed = verdict.used(&simulation).map_err(Unbuilt::Broken)?.iter().map(|used| used.needed).max();
        Ok(Some(Self { needed: needed.unwrap_or(0), ratio }))
    }

    /// Bytes that a GPU shall have.
    pub(super) fn limit(&self) -> u64 {
        (self.needed as f64 / self.ratio) as u64
    }

    /// A note where GPUs have even less.
    pub(super) fn note(&self, built: &Built) -> Option<String> {
        let capacity = built.memory.iter().map(|memory| memory.capacity).min()?;
        let Self { needed, ratio: asked } = *self;
        (capacity < self.limit()).then(|| {
            format!(
                "`memory.footprint_ratio: {asked}` leaves a GPU {}, but it has only {}: the ratio is {:.3}",
                quantity::bytes(self.limit()),
                quantity::bytes(capacity),
                needed as f64 / capacity as f64
            )
        })
    }
}
