//! What was decided about tensors that leave the GPU for memory that the step fits in.

use maud::{Markup, html};

use super::{Page, table_of};
use crate::quantity;
use crate::summary::swap::SwapPlan;

/// The plans of all variants in focus.
pub(super) fn plans(page: &Page<'_>) -> Markup {
    let question = format!("What is swapped{}?", page.place);
    let aid = "What was planned for links as copies of the model share them: the tensors that leave, in the part of a step that was planned (a micro-batch, or all of a pipeline), those that the backward pass produces again instead, what it is expected to take with them, and the least that any choice takes.";
    let titles = &[
        "variant",
        "of",
        ">tensors",
        ">that leave",
        ">bytes",
        ">made again",
        ">must leave",
        ">expected",
        ">at least",
        "solver",
    ];
    table_of(page, |run| &run.swap, (&question, aid), titles, row)
}

fn row(variant: &str, plan: &SwapPlan) -> Markup {
    html! {
        tr {
            td { (variant) }
            td { (plan.of) }
            td.number data-sort=(plan.tensors) { (plan.tensors) }
            td.number data-sort=(plan.away) { (plan.away) }
            td.number data-sort=(plan.away_bytes) { (quantity::bytes(plan.away_bytes)) }
            td.number data-sort=(plan.again_bytes) { (quantity::bytes(plan.again_bytes)) }
            td.number data-sort=(plan.must_leave_bytes) { (quantity::bytes(plan.must_leave_bytes)) }
            td.number data-sort=(plan.expected_s) { (quantity::seconds(plan.expected_s)) }
            td.number data-sort=(plan.bound_s) { (quantity::seconds(plan.bound_s)) }
            td { (plan.solved()) }
        }
    }
}
