//! The allocator of a scenario's framework.

use hw_models::allocator::Settings;
use workloads::memory::{Framework, NotReplayed, Placeholder, Ranks, StageUsage};
use workloads::plan::Built;

use super::{layered, machine, transformer};
use crate::catalogue;
use crate::schema::{Allocator, Bytes, Count, GradientPlaceholders, Model, Scenario, Step};

/// The ranks of a scenario, whose tensors its framework's allocator serves; none for a profile, and for steps that are not
/// whole or whose tensors or gradients leave the GPU meanwhile, which are not replayed.
pub(crate) fn ranks(scenario: &Scenario) -> Option<Ranks> {
    let whole = scenario.training.step.unwrap_or_default() == Step::Full;
    let techniques = &scenario.techniques;
    let away = techniques.activation_offload.is_some() || techniques.swap.is_some();
    let hosts = techniques.zero_offload.is_some() || techniques.zero_infinity.is_some();
    if !whole || away || hosts || scenario.memory.footprint_ratio.is_some() {
        return None;
    }
    // A plan that was built has a model.
    match &scenario.model {
        Model::ProfiledPipeline(_) => None,
        Model::Transformer(model) => Ranks::of_transformer(&transformer::plan(scenario, model)).ok(),
        Model::Layers(model) => Some(Ranks::of_layers(&layered::plan(scenario, model).ok()?)),
    }
}

/// What the GPUs of a scenario must have; `returned` says when memory came back that was lent to the device.
///
/// # Errors
/// Why that cannot be told.
pub(crate) fn used(
    scenario: &Scenario,
    ranks: &Ranks,
    built: &Built,
    returned: &[Vec<u32>],
) -> Option<Result<Vec<StageUsage>, NotReplayed>> {
    Some(ranks.usage(built, returned, &framework(scenario)?, &settings(scenario)))
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
