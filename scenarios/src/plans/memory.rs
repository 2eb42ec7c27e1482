//! The allocator of a scenario's framework.

use hw_models::allocator::Settings;
use workloads::memory::{Framework, NotReplayed, Placeholder, Ranks, StageUsage};
use workloads::plan::Built;

use super::{layered, machine, transformer};
use crate::catalogue;
use crate::schema::{Allocator, Bytes, Count, GradientPlaceholders, Model, Scenario, Step};

/// What the GPUs of a scenario must have when its framework's allocator serves them; none for a profile, and for steps that
/// are not whole, which are not replayed.
///
/// # Errors
/// Why that cannot be told.
pub(crate) fn used(scenario: &Scenario, built: &Built) -> Option<Result<Vec<StageUsage>, NotReplayed>> {
    if scenario.training.step.unwrap_or_default() != Step::Full {
        return None;
    }
    // A plan that was built has a model.
    let ranks = match &scenario.model {
        Model::ProfiledPipeline(_) => return None,
        Model::Transformer(model) => Ranks::of_transformer(&transformer::plan(scenario, model)).ok()?,
        Model::Layers(model) => Ranks::of_layers(&layered::plan(scenario, model).ok()?),
    };
    Some(ranks.usage(built, &framework(scenario)?, &settings(scenario)))
}

/// Settings of the allocator.
pub(crate) fn settings(scenario: &Scenario) -> Settings {
    let Allocator { expandable_segments, max_split_size, roundup_power2_divisions } =
        scenario.memory.allocator.unwrap_or_default();
    Settings {
        max_split_size: max_split_size.map(Bytes::bytes),
        roundup_power2_divisions: roundup_power2_divisions.map(|steps| Count::get(steps) as u32),
        expandable_segments,
    }
}

fn framework(scenario: &Scenario) -> Option<Framework> {
    let machine = machine::of(scenario).ok()?;
    let gpu = machine.gpu_model(machine.gpu(0))?;
    Some(Framework {
        workspace: catalogue::memory().matrix_workspace.of(&gpu.architecture).bytes,
        placeholder: match scenario.memory.gradient_placeholders.unwrap_or_default() {
            GradientPlaceholders::None => Placeholder::None,
            GradientPlaceholders::Fresh => Placeholder::Fresh,
            GradientPlaceholders::Kept => Placeholder::Kept,
        },
    })
}
