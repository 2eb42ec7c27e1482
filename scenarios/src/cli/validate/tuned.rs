//! `foretrain validate --tuned`: plans that others tuned, among those that the search finds.

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
    match arguments.format {
        Output::Table => {
            printer.print_text(&page("the table", |out| tuned::write(out, &found, printer.style))?)?
        }
        Output::Json => {
            printer.print_bytes(&page("the results", |out| reports::json::write(out, &found))?)?
        }
        Output::Csv => printer.print_bytes(&page("the rows", |out| tuned::csv(out, &found))?)?,
    };
    Ok(if found.passed() { Exit::Fine } else { Exit::BrokenPromise })
}
