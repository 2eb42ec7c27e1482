//! From settings to what the workloads and the hardware models take.
//!
//! Settings are the language; their counterparts in other crates know neither units nor files. The check of an experiment
//! uses the same translation as the run, so that what was checked is what runs.

pub(crate) mod machine;
pub(crate) mod memory;
mod pipelining;
pub(crate) mod profiled;
pub(crate) mod transformer;

use workloads::plan::{Built, PlanError, build, build_on, estimate, estimate_transformer};

use crate::schema::{Count, Model, Scenario};

pub(crate) use pipelining::{micro_batches_per_flush, steps};

/// Builds the program of a checked scenario.
///
/// # Errors
/// What keeps it from being simulated.
pub(crate) fn built(scenario: &Scenario) -> Result<Built, PlanError> {
    match &scenario.model {
        Model::ProfiledPipeline(pipeline) => build(&profiled::plan(scenario, pipeline)),
        Model::Transformer(model) => {
            let machine = machine::of(scenario)?;
            build_on(
                &transformer::plan(scenario, model),
                &machine::hardware(&machine, machine::libraries(scenario)),
            )
        }
    }
}

/// Activities of a checked scenario at most, without building anything.
pub(crate) fn activities(scenario: &Scenario) -> u64 {
    match &scenario.model {
        Model::ProfiledPipeline(pipeline) => estimate(&profiled::plan(scenario, pipeline)).activities,
        Model::Transformer(model) => estimate_transformer(&transformer::plan(scenario, model)).activities,
    }
}

/// Ranks of a checked scenario.
pub(crate) fn ranks(scenario: &Scenario) -> u64 {
    let parallelism = &scenario.parallelism;
    let copies =
        [parallelism.tensor, parallelism.context, parallelism.data].map(|count| count.map_or(1, Count::get));
    copies.iter().product::<u64>() * scenario.stages() as u64
}
