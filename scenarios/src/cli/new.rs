//! `foretrain new`: a scenario file to begin with.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use super::Exit;
use super::input;
use super::printer::Printer;
use super::run;
use super::trouble::Trouble;

/// A small pipeline with comments.
const TEMPLATE: &str = include_str!("template.yaml");
/// Tells editors where the schema is: beside the scenario.
const MODELINE: &str = "# yaml-language-server: $schema=scenario.schema.json\n";
const SCHEMA: &str = "scenario.schema.json";

/// What is written.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The file to write; one that exists is left alone
    file: PathBuf,
    /// A library scenario to copy, instead of a small example
    #[arg(long, value_name = "NAME")]
    from: Option<String>,
}

/// Writes the file, beside it the schema that editors need, and says what to do next.
pub(super) fn new(arguments: &Arguments, printer: &Printer) -> Result<Exit, Trouble> {
    let text = match &arguments.from {
        None => TEMPLATE.to_owned(),
        Some(name) => library_text(name)?,
    };
    let file = &arguments.file;
    create(file, &format!("{MODELINE}{text}")).map_err(|error| refusal(file, &error))?;
    let schema = file.with_file_name(SCHEMA);
    let for_editors = match create(&schema, &scenarios::json_schema()) {
        Ok(()) => format!("{} lets editors complete and check it\n", schema.display()),
        // An older schema serves, too; and no schema spoils only comfort.
        Err(_) => String::new(),
    };
    let next = run::command(["run".to_owned(), file.display().to_string()].into_iter());
    printer.print(&format!("wrote {}\n{for_editors}next: {next}\n", file.display()))
}

fn library_text(name: &str) -> Result<String, Trouble> {
    let experiment = input::library_experiment(name)?;
    let first = experiment.sources().iter().next();
    Ok(first.map(|source| source.text.clone()).unwrap_or_default())
}

/// Writes a file that does not exist yet.
fn create(path: &Path, text: &str) -> io::Result<()> {
    let written = File::create_new(path)?.write_all(text.as_bytes());
    if written.is_err() {
        // Half a file would keep the next try from working.
        let _ = fs::remove_file(path);
    }
    written
}

fn refusal(file: &Path, error: &io::Error) -> Trouble {
    let file = file.display();
    Trouble::Mistake(match error.kind() {
        ErrorKind::AlreadyExists => format!("`{file}` exists; choose another name, or remove it first"),
        ErrorKind::NotFound => format!("`{file}` is in a folder that does not exist; make it first"),
        ErrorKind::PermissionDenied => {
            format!("cannot write `{file}`: permission denied; choose another folder")
        }
        _ => format!("cannot write `{file}`: {error}; choose another name"),
    })
}
