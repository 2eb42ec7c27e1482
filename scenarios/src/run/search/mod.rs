//! The best plan of a space, proven: bounds first, simulation last.
//!
//! ```text
//! group  plans with the same work of a micro-batch   bound: 0, until the work of one is sketched
//! rough  a plan of such a group                      bound: by its work, stages and micro-batches
//! fine   a plan whose operators are priced           bound: its floor (workloads::plan::Floor)
//! ```
//!
//! Open plans are taken in the order of their bounds and told more finely, at last by a simulation.
//! The search ends when no bound is below the best plan by more than the gap: then nothing that is
//! left can be. With several objectives no bound is below a plan of the front in all of them.
//! Nothing hangs on how many threads there are: a round takes a fixed number of plans.

mod alternatives;
mod best;
mod boundary;
mod extreme;
mod goal;
mod group;
mod hunt;
mod open;
mod rules;
mod sensitivity;
mod space;
mod tally;

use reports::summary::{RunSummary, SearchProof};

use super::journal::Simulations;
use super::{Done, Options, Progress, Refusal, Shard};
use crate::experiment::{Experiment, Search};

use extreme::Quest;
use hunt::Hunt;
use space::Space;

pub(super) use space::Told;

/// The best plans of a space, the best first, and the proof, where a quantity is asked for with the
/// last value of it that fits. Where none fits, the one that lacks least.
///
/// # Errors
/// A mistake in foretrain.
pub(super) fn best(
    experiment: &Experiment,
    search: &Search,
    variants: &[&str],
    options: &Options,
    simulations: &Simulations<'_>,
    progress: &dyn Progress,
) -> Result<(Vec<RunSummary>, SearchProof), Refusal> {
    if let Some(extreme) = &search.extreme {
        let quest = Quest::new(experiment, search, variants, options, (simulations, progress));
        return quest.last(extreme.wanted);
    }
    let space = Space::new(experiment, search, variants, (simulations, Shard::WHOLE));
    let mut hunt = Hunt::new(&space, options, progress);
    hunt.whole()?;
    let settings = &search.settings;
    let asks = settings.alternatives && !settings.minimise.is_front() && !space.is_closed();
    let best = hunt.best_run().filter(|_| asks);
    let Some((place, best)) = best else { return hunt.end() };
    let alternatives = alternatives::alternatives(&mut hunt, (place, &best))?;
    let sensitivity = sensitivity::sensitivity(&hunt)?;
    let (runs, proof) = hunt.end()?;
    Ok((runs, SearchProof { alternatives, sensitivity, ..proof }))
}

/// Searches the groups of a shard to the end, for the outcomes of their simulations.
///
/// # Errors
/// A mistake in foretrain.
pub(super) fn work(
    experiment: &Experiment,
    search: &Search,
    variants: &[&str],
    (options, shard): (&Options, Shard),
    simulations: &Simulations<'_>,
    progress: &dyn Progress,
) -> Result<Done, Refusal> {
    let space = Space::new(experiment, search, variants, (simulations, shard));
    let mut hunt = Hunt::new(&space, options, progress);
    hunt.whole()?;
    let of = space.plans();
    Ok(Done { done: of - hunt.left(), of })
}
