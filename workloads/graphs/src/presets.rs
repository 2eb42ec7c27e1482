//! Graphs that others published.

use std::sync::LazyLock;

use indexmap::IndexMap;

use crate::settings::{Evidence, Problem, Statistics};

static PRESETS: LazyLock<IndexMap<String, Statistics>> = LazyLock::new(|| {
    let presets: IndexMap<String, Statistics> =
        crate::settings::parse(include_str!("../presets.yaml")).expect("presets.yaml is checked by tests");
    let named = |(name, statistics): (String, Statistics)| {
        let statistics = Statistics { name: Some(name.clone()), ..statistics };
        (name, statistics)
    };
    presets.into_iter().map(named).collect()
});

/// Names of the presets.
pub fn preset_names() -> impl Iterator<Item = &'static str> {
    PRESETS.keys().map(String::as_str)
}

/// Source and confidence of the figures of a preset, by key.
pub fn preset_sources(name: &str) -> Option<&'static IndexMap<String, Evidence>> {
    PRESETS.get(name).map(|statistics| &statistics.evidence)
}

/// Statistics of a preset.
pub(crate) fn preset(name: &str) -> Result<&'static Statistics, Problem> {
    PRESETS.get(name).ok_or_else(|| {
        let known: Vec<&str> = preset_names().collect();
        Problem::new("preset", format!("`{name}` is not known"), format!("use one of {}", known.join(", ")))
    })
}
