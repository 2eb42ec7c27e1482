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
    let settings = scenario.memory.allocator.unwrap_or_default();
    let used = ranks.usage(built, recorded, &framework(scenario)?, &settings);
    used.map_err(|reason| reason.to_string())
}

/// Tells whether the first stage of a scenario is known to run out of memory before a run.
///
/// # Errors
/// A mistake in foretrain, in words.
pub(crate) fn first_runs_out(scenario: &Scenario, ranks: &Ranks, built: &Built) -> Result<bool, String> {
    let settings = scenario.memory.allocator.unwrap_or_default();
    let runs_out = ranks.first_runs_out(built, &framework(scenario)?, &settings);
    runs_out.map_err(|reason| reason.to_string())
}

fn framework(scenario: &Scenario) -> Result<Framework, String> {
    let machine = machine::of(scenario).map_err(|error| error.to_string())?;
    let gpu = machine.gpu_model(machine.gpu(0)).ok_or("a plan without a GPU was built")?;
    Ok(Framework {
        workspace: catalogue::memory().matrix_workspace.of(&gpu.architecture).bytes,
        placeholder: scenario.memory.gradient_placeholders.unwrap_or_default(),
    })
}
