//! Settings as a reader would write them.

use indexmap::IndexMap;

/// Paths and their values as YAML in backquotes, one for each section of a file: `` `training: {
/// micro_batch: 1 }` ``.
pub(super) fn yaml(settings: &[(String, String)]) -> String {
    let paths = settings.iter().map(|(path, value)| (path.as_str(), value.as_str()));
    let sections: Vec<String> = keys(paths).iter().map(|section| format!("`{section}`")).collect();
    sections.join(" and ")
}

/// `key: value` of each first key, in the order in which they come.
fn keys<'a>(settings: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<String> {
    let mut sections: IndexMap<&str, Vec<(&str, &str)>> = IndexMap::new();
    for (path, value) in settings {
        let (key, below) = path.split_once('.').unwrap_or((path, ""));
        sections.entry(key).or_default().push((below, value));
    }
    let section = |(key, below): (&str, Vec<(&str, &str)>)| match below[..] {
        [("", value)] => format!("{key}: {value}"),
        _ => format!("{key}: {{ {} }}", keys(below).join(", ")),
    };
    sections.into_iter().map(section).collect()
}

#[cfg(test)]
mod tests {
    use super::yaml;

    #[test]
    fn settings_of_a_section_stand_together() {
        let settings = [
            ("parallelism.tensor", "2"),
            ("training.accumulate", "8"),
            ("parallelism.data", "4"),
            ("memory.allocator.expandable_segments", "true"),
        ];
        let settings = settings.map(|(path, value)| (path.to_owned(), value.to_owned()));
        assert_eq!(
            yaml(&settings),
            "`parallelism: { tensor: 2, data: 4 }` and `training: { accumulate: 8 }` and \
             `memory: { allocator: { expandable_segments: true } }`"
        );
    }
}
