//! `foretrain export`: a plan as the arguments or the document of a training framework.

use clap::ValueEnum;
use scenarios::interchange::{self, Target};
use scenarios::run::first;

use super::input::{self, Changes};
use super::printer::Printer;
use super::trouble::{Trouble, json};
use super::{Exit, Format};

/// A plan, and who is to train it.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// A scenario file, the name of a library scenario, or `-` for standard input
    #[arg(value_name = "FILE|NAME")]
    file: String,
    /// The framework
    #[arg(long, value_name = "FRAMEWORK")]
    to: Framework,
    #[command(flatten)]
    changes: Changes,
    /// The variant; the first if not given
    #[arg(long, value_name = "NAME")]
    variant: Option<String>,
    /// Form of the answer: the text that the framework reads, or JSON
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    format: Format,
}

/// A training framework.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Framework {
    /// Megatron-LM: a Bash array of arguments
    Megatron,
    /// DeepSpeed: its JSON configuration; which setting each key says is on standard error
    Deepspeed,
    /// torchtitan: the TOML file of a job
    Torchtitan,
    /// Megatron-Bridge: YAML that is laid over a recipe
    MegatronBridge,
}

/// Prints the arguments of one run; over a sweep the first whose sizes multiply.
pub(super) fn export(arguments: &Arguments, printer: &Printer) -> Result<Exit, Trouble> {
    exported(arguments, printer).or_else(|trouble| Ok(trouble.report(printer, arguments.format)))
}

fn exported(arguments: &Arguments, printer: &Printer) -> Result<Exit, Trouble> {
    let experiment = input::experiment(&arguments.file, &arguments.changes)?;
    let first = first(&experiment, arguments.variant.as_deref())?;
    let target = match arguments.to {
        Framework::Megatron => Target::MEGATRON,
        Framework::Deepspeed => Target::DEEPSPEED,
        Framework::Torchtitan => Target::TORCHTITAN,
        Framework::MegatronBridge => Target::MEGATRON_BRIDGE,
    };
    let exported = interchange::export(&experiment, &first.resolved, target)?;
    match arguments.format {
        Format::Table => {
            exported.origins().into_iter().for_each(|origins| printer.tell(&origins));
            printer.print(&exported.text())
        }
        Format::Json => printer.print(&json(&exported)),
    }
}
