//! Schedules of plans before.
//!
//! Realisers read the graph, the order and the decisions of a plan, and no time.
//! Plans that differ in their placement have that in common.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use crate::passes::{Pipelining, Plan, Step};

/// Plans that are remembered.
const REMEMBERED: usize = 16;

/// The plans that were last realised and verified.
#[derive(Debug, Default)]
pub(crate) struct Schedules(Mutex<VecDeque<Arc<Known>>>);

/// A plan before the realisers, how its stages work together, whether hosts issue its operators,
/// and its steps behind them.
type Known = (Plan, Pipelining, bool, Vec<Step>);

impl Schedules {
    /// The plan, realised and verified by `realise` unless it is known.
    pub(super) fn realised<E>(
        &self,
        mut plan: Plan,
        (pipelining, issued): (&Pipelining, bool),
        realise: impl FnOnce(&mut Plan) -> Result<(), E>,
    ) -> Result<Plan, E> {
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all: Vec<_> = known().iter().cloned().collect();
        let same =
            all.iter().find(|known| (known.1 == *pipelining, known.2) == (true, issued) && known.0 == plan);
        if let Some(same) = same {
            plan.steps.clone_from(&same.3);
            return Ok(plan);
        }
        let before = plan.clone();
        realise(&mut plan)?;
        let mut known = known();
        known.truncate(REMEMBERED - 1);
        known.push_front(Arc::new((before, pipelining.clone(), issued, plan.steps.clone())));
        Ok(plan)
    }
}
