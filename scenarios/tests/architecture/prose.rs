//! English of comments and docs, as far as a test can tell: offenders of earlier days are counted, and may only become fewer.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use super::{code_of_crates, root};

/// Offenders that are still there, by rule. `FORETRAIN_UPDATE=1 cargo test --release -p scenarios --test architecture` renews them.
const COMMITTED: &str = include_str!("prose.txt");

/// First words of a doc comment that decode what the literature has a noun for.
const FIRST_WORDS: [&str; 7] = ["What ", "Whether ", "Who ", "Those ", "Of ", "So many", "The same"];
/// Phrases for quantities, and for what is absent.
const PHRASES: [&str; 3] = ["so many", "The same of", "none:"];
/// Columns of a comment.
const COLUMNS: usize = 100;

#[test]
fn offenders_become_fewer() {
    let files = code_of_crates();
    let found = offenders(&files);
    let told: String = found.iter().map(|(rule, count)| format!("{rule}: {count}\n")).collect();
    if std::env::var_os("FORETRAIN_UPDATE").is_some() {
        let path = root().join("scenarios/tests/architecture/prose.txt");
        fs::write(path, told).expect("the tree can be written");
        return;
    }
    for line in COMMITTED.lines() {
        let (rule, count) = line.rsplit_once(": ").expect("`rule: count`");
        let (known, now): (usize, usize) = (count.parse().expect("a count"), found[rule]);
        assert!(now <= known, "{rule}: {now} offenders, {known} are known");
    }
}

fn offenders(files: &[PathBuf]) -> BTreeMap<&'static str, usize> {
    let mut found = BTreeMap::from([
        ("comments beyond column 100", 0),
        ("docs that begin with what, whether, who, those, of, so many or the same", 0),
        ("docs with so many, the same of or none:", 0),
    ]);
    let mut count = |rule: &str, more: usize| *found.get_mut(rule).expect("a rule") += more;
    for path in files {
        let text = fs::read_to_string(path).expect("UTF-8");
        let mut in_doc = false;
        for line in text.lines() {
            let comment = line.trim_start();
            let doc = comment.strip_prefix("///").or_else(|| comment.strip_prefix("//!"));
            if comment.starts_with("//") && line.chars().count() > COLUMNS {
                count("comments beyond column 100", 1);
            }
            if let Some(doc) = doc.map(str::trim_start) {
                let begins = !in_doc && FIRST_WORDS.iter().any(|word| doc.starts_with(word));
                count(
                    "docs that begin with what, whether, who, those, of, so many or the same",
                    begins.into(),
                );
                let phrases = PHRASES.iter().filter(|phrase| doc.contains(**phrase)).count();
                count("docs with so many, the same of or none:", phrases);
            }
            in_doc = doc.is_some();
        }
    }
    found
}
