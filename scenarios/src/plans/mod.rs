//! From settings to what the workloads and the hardware models take.
//!
//! Settings are the language; their counterparts in other crates know neither units nor files. The check of an experiment
//! uses the same translation as the run, so that what was checked is what runs.

mod drives;
mod effort;
pub(crate) mod layered;
pub(crate) mod machine;
pub(crate) mod memory;
pub(crate) mod network;
mod pipelining;
pub(crate) mod profiled;
pub(crate) mod transformer;

use hw_models::framework::Framework;
use workloads::diagnostic::Diagnostic;
use workloads::hardware::Hardware;
use workloads::limits;
use workloads::memory::Ranks;
use workloads::passes::fusion::{Candidate, Explanation};
use workloads::placement::{Extent, Placement};
use workloads::plan::{
    Built, Deployment, Floor, LayeredPlan, PipelinePlan, PlanError, StageCheckpoint, TransformerPlan,
    balanced_on, build, build_layered_on, build_on, check_layered_on, check_on, checkpoint,
    checkpoint_layered, estimate, estimate_layered, estimate_transformer, floor_layered_on, floor_on,
    layered_base, sketch_on, transformer_base,
};
use workloads::program::base::Base;

use crate::schema::{Count, FRAMEWORK, Gradients, LayersOf, Model, ProgramBase, Scenario};

pub(crate) use drives::{declared_arrays, features, on_drives};
pub(crate) use effort::effort;
pub(crate) use pipelining::{micro_batches_per_flush, steps};

/// What there is of the memory of GPUs, beside what settings say.
#[derive(Clone, Debug, Default)]
pub(crate) struct Room {
    /// Bytes of each GPU that may be used. `None`: as settings say.
    pub(crate) limit: Option<u64>,
    /// By stage, bytes of those that the allocator of the framework cannot use.
    pub(crate) fragments: Vec<u64>,
    /// Time of hosts for calls of the driver.
    pub(crate) driver: memory::DriverTimes,
}

impl Room {
    fn give(&self, deployment: &mut Deployment) {
        deployment.limit = self.limit.or(deployment.limit);
        deployment.fragments.clone_from(&self.fragments);
        deployment.driver.clone_from(&self.driver.times);
        deployment.pipelining.drained.clone_from(&self.driver.drained);
    }
}

/// The plan of a scenario, by its kind of model.
enum Plan {
    Profiled(Box<PipelinePlan>),
    Transformer(Box<TransformerPlan>),
    Layers(Box<LayeredPlan>),
}

impl Plan {
    /// `None`: a trace, whose lanes are recorded and not planned.
    fn of(scenario: &Scenario) -> Result<Option<Self>, PlanError> {
        Ok(Some(match &scenario.model {
            Model::ProfiledPipeline(pipeline) => Self::Profiled(Box::new(profiled::plan(scenario, pipeline))),
            Model::Transformer(model) => Self::Transformer(Box::new(transformer::plan(scenario, model))),
            Model::Layers(model) => Self::Layers(Box::new(layered::plan(scenario, model)?)),
            Model::Graph(model) => Self::Layers(Box::new(network::plan(scenario, model)?)),
            Model::Program(program) => match &program.base {
                Some(ProgramBase::Transformer(model)) => {
                    Self::Transformer(Box::new(transformer::plan(scenario, model)))
                }
                Some(ProgramBase::Layers(model)) => Self::Layers(Box::new(layered::plan(scenario, model)?)),
                None => return Ok(None),
            },
            Model::Trace(_) => return Ok(None),
        }))
    }
}

/// Builds the program of a checked scenario.
///
/// # Errors
/// What keeps it from being simulated.
pub(crate) fn built(scenario: &Scenario, room: &Room) -> Result<Built, PlanError> {
    match Plan::of(scenario)? {
        None => {
            let found = Diagnostic::new("model.trace", "a trace is replayed, not planned", "run it as it is");
            Err(PlanError::Invalid(vec![found]))
        }
        Some(Plan::Profiled(plan)) => build(&plan),
        Some(Plan::Transformer(mut plan)) => {
            let machine = machine::of(scenario)?;
            room.give(&mut plan.deployment);
            build_on(&plan, &machine::hardware(&machine, scenario))
        }
        Some(Plan::Layers(mut plan)) => {
            let machine = machine::of(scenario)?;
            room.give(&mut plan.deployment);
            build_layered_on(&plan, &machine::hardware(&machine, scenario))
        }
    }
}

