//! Stages on GPUs of one kind each.

use hw_models::machine::Machine;
use workloads::placement::Extent;
use workloads::site::{Kinds, MixedStage};

use super::Check;
use crate::schema::{Count, Scenario};

/// Settings that say which rank is on which GPU.
const PLACING: [&str; 5] = [
    "parallelism.placement",
    "parallelism.tensor",
    "parallelism.context",
    "parallelism.data",
    "parallelism.pipeline",
];

impl Check<'_> {
    /// Kinds of the GPUs of a model whose ranks have places. `None`: the GPUs of a stage differ,
    /// which is reported.
    pub(super) fn separated(&mut self, scenario: &Scenario, machine: &Machine) -> Option<Kinds> {
        let kinds = machine.gpu_kinds();
        if self.of_program && kinds.len() > 1 {
            let other = (0..machine.gpus()).find(|&gpu| machine.kind_of_gpu(gpu) > 0)?;
            let message = "a program runs on a machine with GPUs of one kind";
            self.unlike(machine, [0, other], message, "give them all the same, or leave the others out");
            return None;
        }
        let parallelism = &scenario.parallelism;
        let ranks = [parallelism.tensor, parallelism.context, parallelism.data];
        let [tensor, context, data] = ranks.map(|count| count.map_or(1, Count::get) as u32);
        let extent = Extent { context, ..Extent::new(tensor, data, scenario.stages() as u32) };
        match Kinds::of(machine, extent, &parallelism.placement.clone().unwrap_or_default()) {
            Ok(kinds) => Some(kinds),
            Err(MixedStage { stage, gpus, remedy }) => {
                let message =
                    format!("stage {stage} is on GPUs of two kinds: those of one stage have to be alike");
                self.unlike(machine, gpus, &message, &remedy);
                None
            }
        }
    }

    /// Reports two GPUs of different kinds, with what places ranks on them.
    fn unlike(&mut self, machine: &Machine, gpus: [u32; 2], message: &str, help: &str) {
        let [first, other] = gpus.map(|gpu| machine.part(machine.gpu(gpu)));
        let told = |model: Option<&str>| format!("`{}`", model.unwrap_or_default());
        let [of_first, of_other] = [first.model, other.model].map(told);
        let [at_first, at_other] = [&first, &other].map(|part| format!("machine.parts.gpus.{}", part.name));
        let spelled = self.tree.at(&self.keys(&at_other)).is_some();
        let mut about = if spelled {
            vec![(&*at_other, of_other), (&*at_first, of_first)]
        } else {
            vec![("machine", format!("{} is {of_first}, {} is {of_other}", first.name, other.name))]
        };
        let written = PLACING.iter().filter(|path| self.tree.at(&self.keys(path)).is_some());
        about.extend(written.map(|path| (*path, String::new())));
        self.report(&about, message, help);
    }
}
