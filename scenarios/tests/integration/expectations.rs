//! Promises and citations, compared with runs.

use indexmap::IndexMap;
use reports::summary::{DevicePeak, Difference, Failure, FailureKind, RunSummary};
use scenarios::Experiment;

use crate::support::{SETTINGS, experiment, messages, read};

const VARIANTS: &str = "training: { micro_batches: 8, micro_batch: 1 }
variants: { plain: {}, bpipe: { techniques: { bpipe: {} } } }
sweep: { training.micro_batch: [1, 2] }
";

fn stating(statements: &str) -> Experiment {
    experiment(&format!("{VARIANTS}{statements}"))
}

/// A run of `variant` at a micro-batch size that takes `seconds` for 8 micro-batches; 0 for one that does not fit.
fn run(variant: &str, micro_batch: u64, seconds: f64) -> RunSummary {
    let point = IndexMap::from([("training.micro_batch".to_owned(), micro_batch.to_string())]);
    let mut run =
        RunSummary { variant: variant.to_owned(), point, fits: seconds > 0.0, ..RunSummary::default() };
    if run.fits {
        run.step_time_s = Some(seconds);
        run.samples_per_s = Some(8.0 * micro_batch as f64 / seconds);
        run.bubble_fraction = Some(0.25);
        run.peak_memory_bytes = vec![DevicePeak { peak_bytes: 40_000_000_000, ..DevicePeak::default() }];
    } else {
        let message = "stage 0 is 2 GB short".to_owned();
        run.failure = Some(Failure { kind: FailureKind::OutOfMemory, message, ..Failure::default() });
    }
    run
}

fn runs() -> Vec<RunSummary> {
    vec![run("plain", 1, 1.0), run("bpipe", 1, 1.0), run("plain", 2, 0.0), run("bpipe", 2, 1.6)]
}

/// Whether the one promise holds, and what was measured.
fn verdict(statement: &str) -> (bool, String) {
    let experiment = stating(&format!("expect:\n  - {statement}\n"));
    let check = experiment.promises()[0].check(&runs(), experiment.sources());
    (check.passed, check.measured)
}

fn holds(statement: &str) -> bool {
    verdict(statement).0
}

#[test]
fn the_feasible_point_of_highest_throughput_counts() {
    assert_eq!(verdict("{ faster: bpipe, than: plain, by: [1.2, 1.3] }"), (true, "1.25 times".to_owned()));
    assert!(!holds("{ faster: plain, than: bpipe }"));
    assert!(holds("{ faster: { best_of: [bpipe, plain] }, than: plain }"));
    assert!(!holds("{ faster: bpipe, than: plain, at: { training.micro_batch: 1 } }"));
    assert!(holds("{ faster: bpipe, than: { best_of: [plain], at: { training.micro_batch: 1 } } }"));
}

/// 1.0 of 1.6 s.
#[test]
fn less_is_a_share_of_the_other() {
    let less = "less: plain, than: bpipe, metric: step_time_s";
    assert_eq!(verdict(&format!("{{ {less}, by: [37 %, 38 %] }}")), (true, "by 37.5 %".to_owned()));
    assert!(holds(&format!("{{ {less} }}")) && !holds(&format!("{{ {less}, by: [10 %, 37 %] }}")));
    assert!(!holds("{ less: bpipe, than: plain, metric: step_time_s }"));
}

#[test]
fn a_ratio_may_be_the_mean_over_settings_at_which_both_have_a_result() {
    let check = |runs: &[RunSummary], statement: &str| {
        let experiment = stating(&format!("expect:\n  - {statement}\n"));
        let check = experiment.promises()[0].check(runs, experiment.sources());
        (check.passed, check.measured)
    };
    let statement = "{ faster: bpipe, than: plain, by: [1.7, 1.8], mean_over: [training.micro_batch] }";
    let both = [run("plain", 1, 1.0), run("bpipe", 1, 0.5), run("plain", 2, 3.0), run("bpipe", 2, 2.0)];
    assert_eq!(check(&both, statement), (true, "1.75 times, the mean of 2 settings".to_owned()));
    // What does not fit at a setting leaves it out.
    assert_eq!(check(&runs(), statement), (false, "1.00 times, the mean of 1 settings".to_owned()));
    let nowhere = check(&runs(), "{ faster: bpipe, than: plain, mean_over: [training.sequence] }");
    assert_eq!(nowhere, (false, "no values of training.sequence have results of both".to_owned()));
}

#[test]
fn a_ratio_may_be_the_largest_with_where_it_is_and_what_makes_it() {
    let waiting = |run: RunSummary, launches: f64| {
        let time = run.step_time().expect("it has one");
        let time_breakdown_s = [("compute", time - launches), ("launch-bound", launches)];
        let time_breakdown_s =
            time_breakdown_s.into_iter().map(|(word, time)| (word.to_owned(), time)).collect();
        RunSummary { time_breakdown_s, ..run }
    };
    let runs = [
        waiting(run("plain", 1, 1.0), 0.2),
        waiting(run("bpipe", 1, 0.5), 0.1),
        waiting(run("plain", 2, 4.0), 3.0),
        waiting(run("bpipe", 2, 1.0), 0.75),
    ];
    let statement = "{ faster: bpipe, than: { best_of: [plain] }, most_over: [training.micro_batch] }";
    let experiment = stating(&format!("expect:\n  - {statement}\n"));
    let check = experiment.promises()[0].check(&runs, experiment.sources());
    let words = "4.00 times, bpipe (micro-batch 2) over plain: launch-bound 75.0 %, compute 25.0 %";
    assert_eq!((check.passed, check.measured.as_str()), (true, words));
}