/// Operators of a checked scenario's program; none of a model without one.
///
/// # Errors
/// Every error of [`built`] but memory that is too small.
pub(crate) fn base(scenario: &Scenario) -> Result<Option<Base>, PlanError> {
    let Some(program) = scenario.model.program() else { return Ok(None) };
    let machine = machine::of(scenario)?;
    let hardware = machine::hardware(&machine, scenario);
    let sums = adds_gradients(scenario);
    let base = match Plan::of(scenario)? {
        Some(Plan::Transformer(plan)) => transformer_base(&plan, program.program(), sums, &hardware)?,
        Some(Plan::Layers(plan)) => layered_base(&plan, program.program(), sums, &hardware)?,
        Some(Plan::Profiled(_)) | None => return Ok(None),
    };
    Ok(Some(base))
}

/// Groups of operators that a checked scenario makes one kernel of. `None`: it asks for no fusion.
///
/// # Errors
/// Some errors of [`check`].
pub(crate) fn fused(scenario: &Scenario) -> Result<Option<Explanation>, PlanError> {
    if scenario.techniques.fusion.is_none() {
        return Ok(None);
    }
    Ok(match Plan::of(scenario)? {
        Some(Plan::Transformer(plan)) => plan.fused(),
        Some(Plan::Layers(plan)) => plan.fused(),
        Some(Plan::Profiled(_)) | None => None,
    })
}

/// Kernels among which the fusion of a checked scenario searches; none where it chooses nothing by
/// times.
///
/// # Errors
/// Some errors of [`check`].
pub(crate) fn candidates(scenario: &Scenario) -> Result<Vec<Candidate>, PlanError> {
    Ok(match Plan::of(scenario)? {
        Some(Plan::Transformer(plan)) => plan.candidates(),
        Some(Plan::Layers(plan)) => plan.candidates(),
        Some(Plan::Profiled(_)) | None => Vec::new(),
    })
}

/// Finds what keeps a scenario from being built, as far as that can be told without building it.
///
/// # Errors
/// Every error of [`built`] but memory that is too small, which is a result.
pub(crate) fn check(scenario: &Scenario) -> Result<(), PlanError> {
    let Some(plan) = Plan::of(scenario)? else { return Ok(()) };
    match plan {
        Plan::Profiled(plan) => limits::validate(&plan).map_err(PlanError::Invalid),
        Plan::Transformer(plan) => check_on(&plan, &machine::hardware(&*machine::of(scenario)?, scenario)),
        Plan::Layers(plan) => check_layered_on(&plan, &machine::hardware(&*machine::of(scenario)?, scenario)),
    }
}

/// Time and memory that a scenario takes at least; none where that is not known: times are drawn at
/// random, given, or chosen by a technique, or steps run into each other.
///
/// # Errors
/// Every error of [`check`].
pub(crate) fn floor(scenario: &Scenario) -> Result<Option<Floor>, PlanError> {
    at_least(scenario, floor_on)
}

/// The same by the blocks of a model alone, of which the step is not known where they are told
/// before they are laid on stages.
///
/// # Errors
/// Some errors of [`check`].
pub(crate) fn sketch(scenario: &Scenario) -> Result<Option<Floor>, PlanError> {
    at_least(scenario, sketch_on)
}

