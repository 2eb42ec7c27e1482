//! `foretrain import megatron`: the arguments of a training framework as a scenario.

use scenarios::interchange::{self, Given, Options, Target};

use super::input::{self, Changes};
use super::printer::Printer;
use super::trouble::{Trouble, json};
use super::{Exit, Format};

/// Arguments, and what they do not say.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// A launch script or a file of arguments, or `-` for standard input
    #[arg(required_unless_present = "words", conflicts_with = "words")]
    file: Option<String>,
    /// The arguments themselves, after `--`
    #[arg(last = true, value_name = "ARGUMENT")]
    words: Vec<String>,
    /// The machine: a node of `foretrain list machines`, of which the launcher says how many there are, or the setting
    /// `machine` as YAML
    #[arg(long, value_name = "NAME|YAML")]
    machine: Option<String>,
    #[command(flatten)]
    changes: Changes,
    /// Form of the answer: a scenario file, or JSON
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    format: Format,
}

/// Prints the scenario, with what was ignored and assumed in comments.
pub(super) fn import(target: Target, arguments: &Arguments, printer: &Printer) -> Result<Exit, Trouble> {
    imported(target, arguments, printer).or_else(|trouble| Ok(trouble.report(printer, arguments.format)))
}

fn imported(target: Target, arguments: &Arguments, printer: &Printer) -> Result<Exit, Trouble> {
    let options = Options { machine: arguments.machine.as_deref(), set: &arguments.changes.set };
    let imported = match &arguments.file {
        Some(file) => {
            let (name, text) = input::text(file)?;
            interchange::import(target, Given::Text { name: &name, text: &text }, &options)?
        }
        None => interchange::import(target, Given::Words(&arguments.words), &options)?,
    };
    match arguments.format {
        Format::Table => printer.print(&imported.scenario),
        Format::Json => printer.print(&json(&imported)),
    }
}
