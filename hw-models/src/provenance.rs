//! Where a constant comes from. Every constant of the catalogue has a provenance, so that a result can say what it rests on.

use std::fmt;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

/// Where a constant comes from, and how far it is to be trusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// What kind of source it is.
    pub origin: Origin,
    /// Page, paper, file or measurement, in words a reader can follow.
    pub source: String,
    /// How far it is to be trusted.
    pub confidence: Confidence,
}

/// Kinds of sources, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// Measured by the project, on the hardware named.
    MeasuredHere,
    /// A measurement that others published.
    MeasuredElsewhere,
    /// A figure of the vendor.
    DataSheet,
    /// A figure of a paper.
    Paper,
    /// Carried over or assumed.
    Estimate,
}

/// Degrees of trust, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Confidence {
    /// Read at its source.
    High,
    /// Plausible, not confirmed.
    Medium,
    /// To be measured before anything hangs on it.
    Low,
}

/// The provenances of one catalogue entry: one for all its constants, and those that differ.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Sources {
    /// Holds for every constant not named below.
    pub default: Provenance,
    /// By the name of the constant in the entry.
    #[serde(flatten)]
    pub constants: IndexMap<String, Provenance>,
}

impl Provenance {
    /// That of what a user wrote.
    pub fn written() -> Self {
        let source = "written in the scenario".to_owned();
        Self { origin: Origin::Estimate, source, confidence: Confidence::Medium }
    }

    /// That of what is taken over from another part.
    pub fn carried_over(from: &str) -> Self {
        let source = format!("as `{from}`");
        Self { origin: Origin::Estimate, source, confidence: Confidence::Low }
    }
}

impl Sources {
    /// Of an entry that a user wrote.
    pub fn written() -> Self {
        Self { default: Provenance::written(), constants: IndexMap::new() }
    }

    /// Sources of an entry that a user described: of its constants those that are given are as
    /// written, the rest as those of another.
    pub fn described(from: &str, given: impl IntoIterator<Item = (&'static str, bool)>) -> Self {
        let written =
            |(constant, given): (&str, bool)| given.then(|| (constant.to_owned(), Provenance::written()));
        let constants = given.into_iter().filter_map(written).collect();
        Self { default: Provenance::carried_over(from), constants }
    }

    /// The provenance of one constant of the entry.
    pub fn of(&self, constant: &str) -> &Provenance {
        self.constants.get(constant).unwrap_or(&self.default)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MeasuredHere => "measured here",
            Self::MeasuredElsewhere => "measured elsewhere",
            Self::DataSheet => "data sheet",
            Self::Paper => "paper",
            Self::Estimate => "estimate",
        })
    }
}

impl fmt::Display for Confidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}
