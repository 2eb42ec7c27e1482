//! `calibrate --with-torch`: PyTorch measured beside a device.

use std::process::Command;

use super::support::Sandbox;

/// Debian's Python, for which `apt-get install python3-torch` installs PyTorch.
const PYTHON: &str = "/usr/bin/python3";

/// Whether it has PyTorch: a test says so and ends where it has not, unless all tools have to be there.
#[expect(clippy::print_stderr, reason = "who runs tests should know what was not tested")]
fn has_torch() -> bool {
    let there =
        Command::new(PYTHON).args(["-c", "import torch"]).output().is_ok_and(|out| out.status.success());
    assert!(there || std::env::var_os("FORETRAIN_REQUIRE_TOOLS").is_none(), "{PYTHON} has no PyTorch");
    if !there {
        eprintln!("skipped: {PYTHON} has no PyTorch");
    }
    there
}

#[test]
fn what_operators_cost_the_host_is_measured_and_recorded() {
    if !has_torch() {
        return;
    }
    let sandbox = Sandbox::new("calibrate-torch");
    let probes = "--suite operator,backward --quick --format json";
    let measured = sandbox.run(&format!("calibrate --device host --with-torch --python {PYTHON} {probes}"));
    assert_eq!(measured.exit, 0, "{}", measured.err);
    let answer = measured.json();
    let law = |name: &str| &answer["hardware"]["laws"][name]["constants"];
    for (name, constant) in [
        ("operator.metadata", "call"),
        ("operator.pointwise", "recorded"),
        ("operator.matrix-product", "recorded"),
        ("operator.copy", "call"),
        ("backward.matrix-product", "operator"),
    ] {
        let constant = &law(name)[constant];
        assert!(constant["value"].as_f64().is_some_and(|us| us > 0.0) && constant["unit"] == "us", "{name}");
    }
    let facts = &answer["hardware"]["device"]["facts"];
    assert!(facts["pytorch"].as_str().is_some_and(|version| version.ends_with(" on the host")), "{facts}");
    assert_eq!(answer["hardware"]["gpu"], serde_json::Value::Null);
    // What was recorded stands in for both.
    let again = "calibrate --device recorded:out/calibration/samples.jsonl --out again --format json";
    let again = sandbox.run(again).json();
    let laws = |answer: &serde_json::Value| answer["hardware"]["laws"].as_object().map(serde_json::Map::len);
    assert_eq!(laws(&again), laws(&answer));
    assert!(sandbox.read("again/calibration/report.html").contains("backward.pointwise"));
}

#[test]
fn a_python_that_cannot_be_used_is_told() {
    let sandbox = Sandbox::new("calibrate-no-torch");
    let measured = sandbox.run("calibrate --device host --with-torch --python no-such-python");
    assert_eq!(measured.exit, 3);
    let expected = "host cannot be measured without python (for costs of the framework): `no-such-python` is missing: \
                    install Python 3.8 or newer with PyTorch, or name one that is there with `--python`";
    assert!(measured.err.contains(expected), "{}", measured.err);
    let dry = sandbox.run("calibrate --dry-run --device host --with-torch --python no-such-python");
    assert_eq!(dry.exit, 3);
    assert!(dry.out.starts_with("host cannot be measured\n") && dry.out.contains("python"), "{}", dry.out);
    // It is not needed, but told, where nothing is asked for.
    let plain = sandbox.run("calibrate --dry-run --python no-such-python --format json");
    let needs = plain.json()[1]["needs"].as_array().cloned().unwrap_or_default();
    let python = needs.iter().find(|need| need["name"] == "python").expect("it is told");
    assert!(plain.exit == 0 && python["required"] == false && python["missing"]["remedy"].is_string());
    let synthetic = sandbox.run("calibrate --device synthetic --with-torch");
    assert_eq!(synthetic.exit, 2);
    assert!(synthetic.err.contains("not on `synthetic`: leave it out"), "{}", synthetic.err);
    assert!(sandbox.names(".").is_empty(), "nothing is written");
}
