//! From settings to what the workloads and the hardware models take.
//!
//! Settings are the language; their counterparts in other crates know neither units nor files. The check of an experiment
//! uses the same translation as the run, so that what was checked is what runs.

pub(crate) mod drives;
mod effort;
pub(crate) mod layered;
pub(crate) mod machine;
pub(crate) mod memory;
mod pipelining;
pub(crate) mod profiled;
pub(crate) mod transformer;

use hw_models::machine::Machine;
use workloads::limits;
use workloads::placement::{Extent, Placement};
use workloads::plan::{
    Built, Deployment, PlanError, build, build_layered_on, build_on, check_layered_on, check_on, estimate,
    estimate_layered, estimate_transformer,
};

use crate::schema::{Count, Model, Scenario};

pub(crate) use effort::effort;
pub(crate) use pipelining::{micro_batches_per_flush, pipelining, steps};

/// What there is of the memory of GPUs, beside what settings say.
#[derive(Clone, Debug, Default)]
pub(crate) struct Room {
    /// Bytes of each GPU that may be used; none: as settings say.
    pub(crate) limit: Option<u64>,
    /// By stage, bytes of those that the allocator of the framework cannot use.
    pub(crate) fragments: Vec<u64>,
}

impl Room {
    fn give(&self, deployment: &mut Deployment) {
        deployment.limit = self.limit.or(deployment.limit);
        deployment.fragments.clone_from(&self.fragments);
    }
}

/// Builds the program of a checked scenario.
///
/// # Errors
/// What keeps it from being simulated.
pub(crate) fn built(scenario: &Scenario, room: &Room) -> Result<Built, PlanError> {
    match &scenario.model {
        Model::ProfiledPipeline(pipeline) => build(&profiled::plan(scenario, pipeline)),
        Model::Transformer(model) => {
            let machine = machine::of(scenario)?;
            let mut plan = transformer::plan(scenario, model);
            room.give(&mut plan.deployment);
            build_on(&plan, &machine::hardware(&machine, scenario))
        }
        Model::Layers(model) => {
            let machine = machine::of(scenario)?;
            let mut plan = layered::plan(scenario, model)?;
            room.give(&mut plan.deployment);
            build_layered_on(&plan, &machine::hardware(&machine, scenario))
        }
    }
}

/// Finds what keeps a scenario from being built, as far as that can be told without building it. `machine` is its own.
///
/// # Errors
/// Every error of [`built`] but memory that is too small, which is a result.
pub(crate) fn check(scenario: &Scenario, machine: Option<&Machine>) -> Result<(), PlanError> {
    let hardware = machine.map(|machine| machine::hardware(machine, scenario));
    match (&scenario.model, hardware) {
        (Model::ProfiledPipeline(pipeline), _) => {
            limits::validate(&profiled::plan(scenario, pipeline)).map_err(PlanError::Invalid)
        }
        (Model::Transformer(model), Some(hardware)) => {
            check_on(&transformer::plan(scenario, model), &hardware)
        }
        (Model::Layers(model), Some(hardware)) => {
            check_layered_on(&layered::plan(scenario, model)?, &hardware)
        }
        (Model::Transformer(_) | Model::Layers(_), None) => machine::of(scenario).map(drop),
    }
}

/// Activities of a checked scenario at most, without building anything.
pub(crate) fn activities(scenario: &Scenario) -> u64 {
    match &scenario.model {
        Model::ProfiledPipeline(pipeline) => estimate(&profiled::plan(scenario, pipeline)).activities,
        Model::Transformer(model) => estimate_transformer(&transformer::plan(scenario, model)).activities,
        Model::Layers(model) => {
            layered::plan(scenario, model).map_or(0, |plan| estimate_layered(&plan).activities)
        }
    }
}

/// How many ranks a checked scenario has in each direction, and in which order they take GPUs; none for a profile.
pub(crate) fn placed(scenario: &Scenario) -> Option<(Extent, Placement)> {
    let extent = match &scenario.model {
        Model::ProfiledPipeline(_) => return None,
        Model::Transformer(model) => transformer::plan(scenario, model).extent(),
        Model::Layers(_) => {
            let data = scenario.parallelism.data.map_or(1, |data| data.get() as u32);
            Extent::new(1, data, scenario.stages() as u32)
        }
    };
    Some((extent, transformer::placement(&scenario.parallelism)))
}

/// Ranks of a checked scenario.
pub(crate) fn ranks(scenario: &Scenario) -> u64 {
    let parallelism = &scenario.parallelism;
    let copies =
        [parallelism.tensor, parallelism.context, parallelism.data].map(|count| count.map_or(1, Count::get));
    copies.iter().product::<u64>() * scenario.stages() as u64
}
