//! A model, a machine and the work of a step, as commands that write a search are told them.

use std::fs::File;

use scenarios::best_plan::BestPlan;
use workloads::model::transformer::Configuration;

/// A model, and a machine to train it on.
#[derive(Debug, clap::Args)]
pub(super) struct Task {
    /// A published model (`foretrain list models`), or a Hugging Face config.json
    pub(super) model: String,
    /// Nodes of the machine (`foretrain list machines`): `dgx-h100`, or `8xdgx-h100` for several
    pub(super) machine: String,
    /// Network between the nodes (`foretrain list fabrics`)
    #[arg(long, value_name = "NAME")]
    pub(super) fabric: Option<String>,
    /// Sequences of a step
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    pub(super) global_batch: Option<u64>,
    /// Tokens of a sequence
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u64).range(1..=1 << 24))]
    pub(super) sequence: Option<u64>,
}

impl Task {
    /// The search for its best plan.
    pub(super) fn best_plan(&self) -> BestPlan<'_> {
        let Self { model, machine, fabric, global_batch, sequence } = self;
        let (global_batch, sequence) = (*global_batch, *sequence);
        let positions = self.configuration().map(|read| read.model.max_positions.into());
        BestPlan { model, machine, fabric: fabric.as_deref(), global_batch, sequence, positions }
    }

    /// The model of a config.json; what is wrong with it is said where the search runs.
    fn configuration(&self) -> Option<Configuration> {
        let file = self.model.ends_with(".json").then(|| File::open(&self.model).ok())??;
        Configuration::from_hugging_face(file).ok()
    }
}
