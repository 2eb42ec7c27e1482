//! `calibrate` on a machine that has nothing to measure.

use super::support::{Sandbox, assert_session};

/// Every library that is missing is told with how to get it. Where a driver is there the words are others.
#[test]
fn a_machine_without_a_gpu_is_told_all_that_is_missing() {
    let sandbox = Sandbox::new("calibrate-no-gpu");
    let answer = sandbox.run("calibrate --dry-run --device cuda --format json").json();
    let needs = answer[0]["needs"].as_array().expect("a list");
    assert!(needs.len() >= 6, "{answer}");
    if needs.iter().any(|need| !need["missing"].is_object()) {
        return;
    }
    assert_eq!(answer[0]["ready"], false);
    assert_session!(
        "calibrate-no-gpu",
        sandbox.session(&["calibrate --dry-run --device cuda:1", "calibrate --device cuda --quick"])
    );
    assert!(sandbox.names(".").is_empty(), "nothing is written");
    let both = sandbox.run("calibrate --dry-run --format json");
    let devices: Vec<String> =
        both.json().as_array().expect("a list").iter().map(|one| one["device"].to_string()).collect();
    assert_eq!((both.exit, devices), (0, vec!["\"host\"".to_owned(), "\"cuda:0\"".to_owned()]));
}
