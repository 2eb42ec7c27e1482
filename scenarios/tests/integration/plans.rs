//! What running an experiment takes is known, and limited, before anything is built.

use std::sync::atomic::{AtomicU64, Ordering};

use scenarios::Experiment;
use scenarios::run::{MAX_RUNS, Options, Plan, Progress, Refusal, Unwatched, execute, plan as sized};

use crate::support::experiment;

/// Counts what is sized up and run.
#[derive(Default)]
struct Counted(AtomicU64);

impl Progress for Counted {
    fn begin(&self, _: u64) {}
    fn done(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn plan(experiment: &Experiment, options: &Options) -> Result<Plan, Refusal> {
    sized(experiment, options, &Unwatched)
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

/// None of them is even sized up: a million runs cost as little as a hundred thousand and one.
#[test]
fn more_runs_than_a_report_holds_are_refused_at_once() {
    let large = sweep("", [1000, 1000]);
    let refusal = Refusal::TooManyRuns { points: 1_000_000, variants: 1, runs: 1_000_000, limit: MAX_RUNS };
    assert!(refusal.to_string().contains("`where`"), "{refusal}");
    let counted = Counted::default();
    assert_eq!(sized(&large, &options(), &counted), Err(refusal.clone()));
    assert_eq!(execute(&large, &options(), &counted), Err(refusal));
    assert_eq!(counted.0.into_inner(), 0);
}

#[test]
fn runs_that_where_leaves_out_do_not_count() {
    let narrowed = |limit: u64| {
        let narrow = format!("where: [\"training.micro_batches <= {limit}\"]\n");
        plan(&sweep(&narrow, [1000, 1000]), &options())
    };
    assert_eq!(narrowed(3).map(|plan| plan.points), Ok(3000));
    assert!(matches!(narrowed(101), Err(Refusal::TooManyRuns { points: 101_000, .. })));
    let nothing = narrowed(0).expect_err("no point is left");
    assert_eq!(nothing, Refusal::NothingRuns { reasons: Vec::new() });
    assert!(nothing.to_string().contains("no point of the sweep meets `where`"), "{nothing}");
}

/// On any number of threads.
#[test]
fn sizes_do_not_depend_on_threads() {
    let sweep = sweep("", [40, 3]);
    let on = |jobs| plan(&sweep, &Options { jobs: Some(jobs), ..options() });
    assert_eq!(on(1), on(3));
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
    let refused = plan(&wide, &options());
    assert_eq!(execute(&wide, &options(), &Unwatched).err(), refused.clone().err());
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

/// A long run is drawn from what is kept of it: fewer boxes, the same step, and the peak of its
/// memory.
#[test]
fn a_long_run_is_drawn_as_well() {
    let pipeline = experiment(
        "training: { micro_batches: 8 }
variants: { short: {}, long: { training: { micro_batches: 32768 } } }
",
    );
    let summary = execute(&pipeline, &options(), &Unwatched).expect("both run");
    for run in &summary.variants {
        let timeline = run.timeline.as_ref().expect("it is drawn");
        let step = run.step_time().expect("it fits");
        assert!((timeline.end_s / step - 1.0).abs() < 0.01, "{} of {step}", timeline.end_s);
        let boxes: usize = timeline.rows.iter().map(|row| row.spans.len()).sum();
        assert!((32..=20_000).contains(&boxes), "{boxes} boxes");
        let detail = run.detail.as_ref().expect("it can be opened");
        assert!(
            !detail.path.is_empty()
                && detail.lanes.iter().all(|lane| !lane.is_main || !lane.spans.is_empty())
        );
        let curve = &run.memory_curves[0];
        let peak = curve.points.iter().map(|point| point.bytes.iter().sum::<u64>()).max();
        let told = run.peak_memory_bytes.iter().map(|device| device.peak_bytes).max();
        assert_eq!(peak, told, "{}", run.variant);
    }
}
