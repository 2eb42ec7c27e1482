//! Settings as a reader would write them.

/// Paths and their values as YAML in backquotes, one for each section of a file: `` `training: {
/// micro_batch: 1 }` ``.
pub(super) fn yaml(settings: &[(String, String)]) -> String {
    let paths: Vec<(Vec<&str>, &str)> =
        settings.iter().map(|(path, value)| (path.split('.').collect(), value.as_str())).collect();
    let paths: Vec<(&[&str], &str)> = paths.iter().map(|(keys, value)| (&keys[..], *value)).collect();
    let sections: Vec<String> = keys(&paths).iter().map(|section| format!("`{section}`")).collect();
    sections.join(" and ")
}

/// `key: value` of each first key, in the order in which they come.
fn keys(settings: &[(&[&str], &str)]) -> Vec<String> {
    let mut first: Vec<&str> = settings.iter().filter_map(|(keys, _)| keys.first().copied()).collect();
    let mut known: Vec<&str> = Vec::new();
    first.retain(|key| {
        !known.contains(key) && {
            known.push(key);
            true
        }
    });
    let value = |key: &str| {
        let below = settings.iter().filter(|(keys, _)| keys.first() == Some(&key));
        let below: Vec<(&[&str], &str)> = below.map(|(keys, value)| (&keys[1..], *value)).collect();
        match below[..] {
            [([], value)] => value.to_owned(),
            _ => format!("{{ {} }}", keys(&below).join(", ")),
        }
    };
    first.iter().map(|key| format!("{key}: {}", value(key))).collect()
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
