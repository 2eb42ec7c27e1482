//! Schedules of plans before.
//!
//! Realisers read the graph, the order and the decisions of a plan, and no time.
//! Plans that differ in their placement have that in common.

use crate::memo::Recent;
use crate::passes::{Pipelining, Plan, Step};

/// The steps of the plans that were last realised and verified, by the plan before the realisers,
/// how its stages work together, and whether hosts issue its operators.
#[derive(Debug, Default)]
pub(crate) struct Schedules(Recent<(Plan, Pipelining, bool), Vec<Step>>);

impl Schedules {
    /// The plan, realised and verified by `realise` unless it is known.
    pub(super) fn realised<E>(
        &self,
        mut plan: Plan,
        (pipelining, issued): (&Pipelining, bool),
        realise: impl FnOnce(&mut Plan) -> Result<(), E>,
    ) -> Result<Plan, E> {
        let is =
            |known: &(Plan, Pipelining, bool)| (&known.1, known.2) == (pipelining, issued) && known.0 == plan;
        let make = || {
            let mut realised = plan.clone();
            realise(&mut realised)?;
            Ok(((plan.clone(), pipelining.clone(), issued), realised.steps))
        };
        let steps = self.0.get(is, make)?;
        plan.steps.clone_from(&steps);
        Ok(plan)
    }
}
