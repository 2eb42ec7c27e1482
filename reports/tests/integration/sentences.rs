//! The finding: one true sentence for every outcome.

use reports::finding::finding;
use reports::summary::{DevicePeak, Failure, FailureKind, RunSummary};

use crate::fixture::{at, bare, too_big};

/// The sentence for runs without sweep.
fn says(runs: &[RunSummary]) -> String {
    finding(runs, &[], &[], None).to_string()
}

/// The sentence over one axis, whose values are cases.
fn says_over(axis: &str, runs: &[RunSummary]) -> String {
    let axes = [axis.to_owned()];
    finding(runs, &axes, &axes, None).to_string()
}

/// The sentence over one axis, whose values are choices.
fn chooses(axis: &str, runs: &[RunSummary]) -> String {
    finding(runs, &[axis.to_owned()], &[], None).to_string()
}

fn fails(variant: &str, kind: FailureKind, message: &str) -> RunSummary {
    let failure = Failure { kind, message: message.to_owned(), ..Failure::default() };
    RunSummary { variant: variant.to_owned(), failure: Some(failure), ..RunSummary::default() }
}

#[test]
fn the_faster_of_two_with_both_times() {
    let sentence = says(&[bare("plain", 15.9), bare("bpipe", 12.1)]);
    assert_eq!(sentence, "bpipe is 1.31× faster than plain. A step takes 12.1 s against 15.9 s.");
}

#[test]
fn a_small_gain_is_a_percentage() {
    let sentence = says(&[bare("plain", 1.04), bare("bpipe", 1.0)]);
    assert_eq!(sentence, "bpipe is 4.00 % faster than plain. A step takes 1.00 s against 1.04 s.");
}

#[test]
fn steps_of_different_size_are_compared_by_throughput() {
    let small = RunSummary { samples_per_s: Some(100.0), ..bare("small", 1.0) };
    let large = RunSummary { samples_per_s: Some(150.0), ..bare("large", 2.0) };
    assert_eq!(
        says(&[small, large]),
        "large is 1.50× faster than small. It runs at 150 samples/s against 100 samples/s."
    );
}

#[test]
fn the_fastest_of_many_stands_beside_the_next_and_the_slowest() {
    let sentence = says(&[bare("a", 4.0), bare("b", 2.0), bare("c", 3.0)]);
    assert_eq!(
        sentence,
        "b is fastest of 3, by 1.50× over c. It runs at 2.00 s a step, 2.00× faster than a."
    );
}

#[test]
fn no_gain_is_said_as_such() {
    assert_eq!(
        says(&[bare("plain", 1.46), bare("bpipe", 1.46)]),
        "plain and bpipe are equally fast. They run at 1.46 s a step."
    );
    let three = [bare("a", 1.0), bare("b", 1.0), bare("c", 1.0001)];
    assert_eq!(says(&three), "a, b and c are equally fast. They run at 1.00 s a step.");
    let two_of_three = [bare("a", 2.0), bare("b", 1.0), bare("c", 1.0)];
    assert_eq!(
        says(&two_of_three),
        "b and c are equally fast. They run at 1.00 s a step. a is 2.00× slower."
    );
}

#[test]
fn what_does_not_fit_is_named() {
    assert_eq!(
        says(&[too_big("plain", 4_000_000_000), bare("bpipe", 1.5), bare("recompute", 1.8)]),
        "bpipe is 1.20× faster than recompute. A step takes 1.50 s against 1.80 s. plain does not fit."
    );
    assert_eq!(
        says(&[too_big("plain", 4_000_000_000), too_big("gpipe", 9_000_000_000), bare("bpipe", 1.5)]),
        "Only bpipe fits, with 1.50 s a step. plain and gpipe do not fit."
    );
    assert_eq!(
        says(&[too_big("plain", 9_000_000_000), too_big("recompute", 1_200_000_000)]),
        "No variant fits. recompute comes closest: stage 0 is 1.20 GB short."
    );
    assert_eq!(says(&[too_big("plain", 1_200_000_000)]), "plain does not fit: stage 0 is 1.20 GB short.");
}

