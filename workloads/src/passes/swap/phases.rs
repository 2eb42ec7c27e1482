//! Coordination in both directions: every second copy of the model is behind the others, so that
//! one direction of a link is used by these and the other by those. All meet between passes, or
//! once in a step.

use crate::error::PlanError;
use crate::order::Order;
use crate::passes::{Added, Context, Kind, Pass, Plan, Size};
use crate::schedule::{Block, Item, Schedule};

use super::Coordination;

/// Meetings of copies, if some are behind the others.
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
        let meetings = match self.0 {
            Coordination::Synchronised => size.visits,
            Coordination::Shifted => 1,
            _ => 0,
        };
        Added { on_ranks: 0, together: meetings }
    }

    fn apply(&self, plan: &mut Plan, _: &Context<'_>) -> Result<(), PlanError> {
        // Where nothing leaves there is nothing to be behind for.
        if plan.decided.swapped.iter().all(|swapped| swapped.bytes == 0) {
            return Ok(());
        }
        plan.realise(|schedule, of| {
            let follows = of.cohort > 0;
            match self.0 {
                Coordination::Synchronised if of.cohorts > 1 => between_passes(schedule, of.order, follows),
                Coordination::Shifted if of.cohorts > 1 => after_the_first(schedule, follows),
                _ => {}
            }
        });
        Ok(())
    }
}

/// Lets copies that lead meet those that follow, a pass behind, at the end of every pass.
fn between_passes(schedule: &mut Schedule, order: &Order, follows: bool) {
    for (stage, visits) in (0u32..).zip(&order.stages) {
        let Some(compute) = schedule.compute(stage) else { continue };
        let passes = compute.calls.iter().take(visits.len()).map(|call| call.block);
        let mut passes: Vec<u32> = passes.collect();
        passes.sort_unstable();
        passes.dedup();
        for pass in passes {
            meet(&mut compute.blocks[pass as usize], follows);
        }
    }
}

/// Lets copies that follow begin a step when those that lead have ended its first pass.
fn after_the_first(schedule: &mut Schedule, follows: bool) {
    for stage in 0..schedule.stages.len() as u32 {
        let Some(compute) = schedule.compute(stage) else { continue };
        let Some(first) = compute.calls.first().map(|call| call.block) else { continue };
        let mut block = compute.blocks[first as usize].clone();
        meet(&mut block, follows);
        compute.calls[0].block = compute.blocks.len() as u32;
        compute.blocks.push(block);
    }
}

/// Lets a pass end with a meeting, or begin with it if its copy `follows`.
fn meet(pass: &mut Block, follows: bool) {
    let at = if follows { 0 } else { pass.items.len() };
    pass.items.insert(at, Item::Meet);
}
