//! What running an experiment takes is known, and limited, before anything is built.

use scenarios::Experiment;
use scenarios::run::{MAX_RUNS, Options, Progress, Refusal, execute, plan};

use crate::support::experiment;

/// Refuses to let a run begin.
struct Untouched;

impl Progress for Untouched {
    fn begin(&self, _: u64) {
        panic!("nothing should be run");
    }
    fn done(&self) {}
}

fn options() -> Options {
    Options { seed: 1, jobs: Some(1), variants: Vec::new(), reproduce: String::new() }
}

/// Points of `axis`, each 1 to so many.
fn sweep(more: &str, sizes: [u64; 2]) -> Experiment {
    experiment(&format!(
        "training: {{ micro_batches: 8 }}
{more}
sweep:
  training.micro_batches: {{ from: 1, to: {}, steps: {} }}
  run.steps.measured: {{ from: 1, to: {}, steps: {} }}
",
        sizes[0], sizes[0], sizes[1], sizes[1]
    ))
}

#[test]
fn more_runs_than_a_report_holds_are_sized_up_and_refused() {
    let large = sweep("", [200, 501]);
    assert_eq!(plan(&large, &options()).map(|plan| plan.points), Ok(100_200));
    let refusal = Refusal::TooManyRuns { points: 100_200, variants: 1, runs: 100_200, limit: MAX_RUNS };
    assert!(refusal.to_string().contains("`where`"), "{refusal}");
    assert_eq!(execute(&large, &options(), &Untouched), Err(refusal));
}

#[test]
fn more_runs_than_can_be_sized_up_are_refused_at_once() {
    let variants: Vec<String> = (0..11).map(|number| format!("v{number}: {{}}")).collect();
    let huge = sweep(&format!("variants: {{ {} }}", variants.join(", ")), [1000, 1000]);
    let refused = plan(&huge, &options());
    assert!(matches!(refused, Err(Refusal::TooManyRuns { runs: 11_000_000, .. })), "{refused:?}");
}

#[test]
fn runs_of_many_stages_count_by_their_stages() {
    let wide = experiment(
        "training: { micro_batches: 1 }
sweep:
  model.profiled_pipeline.stages: [4096]
  training.micro_batches: { from: 1, to: 200, steps: 200 }
",
    );
    let refused = execute(&wide, &options(), &Untouched);
    assert!(matches!(refused, Err(Refusal::TooManyStages { stages: 819_200, .. })), "{refused:?}");
}

#[test]
fn of_the_runs_above_their_limit_the_largest_is_named() {
    let limited = experiment(
        "training: { micro_batches: 8 }
run: { limit: 10 }
variants: { plain: {}, split: { parallelism: { schedule: zb-h1 } }, small: { training: { micro_batches: 4 } } }
",
    );
    let Err(Refusal::TooLarge { variant, activities, limit: 10 }) = plan(&limited, &options()) else {
        panic!("all three are above 10 activities");
    };
    let lifted = |variant: &str| {
        let lifted = experiment(
            "training: { micro_batches: 8 }\nvariants: { plain: {}, split: { parallelism: { schedule: zb-h1 } } }\n",
        );
        let chosen = Options { variants: vec![variant.to_owned()], ..options() };
        plan(&lifted, &chosen).expect("within the default limit").activities
    };
    assert_eq!((variant.as_str(), activities), ("split", lifted("split")));
    assert!(lifted("plain") < activities);
}

#[test]
fn a_run_too_long_to_be_drawn_says_so() {
    struct Unwatched;
    impl Progress for Unwatched {
        fn begin(&self, _: u64) {}
        fn done(&self) {}
    }
    let pipeline = experiment(
        "training: { micro_batches: 8 }
variants: { short: {}, long: { training: { micro_batches: 32768 } } }
",
    );
    let summary = execute(&pipeline, &options(), &Unwatched).expect("both run");
    let drawn: Vec<_> =
        summary.variants.iter().map(|run| (run.timeline.is_some(), run.not_drawn.is_some())).collect();
    assert_eq!(drawn, [(true, false), (false, true)]);
}
