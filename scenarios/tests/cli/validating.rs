//! `validate`: the exit code, the files, the formats and wrong names.

use super::support::Sandbox;

#[test]
fn errors_beyond_what_is_to_be_reached_end_with_1_where_that_is_asked() {
    let sandbox = Sandbox::new("validate");
    let answer = sandbox.run("validate attention collectives --quiet");
    assert_eq!(answer.exit, 0, "{}", answer.err);
    assert!(answer.out.contains("attention") && answer.out.lines().count() <= 40, "{}", answer.out);
    let all = sandbox.run("validate attention collectives --quiet --all --strict");
    let expected = if all.out.contains("beyond") { 1 } else { 0 };
    assert_eq!(all.exit, expected, "{}", all.err);
    assert!(all.out.contains("by formula"), "{}", all.out);
    assert!(answer.out.contains("report: out/validate/report.html"));
    assert_eq!(sandbox.names("out/validate"), ["report.html", "results.csv", "results.json"]);
    let again = sandbox.run("validate attention collectives --quiet --format json --jobs 1");
    assert_eq!(again.exit, 0);
    assert_eq!(again.out, sandbox.read("out/validate/results.json"));
    let failed = |part: &serde_json::Value| part["passed"] == false;
    let sets = again.json()["sets"].as_array().expect("sets").clone();
    let any = sets.iter().flat_map(|set| set["parts"].as_array().expect("parts")).any(failed);
    assert_eq!(i32::from(any), expected);
    let csv = sandbox.run("validate attention collectives --quiet --format csv");
    assert_eq!(csv.out, sandbox.read("out/validate/results.csv"));
}

/// Regret stands beside errors in every format; sets with too few plans say so.
#[test]
fn the_cost_of_a_pick_is_told() {
    let sandbox = Sandbox::new("validate-regret");
    let answer = sandbox.run("validate simumax nemo --quiet --all");
    for expected in ["simumax: ", " in 3 groups of 5.7 plans; ", "too few plans do the same work in nemo"] {
        assert!(answer.out.contains(expected), "{expected}: {}", answer.out);
    }
    let page = sandbox.read("out/validate/report.html");
    assert!(page.contains("Picks by prediction") && page.contains("Each group of plans"));
    let results: serde_json::Value =
        serde_json::from_str(&sandbox.read("out/validate/results.json")).expect("JSON");
    let regret = |set: usize| &results["sets"][set]["regret"];
    let (simumax, nemo) = (regret(0), regret(1));
    assert_eq!((&simumax["summary"]["groups"], &nemo["largest_group"]), (&3.into(), &1.into()));
    assert!(simumax["summary"]["picked"]["mean"].as_f64().is_some_and(|mean| mean >= 0.0));
    assert_eq!(simumax["groups"][0]["work"]["num_gpus"], "8");
    assert!(nemo["summary"].is_null() && nemo["groups"].as_array().is_some_and(Vec::is_empty));
}

#[test]
fn wrong_names_are_told_and_nothing_is_written() {
    let sandbox = Sandbox::new("validate-wrong");
    let answer = sandbox.run("validate colectives vtrain");
    assert_eq!((answer.exit, answer.out.as_str()), (2, ""));
    assert!(answer.err.contains("did you mean `collectives`?"), "{}", answer.err);
    assert!(answer.err.contains("`vtrain`"), "{}", answer.err);
    assert!(!sandbox.path("out/validate").exists());
}

#[test]
fn the_sets_are_listed() {
    let sandbox = Sandbox::new("validate-list");
    let listed = sandbox.run("list validations");
    for name in ["megatron", "vtrain-single-node", "gemm", "collectives"] {
        assert!(listed.out.lines().any(|line| line.starts_with(name)), "{}", listed.out);
    }
}
