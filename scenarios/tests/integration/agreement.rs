//! `check` says what `run` says: what can be told without building is told at once, at its place and with a remedy.

use scenarios::run::{Plan, Reason, Refusal, Unwatched, execute, plan as sized};
use scenarios::{Experiment, Failure};

use crate::support::{experiment, messages, options, read, run};

/// A list of layers on a node of GPUs that have kernels of convolutions in fp32 alone.
const CONVOLUTIONS: &str = "name: convolutions
machine: { node: { name: dgx-1p } }
model: { layers: { preset: resnet-50 } }
training: { micro_batch: 8, accumulate: 1, precision: fp16-mixed }
parallelism: { data: 1, idle: allow }
";

/// The only problem of a file, with its remedy and the line of its place.
fn problem(text: &str) -> (String, String, u32) {
    let failure: Failure = read(text, &[]).expect_err("it cannot be run");
    let [problem] = &failure.problems[..] else { panic!("{:?}", messages(&failure)) };
    (problem.message.clone(), problem.help.clone().unwrap_or_default(), problem.notes[0].mark.line)
}

fn plan(experiment: &Experiment) -> Result<Plan, Refusal> {
    sized(experiment, &options(), &Unwatched)
}

#[test]
fn more_operators_than_are_built_are_told_by_the_check() {
    let text = "name: large
model:
  profiled_pipeline:
    stages: 4096
    forward: 1 ms
    backward_input: 1 ms
    backward_weight: 1 ms
    transfer: 0 ms
    activation: 1 MB
training: { micro_batches: 4096 }
";
    let (message, help, line) = problem(text);
    assert!(message.starts_with("`training.micro_batches`: 33554432 operators"), "{message}");
    assert!(help.contains("fewer micro-batches"), "{help}");
    assert_eq!(line, 10);
}

#[test]
fn kernels_that_nobody_knows_are_told_by_the_check() {
    let (message, help, line) = problem(CONVOLUTIONS);
    assert!(message.contains("no kernel parameters for convolutions of fp16"), "{message}");
    assert!(help.contains("`training.precision`"), "{help}");
    assert_eq!(line, 4);
}

/// A point is impossible for the check, as it is for the run, which shows the first that is not.
#[test]
fn an_impossible_point_is_told_by_check_and_run_alike() {
    let sweep = "sweep: { training.precision: [fp16-mixed, fp32] }\n";
    let experiment = read(&format!("{CONVOLUTIONS}{sweep}"), &[]).expect("fp32 can be run");
    let plan = plan(&experiment).expect("one point can be run");
    assert_eq!((plan.runs, plan.infeasible), (1, 1));
    let summary = run(&experiment);
    let [fp16, fp32] = &summary.variants[..] else { panic!("two points") };
    let failure = fp16.failure.as_ref().expect("there are no kernels");
    let [Reason { reason, runs: 1 }] = &plan.reasons[..] else { panic!("{:?}", plan.reasons) };
    assert_eq!(failure.message, *reason);
    assert!(fp32.step_time().is_some());
    assert!(summary.resolved_scenario.contains("precision: fp32"), "{}", summary.resolved_scenario);
}

#[test]
fn where_nothing_can_be_run_check_and_run_refuse_alike() {
    let sweep = "sweep: { training.micro_batch: [8, 16, 32] }\n";
    let experiment = read(&format!("{CONVOLUTIONS}{sweep}"), &[]).expect("it is a matter of its points");
    let refusal = plan(&experiment).expect_err("no point can be run");
    let Refusal::NothingRuns { reasons } = &refusal else { panic!("{refusal}") };
    assert_eq!(reasons.iter().map(|reason| reason.runs).collect::<Vec<_>>(), [3]);
    assert!(refusal.to_string().contains("3 x no kernel parameters for convolutions of fp16"), "{refusal}");
    assert_eq!(execute(&experiment, &options(), &Unwatched), Err(refusal));
}

