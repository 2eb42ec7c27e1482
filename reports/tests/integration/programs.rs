//! Programs as results: terminal and page.

use reports::summary::{ExecutedProgram, LaneTime, Phase, RunSummary};
use reports::terminal::Style;
use reports::{Summary, html, state, terminal};

use crate::fixture::{bare, summary};

/// A program executed eagerly and co-executed, whose first iterations are traced.
pub(crate) fn programs() -> Summary {
    let lane = |name: &str, times: &[(&str, f64)]| LaneTime {
        name: name.to_owned(),
        time_s: times.iter().map(|(cause, time)| ((*cause).to_owned(), *time)).collect(),
    };
    let phase = |(from, ran): (u64, &str)| Phase { from, ran: ran.to_owned() };
    let eager = ExecutedProgram {
        execution: "eager".to_owned(),
        framework: "pytorch-2".to_owned(),
        iterations: 200,
        simulated: 48,
        mean_iteration_s: 0.1,
        ran: [("eager".to_owned(), 48)].into(),
        phases: vec![phase((1, "eager"))],
        iteration_s: vec![0.1; 48],
        lanes: vec![
            lane("thread[python]", &[(state::PYTHON, 0.06), (state::QUEUE_FULL, 0.04)]),
            lane("gpu[0].stream[0]", &[(state::KERNELS, 0.09), (state::LAUNCH_BOUND, 0.01)]),
        ],
        ..ExecutedProgram::default()
    };
    let times = [vec![0.12, 4.0], vec![0.08; 38], vec![0.12], vec![0.08; 7]].concat();
    let terra = ExecutedProgram {
        execution: "co-execution: { depth: 2 }".to_owned(),
        mean_iteration_s: 0.1,
        mean_iteration_spread_s: Some([0.09, 0.11]),
        coverage: 45.0 / 48.0,
        ran: [("tracing", 2), ("co-executed", 45), ("fell back", 1)]
            .map(|(ran, count)| (ran.to_owned(), count))
            .into(),
        phases: [(1, "tracing"), (3, "co-executed"), (41, "fell back"), (42, "co-executed")]
            .map(phase)
            .into(),
        iteration_s: times,
        lanes: vec![
            lane(
                "thread[python]",
                &[
                    (state::PYTHON, 0.03),
                    (state::BUILDING, 0.02),
                    (state::WAITING_FOR_DEVICE, 0.04),
                    (state::INTERPRETER_LOCK, 0.01),
                ],
            ),
            lane("thread[graph]", &[(state::RUNTIME_CALLS, 0.01), (state::WAITING_FOR_PATH, 0.09)]),
            lane("gpu[0].stream[0]", &[(state::KERNELS, 0.07), (state::LAUNCH_BOUND, 0.03)]),
        ],
        ..eager.clone()
    };
    let run = |variant: &str, step, program: ExecutedProgram| RunSummary {
        time_breakdown_s: program.lanes.last().map(|gpu| gpu.time_s.clone()).unwrap_or_default(),
        program: Some(program),
        ..bare(variant, step)
    };
    summary("program", &[], vec![run("eager", 0.1, eager), run("terra", 0.08, terra)])
}

#[test]
fn a_program_is_told_by_its_executions_phases_and_lanes() {
    let mut out = Vec::new();
    terminal::write(&mut out, &programs(), Style::default()).expect("a vector takes every byte");
    let text = String::from_utf8(out).expect("text");
    let (told, _) = text.split_once("expectations").expect("they follow");
    insta::assert_snapshot!(told);
}

#[test]
fn the_page_draws_iterations_and_lanes() {
    let page = |summary: &Summary| {
        let mut out = Vec::new();
        html::write(&mut out, summary).expect("a vector takes every byte");
        String::from_utf8(out).expect("text")
    };
    let with = page(&programs());
    for part in [
        "How was the program executed?",
        "terra in pytorch-2: 48 iterations simulated of 200, the rest repeat",
        "time of an iteration (logarithmic)",
        "What does the GPU spend",
        "40.0 %, most launch queue full",
        "What do the lanes spend an iteration of terra on?",
        "100 ms (90.0 ms to 110 ms)",
    ] {
        assert!(with.contains(part), "{part}");
    }
    // Without programs there is nothing of it, and without spikes no logarithm.
    let mut without = programs();
    without.variants.iter_mut().for_each(|run| run.program = None);
    assert!(!page(&without).contains("program executed"));
    let mut even = programs();
    even.variants.truncate(1);
    let even = page(&even);
    assert!(even.contains("time of an iteration") && !even.contains("(logarithmic)"));
}
