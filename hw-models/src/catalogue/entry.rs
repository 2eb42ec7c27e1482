//! Look-up by name, answered by the nearest known name when there is no such entry.

use indexmap::IndexMap;

use super::nearest::remedy;

/// No entry of that name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the catalogue has no {noun} `{name}`: {remedy}")]
pub struct UnknownEntry {
    /// What was looked for, in the singular.
    pub noun: &'static str,
    /// The name that was written.
    pub name: String,
    /// The nearest known name, or all of them.
    pub remedy: String,
}

/// The entry `name` of one map of the catalogue, with its name as the catalogue owns it.
///
/// # Errors
/// If there is none; the error proposes the nearest name.
pub fn look_up<'a, T>(
    entries: &'a IndexMap<String, T>,
    noun: &'static str,
    name: &str,
) -> Result<&'a T, UnknownEntry> {
    entries.get(name).ok_or_else(|| {
        let names: Vec<&str> = entries.keys().map(String::as_str).collect();
        UnknownEntry { noun, name: name.to_owned(), remedy: remedy(name, &names, noun) }
    })
}
