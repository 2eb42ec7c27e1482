//! The allocator of a scenario's framework.

use std::collections::{BTreeMap, BTreeSet};

use hw_models::catalogue::Gpu;
use sim_core::time::Time;
use workloads::graph::OpId;
use workloads::memory::{Framework, OperatorCalls, Ranks, Recorded, StageUsage};
use workloads::plan::{Built, Launch};

use super::{machine, transformer};
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

/// Time of hosts for calls of the driver, where allocators return memory in every step.
#[derive(Clone, Debug, Default)]
pub(crate) struct DriverTimes {
    /// In each visit, by the operator that asks for memory.
    pub(crate) times: BTreeMap<OpId, Time>,
    /// Operators before which memory is returned, for which the device is waited for.
    pub(crate) drained: BTreeSet<OpId>,
}

/// Prices the calls of a step, evenly over its micro-batches: visits are alike to a plan, and all
/// of them wait for the device if one does. `None`: nobody knows the calls, or hosts do not issue
/// operators one by one and ask as they go.
pub(crate) fn driver_times(scenario: &Scenario, used: &[StageUsage]) -> Option<DriverTimes> {
    let host = scenario.constants.host();
    let mut found = DriverTimes::default();
    for used in used {
        for &OperatorCalls { op, visits, returned, asked } in used.driver.as_ref()? {
            let time = host.allocation.time(asked).saturating_add(host.release.time(returned));
            found.times.insert(op, Time(time.0 / u64::from(visits.max(1))));
            if returned.count > 0 {
                found.drained.insert(op);
            }
        }
    }
    (transformer::deployment(scenario).launch == Launch::Eager).then_some(found)
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
