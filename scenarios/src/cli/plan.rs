//! `foretrain plan`: a file that searches for the best plan of a model on a machine.

use super::Exit;
use super::printer::Printer;
use super::task::Task;
use super::trouble::Trouble;

/// Prints the file.
pub(super) fn plan(task: &Task, printer: &Printer) -> Result<Exit, Trouble> {
    printer.print(&task.best_plan().scenario().map_err(Trouble::Mistake)?)
}
