//! Running: what is printed, in which form, and with which exit code.

use super::support::{PIPELINE, Sandbox, assert_session};

const KEPT: &str = "expect:\n  - { fits: 1f1b }\n  - { does_not_fit: gpipe, because: gpu-memory }\n";
const BROKEN: &str =
    "expect:\n  - { fits: 1f1b }\n  - { metric: bubble_fraction, of: 1f1b, between: [0, 0.1] }\n";

#[test]
fn a_run_says_what_it_found_and_where_the_report_is() {
    let sandbox = Sandbox::with_pipeline("run", KEPT);
    assert_session!("run", sandbox.session(&["run small.yaml"]));
}

#[test]
fn what_does_not_fit_is_told_with_what_would() {
    let sandbox = Sandbox::with_pipeline("does-not-fit", "");
    assert_session!("does-not-fit", sandbox.session(&["run small.yaml --variant gpipe"]));
}

/// That nothing fits is a result, but not where a step time is asked for and nobody promised none.
#[test]
fn a_run_without_any_step_time_fails_only_where_that_is_asked_for() {
    let sandbox = Sandbox::with_pipeline("numbers", "");
    assert_eq!(sandbox.run("run small.yaml").exit, 0, "one of two fits");
    assert_eq!(sandbox.run("run small.yaml --variant gpipe").exit, 0);
    let nothing = sandbox.run("run small.yaml --variant gpipe --fail-if-none-fits");
    assert_eq!(nothing.exit, 1);
    assert!(nothing.err.contains("no run gives a step time"), "{}", nothing.err);
    assert!(sandbox.path("out/small/report.html").exists(), "what would fit is in it");
    sandbox.write("promised.yaml", format!("{PIPELINE}{KEPT}"));
    assert_eq!(sandbox.run("run promised.yaml --variant gpipe --fail-if-none-fits").exit, 0);
}

#[test]
fn where_nothing_can_be_run_check_and_run_end_alike() {
    let sandbox = Sandbox::with_pipeline(
        "nothing",
        "  inter: { parallelism: { schedule: { interleaved: { chunks: 2 } } } }\nsweep: { training.micro_batches: [9, 10] }\n",
    );
    let run = sandbox.run("run small.yaml --variant inter");
    assert_eq!(run.exit, 2);
    let told = "error: no run is possible: change what makes them so\n  2 x the interleaved schedule needs a multiple of 4 \
                micro-batches, not 9\n";
    assert_eq!(run.err, told);
    assert_eq!(sandbox.run("run small.yaml --variant inter --plan").err, told);
}

#[test]
fn a_broken_promise_makes_the_exit_code_one() {
    let sandbox = Sandbox::with_pipeline("promise", BROKEN);
    let answer = sandbox.run("run small.yaml");
    assert_eq!(answer.exit, 1, "{}", answer.err);
    let broken = answer.out.lines().find(|line| line.contains('✗')).expect("the promise that is broken");
    assert!(broken.contains("small.yaml:17:7"), "{broken}");
    assert!(sandbox.path("out/small/report.html").exists(), "the results are needed all the more");
}

#[test]
fn json_and_csv_on_standard_output_are_those_of_the_files() {
    let sandbox = Sandbox::with_pipeline("formats", "");
    assert_eq!(sandbox.run("run small.yaml --format json").out, sandbox.read("out/small/results.json"));
    assert_eq!(sandbox.run("run small.yaml --format csv").out, sandbox.read("out/small/results.csv"));
    assert_session!("csv", sandbox.session(&["run small.yaml --format csv --variant 1f1b"]));
}

#[test]
fn the_json_is_enough_to_repeat_the_run() {
    let sandbox = Sandbox::with_pipeline("repeat", "");
    let first = sandbox
        .run("run small.yaml --set training.micro_batches=6 --seed 7 --variant 1f1b --format json --jobs 2");
    let command = first.json()["reproduce"].as_str().expect("a command").to_owned();
    assert_eq!(command, "foretrain run small.yaml --set training.micro_batches=6 --variant 1f1b --seed 7");
    sandbox.run(command.strip_prefix("foretrain ").expect("it is ours"));
    assert_eq!(first.out, sandbox.read("out/small/results.json"));
}

#[test]
fn several_files_run_in_turn_and_the_worst_end_counts() {
    let sandbox = Sandbox::with_pipeline("several", BROKEN);
    sandbox.write("other/small.yaml", super::support::PIPELINE);
    sandbox.write("bad.yaml", "name: bad\nmodle: {}\n");
    let answer = sandbox.run("run small.yaml bad.yaml other/small.yaml");
    assert_eq!(answer.exit, 2);
    assert!(answer.err.contains("bad.yaml:2:1"), "{}", answer.err);
    assert_eq!(sandbox.names("out"), ["small", "small-2"], "two files of one name");
    assert_eq!(sandbox.run("run other/small.yaml small.yaml").exit, 1);
}

#[test]
fn colour_is_there_when_asked_for_and_never_in_a_pipe() {
    let sandbox = Sandbox::with_pipeline("colour", "");
    let has_colour = |words: &str| sandbox.run(words).out.contains('\u{1b}');
    assert!(!has_colour("run small.yaml"));
    assert!(!has_colour("run small.yaml --color never"));
    assert!(has_colour("run small.yaml --color always"));
    assert!(sandbox.run("check none.yaml --color always").err.contains('\u{1b}'));
}

#[test]
fn a_library_scenario_runs_anywhere_and_a_file_of_its_name_wins() {
    let sandbox = Sandbox::new("library");
    assert!(sandbox.run("check bpipe-profiled").out.contains("BPipe"));
    assert!(sandbox.run("check library:bpipe-profiled").out.contains("BPipe"));
    sandbox.write("bpipe-profiled", super::support::PIPELINE);
    assert!(sandbox.run("check bpipe-profiled").out.contains("Small pipeline"));
    assert!(sandbox.run("check library:bpipe-profiled").out.contains("BPipe"));
}

/// Each kernel of several operators is a row, with what it saves and why it is not larger.
#[test]
fn groups_of_operators_are_written_as_a_table() {
    let sandbox = Sandbox::new("groups");
    let answer =
        sandbox.run("run fusion-efficientnet-loses --variant searched --explain-fusion groups.csv -q");
    assert_eq!(answer.exit, 0, "{}", answer.err);
    let text = sandbox.read("groups.csv");
    let mut table = csv::Reader::from_reader(text.as_bytes());
    let headers = table.headers().expect("a heading").clone();
    let column = |name: &str| headers.iter().position(|known| known == name).expect("a column");
    let rows: Vec<csv::StringRecord> = table.records().map(|row| row.expect("a row")).collect();
    let number = |row: &csv::StringRecord, name: &str| row[column(name)].parse::<f64>().expect("a number");
    for row in &rows {
        let [bound, estimate, apart] = ["bound_us", "estimate_us", "apart_us"].map(|name| number(row, name));
        assert!(bound <= estimate && estimate <= apart, "{row:?}");
        assert_eq!(number(row, "kernels_after"), 1.0);
    }
    // The stem's wide images: SiLU stays outside, with the time that says so.
    let lost = rows.iter().find(|row| row[column("because")].contains("it would take"));
    assert!(lost.is_some_and(|row| row[column("members")].contains("convolution")), "{rows:?}");
}
