//! How the stages of a pipeline work together, whatever they compute.

use std::collections::BTreeSet;

use workloads::lanes::QUEUE;
use workloads::passes::fusion::{Fusion, Prices};
use workloads::passes::realise::launches::LaunchWaits;
use workloads::plan::Pipelining;

use super::transformer::launch;
use super::{adds_gradients, machine};
use crate::schema::{Count, LayersOf, Scenario};

/// Order, messages and techniques of a scenario.
pub(crate) fn pipelining(scenario: &Scenario) -> Pipelining {
    let software = scenario.software.as_ref();
    Pipelining {
        micro_batches: micro_batches_per_flush(scenario),
        schedule: scenario.parallelism.schedule,
        send: scenario.parallelism.send.unwrap_or_default(),
        steps: if scenario.training.flush { steps(scenario) } else { 1 },
        no_sums: scenario.training.micro_batches() == 1 && !adds_gradients(scenario),
        // What is made of torchtitan's layers is in them.
        compiled: software.is_some_and(|it| it.is_compiled() && it.layers != LayersOf::Torchtitan),
        prices: prices(scenario),
        launch_queue: software.and_then(|it| it.launch_queue).map_or(QUEUE, Count::get),
        launch_waits: LaunchWaits::default(),
        drained: BTreeSet::new(),
        techniques: scenario.techniques.clone(),
    }
}

/// Times of kernels, where fusion chooses by them. `None` also where the machine has none, of which
/// the plan says what is missing.
fn prices(scenario: &Scenario) -> Option<Prices> {
    let needs = scenario.techniques.fusion.as_ref().is_some_and(Fusion::needs_prices);
    let machine = needs.then(|| machine::of(scenario).ok()).flatten()?;
    machine::hardware(&machine, scenario).prices(launch(scenario)).ok()
}

/// Steps simulated, warm-up included.
pub(crate) fn steps(scenario: &Scenario) -> u32 {
    (scenario.run.steps.warm_up.get() + scenario.run.steps.measured.get()) as u32
}

/// Micro-batches between two flushes: those of a step, or of all steps where training does not flush.
pub(crate) fn micro_batches_per_flush(scenario: &Scenario) -> u32 {
    let per_step = scenario.training.micro_batches() as u32;
    if scenario.training.flush { per_step } else { per_step.saturating_mul(steps(scenario)) }
}
