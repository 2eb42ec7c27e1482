//! The allocator of a scenario's framework.

use hw_models::catalogue::Gpu;
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
    let frameworks = frameworks(scenario)?;
    let used = ranks.usage(built, recorded, |stage| frameworks[stage as usize], &settings);
    used.map_err(|reason| reason.to_string())
}

/// Tells whether the first stage of a scenario is known to run out of memory before a run.
///
/// # Errors
/// A mistake in foretrain, in words.
pub(crate) fn first_runs_out(scenario: &Scenario, ranks: &Ranks, built: &Built) -> Result<bool, String> {
    let settings = scenario.memory.allocator.unwrap_or_default();
    let first = *frameworks(scenario)?.first().ok_or("a plan without a stage was built")?;
    let runs_out = ranks.first_runs_out(built, &first, &settings);
    runs_out.map_err(|reason| reason.to_string())
}

/// Tells whether the allocator can be asked about a plan of a scenario.
///
/// # Errors
/// Why it cannot.
pub(super) fn check(scenario: &Scenario, ranks: &Ranks, built: &Built) -> Result<(), String> {
    let frameworks = frameworks(scenario)?;
    let checked = ranks.check(built, |stage| frameworks[stage as usize]);
    checked.map_err(|reason| reason.to_string())
}

/// The framework on the GPUs of each stage.
fn frameworks(scenario: &Scenario) -> Result<Vec<Framework>, String> {
    let machine = machine::of(scenario).map_err(|error| error.to_string())?;
    let placeholder = scenario.memory.gradient_placeholders.unwrap_or_default();
    let on = |(_, gpu): (&str, &Gpu)| Framework {
        workspace: catalogue::memory().matrix_workspace.of(&gpu.architecture).bytes,
        placeholder,
    };
    Ok(machine::gpus(&machine, scenario).into_iter().map(on).collect())
}
