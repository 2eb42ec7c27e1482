//! What was decided about tensors that leave for memory that a step fits in.

use serde::{Deserialize, Serialize};

use crate::quantity;

/// The plan of a stage, or of those copies of it that move the same tensors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SwapPlan {
    /// Whose it is ("stage 0", "stage 0, group 2 of 4").
    pub of: String,
    /// Tensors that could leave.
    pub tensors: u32,
    /// Those that do.
    pub away: u32,
    /// What they have in the part of a step that was planned: a micro-batch, or all of a pipeline.
    pub away_bytes: u64,
    /// Tensors that the backward pass produces again instead; absent where none is.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub again: u32,
    /// What one micro-batch has of them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub again_bytes: u64,
    /// What is beyond the GPU's memory at the peak, and must leave.
    pub must_leave_bytes: u64,
    /// Expected time of that part of a step on links that copies share.
    pub expected_s: f64,
    /// The least that any choice of tensors takes there: operators or copies, or what a solver has proven.
    pub bound_s: f64,
    /// True if a solver has proven the optimum of its program, in which time is cut into [`slots`](Self::slots); absent where none was
    /// asked.
    pub proven: Option<bool>,
    /// Slots of time in that program. The plan made of its solution is judged operator by operator.
    pub slots: Option<u32>,
    /// By which part of the expected time a better choice could be faster at most, where a solver was asked.
    pub gap: Option<f64>,
}

impl SwapPlan {
    /// By which part of the expected time a better choice could be faster at most.
    pub fn gap(&self) -> f64 {
        if self.expected_s > 0.0 { 1.0 - self.bound_s / self.expected_s } else { 0.0 }
    }

    /// What a solver found, in words.
    pub fn solved(&self) -> String {
        let slots = self.slots.map_or_else(String::new, |slots| format!(" in {slots} time slots"));
        let gap = quantity::percent(self.gap());
        match self.proven {
            None => "not asked".to_owned(),
            Some(true) => format!("optimum{slots} proven, plan at most {gap} from its bound"),
            Some(false) => format!("stopped at its limit{slots}, plan at most {gap} from its bound"),
        }
    }
}

fn is_zero<T: Default + PartialEq>(count: &T) -> bool {
    *count == T::default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proven_optimum_says_of_what_and_how_far_its_plan_is_from_the_bound() {
        let plan = |proven| SwapPlan {
            expected_s: 2.0,
            bound_s: 1.5,
            proven,
            slots: Some(32),
            ..SwapPlan::default()
        };
        assert_eq!(
            plan(Some(true)).solved(),
            "optimum in 32 time slots proven, plan at most 25.0 % from its bound"
        );
        assert!(plan(Some(false)).solved().starts_with("stopped at its limit in 32 time slots"));
        assert_eq!(plan(None).solved(), "not asked");
    }
}
