//! The allocator of a scenario's framework.

use workloads::memory::{Framework, Ranks, Recorded, StageUsage};
use workloads::plan::Built;

use super::machine;
use crate::catalogue;
use crate::schema::Scenario;

/// What the GPUs of a scenario must have; `recorded` says by stage what a run tells of their memory.
///
/// # Errors
/// A mistake in foretrain, in words.
pub(crate) fn used(
    scenario: &Scenario,
    ranks: &Ranks,
    built: &Built,
    recorded: &[Recorded],
) -> Result<Vec<StageUsage>, String> {
    let framework = framework(scenario).ok_or("a plan without a GPU was built")?;
    ranks
        .usage(built, recorded, &framework, &scenario.memory.allocator.unwrap_or_default())
        .map_err(|reason| reason.to_string())
}

fn framework(scenario: &Scenario) -> Option<Framework> {
    let machine = machine::of(scenario).ok()?;
    let gpu = machine.gpu_model(machine.gpu(0))?;
    Some(Framework {
        workspace: catalogue::memory().matrix_workspace.of(&gpu.architecture).bytes,
        placeholder: scenario.memory.gradient_placeholders.unwrap_or_default(),
    })
}
