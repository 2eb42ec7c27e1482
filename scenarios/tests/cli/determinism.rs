//! The same input gives the same bytes.

use super::support::Sandbox;

#[test]
fn results_do_not_depend_on_the_run_or_the_number_of_threads() {
    let more = "run: { seeds: 2, noise: { operation: 5 % } }\nsweep: { training.micro_batches: [2, 4, 8] }\n";
    let sandbox = Sandbox::with_pipeline("determinism", more);
    for (out, jobs) in [("a", ""), ("b", ""), ("c", "--jobs 1"), ("d", "--jobs 2")] {
        let answer = sandbox.run(&format!("run small.yaml --out {out} {jobs}"));
        assert_eq!(answer.exit, 0, "{}", answer.err);
    }
    for page in ["results.json", "results.csv", "report.html", "scenario.yaml"] {
        let first = sandbox.read(&format!("a/small/{page}"));
        for out in ["b", "c", "d"] {
            assert!(first == sandbox.read(&format!("{out}/small/{page}")), "{page} of {out} differs");
        }
    }
    sandbox.run("run small.yaml --out e --seed 2");
    assert!(sandbox.read("a/small/results.json") != sandbox.read("e/small/results.json"), "the seed counts");
}
