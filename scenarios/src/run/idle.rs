//! GPUs of a machine that no rank runs on.

use reports::summary::IdleGpus;

use crate::plans;
use crate::schema::Scenario;

/// The GPUs that a model leaves over: ranks take them from the first on.
pub(super) fn idle_gpus(scenario: &Scenario) -> Option<IdleGpus> {
    if scenario.model.profile().is_some() {
        return None;
    }
    let machine = plans::machine::of(scenario).ok()?;
    let first = u32::try_from(plans::ranks(scenario)).ok().filter(|&ranks| ranks < machine.gpus())?;
    let name = |gpu| machine.part(machine.gpu(gpu)).name;
    let count = u64::from(machine.gpus() - first);
    Some(IdleGpus { count, first: name(first), last: name(machine.gpus() - 1) })
}