#[test]
fn other_failures_have_their_own_words() {
    let deadlock = fails("zb", FailureKind::Deadlock, "stage 0 waits for stage 1");
    assert_eq!(says(std::slice::from_ref(&deadlock)), "zb deadlocks: stage 0 waits for stage 1.");
    let limit = fails("huge", FailureKind::Limit, "2e9 activities");
    assert_eq!(says(&[deadlock, limit]), "No variant runs. zb deadlocks. huge reached its limit.");
    let impossible = fails("odd", FailureKind::Infeasible, "8 micro-batches do not divide by 3");
    assert_eq!(
        says(&[impossible, bare("a", 1.0), bare("b", 2.0)]),
        "a is 2.00× faster than b. A step takes 1.00 s against 2.00 s. odd is impossible."
    );
}

#[test]
fn a_single_run_tells_its_time_and_what_it_goes_to() {
    let mut run = bare("plain", 2.0);
    run.time_breakdown_s = [("compute".to_owned(), 1.5), ("pipeline bubble".to_owned(), 0.5)].into();
    assert_eq!(says(&[run]), "plain runs at 2.00 s a step. 75.0 % of it is compute.");
    assert_eq!(says(&[]), "Nothing was run.");
}

#[test]
fn a_winner_at_every_point_comes_with_its_margin() {
    let axis = "training.micro_batches";
    let runs = [
        at(bare("a", 2.0), axis, "8"),
        at(bare("b", 1.0), axis, "8"),
        at(bare("a", 3.0), axis, "16"),
        at(bare("b", 2.0), axis, "16"),
    ];
    assert_eq!(says_over(axis, &runs), "b is fastest in both cases, by 1.50–2.00× over the next best.");
}

#[test]
fn a_crossover_along_a_numeric_axis_is_found_in_any_order_of_the_file() {
    let axis = "techniques.bpipe.transfer.rate";
    let mut runs = Vec::new();
    for (rate, bpipe) in [("200 GB/s", 1.0), ("50 GB/s", 1.9), ("100 GB/s", 1.2), ("25 GB/s", 3.0)] {
        runs.push(at(bare("recompute", 1.5), axis, rate));
        runs.push(at(bare("bpipe", bpipe), axis, rate));
    }
    assert_eq!(
        says_over(axis, &runs),
        "recompute is fastest up to rate 50 GB/s (by 1.27–2.00×). bpipe is fastest from rate 100 GB/s on (by 1.25–1.50×)."
    );
}

#[test]
fn a_crossover_is_found_along_an_axis_that_sets_several_paths() {
    let axes = ["model.layers".to_owned(), "model.parameters".to_owned()];
    let at = |run, layers: &str, size: &str| at(at(run, &axes[0], layers), &axes[1], size);
    let mut runs = Vec::new();
    for (layers, size, c) in [("8", "1 G", 4.0), ("16", "2 G", 3.0), ("32", "4 G", 1.0)] {
        runs.push(at(bare("a", if layers == "8" { 1.0 } else { 3.5 }), layers, size));
        runs.push(at(bare("b", if layers == "16" { 2.0 } else { 3.8 }), layers, size));
        runs.push(at(bare("c", c), layers, size));
    }
    assert_eq!(
        finding(&runs, &axes, &axes, None).to_string(),
        "a is fastest at layers 8 (by 3.80×). c is fastest at layers 32 (by 3.50×). b is fastest at layers 16 (by 1.50×)."
    );
}

#[test]
fn a_variant_that_runs_nowhere_is_named() {
    let axis = "training.micro_batches";
    let mut runs = Vec::new();
    for value in ["8", "16"] {
        runs.push(at(too_big("plain", 5), axis, value));
        runs.push(at(fails("zb", FailureKind::Deadlock, "stage 0 waits"), axis, value));
        runs.push(at(bare("a", 1.0), axis, value));
        runs.push(at(if value == "8" { too_big("b", 5) } else { bare("b", 2.0) }, axis, value));
    }
    assert_eq!(
        says_over(axis, &runs),
        "a is fastest in both cases, by 2.00× over the next best. plain never fits. zb always deadlocks."
    );
}

#[test]
fn winners_that_alternate_are_counted() {
    let axis = "p";
    let mut runs = Vec::new();
    for (point, a) in [("1", 1.0), ("2", 3.0), ("4", 1.0), ("8", 3.0)] {
        runs.push(at(bare("a", a), axis, point));
        runs.push(at(bare("b", 2.0), axis, point));
    }
    assert_eq!(
        says_over(axis, &runs),
        "Of 4 cases a is fastest in 2, b in 2. a leads by 2.00×, b leads by 1.50×."
    );
}

