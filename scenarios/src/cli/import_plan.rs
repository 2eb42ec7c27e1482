//! `foretrain import megatron`, `deepspeed`, `torchtitan`, `megatron-bridge`: a plan of a training
//! framework as a scenario.

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
    #[command(flatten)]
    beside: Beside,
}

/// A document, and what it does not say.
#[derive(Debug, clap::Args)]
pub(super) struct Document {
    /// The configuration, or `-` for standard input
    file: String,
    /// The model: a transformer of `foretrain list models`, or the setting `model` as YAML; over that
    /// of the file
    #[arg(long, value_name = "NAME|YAML")]
    model: Option<String>,
    #[command(flatten)]
    beside: Beside,
}

/// A document, overrides of it, and what both do not say.
#[derive(Debug, clap::Args)]
pub(super) struct Container {
    /// The configuration as YAML, or `-` for standard input
    #[arg(required_unless_present = "overrides")]
    file: Option<String>,
    /// Overrides as on the command line of a recipe, after `--`: `train.global_batch_size=256`
    #[arg(last = true, value_name = "KEY=VALUE")]
    overrides: Vec<String>,
    /// The model: a transformer of `foretrain list models`, or the setting `model` as YAML; over
    /// that of the keys
    #[arg(long, value_name = "NAME|YAML")]
    model: Option<String>,
    #[command(flatten)]
    beside: Beside,
}

/// Settings beside a plan.
#[derive(Debug, clap::Args)]
struct Beside {
    /// The machine: a node of `foretrain list machines`, of which there are as many as the plan needs, or the setting
    /// `machine` as YAML
    #[arg(long, value_name = "NAME|YAML")]
    machine: Option<String>,
    #[command(flatten)]
    changes: Changes,
    /// Form of the answer: a scenario file, or JSON
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    format: Format,
}

/// Prints the scenario of arguments, with what was ignored and assumed in comments.
pub(super) fn arguments(target: Target, plan: &Arguments, printer: &Printer) -> Result<Exit, Trouble> {
    printed(&plan.beside, printer, || match &plan.file {
        Some(file) => text(target, file, &plan.beside.options(None)),
        None => Ok(interchange::import(target, Given::Words(&plan.words), &plan.beside.options(None))?),
    })
}

/// Prints the scenario of a document.
pub(super) fn document(target: Target, plan: &Document, printer: &Printer) -> Result<Exit, Trouble> {
    let options = plan.beside.options(plan.model.as_deref());
    printed(&plan.beside, printer, || text(target, &plan.file, &options))
}

/// Prints the scenario of a document with overrides, or of overrides alone.
pub(super) fn container(target: Target, plan: &Container, printer: &Printer) -> Result<Exit, Trouble> {
    let options = Options { overrides: &plan.overrides, ..plan.beside.options(plan.model.as_deref()) };
    printed(&plan.beside, printer, || match &plan.file {
        Some(file) => text(target, file, &options),
        None => Ok(interchange::import(target, Given::Words(&plan.overrides), &options)?),
    })
}

fn text(target: Target, file: &str, options: &Options<'_>) -> Result<interchange::Imported, Trouble> {
    let (name, text) = input::text(file)?;
    Ok(interchange::import(target, Given::Text { name: &name, text: &text }, options)?)
}

fn printed(
    beside: &Beside,
    printer: &Printer,
    import: impl Fn() -> Result<interchange::Imported, Trouble>,
) -> Result<Exit, Trouble> {
    match import() {
        Ok(imported) => match beside.format {
            Format::Table => printer.print(&imported.scenario),
            Format::Json => printer.print(&json(&imported)),
        },
        Err(trouble) => Ok(trouble.report(printer, beside.format)),
    }
}

impl Beside {
    fn options<'a>(&'a self, model: Option<&'a str>) -> Options<'a> {
        Options { machine: self.machine.as_deref(), model, set: &self.changes.set, overrides: &[] }
    }
}
