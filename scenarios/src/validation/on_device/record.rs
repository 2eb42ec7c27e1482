//! What a device did: a heading and a line of JSON for each row.

use calibration::measure::timing::{QUIET, median, scatter};
use calibration::measure::{Conditions, Identity};
use hw_models::catalogue::nearest;
use indexmap::IndexMap;
use reports::quantity;
use serde::{Deserialize, Serialize};

use crate::text::lines::{WrongLine, read_lines};
use crate::validation::embedded;

/// What is known of the device and of how it was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Heading {
    /// Version of foretrain that asked.
    pub foretrain: String,
    /// What was measured, and by what software.
    pub device: Identity,
    /// The GPU of the catalogue that it is.
    pub gpu: String,
    /// When: year, month, day.
    pub date: String,
    /// Names of the hardware files that predictions were made with.
    pub calibrations: Vec<String>,
}

/// What a device did for a row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The set.
    pub workload: String,
    /// The row's values of the set's axes.
    pub row: IndexMap<String, String>,
    /// What was measured.
    #[serde(flatten)]
    pub reply: Reply,
}

/// Figures of a row, or why there are none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// Samples of each figure, in seconds, bytes or a count, as its name ends, in the order they were taken.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub figures: IndexMap<String, Vec<f64>>,
    /// Before the first sample.
    #[serde(default)]
    pub before: Conditions,
    /// After the last one.
    #[serde(default)]
    pub after: Conditions,
    /// Why there are no figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// A file of measurements.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// Its name.
    pub name: String,
    /// Its first line.
    pub heading: Heading,
    /// The others, each with its line; of several for a row the last.
    pub measurements: Vec<(usize, Measurement)>,
}

/// What it says where none of its lines can be read.
const EXPECTED: &str =
    "is no record of workloads: expected a file `on-device.jsonl` of `foretrain validate --on-device`";

impl Recorded {
    /// Reads a file.
    ///
    /// # Errors
    /// What is wrong, with the line.
    pub fn read(name: &str, text: &str) -> Result<Self, String> {
        let lines = read_lines(text).map_err(|WrongLine { line, error }| match line {
            1 => format!("{name}: {EXPECTED} ({error})"),
            _ => format!("{name}: line {line}: {error}"),
        });
        let (heading, lines): (_, Vec<(usize, Measurement)>) = lines?;
        let mut measurements: Vec<(usize, Measurement)> = Vec::new();
        for (line, found) in lines {
            measurements.retain(|(_, known)| (&known.workload, &known.row) != (&found.workload, &found.row));
            measurements.push((line, found));
        }
        Ok(Self { name: name.to_owned(), heading, measurements })
    }

    /// What was measured of a set, each with its line.
    pub(in super::super) fn of(&self, workload: &str) -> impl Iterator<Item = &(usize, Measurement)> {
        self.measurements.iter().filter(move |(_, row)| row.workload == workload)
    }

    /// Whether every line is of a row that a set has.
    ///
    /// # Errors
    /// Those that are not.
    pub(super) fn check(&self) -> Result<(), Vec<String>> {
        let known: Vec<&str> = super::names().collect();
        let wrong = |(line, found): &(usize, Measurement)| {
            let place = format!("{}: line {line}", self.name);
            let Some(set) = embedded::workload(&found.workload) else {
                let remedy = nearest::remedy(&found.workload, &known, "workload");
                return Some(format!("{place}: there is no workload `{}`: {remedy}", found.workload));
            };
            let known = super::of(&set).cases().iter().any(|case| case.inputs == found.row);
            let told: Vec<String> =
                found.row.iter().map(|(axis, value)| format!("{axis} `{value}`")).collect();
            (!known).then(|| format!("{place}: `{}` has no row of {}", found.workload, told.join(", ")))
        };
        let wrong: Vec<String> = self.measurements.iter().filter_map(wrong).collect();
        if wrong.is_empty() { Ok(()) } else { Err(wrong) }
    }

    /// In words, with its licence.
    pub(in super::super) fn source(&self) -> String {
        let Heading { foretrain, device, date, .. } = &self.heading;
        let facts: Vec<String> = device.facts.iter().map(|(name, fact)| format!("{name} {fact}")).collect();
        let told = [device.name.clone(), device.driver.clone()].into_iter().chain(facts);
        let told: Vec<String> = told.filter(|text| !text.is_empty()).collect();
        format!(
            "{}: measured by foretrain {foretrain} on {} with {}; licence as foretrain's",
            self.name,
            date,
            told.join(", ")
        )
    }
}

impl Reply {
    /// A figure: the median of its samples.
    ///
    /// # Errors
    /// Why it cannot be believed, or is not there.
    pub(super) fn figure(&self, name: &str) -> Result<f64, String> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        let held_back = self.before.throttled_by.iter().chain(&self.after.throttled_by).next();
        if let Some(reason) = held_back {
            return Err(format!("the device was held back by {reason}"));
        }
        let samples = self.figures.get(name).filter(|samples| !samples.is_empty());
        let samples = samples.ok_or_else(|| format!("`{name}` was not measured"))?;
        let value = median(samples);
        if !(value > 0.0 && value.is_finite()) {
            return Err(format!("`{name}` is {value}, no measurement"));
        }
        let off = scatter(samples);
        if off > QUIET {
            let (off, quiet) = (quantity::percent(off), quantity::percent(QUIET));
            return Err(format!("samples scatter by {off} around their median, more than {quiet}"));
        }
        Ok(value)
    }
}