#[test]
fn memory_decides_between_equally_fast_variants() {
    let needs = |run: RunSummary, peak_bytes| {
        let device = DevicePeak { peak_bytes, ..DevicePeak::default() };
        RunSummary { peak_memory_bytes: vec![device], ..run }
    };
    let runs = |scale: u64| {
        [
            needs(bare("keep", 1.0), 1000 * scale),
            needs(bare("offload", 1.0), 590 * scale),
            needs(bare("recompute", 1.3), 500 * scale),
        ]
    };
    assert_eq!(
        says(&runs(1)),
        "offload is as fast as keep. It runs at 1.00 s a step, with 41.0 % less peak memory than keep. recompute is 1.30× slower."
    );
    let axis = "model.hidden";
    let sweep: Vec<_> = ["1", "2"].iter().flat_map(|value| runs(1).map(|run| at(run, axis, value))).collect();
    assert_eq!(
        says_over(axis, &sweep),
        "offload is as fast as keep in both cases. It runs with 41.0 % less peak memory than keep. recompute is 1.30× slower."
    );
}

/// A choice has a best value, a case has not.
#[test]
fn the_best_setting_is_named_among_choices_only() {
    let rate = |run: RunSummary, samples_per_s| RunSummary { samples_per_s: Some(samples_per_s), ..run };
    let axis = "training.micro_batch";
    let runs = [
        at(rate(bare("plain", 1.0), 50.0), axis, "1"),
        at(rate(bare("bpipe", 1.0), 40.0), axis, "1"),
        at(too_big("plain", 5), axis, "2"),
        at(rate(bare("bpipe", 1.0), 65.0), axis, "2"),
    ];
    assert_eq!(
        chooses(axis, &runs),
        "bpipe at micro-batch 2 is 1.30× faster than plain at its best. It runs at 65.0 samples/s against 50.0 samples/s."
    );
    assert_eq!(
        says_over(axis, &runs),
        "plain is fastest at micro-batch 1 (by 1.25×). bpipe is fastest at micro-batch 2."
    );
}

/// Steps of different points do different work, and where no more is known of them none is better.
#[test]
fn steps_of_unknown_work_are_compared_point_by_point() {
    let axis = "training.micro_batch";
    let runs = [
        at(bare("a", 1.0), axis, "1"),
        at(bare("b", 2.0), axis, "1"),
        at(bare("a", 2.0), axis, "2"),
        at(bare("b", 4.0), axis, "2"),
    ];
    assert_eq!(chooses(axis, &runs), "a is fastest in both cases, by 2.00× over the next best.");
}

#[test]
fn one_variant_over_choices_is_compared_with_itself() {
    let axis = "training.micro_batch";
    let run = |value: &str, rate: f64| {
        at(RunSummary { samples_per_s: Some(rate), ..bare("plain", 1.0) }, axis, value)
    };
    let runs = [run("1", 50.0), run("2", 80.0), at(too_big("plain", 5), axis, "4")];
    assert_eq!(
        chooses(axis, &runs),
        "micro-batch 2 is 1.60× faster than micro-batch 1. It runs at 80.0 samples/s against 50.0 samples/s. micro-batch 4 does not fit."
    );
    let never = [at(too_big("plain", 5), axis, "4"), at(too_big("plain", 7), axis, "8")];
    assert_eq!(
        chooses(axis, &never),
        "No variant fits at any of the 2 settings. plain (micro-batch 4) comes closest: stage 0 is 5 B short."
    );
}

#[test]
fn one_variant_over_cases_is_not_ranked() {
    let axis = "model.layers";
    let run = |value: &str, rate: f64| {
        at(RunSummary { samples_per_s: Some(rate), ..bare("plain", 1.0) }, axis, value)
    };
    let runs = [run("8", 80.0), run("16", 50.0), at(too_big("plain", 5), axis, "32")];
    assert_eq!(
        says_over(axis, &runs),
        "plain runs at 50.0 samples/s to 80.0 samples/s in 2 cases. It is slowest at layers 16, fastest at layers 8. Nothing runs in 1 of 3 cases."
    );
}

/// Runs of a variant that fail for several reasons are not said to fail for one.
#[test]
fn a_variant_that_fails_for_several_reasons_never_runs() {
    let axis = "model.layers";
    let runs = [
        at(bare("a", 1.0), axis, "8"),
        at(fails("b", FailureKind::Deadlock, "stage 0 waits"), axis, "8"),
        at(bare("a", 1.0), axis, "16"),
        at(too_big("b", 5), axis, "16"),
    ];
    assert_eq!(says_over(axis, &runs), "a is fastest in both cases. b never runs.");
}
