//! `foretrain new`.

use super::support::{Sandbox, assert_session};

#[test]
fn a_new_file_runs_and_is_never_overwritten() {
    let sandbox = Sandbox::new("new");
    assert_session!(
        "new",
        sandbox.session(&["new my.yaml", "check my.yaml", "new my.yaml", "new none/my.yaml"])
    );
    assert_eq!(sandbox.run("run my.yaml").exit, 0, "its promises hold");
    assert!(sandbox.path("out/my/report.html").exists());
}

#[test]
fn editors_find_the_schema_beside_the_file() {
    let sandbox = Sandbox::new("modeline");
    sandbox.run("new my.yaml --from bpipe-profiled");
    let text = sandbox.read("my.yaml");
    let schema = text.lines().next().and_then(|line| line.split_once("$schema=")).expect("a modeline").1;
    assert_eq!(sandbox.read(schema), scenarios::json_schema());
    assert!(text.ends_with(scenarios::library::get("bpipe-profiled").expect("it is in the library")));
}

#[test]
fn a_copy_of_an_unknown_scenario_is_refused_with_a_suggestion() {
    let sandbox = Sandbox::new("from");
    let answer = sandbox.run("new my.yaml --from bpipe-profile");
    assert_eq!(answer.exit, 2);
    assert!(answer.err.contains("did you mean `bpipe-profiled`?"), "{}", answer.err);
    assert!(sandbox.names(".").is_empty());
}
