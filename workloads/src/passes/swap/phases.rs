//! Coordination in both directions: every second copy of the model is a pass behind the others, so that one direction of a link is
//! used by these and the other by those. All meet between passes.

use crate::error::PlanError;
use crate::order::Order;
use crate::passes::{Added, Context, Kind, Pass, Plan, Size};
use crate::schedule::{Item, Schedule};

use super::Coordination;

/// Meetings of copies between passes, if some are a pass behind the others.
#[derive(Clone, Copy, Debug)]
pub struct Phases(pub Coordination);

impl Pass for Phases {
    fn name(&self) -> &'static str {
        "phases"
    }

    fn kind(&self) -> Kind {
        Kind::Realiser
    }

    fn follows(&self) -> &'static [&'static str] {
        &["visits", "transfers", "messages", "launches"]
    }

    fn adds(&self, size: &Size<'_>) -> Added {
        let meetings = if self.0 == Coordination::Bidirectional { size.visits } else { 0 };
        Added { on_ranks: 0, together: meetings }
    }

    fn apply(&self, plan: &mut Plan, _: &Context<'_>) -> Result<(), PlanError> {
        plan.realise(|schedule, of| {
            if self.0 == Coordination::Bidirectional && of.cohorts > 1 {
                realise(schedule, of.order, of.cohort > 0);
            }
        });
        Ok(())
    }
}

/// Makes a schedule that of copies which lead, or of those which follow a pass behind.
fn realise(schedule: &mut Schedule, order: &Order, follows: bool) {
    for (stage, visits) in (0u32..).zip(&order.stages) {
        let Some(compute) = schedule.compute(stage) else { continue };
        let passes = compute.calls.iter().take(visits.len()).map(|call| call.block);
        let mut passes: Vec<u32> = passes.collect();
        passes.sort_unstable();
        passes.dedup();
        for pass in passes {
            let items = &mut compute.blocks[pass as usize].items;
            let at = if follows { 0 } else { items.len() };
            items.insert(at, Item::Meet);
        }
    }
}