#[test]
fn the_mean_and_the_largest_ratio_are_two_statements() {
    let statement = "{ faster: bpipe, than: plain, mean_over: [training.micro_batch], most_over: [training.micro_batch] }";
    let text = format!("name: test\n{SETTINGS}{VARIANTS}expect:\n  - {statement}\n");
    let failure = read(&text, &[]).expect_err("two statements");
    assert_eq!(messages(&failure), ["`expect[0]` asks for the mean and for the largest ratio"]);
}

#[test]
fn a_missing_share_may_be_the_mean_over_settings() {
    let runs = [run("plain", 1, 1.0), run("bpipe", 1, 0.5), run("plain", 2, 4.0), run("bpipe", 2, 3.0)];
    let less = "less: bpipe, than: plain, metric: step_time_s, mean_over: [training.micro_batch]";
    let experiment = stating(&format!("expect:\n  - {{ {less}, by: [37 %, 38 %] }}\n"));
    let check = experiment.promises()[0].check(&runs, experiment.sources());
    assert_eq!((check.passed, check.measured.as_str()), (true, "by 37.5 %, the mean of 2 settings"));
}

#[test]
fn what_does_not_fit_is_told_with_its_reason() {
    assert!(holds("{ fits: bpipe }"));
    assert!(holds("{ fits: { best_of: [plain, bpipe] } }"));
    assert!(!holds("{ fits: plain }"));
    assert!(holds("{ does_not_fit: plain, at: { training.micro_batch: 2 }, because: gpu-memory }"));
    assert!(!holds("{ does_not_fit: plain, at: { training.micro_batch: 2 }, because: deadlock }"));
    assert!(!holds("{ does_not_fit: plain }"));
    let short = verdict("{ fits: plain, at: { training.micro_batch: 2 } }");
    assert_eq!(short, (false, "stage 0 is 2 GB short".to_owned()));
    let nothing = verdict("{ faster: plain, than: bpipe, at: { training.micro_batch: 2 } }");
    assert_eq!(nothing, (false, "plain has no run that fits".to_owned()));
}

#[test]
fn metrics_are_compared_in_their_units() {
    assert!(holds("{ metric: step_time_s, of: bpipe, between: [1.5 s, 1700 ms] }"));
    assert!(holds("{ metric: step_time_s, of: bpipe, between: [1.5, 1.7] }"));
    assert!(!holds("{ metric: step_time_s, of: bpipe, between: [1.7 s, 1.8 s] }"));
    assert!(holds("{ metric: peak_memory_bytes, of: bpipe, is: 40 GB }"));
    assert!(holds("{ metric: bubble_fraction, of: bpipe, is: 24.9 %, within: 1 % }"));
    assert!(!holds("{ metric: bubble_fraction, of: bpipe, is: 24.9 % }"));
    assert!(holds("{ order: [plain, bpipe], metric: step_time_s }"));
    assert!(!holds("{ order: [bpipe, plain], metric: step_time_s }"));
    assert!(!holds("{ order: [plain, bpipe], metric: bubble_fraction }"));
    assert!(holds("{ equal: plain, to: bpipe, metric: step_time_s, at: { training.micro_batch: 1 } }"));
    assert!(holds("{ equal: plain, to: bpipe, metric: step_time_s, within: 40 % }"));
    assert!(!holds("{ equal: plain, to: bpipe, metric: step_time_s, within: 30 % }"));
    let absent = verdict("{ metric: resident_micro_batches, of: bpipe, is: 5 }");
    assert_eq!(absent, (false, "bpipe (micro-batch 2) has no resident_micro_batches".to_owned()));
}

#[test]
fn citations_stand_beside_ours_with_source_and_difference() {
    let experiment = stating(
        "published:
  - { metric: bubble_fraction, of: bpipe, is: 0.2431, source: Table 5 }
  - { metric: samples_per_s, of: bpipe, is: 9.5, source: Table 4 }
  - { faster: bpipe, than: plain, by: [1.25, 2.17], source: abstract }
",
    );
    let cited: Vec<_> = experiment.citations().iter().map(|citation| citation.cite(&runs())).collect();
    let words: Vec<_> = cited
        .iter()
        .map(|c| (c.text.as_str(), c.published.as_str(), c.ours.as_str(), c.source.as_str()))
        .collect();
    assert_eq!(
        words,
        [
            ("bubble fraction of bpipe", "0.2431", "0.2500", "Table 5"),
            ("samples per second of bpipe", "9.5", "10.0", "Table 4"),
            ("bpipe is faster than plain", "1.25 to 2.17 times", "1.25 times", "abstract"),
        ]
    );
    let Some(Difference::Points(points)) = cited[0].difference else { panic!("a share differs in points") };
    assert!((points - 0.0069).abs() < 1e-9);
    assert!(matches!(cited[1].difference, Some(Difference::Relative(_))));
    assert_eq!(cited[2].difference, None);
}

#[test]
fn a_promise_says_what_it_promises_and_where() {
    let experiment = stating(
        "expect:\n  - { metric: step_time_s, of: bpipe, between: [1 s, 2 s], at: { training.micro_batch: 2 } }\n",
    );
    let check = experiment.promises()[0].check(&runs(), experiment.sources());
    assert_eq!(check.text, "step time of bpipe at micro-batch 2 is between 1 s and 2 s");
    assert_eq!(check.location.as_deref(), Some("test.yaml:15:7"));
}
