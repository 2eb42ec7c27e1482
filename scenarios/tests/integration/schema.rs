//! The committed JSON Schema and the guide's reference of keys are those of the code.

use std::path::Path;

#[test]
fn the_committed_schema_is_current() {
    assert_current("scenario.schema.json", &scenarios::json_schema());
}

#[test]
fn the_reference_of_the_guide_is_current() {
    assert_current("../guide/src/reference.md", &scenarios::reference());
}

/// Fails where a committed file, by its path from this crate, is not `current`; with `RENEW` set it is written first.
fn assert_current(name: &str, current: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    if std::env::var_os("RENEW").is_some() {
        std::fs::write(&path, current).expect("the tree can be written");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == current,
        "{name} is out of date; renew it: RENEW=1 cargo test --release -p scenarios --test integration schema"
    );
}
