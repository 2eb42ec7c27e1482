//! Plans that do not come out even say what would.

use workloads::order::PipelineSchedule;
use workloads::plan::PlanError;

use super::{TransformerPlan, World, gpt, plan, schedule};
use crate::plans::interleaved;

fn problems(nodes: u32, plan: &TransformerPlan) -> Vec<String> {
    match World::dgx_a100(nodes).build(plan) {
        Err(PlanError::Invalid(found)) => found.iter().map(ToString::to_string).collect(),
        other => panic!("{:?}", other.map(|_| "it can be built")),
    }
}

fn assert_says(problems: &[String], words: &[&str]) {
    let said = problems.iter().any(|problem| words.iter().all(|word| problem.contains(word)));
    assert!(said, "nothing says {words:?}: {problems:#?}");
}

#[test]
fn what_does_not_divide_says_what_would() {
    let uneven = problems(3, &plan(gpt(10), [3, 8, 1], 8));
    assert_says(&uneven, &["32 heads", "3 ranks", "2 or 4"]);
    assert_says(&uneven, &["10 layers", "8 stages", "5 or 10"]);

    let mut chunks = plan(gpt(8), [1, 8, 1], 8);
    schedule(&mut chunks, interleaved(3));
    assert_says(&problems(1, &chunks), &["8 layers", "3 chunks"]);

    let mut other = plan(gpt(16), [1, 8, 1], 8);
    other.deployment.pipelining.schedule = PipelineSchedule::ZbV;
    assert_says(&problems(1, &other), &["zb-v", "2 chunks per stage, not 1"]);
}

#[test]
fn missing_gpus_say_how_many_copies_there_is_room_for() {
    assert_says(&problems(1, &plan(gpt(8), [2, 4, 2], 8)), &["are 16 GPUs", "has 8", "`data: 1`"]);
    assert_says(&problems(2, &plan(gpt(9), [2, 3, 3], 9)), &["are 18 GPUs", "has 16", "`data: 2`"]);
    assert_says(
        &problems(1, &plan(gpt(8), [8, 8, 1], 8)),
        &["are 64 GPUs", "has 8", "64 GPUs hold one copy"],
    );
}

#[test]
fn nothing_of_something_is_refused() {
    let mut none = plan(gpt(8), [2, 4, 0], 0);
    none.deployment.pipelining.steps = 0;
    let found = problems(1, &none);
    assert_says(&found, &["micro_batches"]);
    assert_says(&found, &["steps"]);
    assert_says(&found, &["`data: 1`"]);
    for split in [[0, 4, 2], [2, 0, 2]] {
        assert!(!problems(1, &plan(gpt(8), split, 8)).is_empty());
    }
}

#[test]
fn absurd_sizes_end_in_a_message() {
    for split in [[u32::MAX, u32::MAX, u32::MAX], [1, 1, u32::MAX], [65_536, 65_536, 1]] {
        assert!(!problems(1, &plan(gpt(8), split, u32::MAX)).is_empty());
    }
}