/// Reasons are counted by rule, whatever their numbers, the most frequent first.
#[test]
fn impossible_points_are_counted_by_reason() {
    let text = "name: reasons
machine: { node: { name: dgx-a100-80g } }
model: { transformer: { preset: gpt2-xl, heads: 20, head_dim: 80 } }
training: { global_batch: 48, micro_batch: 1, sequence: 1024 }
sweep:
  parallelism.tensor: [1, 2, 8]
  training.micro_batch: [1, 5, 7]
";
    let plan = plan(&read(text, &[]).expect("some points can be run")).expect("some points can be run");
    let reasons: Vec<(u64, &str)> =
        plan.reasons.iter().map(|Reason { reason, runs }| (*runs, reason.as_str())).collect();
    let [(4, copies), (3, heads), (2, alone)] = reasons[..] else { panic!("{reasons:?}") };
    assert!(copies.ends_with("micro-batches of 5 for 8 copies of the model"), "{copies}");
    assert!(heads.contains("20 heads cannot be split evenly over 8 ranks"), "{heads}");
    assert!(alone.ends_with("micro-batches of 5"), "{alone}");
    assert_eq!((plan.points, plan.infeasible, plan.runs), (9, 7, 2));
}

#[test]
fn sends_that_would_wait_for_ever_are_refused() {
    let rendezvous = |schedule: &str| {
        format!(
            "name: sends
model: {{ profiled_pipeline: {{ stages: 4, forward: 1 ms, backward_input: 1 ms, backward_weight: 1 ms, transfer: 1 ms, activation: 1 MB }} }}
training: {{ micro_batches: 8 }}
parallelism: {{ send: rendezvous, schedule: {schedule} }}
"
        )
    };
    for deep in ["{ interleaved: { chunks: 2 } }", "zb-h2", "zb-v", "{ zb-auto: { memory_limit: 8 } }"] {
        let (message, help, line) = problem(&rendezvous(deep));
        assert!(message.contains("`rendezvous` deadlocks under"), "{deep}: {message}");
        assert!(help.contains("send: eager"), "{deep}: {help}");
        assert_eq!(line, 4);
    }
    for in_turn in ["gpipe", "1f1b", "zb-h1"] {
        let experiment = read(&rendezvous(in_turn), &[]).unwrap_or_else(|failure| panic!("{failure}"));
        assert!(run(&experiment).variants[0].step_time().is_some(), "{in_turn}");
    }
}

#[test]
fn a_path_that_does_not_exist_is_a_problem_of_the_file() {
    let text = "name: drives
machine: { node: { name: dgx-a100-80g } }
model: { layers: { preset: resnet-50 } }
training: { micro_batch: 8, accumulate: 1 }
storage: { nvme: { drives: 4, path: third } }
techniques: { activation_offload: { to: drives } }
";
    let (message, help, line) = problem(text);
    assert_eq!(message, "there is no path `third` to drives");
    assert!(help.contains("direct"), "{help}");
    assert_eq!(line, 5);
}

#[test]
fn groups_of_parameters_are_counted_before_they_are_built() {
    let text = |group: &str| {
        format!(
            "name: groups
machine: {{ node: {{ name: dgx-a100-80g }} }}
model: {{ transformer: {{ preset: megatron-22b }} }}
training: {{ micro_batch: 1, accumulate: 1, sequence: 2048 }}
parallelism: {{ tensor: 8 }}
techniques: {{ zero_offload: {{ group: {group} }} }}
"
        )
    };
    let (message, help, line) = problem(&text("2"));
    assert!(message.starts_with("`techniques.zero_offload.group`: groups of 2 out of"), "{message}");
    assert_eq!(line, 6);
    let enough = help
        .split('`')
        .nth(1)
        .and_then(|group| group.strip_prefix("group: "))
        .expect("a group that would do");
    assert!(read(&text(enough), &[]).is_ok(), "the remedy helps: {enough}");
}

#[test]
fn the_first_possible_point_is_the_one_that_is_shown() {
    let experiment = experiment(
        "training: { micro_batches: 8 }
parallelism: { schedule: { interleaved: { chunks: 2 } } }
sweep: { training.micro_batches: [3, 5, 8] }
",
    );
    let summary = run(&experiment);
    assert!(summary.resolved_scenario.contains("micro_batches: 8"), "{}", summary.resolved_scenario);
    let shown = scenarios::run::shown(&experiment, &options(), &summary, &str::to_owned);
    let shown = shown.expect("its variant exists");
    assert!(shown.contains("micro_batches: 8"), "{shown}");
}
