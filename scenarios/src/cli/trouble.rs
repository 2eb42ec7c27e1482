//! Why a verb could not do what it was asked, for people and for programs.

use std::io::{self, ErrorKind};

use calibration::TableError;
use reports::summary::SCHEMA_VERSION;
use scenarios::run::Refusal;
use scenarios::{Failure, Located, Place};
use serde::Serialize;

use super::printer::Printer;
use super::{Exit, Format, bug};

/// Why a verb ended early.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    /// A scenario is wrong.
    #[error("{0}")]
    Scenario(#[from] Failure),
    /// A scenario is right and still was not run.
    #[error("{0}")]
    Refusal(#[from] Refusal),
    /// Tables of measurements are wrong.
    #[error("{}", .0.iter().map(TableError::to_string).collect::<Vec<_>>().join("\n"))]
    Tables(Vec<TableError>),
    /// Anything else that whoever called foretrain can mend.
    #[error("{0}")]
    Mistake(String),
    /// No device can be measured: it is not there, or this build measures none.
    #[error("{0}")]
    NoDevice(String),
    /// Standard output takes no more.
    #[error("{0}")]
    Output(io::Error),
}

/// Problems for programs.
#[derive(Serialize)]
struct Problems {
    schema_version: u32,
    problems: Vec<Located>,
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
                bug::report(&self.to_string());
                Exit::Bug
            }
            Trouble::Refusal(_) | Trouble::Mistake(_) => {
                printer.complain(&self.to_string());
                Exit::BadInput
            }
            Trouble::NoDevice(_) => {
                printer.complain(&self.to_string());
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

    /// All problems with their places, as one JSON document.
    fn json(&self) -> String {
        let problems = match self {
            Trouble::Scenario(failure) => failure.located(),
            Trouble::Tables(errors) => errors.iter().map(located).collect(),
            _ => vec![Located { message: self.to_string(), places: Vec::new(), help: None }],
        };
        json(&Problems { schema_version: SCHEMA_VERSION, problems })
    }
}

fn located(error: &TableError) -> Located {
    let TableError { file, line, at, .. } = error;
    let count = |at: u64| u32::try_from(at).unwrap_or(u32::MAX);
    let (line, column) = (count(*line), count(at.unwrap_or(1)));
    let place = Place { file: file.clone(), line, column, label: String::new() };
    Located { message: error.to_string(), places: vec![place], help: None }
}

/// A document for programs, indented and with a final line break.
pub(super) fn json(document: &impl Serialize) -> String {
    let mut text = Vec::new();
    let written = reports::json::write(&mut text, document);
    written.expect("plain data with text keys can be written as JSON");
    String::from_utf8(text).expect("JSON is UTF-8")
}
