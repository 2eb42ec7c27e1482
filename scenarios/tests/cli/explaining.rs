//! Explaining runs and words.

use super::support::{Sandbox, assert_session};

#[test]
fn a_run_is_explained_by_its_path_and_by_what_ifs() {
    let sandbox = Sandbox::with_pipeline("explain", "");
    assert_session!(
        "explain",
        sandbox.session(&["explain small.yaml", "explain small.yaml --variant gpipe"])
    );
    let json = sandbox.run("explain small.yaml --format json").json();
    assert_eq!(json["variant"], "1f1b", "gpipe does not fit");
    let path = json["path"].as_array().expect("a path");
    let sum: f64 = path.iter().map(|visit| visit["time_s"].as_f64().expect("a number")).sum();
    assert!((sum - json["step_time_s"].as_f64().expect("it fits")).abs() < 1e-9, "{sum}");
    let all = sandbox.run("explain small.yaml --all");
    assert!(all.out.lines().count() > path.len(), "every visit has a line: {}", all.out);
}

/// What people see first fits on a screen, whatever is explained.
#[test]
fn an_explanation_fits_on_a_screen() {
    let sandbox = Sandbox::new("explain-screen");
    for words in ["megatron-22b", "ssdtrain-a100", "replay-resnet50-v100", "two-kinds-of-nodes"] {
        let answer = sandbox.run(&format!("explain {words} --quiet"));
        assert!(answer.out.lines().count() <= 25, "{}", answer.out);
        let widest = answer.out.lines().map(|line| line.chars().count()).max().unwrap_or_default();
        assert!(widest <= 100, "{widest} columns: {}", answer.out);
    }
}

#[test]
fn a_page_is_written_where_one_is_asked_for() {
    let sandbox = Sandbox::with_pipeline("explain-page", "");
    let answer = sandbox.run("explain small.yaml --out pages");
    assert!(answer.out.contains("page: pages/explain-small.html"), "{}", answer.out);
    let page = sandbox.read("pages/explain-small.html");
    assert!(page.contains("<svg") && page.contains("twice as fast"), "a tornado");
    assert_eq!(sandbox.names("."), ["pages", "small.yaml"]);
}

#[test]
fn words_are_explained() {
    let sandbox = Sandbox::with_pipeline("explain-words", "");
    assert_session!(
        "explain-words",
        sandbox.session(&[
            "explain bubble",
            "explain pipeline bubble",
            "explain tokens/s",
            "explain zb-h3",
            "explain nonsense",
            "explain nowhere/mine.yaml",
        ])
    );
    assert_eq!(sandbox.run("explain zb-h1 --format json").json()["names"][0], "zb-h1");
}

/// A file wins over a word of its name.
#[test]
fn a_file_is_no_word() {
    let sandbox = Sandbox::with_pipeline("explain-file", "");
    sandbox.write("skew", sandbox.read("small.yaml"));
    assert!(sandbox.run("explain skew").out.contains("critical path of 1f1b"));
}
