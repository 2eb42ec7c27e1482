//! The committed JSON Schema is the one of the code.

#[test]
fn the_committed_schema_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/scenario.schema.json");
    let current = scenarios::json_schema();
    if std::env::var_os("RENEW").is_some() {
        std::fs::write(path, &current).expect("the schema can be written");
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        committed == current,
        "scenario.schema.json is out of date; renew it: RENEW=1 cargo test -p scenarios schema"
    );
}
