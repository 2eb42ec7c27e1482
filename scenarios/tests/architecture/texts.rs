//! A rule stands once, and so does the sentence that tells it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::code_of_crates;

/// Texts are sentences, rather than a few words, from this length on.
const SENTENCE: usize = 32;

#[test]
fn no_sentence_stands_in_two_files() {
    let files = code_of_crates();
    let mut told: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for path in files {
        let source = fs::read_to_string(&path).expect("UTF-8");
        for sentence in sentences(&source) {
            told.entry(sentence).or_default().insert(path.display().to_string());
        }
    }
    assert!(told.len() > 1000, "{} sentences: are they found?", told.len());
    told.retain(|_, files| files.len() > 1);
    assert!(told.is_empty(), "tell each in one place: {told:#?}");
}

/// Quoted sentences of the code of a file before its tests, but for reasons of `expect`.
fn sentences(source: &str) -> Vec<String> {
    let code = source.split("#[cfg(test)]").next().unwrap_or_default();
    let lines = code.lines().map(str::trim_start).filter(|line| !line.starts_with("//"));
    // A text that goes on in the next line is one.
    let joined = lines.map(|line| line.strip_suffix('\\').map_or(format!("{line}\n"), str::to_owned));
    let joined = joined.collect::<String>().replace("\\\"", "'").replace("'\"'", "");
    let told = joined.lines().filter(|line| !line.contains("expect("));
    let quoted = told.flat_map(|line| line.split('"').skip(1).step_by(2));
    quoted.filter(|text| text.len() >= SENTENCE && text.contains(' ')).map(str::to_owned).collect()
}
