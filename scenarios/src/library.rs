//! The scenarios that come with foretrain, embedded so that they run from any directory.

/// Name and text of each, in the order in which they are listed.
const LIBRARY: [(&str, &str); 2] = [
    ("pipeline-schedules", include_str!("../library/pipeline-schedules.yaml")),
    ("bpipe-profiled", include_str!("../library/bpipe-profiled.yaml")),
];

/// The names, in the order in which they are listed.
pub fn names() -> impl Iterator<Item = &'static str> {
    LIBRARY.iter().map(|(name, _)| *name)
}

/// The text of a scenario.
pub fn get(name: &str) -> Option<&'static str> {
    LIBRARY.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}
