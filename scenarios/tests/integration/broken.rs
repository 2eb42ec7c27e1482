//! Broken files give all their problems, located, each with a remedy.

use std::collections::BTreeMap;
use std::path::Path;

use scenarios::load;

/// Every file of `tests/broken`, as the user sees it refused.
#[test]
fn every_broken_file_is_refused_with_places_and_remedies() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/broken");
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(&folder).expect("the folder of broken files") {
        let path = entry.expect("a file").path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            files.insert(name, std::fs::read(&path).expect("a readable file"));
        }
    }
    assert!(files.len() >= 40, "only {} broken files", files.len());
    files.extend(hostile());
    for name in files.keys() {
        let failure = load(&files, name, &[]).err().unwrap_or_else(|| panic!("{name} was accepted"));
        for problem in &failure.problems {
            assert!(!problem.notes.is_empty(), "{name}: `{}` has no place", problem.message);
            assert!(problem.help.is_some(), "{name}: `{}` has no remedy", problem.message);
        }
        let snapshot = name.trim_end_matches(".yaml").replace('-', "_");
        insta::with_settings!({ snapshot_path => "../broken", prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(snapshot, failure.render(false));
        });
    }
}

/// Files that are too large to keep: deep, long, or of many values.
fn hostile() -> impl Iterator<Item = (String, Vec<u8>)> {
    let deep = 10_000;
    let values = "8, ".repeat(120_000);
    let files = [
        ("long-line", format!("name: test\nmodell: {}\n", "x".repeat(5_000))),
        ("nested-lists-block", format!("{}x\n", "- ".repeat(deep))),
        ("nested-lists-flow", format!("name: {}{}\n", "[".repeat(deep), "]".repeat(deep))),
        ("nested-lists-endless", format!("name: {}\n", "[".repeat(50 * deep))),
        ("nested-lists-unclosed", format!("name: {}\n", "[".repeat(deep))),
        ("nested-maps-block", (0..400).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect()),
        ("nested-maps-flow", format!("name: {}{}\n", "{a: ".repeat(deep), "}".repeat(deep))),
        ("too-long", format!("name: test\n# {}\n", "x".repeat(600 * 1024))),
        ("too-many-values", format!("name: test\nsweep: {{ training.micro_batches: [{values}] }}\n")),
    ];
    files.into_iter().map(|(name, text)| (format!("{name}.yaml"), text.into_bytes()))
}