fn at_least(
    scenario: &Scenario,
    of_transformer: fn(&TransformerPlan, &Hardware<'_>) -> Result<Floor, PlanError>,
) -> Result<Option<Floor>, PlanError> {
    let chosen = scenario.techniques.all().any(|technique| technique.facts(1).chooses_kernels);
    if chosen || scenario.run.noise.is_some() || !scenario.training.flush {
        return Ok(None);
    }
    let floor = match Plan::of(scenario)? {
        None | Some(Plan::Profiled(_)) => return Ok(None),
        Some(Plan::Transformer(plan)) => {
            of_transformer(&plan, &machine::hardware(&*machine::of(scenario)?, scenario))
        }
        Some(Plan::Layers(plan)) => {
            floor_layered_on(&plan, &machine::hardware(&*machine::of(scenario)?, scenario))
        }
    };
    floor.map(Some)
}

/// Layers of each chunk of a checked scenario's transformer with which its stages take as long as
/// each other.
///
/// # Errors
/// Every error of [`check`].
pub(crate) fn balanced(scenario: &Scenario) -> Result<Vec<u32>, PlanError> {
    let Some(Plan::Transformer(plan)) = Plan::of(scenario)? else { return Ok(Vec::new()) };
    balanced_on(&plan, &machine::hardware(&*machine::of(scenario)?, scenario))
}

/// Checkpoint of a checked scenario by stage; none of a profile, a program or a trace.
///
/// # Errors
/// Faults that the check of the scenario reports.
pub(crate) fn checkpoints(scenario: &Scenario) -> Result<Vec<StageCheckpoint>, PlanError> {
    match Plan::of(scenario)? {
        None | Some(Plan::Profiled(_)) => Ok(Vec::new()),
        Some(Plan::Transformer(plan)) => checkpoint(&plan).map_err(PlanError::Invalid),
        Some(Plan::Layers(plan)) => Ok(checkpoint_layered(&plan)),
    }
}

/// Activities of a checked scenario at most, without building anything.
pub(crate) fn activities(scenario: &Scenario) -> u64 {
    if let Some(recorded) = scenario.model.trace().and_then(|trace| trace.recorded.as_ref()) {
        return recorded.activities();
    }
    let estimate = |plan| match plan {
        Plan::Profiled(plan) => estimate(&plan),
        Plan::Transformer(plan) => estimate_transformer(&plan),
        Plan::Layers(plan) => estimate_layered(&plan),
    };
    // An operator of a program is a wait, a time of the host, a launch and a kernel.
    let iterations = scenario.model.program().map_or(1, |_| 4 * u64::from(iterations(scenario)));
    let once = Plan::of(scenario).ok().flatten().map_or(0, |plan| estimate(plan).activities);
    once.saturating_mul(iterations)
}

/// How many ranks a checked scenario has in each direction, and in which order they take GPUs; none for a profile.
pub(crate) fn placed(scenario: &Scenario) -> Option<(Extent, Placement)> {
    let extent = match Plan::of(scenario).ok()?? {
        Plan::Profiled(_) => return None,
        Plan::Transformer(plan) => plan.extent(),
        Plan::Layers(plan) => Extent::new(1, plan.data, plan.stages),
    };
    Some((extent, scenario.parallelism.placement.clone().unwrap_or_default()))
}

/// The ranks of a scenario, whose tensors its framework's allocator serves.
///
/// # Errors
/// Why the allocator is not asked; none of a profile, whose bytes are given.
pub(crate) fn allocating(scenario: &Scenario, built: &Built) -> Result<Ranks, Option<String>> {
    let ranks = match Plan::of(scenario).ok().flatten().ok_or(None)? {
        Plan::Profiled(_) => return Err(None),
        Plan::Transformer(plan) => {
            Ranks::of_transformer(&plan, Some(scenario.constants.memo())).map_err(|_| None)?
        }
        Plan::Layers(plan) => Ranks::of_layers(&plan),
    };
    memory::check(scenario, &ranks, built).map_err(Some)?;
    Ok(ranks)
}

/// The framework whose hosts issue the work.
pub(crate) fn framework(scenario: &Scenario) -> &Framework {
    let named = scenario.software.as_ref().and_then(|software| software.framework.as_deref());
    let all = scenario.constants.frameworks();
    // An unknown name is found by the check, which asks as well.
    named.and_then(|name| all.get(name)).unwrap_or_else(|| &all[FRAMEWORK])
}

/// True if gradients are added to sums, the first of a step too.
pub(crate) fn adds_gradients(scenario: &Scenario) -> bool {
    let software = scenario.software.as_ref();
    let layers = software.map_or(LayersOf::default(), |software| software.layers);
    // Copies of a model have buckets, to which gradients are copied.
    let by_default = framework(scenario).gradients_added
        || (scenario.model.transformer().is_some()
            && matches!(layers, LayersOf::MegatronLm | LayersOf::MegatronLm2019))
        || transformer::data_parallel(scenario).ranks > 1;
    software
        .and_then(|software| software.gradients)
        .map_or(by_default, |gradients| gradients == Gradients::Added)
}

/// Iterations of a program.
pub(crate) fn iterations(scenario: &Scenario) -> u32 {
    scenario.run.iterations.map_or(200, |count| count.get() as u32)
}

/// Parameters of a checked scenario's model; none of a profile or a trace.
pub(crate) fn parameters(scenario: &Scenario) -> Option<u64> {
    if let Some(model) = scenario.model.transformer() {
        return Some(model.dimensions().parameters());
    }
    if let Some(model) = scenario.model.graph() {
        return network::read(scenario, model).map(|model| model.parameters());
    }
    layered::read(scenario, scenario.model.layers()?).ok().map(|model| model.parameters())
}

/// Ranks of a checked scenario.
pub(crate) fn ranks(scenario: &Scenario) -> u64 {
    let parallelism = &scenario.parallelism;
    let copies =
        [parallelism.tensor, parallelism.context, parallelism.data].map(|count| count.map_or(1, Count::get));
    copies.iter().product::<u64>() * scenario.stages() as u64
}
