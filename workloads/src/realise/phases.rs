//! Realises [`Coordination::Bidirectional`](crate::techniques::swap::Coordination): every second copy of the model is a pass behind
//! the others, so that one direction of a link is used by these and the other by those. All meet between passes.

use crate::order::Order;
use crate::schedule::{Item, Schedule};

/// The name of this pass in errors.
pub const PASS: &str = "phases";

/// Makes a schedule that of copies which lead, or of those which follow a pass behind.
pub fn realise(schedule: &mut Schedule, order: &Order, follows: bool) {
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
