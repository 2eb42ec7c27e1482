//! Every word that results and tables print is explained.

use std::collections::BTreeSet;

use reports::state;
use scenarios::schema::Shape;
use scenarios::{library, topics};
use serde_json::Value;

/// Keys of results whose keys in turn are words of tables.
const MAPS: [&str; 6] =
    ["time_breakdown_s", "critical_path_s", "time_s", "by_kind_bytes", "holders_bytes", "lanes_s"];
/// Columns of the table of runs.
const COLUMNS: [&str; 10] = [
    "variant",
    "step time",
    "90 % of cases",
    "over seeds",
    "tokens/s",
    "samples/s",
    "bubble",
    "MFU",
    "peak memory",
    "verdict",
];

fn collect(value: &Value, words: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect(item, words)),
        Value::Object(map) => {
            for (key, value) in map {
                match value {
                    Value::Object(inner) if MAPS.contains(&key.as_str()) => {
                        words.extend(inner.keys().cloned());
                    }
                    Value::Array(items) if key == "communication" => {
                        let kinds = items.iter().filter_map(|item| item["kind"].as_str());
                        words.extend(kinds.map(str::to_owned));
                    }
                    _ => {}
                }
                collect(value, words);
            }
        }
        _ => {}
    }
}

/// Words of the committed results of the library: causes, kinds of memory, kinds of communication.
fn words_of_results() -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    for name in library::names() {
        let path = format!("{}/library/{name}.expected.json", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        collect(&serde_json::from_str(&text).expect("JSON"), &mut words);
    }
    words
}

#[test]
fn every_word_of_results_settings_and_tables_has_a_topic() {
    let of_results = words_of_results();
    assert!(of_results.len() > 40, "{of_results:?}");
    let of_settings = [&["parallelism", "schedule"][..], &["techniques"], &["expect", "0", "metric"]];
    let of_settings: Vec<&str> =
        of_settings.iter().flat_map(|path| Shape::file().at(path).expect("a setting").names()).collect();
    assert!(of_settings.len() > 25, "{of_settings:?}");
    let words = of_results.iter().map(String::as_str).chain(of_settings).chain(COLUMNS).chain(state::ALL);
    let missing: BTreeSet<&str> = words.filter(|word| topics::topic(word).is_none()).collect();
    assert!(missing.is_empty(), "no topic in the glossary: {missing:?}");
}
