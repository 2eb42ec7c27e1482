//! `foretrain plan`: a file that searches for the best plan of a model on a machine.

use scenarios::best_plan::BestPlan;

use super::Exit;
use super::printer::Printer;
use super::trouble::Trouble;

/// A model, and a machine to train it on.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// A published model (`foretrain list models`), or a Hugging Face config.json
    model: String,
    /// Nodes of the machine (`foretrain list machines`): `dgx-h100`, or `8xdgx-h100` for several
    machine: String,
    /// Network between the nodes (`foretrain list fabrics`)
    #[arg(long, value_name = "NAME")]
    fabric: Option<String>,
    /// Sequences of a step
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    global_batch: Option<u64>,
    /// Tokens of a sequence
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u64).range(1..=1 << 24))]
    sequence: Option<u64>,
}

/// Prints the file.
pub(super) fn plan(arguments: &Arguments, printer: &Printer) -> Result<Exit, Trouble> {
    let Arguments { model, machine, fabric, global_batch, sequence } = arguments;
    let (global_batch, sequence) = (*global_batch, *sequence);
    let plan = BestPlan { model, machine, fabric: fabric.as_deref(), global_batch, sequence };
    printer.print(&plan.scenario().map_err(Trouble::Mistake)?)
}
