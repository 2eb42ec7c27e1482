//! Steps that leave out the update, or everything but forward passes.

use sim_core::time::Time;
use workloads::model::transformer::Step;
use workloads::names::kind;

use super::{Ran, World, gpt, plan};

fn run(step: Step, ranks: [u32; 3], micro_batches: u32) -> Ran {
    let mut plan = plan(gpt(8), ranks, micro_batches);
    plan.execution.step = step;
    World::dgx_a100(1).completed(&plan)
}

#[test]
fn what_an_update_takes_does_not_depend_on_micro_batches() {
    let update = |micro_batches| {
        let time = |step| run(step, [1, 1, 1], micro_batches).run.time;
        time(Step::Whole) - time(Step::Gradients)
    };
    assert!(update(1) > Time::ZERO);
    assert_eq!(update(1), update(3));
}

#[test]
fn forward_passes_alone_take_about_a_third_and_keep_nothing() {
    for ranks in [[1, 1, 1], [2, 2, 2], [1, 4, 1]] {
        let (gradients, forward) = (run(Step::Gradients, ranks, 4), run(Step::Forward, ranks, 4));
        let share = forward.seconds() / gradients.seconds();
        assert!((0.25..0.45).contains(&share), "{ranks:?}: {share}");
        assert_eq!(forward.activations(0), 0);
        assert_eq!(forward.at_peak(0, &[kind::GRADIENTS, kind::OPTIMIZER]), 0);
        assert_eq!(gradients.at_peak(0, &[kind::OPTIMIZER]), 0);
        assert!(gradients.at_peak(0, &[kind::GRADIENTS]) > 0);
    }
}
