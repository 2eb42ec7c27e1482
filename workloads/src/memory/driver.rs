//! What operators take of the driver in a step, where the allocator has to return memory in each
//! one.

use std::collections::BTreeMap;

use hw_models::allocator::{Segments, Settings, Usage, replay};

use crate::graph::{OpGraph, OpId};

use super::step_list::StepList;
use super::{NotReplayed, RankList, Requester};

/// Steps that are replayed at most until one takes what the step before took.
const STEPS_MAX: usize = 5;

/// What an operator takes of the driver over all its visits in a step. What the framework asks for
/// between operators counts as of the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperatorCalls {
    /// The operator.
    pub op: OpId,
    /// How often it is executed.
    pub visits: u32,
    /// Segments that are returned, for which the device is waited for.
    pub returned: Segments,
    /// Segments that are asked for.
    pub asked: Segments,
}

impl OperatorCalls {
    /// Calls of the operator in its place on another stage; `None`: that has none.
    pub(super) fn on_stage(self, stage: u32, graph: &OpGraph) -> Option<Self> {
        let on = graph.get(self.op).stage;
        if on == stage {
            return Some(self);
        }
        // What is recomputed is in the visit of the backward pass.
        let place = |ops: &[OpId]| ops.iter().position(|&op| op == self.op);
        let mut visits = graph.visits().filter(|((of, ..), _)| *of == on);
        let ((_, chunk, phase), place) = visits.find_map(|(visit, ops)| Some((visit, place(ops)?)))?;
        Some(Self { op: *graph.visit(stage, chunk, phase).get(place)?, ..self })
    }
}

impl RankList {
    /// Calls in a step of a rank that has made two, each as `step` for its micro-batches, with
    /// `room` for segments; none where no memory is returned in such a step. `None`: there is not
    /// enough.
    ///
    /// # Errors
    /// A mistake in the settings.
    pub(super) fn steady_calls(
        mut self,
        (step, micro_batches): (&StepList, u32),
        room: u64,
        settings: &Settings,
    ) -> Result<Option<Vec<OperatorCalls>>, NotReplayed> {
        let mut calls: Option<Vec<OperatorCalls>> = None;
        for _ in 2..=STEPS_MAX {
            let usage = replay(&self.requests, room, settings).map_err(NotReplayed::Mistakes)?;
            if usage.shortage.is_some() {
                return Ok(None);
            }
            let next = self.last_calls(&usage, micro_batches);
            if calls.replace(next) == calls {
                break;
            }
            self.append(step, false);
        }
        let mut calls = calls.unwrap_or_default();
        if calls.iter().all(|call| call.returned.count == 0) {
            calls.clear();
        }
        Ok(Some(calls))
    }

    /// Calls in the last step, by operator.
    fn last_calls(&self, usage: &Usage, visits: u32) -> Vec<OperatorCalls> {
        let from = self.steps.last().copied().unwrap_or(0);
        let mut calls = BTreeMap::new();
        for call in usage.driver.iter().filter(|call| call.request >= from) {
            let Some(op) = self.next_operator(call.request) else { continue };
            let (returned, asked) = Default::default();
            let of_op = calls.entry(op).or_insert(OperatorCalls { op, visits, returned, asked });
            of_op.returned += call.returned;
            of_op.asked += call.asked;
        }
        calls.into_values().collect()
    }

    /// The operator of the graph that makes a request, or the next that makes one.
    fn next_operator(&self, request: usize) -> Option<OpId> {
        let after = self.operators.partition_point(|&(first, _)| first <= request);
        let from = &self.operators[after.saturating_sub(1)..];
        from.iter().find_map(|(_, executed)| match executed.operator {
            Requester::Operator { op, .. } => Some(op),
            Requester::Framework(_) => None,
        })
    }
}
