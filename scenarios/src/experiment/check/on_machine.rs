//! What every model on a machine must satisfy, and what holds where nothing is written.

use hw_models::catalogue::Gpu;

use super::Check;
use super::batches::Batches;
use crate::schema::{Count, Precision, Scenario, SendMode, SequenceParallel};

impl Check<'_> {
    /// Checks the machine and what is on it of the model at `path`, which users know as `words`.
    pub(super) fn on_machine(&mut self, scenario: &mut Scenario, path: &str, words: &str) {
        if !scenario.training.flush {
            let message = format!("`training.flush: false` has no meaning for {words}");
            let help = "its weights are updated at the end of every step; remove it";
            self.report(&[("training.flush", String::new())], message, help);
        }
        defaults(scenario);
        let machine = match &scenario.machine {
            Some(settings) => self.machine(settings, &scenario.constants),
            None => {
                let help = "add `machine: { cluster: { node: dgx-a100-80g, count: 4 } }`; `foretrain list machines` has the names";
                self.report(&[(path, String::new())], format!("{words} needs a machine to run on"), help);
                None
            }
        };
        self.gpus = machine.as_ref().map(|machine| machine.gpus());
        let placed = machine.as_ref().is_some_and(|machine| self.copies(&mut scenario.parallelism, machine));
        if placed {
            let copies = scenario.parallelism.data.map_or(1, Count::get);
            self.batches(&mut scenario.training, Batches::Copies(copies));
            self.interleaving(scenario, "training.accumulate", "parallelism.pipeline");
        }
        self.states(scenario);
        self.exchange(scenario);
        self.products(scenario);
        if let Some(machine) = &machine {
            self.calibrated_gpu(scenario, machine);
            let kinds = if placed { self.separated(scenario, machine) } else { None };
            let gpus: Vec<(&str, &Gpu)> = match &kinds {
                Some(kinds) => (0..kinds.count()).map(|kind| kinds.gpu(machine, kind)).collect(),
                None => machine.gpu_kinds().iter().map(|(name, gpu)| (name.as_str(), gpu)).collect(),
            };
            self.kernels(scenario, machine, &gpus);
            self.limit(scenario, &gpus);
            self.storage(scenario, machine);
            self.campaign(scenario, machine);
        }
    }

    /// Matrix products hold some of the peak, and no more than all of it.
    fn products(&mut self, scenario: &Scenario) {
        const SUSTAINED: &str = "software.sustained_products";
        let sustained = scenario.software.as_ref().and_then(|software| software.sustained_products);
        if let Some(share) = sustained.filter(|share| share.is_zero() || share.as_f64() > 1.0) {
            let message = format!("`{SUSTAINED}` must be above 0 % and at most 100 %, not {share}");
            self.report(&[(SUSTAINED, String::new())], message, "write for example `60 %`, or remove it");
        }
    }
}

fn defaults(scenario: &mut Scenario) {
    let parallelism = &mut scenario.parallelism;
    parallelism.tensor = parallelism.tensor.or(Count::new(1));
    parallelism.pipeline = parallelism.pipeline.or(Count::new(1));
    parallelism.context = parallelism.context.or(Count::new(1));
    parallelism.expert = parallelism.expert.or(Count::new(1));
    let said = parallelism.sequence_parallel.unwrap_or(SequenceParallel::Off);
    parallelism.sequence_parallel = Some(said.of_ranks(parallelism.tensor.map_or(1, Count::get)));
    parallelism.idle.get_or_insert_default();
    parallelism.placement.get_or_insert_default();
    parallelism.send.get_or_insert(SendMode::Eager);
    scenario.software.get_or_insert_default();
    scenario.training.precision.get_or_insert(Precision::Bf16Mixed);
}
