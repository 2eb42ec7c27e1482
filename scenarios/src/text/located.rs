//! Problems for programs, with their places in words.

use serde::Serialize;

use super::problem::{Failure, Problem};
use super::source::{Mark, Sources};

/// A problem whose places name their files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Located {
    /// Mistake, in one sentence without full stop.
    pub message: String,
    /// Places that it is about, the most important first; empty where it stands in no file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<Place>,
    /// Remedy.
    pub help: Option<String>,
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// Name of the file, as messages have it.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// Explanation of the place.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub label: String,
}

impl Failure {
    /// All problems, in their order.
    pub fn located(&self) -> Vec<Located> {
        self.problems.iter().map(|problem| located(problem, &self.sources)).collect()
    }
}

fn located(problem: &Problem, sources: &Sources) -> Located {
    let place = |mark: Mark, label: &str| Place {
        file: sources.get(mark.source).name.clone(),
        line: mark.line,
        column: mark.column,
        label: label.to_owned(),
    };
    Located {
        message: problem.message.clone(),
        places: problem.notes.iter().map(|note| place(note.mark, &note.label)).collect(),
        help: problem.help.clone(),
    }
}
