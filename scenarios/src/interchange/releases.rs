//! Names of keys by release: a document has those of one.

use std::collections::BTreeSet;

use indexmap::IndexMap;
use serde::Deserialize;

use super::command::Given;
use super::rules::Table;
use crate::text::node::shorten;
use crate::text::problem::Problem;

/// Releases of a target, the newest first, whose names are those of the table. None: all releases
/// have the names of the table.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub(super) struct Releases(Vec<Release>);

/// Names of a release that differ from those of the newest.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Release {
    /// As in the tags of its repository.
    pub(super) name: String,
    /// Names here, and in the newest release.
    renamed: IndexMap<String, String>,
    /// Names of the table that only this release has.
    only: BTreeSet<String>,
    /// Names of the newest release that are not here, or `section.*`.
    lacks: BTreeSet<String>,
}

impl Releases {
    /// Name of the newest release.
    pub(super) fn newest(&self) -> Option<&str> {
        self.0.first().map(|release| release.name.as_str())
    }

    /// The release with most of the names that are given, the newest of several. Keys get their
    /// names of the newest release; keys that the release does not have are removed and reported.
    pub(super) fn recognise(
        &self,
        keys: &mut Vec<Given>,
        table: &Table,
        problems: &mut Vec<Problem>,
    ) -> Option<&str> {
        let of = |release: &Release| keys.iter().filter(|key| self.has(release, &key.name, table)).count();
        // The last of equals is taken.
        let release = self.0.iter().rev().max_by_key(|release| of(release))?;
        keys.retain_mut(|key| {
            if self.has(release, &key.name, table) {
                if let Some(name) = release.renamed.get(&key.name) {
                    key.name.clone_from(name);
                }
                return true;
            }
            let elsewhere = self.0.iter().find(|other| self.has(other, &key.name, table));
            problems.extend(elsewhere.map(|other| release.refusal(key, other)));
            elsewhere.is_none()
        });
        Some(&release.name)
    }

    /// True if the newest release has a key of this name.
    pub(super) fn newest_has(&self, name: &str, table: &Table) -> bool {
        self.0.first().is_none_or(|newest| self.has(newest, name, table))
    }

    /// True if a release has a key of this name.
    fn has(&self, release: &Release, name: &str, table: &Table) -> bool {
        if release.renamed.contains_key(name) || release.only.contains(name) {
            return true;
        }
        let is_older = |other: &Release| other.renamed.contains_key(name) || other.only.contains(name);
        let sections = name.match_indices('.').map(|(at, _)| format!("{}.*", &name[..at]));
        table.meaning(name).is_some()
            && !self.0.iter().any(is_older)
            && !release.renamed.values().any(|new| new == name)
            && !release.lacks.contains(name)
            && !sections.into_iter().any(|section| release.lacks.contains(&section))
    }
}

impl Release {
    /// Refuses a key that only another release has.
    fn refusal(&self, key: &Given, other: &Self) -> Problem {
        let newest = other.renamed.get(&key.name).unwrap_or(&key.name);
        let here = self.renamed.iter().find(|(_, new)| *new == newest).map(|(old, _)| old);
        let renamed = here.or(Some(newest).filter(|new| **new != key.name && !self.lacks.contains(*new)));
        let help = match renamed {
            Some(name) => format!("write `{name}`, or all keys as release {} has them", other.name),
            None => format!("remove it, or write all keys as release {} has them", other.name),
        };
        let message = format!(
            "`{}` is a key of release {}, but the others are those of {}",
            shorten(&key.name),
            other.name,
            self.name
        );
        Problem::new(key.mark, message).help(help)
    }
}
