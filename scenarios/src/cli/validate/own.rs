//! `foretrain validate --set`: measurements of one's own.

use scenarios::validation::OwnSet;

use super::{Arguments, judged};
use crate::cli::Exit;
use crate::cli::input::disk;
use crate::cli::printer::Printer;
use crate::cli::trouble::Trouble;

/// Judges the set in a file.
pub(super) fn judge(set: &str, arguments: &Arguments, printer: &Printer) -> Result<Exit, Trouble> {
    let beside = set.rsplit_once('/').map_or("", |(folder, _)| folder);
    let folder = arguments.data.as_deref().unwrap_or(beside);
    let files = disk(set);
    let own = OwnSet::read(&files, set, folder.trim_end_matches('/'))?;
    let data = arguments.data.iter().flat_map(|folder| ["--data".to_owned(), folder.clone()]);
    let said: Vec<String> = ["--set".to_owned(), set.to_owned()].into_iter().chain(data).collect();
    judged(arguments, printer, &said, |options, bar| Ok(own.validate(options, bar)))
}
