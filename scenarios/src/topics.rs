//! Words of tables and pages, explained: the glossary of the guide, by word.

use hw_models::catalogue::nearest;
use serde::Serialize;

/// Page of the guide, of which every section of the second level is a topic.
const GLOSSARY: &str = include_str!("../../guide/src/glossary.md");
/// Names that are offered for a word that is no topic.
const OFFERED_MAX: usize = 5;

/// Words with one explanation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Topic {
    /// Names, the first one above all.
    pub names: Vec<&'static str>,
    /// Lines of the explanation.
    pub text: &'static str,
}

/// All topics, in the order of the page.
pub fn topics() -> impl Iterator<Item = Topic> {
    let section = |section: &'static str| {
        let (names, rest) = section.split_once('\n')?;
        // A heading of the first level begins the next part of the page.
        let text = rest.split("\n# ").next().unwrap_or(rest).trim();
        Some(Topic { names: names.split(", ").collect(), text })
    };
    GLOSSARY.split("\n## ").skip(1).filter_map(section)
}

/// The topic of a word, written in any case; of `word: kind` that of the whole, else that of the
/// word.
pub fn topic(word: &str) -> Option<Topic> {
    let named = |word: &str| {
        let word = normal(word);
        topics().find(|topic| topic.names.iter().any(|name| normal(name) == word))
    };
    named(word).or_else(|| named(word.split_once(':')?.0))
}

/// Names of topics near to a word, the nearest first.
pub fn near(word: &str) -> Vec<&'static str> {
    let names: Vec<&'static str> = topics().flat_map(|topic| topic.names).collect();
    let word = normal(word);
    let within = names.iter().copied().filter(|name| {
        let name = normal(name);
        name.contains(&word) || word.split(' ').any(|part| name.split(' ').any(|known| known == part))
    });
    let mut near: Vec<&'static str> = nearest::closest(&word, names.iter().copied()).into_iter().collect();
    for name in within.filter(|_| word.len() > 1) {
        if !near.contains(&name) {
            near.push(name);
        }
    }
    near.truncate(OFFERED_MAX);
    near
}

/// A name without case; hyphens and underscores are spaces.
fn normal(name: &str) -> String {
    name.trim().to_lowercase().replace(['-', '_'], " ")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::library;

    /// Lines of the longest explanation.
    const LINES_MAX: usize = 10;

    #[test]
    fn topics_are_short_and_no_name_has_two() {
        let mut names = BTreeSet::new();
        let mut count = 0;
        for topic in topics() {
            count += 1;
            let lines = topic.text.lines().count();
            assert!((1..=LINES_MAX).contains(&lines), "{}: {lines} lines", topic.names[0]);
            for name in topic.names {
                assert!(names.insert(normal(name)), "{name} has two topics");
            }
        }
        assert!(count > 80, "{count} topics: is the page read?");
    }

    #[test]
    fn scenarios_that_show_a_topic_are_there() {
        let mut shown = 0;
        for topic in topics() {
            let Some((_, rest)) = topic.text.split_once("Shown by: `") else { continue };
            let name = rest.split('`').next().unwrap_or_default();
            assert!(library::get(name).is_some(), "{}: no scenario `{name}`", topic.names[0]);
            shown += 1;
        }
        assert!(shown > 50, "{shown}");
    }

    /// Papers are named by author, title in quotes at their first mention, and year.
    #[test]
    fn papers_have_a_year() {
        let mut papers = 0;
        for topic in topics() {
            let Some((_, rest)) = topic.text.split_once("Paper: ") else { continue };
            let paper = rest.split("Shown by").next().unwrap_or(rest);
            let years = paper.split(|c: char| !c.is_ascii_digit()).filter(|part| part.len() == 4);
            assert!(years.count() > 0, "{}: {paper}", topic.names[0]);
            papers += 1;
        }
        assert!(papers > 40, "{papers}");
    }

    #[test]
    fn words_are_found_in_any_spelling() {
        assert_eq!(topic("ZB-H1").map(|topic| topic.names[0]), Some("zb-h1"));
        assert_eq!(topic("Pipeline bubble").map(|topic| topic.names[0]), Some("pipeline bubble"));
        assert_eq!(topic("communication: all-reduce").map(|topic| topic.names[0]), Some("communication"));
        assert_eq!(topic("nothing of ours"), None);
        assert!(near("zb-h3").contains(&"zb-h1"));
        assert!(near("all-reduce").len() > 1);
        assert!(near("").is_empty() && near("q").is_empty());
    }
}
