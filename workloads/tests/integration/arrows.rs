//! Who may know what: imports between the parts of this crate run one way, and decisions know no time.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Parts of the crate, each with the parts that it must not import.
const FORBIDDEN: [(&str, &[&str]); 9] = [
    ("graph", &["model", "passes", "schedule", "order", "lower", "memory", "check", "plan", "site", "cost"]),
    ("model", &["passes", "schedule", "order", "lower", "memory", "check", "plan", "site", "cost"]),
    ("passes", &["model", "lower", "memory", "check", "plan", "site", "hardware"]),
    ("order", &["model", "passes", "lower", "memory", "check", "plan", "site", "cost"]),
    ("check", &["model", "passes", "lower", "memory", "plan", "cost"]),
    ("memory", &["passes", "lower", "check", "site", "cost"]),
    ("lanes", &["trace", "graph", "model", "passes", "schedule", "order", "lower", "check", "plan", "cost"]),
    ("program", &["trace", "model", "passes", "schedule", "order", "lower", "check", "plan", "cost"]),
    ("trace", &["program", "graph", "model", "passes", "schedule", "order", "check", "plan", "cost"]),
];

/// Imports that are still there. The list may only shrink.
const KNOWN: [&str; 6] = [
    "model/profiled.rs -> cost",
    "model/profiled.rs -> schedule",
    "passes/technique.rs -> model",
    "passes/swap/mod.rs -> model",
    "passes/zero_infinity.rs -> model",
    "passes/zero_offload.rs -> model",
];

/// Techniques, none of which imports another.
const TECHNIQUES: [&str; 11] = [
    "bpipe",
    "fusion",
    "lms",
    "movement_plan",
    "offload",
    "paged_states",
    "recompute",
    "swap",
    "vdnn",
    "zero_infinity",
    "zero_offload",
];

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// Every Rust file of a part, with its path below the sources.
fn files(part: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![source().join(part)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a part is a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(source()).expect("below the sources").display().to_string();
                found.push((name, fs::read_to_string(&path).expect("UTF-8")));
            }
        }
    }
    found.sort();
    found
}

/// Lines of code of a file.
fn code(text: &str) -> impl Iterator<Item = &str> {
    let tests = text.find("#[cfg(test)]").unwrap_or(text.len());
    text[..tests].lines().filter(|line| !line.trim_start().starts_with("//"))
}

/// Parts that a file imports, `crate::part`.
fn imported(text: &str) -> BTreeSet<String> {
    let parts = code(text).flat_map(|line| line.split("crate::").skip(1));
    let name = |rest: &str| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().map(str::to_owned);
    parts.filter_map(name).collect()
}

#[test]
fn imports_run_one_way() {
    let mut found = BTreeSet::new();
    for (part, forbidden) in FORBIDDEN {
        for (file, text) in files(part) {
            let imported = imported(&text);
            let wrong = forbidden.iter().filter(|part| imported.contains(**part));
            found.extend(wrong.map(|part| format!("{file} -> {part}")));
        }
    }
    let known: BTreeSet<String> = KNOWN.iter().map(|&known| known.to_owned()).collect();
    assert_eq!(found, known, "imports that are gone leave the list, and none is added");
}

#[test]
fn techniques_know_no_other() {
    for technique in TECHNIQUES {
        let of_technique = |(file, _): &(String, String)| {
            file.starts_with(&format!("passes/{technique}/")) || *file == format!("passes/{technique}.rs")
        };
        for (file, text) in files("passes").into_iter().filter(of_technique) {
            for other in TECHNIQUES.iter().filter(|other| **other != technique) {
                let import = format!("passes::{other}");
                assert!(!code(&text).any(|line| line.contains(&import)), "{file} imports {other}");
            }
        }
    }
}

/// Invariant 1 of the design: the graph, decisions and schedules have no field for a duration, a rate or an efficiency.
#[test]
fn decisions_know_no_time() {
    let single =
        ["schedule.rs", "transfer.rs", "passes/bpipe/mod.rs", "passes/recompute/mod.rs", "passes/plan.rs"];
    let single =
        single.map(|file| (file.to_owned(), fs::read_to_string(source().join(file)).expect("UTF-8")));
    let realisers = files("passes/realise").into_iter().filter(|(file, _)| !file.ends_with("launches.rs"));
    for (file, text) in files("graph").into_iter().chain(single).chain(realisers) {
        for line in code(&text) {
            for word in ["Time", "Rate", "f64", "f32", "Duration", "cost"] {
                // FLOPs are no time.
                let known = line.contains("fn flops") || line.contains("hw_models::kernels");
                assert!(known || !line.contains(word), "`{word}` in {file}: {line}");
            }
        }
    }
}
