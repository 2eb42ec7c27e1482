//! Plans of runs that were simulated before, for whoever draws or lists them.
//!
//! Plans are not kept: those of all points of a sweep would take more memory than the runs, of which
//! the last one says which point is drawn.

use reports::summary::{LastStep, RunSummary};

use super::choice::{self, Decided};
use super::one::{self, Planned, Ran, Unbuilt};
use crate::plans;
use crate::schema::Scenario;

/// The plan of a run, and its last step if that is known.
///
/// # Errors
/// Why it has no plan, or a mistake in foretrain.
pub(super) fn replanned(
    scenario: &Scenario,
    seed: u64,
    run: &RunSummary,
) -> Result<(Planned, Option<LastStep>), Unbuilt> {
    // Nothing else moves a bucket, the level of which a run begins with.
    if plans::on_drives(scenario) {
        let (again, planned) = one::planned(scenario, seed).map_err(Unbuilt::Broken)?;
        let last_step = again.last_step;
        return planned.map(|planned| (planned, last_step)).ok_or_else(|| Unbuilt::Reported(Box::new(again)));
    }
    let Decided { scenario, tried, .. } = choice::decided(scenario, seed).map_err(Unbuilt::Broken)?;
    let ended = |Ran { prepared, window, .. }| (prepared, window.map(LastStep::from));
    let (prepared, last_step) = match tried {
        Some(ran) => ended(ran),
        None => {
            let first = one::prepare(&scenario)?;
            let fills = first.built.memory.iter().any(|memory| memory.waits);
            // A run whose allocator returns memory is one of another plan than the first.
            if fills || run.retries_s.is_some() {
                ended(one::settled(first, &scenario, seed)?)
            } else {
                (first, run.last_step)
            }
        }
    };
    Ok((Planned { scenario: scenario.into_owned(), prepared }, last_step))
}
