//! Why a verb could not do what it was asked, for people and for programs.

use std::io::{self, ErrorKind};

use calibration::TableError;
use reports::summary::SCHEMA_VERSION;
use scenarios::run::Refusal;
use scenarios::{Failure, Mark, Problem, Sources};
use serde::Serialize;

use super::printer::Printer;
use super::{Exit, Format, bug};

/// Why a verb ended early.
#[derive(Debug)]
pub(super) enum Trouble {
    /// A scenario is wrong.
    Scenario(Failure),
    /// A scenario is right and still was not run.
    Refusal(Refusal),
    /// Tables of measurements are wrong.
    Tables(Vec<TableError>),
    /// Anything else that whoever called foretrain can mend.
    Mistake(String),
    /// No device can be measured: it is not there, or this build measures none.
    NoDevice(String),
    /// Standard output takes no more.
    Output(io::Error),
}

/// Problems for programs.
#[derive(Serialize)]
struct Problems<'a> {
    schema_version: u32,
    problems: Vec<Entry<'a>>,
}

#[derive(Serialize)]
struct Entry<'a> {
    message: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    places: Vec<Place<'a>>,
    help: Option<&'a str>,
}

#[derive(Serialize)]
struct Place<'a> {
    file: String,
    line: u32,
    column: u32,
    #[serde(skip_serializing_if = "str::is_empty")]
    label: &'a str,
}

impl Trouble {
    /// Tells people on standard error, and where programs read on standard output also those.
    pub(super) fn report(&self, printer: &Printer, format: Format) -> Exit {
        let exit = match self {
            Trouble::Output(error) if error.kind() == ErrorKind::BrokenPipe => return Exit::Fine,
            Trouble::Output(error) => {
                printer.complain(&format!("cannot write to standard output: {error}"));
                return Exit::BadInput;
            }
            Trouble::Scenario(failure) => {
                printer.complain_about(failure);
                Exit::BadInput
            }
            Trouble::Tables(errors) => {
                for error in errors {
                    printer.complain(&error.to_string());
                }
                Exit::BadInput
            }
            Trouble::Refusal(Refusal::Broken { .. }) => {
                bug::report(&self.text());
                Exit::Bug
            }
            Trouble::Refusal(_) | Trouble::Mistake(_) => {
                printer.complain(&self.text());
                Exit::BadInput
            }
            Trouble::NoDevice(_) => {
                printer.complain(&self.text());
                Exit::NoDevice
            }
        };
        if format == Format::Json
            && let Err(trouble) = printer.print(&self.json())
        {
            // Nobody reads the JSON; that is told in words, which do not come back here.
            return trouble.report(printer, Format::Table).max(exit);
        }
        exit
    }

    fn text(&self) -> String {
        match self {
            Trouble::Scenario(failure) => failure.to_string(),
            Trouble::Refusal(refusal) => refusal.to_string(),
            Trouble::Tables(errors) => {
                errors.iter().map(TableError::to_string).collect::<Vec<_>>().join("\n")
            }
            Trouble::Mistake(message) | Trouble::NoDevice(message) => message.clone(),
            Trouble::Output(error) => error.to_string(),
        }
    }

    /// All problems with their places, as one JSON document.
    fn json(&self) -> String {
        let text = self.text();
        let told: Vec<String> = match self {
            Trouble::Tables(errors) => errors.iter().map(ToString::to_string).collect(),
            _ => Vec::new(),
        };
        let problems = match self {
            Trouble::Scenario(failure) => {
                failure.problems.iter().map(|problem| entry(problem, &failure.sources)).collect()
            }
            Trouble::Tables(errors) => errors.iter().zip(&told).map(entry_of_table).collect(),
            _ => vec![Entry { message: &text, places: Vec::new(), help: None }],
        };
        json(&Problems { schema_version: SCHEMA_VERSION, problems })
    }
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Scenario(failure)
    }
}

impl From<Refusal> for Trouble {
    fn from(refusal: Refusal) -> Self {
        Self::Refusal(refusal)
    }
}

fn entry<'a>(problem: &'a Problem, sources: &Sources) -> Entry<'a> {
    let place = |mark: Mark, label: &'a str| {
        let place = sources.locate(mark);
        let file = place.strip_suffix(&format!(":{mark}")).unwrap_or(&place).to_owned();
        Place { file, line: mark.line, column: mark.column, label }
    };
    Entry {
        message: &problem.message,
        places: problem.notes.iter().map(|note| place(note.mark, &note.label)).collect(),
        help: problem.help.as_deref(),
    }
}

fn entry_of_table<'a>((error, message): (&'a TableError, &'a String)) -> Entry<'a> {
    let TableError { file, line, at, .. } = error;
    let count = |at: u64| u32::try_from(at).unwrap_or(u32::MAX);
    let place = Place { file: file.clone(), line: count(*line), column: count(at.unwrap_or(1)), label: "" };
    Entry { message, places: vec![place], help: None }
}

/// A document for programs, indented and with a final line break.
pub(super) fn json(document: &impl Serialize) -> String {
    let mut text = Vec::new();
    let written = reports::json::write(&mut text, document);
    written.expect("plain data with text keys can be written as JSON");
    String::from_utf8(text).expect("JSON is UTF-8")
}
