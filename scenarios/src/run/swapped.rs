//! What was decided about swapping, in words.

use reports::summary::swap::SwapPlan;
use workloads::passes::swap::{SLOTS, Swapped};
use workloads::plan::Built;

/// The swap plans of a run.
pub(super) fn plans(built: &Built) -> Vec<SwapPlan> {
    let cohorts = built.decided.swapped.iter().map(|swapped| swapped.cohort + 1).max().unwrap_or(1);
    let plan = |swapped: &Swapped| {
        let stage = format!("stage {}", swapped.stage);
        let plan = SwapPlan {
            of: if cohorts > 1 {
                format!("{stage}, group {} of {cohorts}", swapped.cohort + 1)
            } else {
                stage
            },
            tensors: swapped.tensors[0],
            away: swapped.tensors[1],
            away_bytes: swapped.bytes,
            again: swapped.again.0,
            again_bytes: swapped.again.1,
            must_leave_bytes: swapped.peak.saturating_sub(swapped.room),
            expected_s: swapped.expected,
            bound_s: swapped.bound,
            proven: swapped.proven,
            slots: swapped.proven.map(|_| SLOTS as u32),
            gap: None,
        };
        SwapPlan { gap: swapped.proven.map(|_| plan.gap()), ..plan }
    };
    built.decided.swapped.iter().map(plan).collect()
}
