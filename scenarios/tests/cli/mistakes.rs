//! What is wrong, where, and how to mend it: exit code 2.

use super::support::{Sandbox, assert_session};

#[test]
fn all_problems_of_all_files_are_told_at_once() {
    let sandbox = Sandbox::with_pipeline("problems", "");
    sandbox.write("bad.yaml", "name: bad\nmodle: {}\ntraining: { micro_batches: many }\n");
    assert_session!(
        "problems",
        sandbox.session(&[
            "check small.yaml bad.yaml",
            "run small.yaml --set training.micro_batchs=8 --set run",
            "run small.yaml --variant zb",
        ])
    );
}

#[test]
fn what_cannot_be_read_is_named() {
    let sandbox = Sandbox::new("unreadable");
    sandbox.write("folder/x.yaml", "");
    sandbox.write("latin1.yaml", b"name: caf\xe9\n");
    sandbox.write("huge.yaml", vec![b'#'; scenarios::MAX_BYTES + 1]);
    sandbox.write("lost.yaml", "name: lost\nextends: base.yaml\n");
    assert_session!(
        "unreadable",
        sandbox.session(&[
            "check none.yaml",
            "check pipeline-schedule",
            "check folder",
            "check .",
            "check latin1.yaml",
            "check huge.yaml",
            "check lost.yaml",
            "check small.yaml/x",
        ])
    );
}

#[test]
fn programs_get_the_problems_as_json() {
    let sandbox = Sandbox::new("problems-json");
    sandbox.write("bad.yaml", "name: bad\nmodle: {}\n");
    for words in
        ["check bad.yaml --format json", "run bad.yaml --format json", "run bad.yaml --plan --format json"]
    {
        let answer = sandbox.run(words);
        assert_eq!(answer.exit, 2);
        let json = answer.json();
        let problems = json["problems"].as_array().expect("a list");
        let slip =
            problems.iter().find(|problem| problem["help"] == "did you mean `model`?").expect("the slip");
        assert_eq!(slip["places"][0], serde_json::json!({ "file": "bad.yaml", "line": 2, "column": 1 }));
        assert!(answer.err.contains("bad.yaml:2:1"), "people are told as well");
    }
    let unlocated = sandbox.run("run none.yaml --format json").json();
    assert_eq!(unlocated["schema_version"], 2);
    assert!(
        unlocated["problems"][0]["message"].as_str().is_some_and(|message| message.contains("none.yaml"))
    );
}

#[cfg(unix)]
#[test]
fn a_path_that_is_not_text_is_refused() {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::OsStr::from_bytes(b"caf\xe9.yaml");
    let output = Sandbox::new("not-text").command("check").arg(path).output().expect("the binary starts");
    let answer = super::support::Answer::of(output);
    assert_eq!(answer.exit, 2);
    assert!(answer.err.contains("UTF-8"), "{}", answer.err);
}
