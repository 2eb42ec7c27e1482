//! What would make a run fit: the nearest settings, tried.

use reports::quantity;
use reports::summary::{FailureKind, RunSummary};
use workloads::passes::ModelKind;

use super::outcomes::Outcomes;
use crate::plans;
use crate::schema::{Allocator, Count, GatherLimit, Model, Scenario, Schedule, Sharding};

/// Activities of the largest model on a machine for which other settings are tried.
const TRIED_MAX: u64 = 20_000_000;

/// The changes with which a run that does not fit would, the fastest first; none for other runs.
pub(super) fn of(scenario: &Scenario, run: &RunSummary, outcomes: &Outcomes) -> Vec<String> {
    let Some(failure) = run.failure.as_ref().filter(|failure| failure.kind == FailureKind::OutOfMemory)
    else {
        return Vec::new();
    };
    // Segments that grow spare fragments, and nothing else.
    let fragmented =
        failure.unfragmented_bytes <= failure.capacity_bytes && failure.unfragmented_bytes.is_some();
    let frugal = scenario.model.profile().is_none();
    if frugal && plans::activities(scenario) > TRIED_MAX {
        return Vec::new();
    }
    let mut remedies: Vec<(f64, String)> = Vec::new();
    for Change { words, scenario, together } in
        growing_segments(scenario, fragmented).into_iter().chain(waiting(scenario)).chain(changes(scenario))
    {
        // Where each is a large simulation, several changes at once are the last resort.
        if frugal && together && !remedies.is_empty() {
            continue;
        }
        // A change that cannot be built, for whatever reason, is no remedy.
        let Some(outcome) = outcomes.tried(&scenario) else { continue };
        if let Some(time) = outcome.step_time() {
            remedies.push((time, format!("{words} ({} per step)", quantity::seconds(time))));
        }
    }
    remedies.sort_by(|a, b| a.0.total_cmp(&b.0));
    remedies.into_iter().map(|(_, words)| words).chain(enough_memory(scenario, outcomes)).collect()
}

/// A scenario with other settings.
struct Change {
    /// What to do, as an imperative.
    words: String,
    scenario: Scenario,
    /// Whether it is several changes at once.
    together: bool,
}

impl Change {
    fn new(scenario: &Scenario, words: impl Into<String>, edit: impl FnOnce(&mut Scenario)) -> Self {
        let mut scenario = scenario.clone();
        // One step of one seed tells whether it fits.
        scenario.run = Default::default();
        edit(&mut scenario);
        Self { words: words.into(), scenario, together: false }
    }
}

/// Single changes, then techniques together.
fn changes(scenario: &Scenario) -> Vec<Change> {
    let mut changes = Vec::new();
    let balanced = scenario.parallelism.schedule == Schedule::OneFOneB;
    match scenario.model {
        Model::ProfiledPipeline(_) => {
            changes.extend(lending(scenario));
            changes.extend(recomputing(scenario, ModelKind::Profile));
        }
        Model::Transformer(_) => {
            changes.extend(lending(scenario).filter(|_| balanced && scenario.stages() > 1));
            changes.extend(recomputing(scenario, ModelKind::Transformer));
            changes.extend(smaller_micro_batch(scenario));
            changes.extend(sharing(scenario));
            changes.sort_by_key(|change| change.together);
        }
        Model::Layers(_) => {
            let alone = |change: &Change| !change.together;
            changes.extend(recomputing(scenario, ModelKind::Layers).filter(alone));
            changes.extend(smaller_micro_batch(scenario));
            changes.extend(sharing(scenario));
        }
        Model::Program(_) => changes.extend(smaller_micro_batch(scenario)),
        // It has no memory that could be too small.
        Model::Trace(_) => return changes,
    }
    if !balanced {
        let plain = |scenario: &mut Scenario| scenario.parallelism.schedule = Schedule::OneFOneB;
        changes.push(Change::new(scenario, "use `parallelism: { schedule: 1f1b }`", plain));
    }
    changes
}

