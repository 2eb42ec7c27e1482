//! The invariants of ARCHITECTURE.md that can be read off the tree.

mod prose;
mod techniques;
mod texts;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The crates by the folders they are in.
const CRATES: [(&str, &str); 8] = [
    ("sim-core", "sim-core"),
    ("hw-models", "hw-models"),
    ("calibration", "hw-models/calibration"),
    ("graphs", "workloads/graphs"),
    ("workloads", "workloads"),
    ("reports", "reports"),
    ("scenarios", "scenarios"),
    ("foretrain-python", "scenarios/python"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
}

/// Dependencies between crates of the workspace, those of tests included.
fn arrows() -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON");
    let name = |value: &Value| value["name"].as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let ours = |package: &Value| {
        let dependencies = list(&package["dependencies"]);
        let ours = dependencies.iter().map(name).filter(|name| CRATES.iter().any(|(known, _)| known == name));
        (name(package), ours.collect())
    };
    list(&metadata["packages"]).iter().map(ours).collect()
}

#[test]
fn dependencies_run_one_way() {
    let allowed = BTreeMap::from([
        ("sim-core", vec![]),
        ("hw-models", vec!["sim-core"]),
        ("calibration", vec!["sim-core", "hw-models"]),
        ("graphs", vec![]),
        ("workloads", vec!["sim-core", "hw-models", "graphs"]),
        ("reports", vec!["sim-core"]),
        ("scenarios", vec!["sim-core", "hw-models", "calibration", "graphs", "workloads", "reports"]),
        ("foretrain-python", vec!["reports", "scenarios"]),
    ]);
    let arrows = arrows();
    assert_eq!(arrows.len(), CRATES.len(), "a new crate belongs in ARCHITECTURE.md and in this test");
    for (from, to) in arrows {
        for name in to {
            assert!(allowed[from.as_str()].contains(&name.as_str()), "{from} must not depend on {name}");
        }
    }
}

/// Every Rust file below a folder.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Every Rust file of the crates but their tests and benches.
fn code_of_crates() -> Vec<PathBuf> {
    let mut files = Vec::new();
    for (_, folder) in CRATES {
        sources(&root().join(folder).join("src"), &mut files);
    }
    files
}

/// Below the front ends and the devices that are measured nothing looks at a clock, hashes with a
/// random seed, opens a file or prints.
#[test]
fn simulations_are_pure() {
    const FORBIDDEN: [&str; 8] =
        ["std::time", "SystemTime", "HashMap", "HashSet", "std::fs", "std::net", "println!", "std::thread"];
    let files = code_of_crates();
    assert!(files.len() > 50, "the sources are there");
    let touches = |part: &OsStr| ["cli", "python", "devices"].iter().any(|known| part == *known);
    for path in files.iter().filter(|path| !path.iter().any(touches)) {
        let text = fs::read_to_string(path).expect("UTF-8");
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        for line in code {
            for word in FORBIDDEN {
                // Maps with a hasher of their own are the same in every run.
                let seeded = word != "HashMap" || !text.contains("BuildHasherDefault");
                assert!(!seeded || !line.contains(word), "{}: `{word}` in `{}`", path.display(), line.trim());
            }
        }
    }
}

/// One concept a file.
#[test]
fn files_stay_readable() {
    let mut files = Vec::new();
    for (_, folder) in CRATES {
        sources(&root().join(folder), &mut files);
    }
    for path in files {
        let lines = fs::read_to_string(&path).expect("UTF-8").lines().count();
        assert!(lines <= 600, "{} has {lines} lines: split it", path.display());
    }
}
