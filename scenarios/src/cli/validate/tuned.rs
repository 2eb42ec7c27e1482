//! `foretrain validate --tuned`: plans that others tuned, among those that the search finds.

use reports::terminal::Style;
use reports::validation::tuned;
use scenarios::validation::{Options, tuned as judge};

use super::Arguments;
use crate::cli::output::page;
use crate::cli::printer::Printer;
use crate::cli::progress::Bar;
use crate::cli::run::{Output, command};
use crate::cli::trouble::Trouble;
use crate::cli::{Exit, VERSION};

/// Searches, and prints ranks and gaps.
pub(super) fn tell(arguments: &Arguments, printer: &Printer) -> Result<Exit, Trouble> {
    let options = Options {
        jobs: arguments.jobs.map(usize::from),
        version: VERSION.to_owned(),
        reproduce: command(["validate", "--tuned"].map(str::to_owned).into_iter()),
    };
    let Some(found) = judge(&[], &options, &Bar::new(arguments.quiet, "plans")) else {
        printer.complain("interrupted before all plans were searched; nothing is kept");
        return Ok(Exit::Interrupted);
    };
    let text = match arguments.format {
        Output::Table => page("the table", |out| tuned::write(out, &found, Style { colour: printer.color }))?,
        Output::Json => page("the results", |out| reports::json::write(out, &found))?,
        Output::Csv => page("the rows", |out| tuned::csv(out, &found))?,
    };
    printer.print_bytes(&text)?;
    Ok(if found.passed() { Exit::Fine } else { Exit::BrokenPromise })
}