/// Segments that grow, where fragments are too many.
fn growing_segments(scenario: &Scenario, fragmented: bool) -> Option<Change> {
    let allocator = scenario.memory.allocator.unwrap_or_default();
    (fragmented && !allocator.expandable_segments).then(|| {
        let words = "use `memory: { allocator: { expandable_segments: true } }`";
        Change::new(scenario, words, |scenario| {
            scenario.memory.allocator = Some(Allocator { expandable_segments: true, ..allocator });
        })
    })
}

/// A host that waits for memory to come back, where it takes memory as far ahead of its device as it is.
fn waiting(scenario: &Scenario) -> Option<Change> {
    let gather = scenario.parallelism.overlap_parameter_gather.as_ref()?;
    (gather.limit == GatherLimit::None).then(|| {
        let words = "use `parallelism: { overlap_parameter_gather: { limit: host } }`";
        Change::new(scenario, words, |scenario| {
            if let Some(gather) = &mut scenario.parallelism.overlap_parameter_gather {
                gather.limit = GatherLimit::Host;
            }
        })
    })
}

fn lending(scenario: &Scenario) -> Option<Change> {
    let (setting, techniques) = scenario.techniques.balanced()?;
    let words = format!("use `techniques: {{ {setting} }}`");
    Some(Change::new(scenario, words, |scenario| scenario.techniques = techniques))
}

/// Recomputation, and recomputation together with lending.
fn recomputing(scenario: &Scenario, model: ModelKind) -> impl Iterator<Item = Change> {
    let change = |words, techniques| {
        let words = format!("use `techniques: {{ {words} }}`");
        Change::new(scenario, words, |scenario| scenario.techniques = techniques)
    };
    scenario.techniques.recomputing(model).into_iter().flat_map(move |(words, techniques)| {
        let both = techniques.balanced().map(|(setting, techniques)| Change {
            together: true,
            ..change(format!("{setting}, {words}"), techniques)
        });
        [Some(change(words.to_owned(), techniques)), both].into_iter().flatten()
    })
}

/// Half as large micro-batches, twice as many.
fn smaller_micro_batch(scenario: &Scenario) -> Option<Change> {
    let training = &scenario.training;
    let (one, many) = (training.micro_batch?.get(), training.accumulate?.get());
    let (half, double) = (Count::new(one / 2).filter(|_| one.is_multiple_of(2))?, Count::new(many * 2)?);
    Some(Change::new(scenario, format!("use `training: {{ micro_batch: {} }}`", one / 2), |scenario| {
        scenario.training.micro_batch = Some(half);
        scenario.training.accumulate = Some(double);
    }))
}

/// Optimizer states shared by the copies of the model.
fn sharing(scenario: &Scenario) -> Option<Change> {
    let parallelism = &scenario.parallelism;
    let copies = parallelism.data.map_or(1, Count::get) * parallelism.context.map_or(1, Count::get);
    (copies > 1 && parallelism.sharding == Some(Sharding::None)).then(|| {
        Change::new(scenario, "use `parallelism: { distributed_optimizer: true }`", |scenario| {
            scenario.parallelism.distributed_optimizer = Some(true);
            scenario.parallelism.sharding = Some(Sharding::Optimizer);
        })
    })
}

/// The memory with which the plan fits as it is; a GPU has what it has.
fn enough_memory(scenario: &Scenario, outcomes: &Outcomes) -> Option<String> {
    let mut unlimited = scenario.clone();
    let Model::ProfiledPipeline(pipeline) = &mut unlimited.model else { return None };
    pipeline.device = None;
    unlimited.memory.limit = None;
    unlimited.run = Default::default();
    let run = outcomes.tried(&unlimited)?;
    let peak = run.worst_device()?.peak_bytes;
    Some(format!("give every stage {} of memory", quantity::bytes(peak)))
}
