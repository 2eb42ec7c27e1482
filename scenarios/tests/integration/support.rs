//! Loads scenarios from texts.

use std::collections::BTreeMap;

use reports::summary::{RunSummary, Summary};
use scenarios::run::{Options, Unwatched, execute};
use scenarios::{Experiment, Failure, load};

/// The smallest complete settings; tests add what they are about.
pub(crate) const SETTINGS: &str = concat!("\n", include_str!("../model.yaml"));

/// An experiment from one text, with settings from the command line.
pub(crate) fn read(text: &str, overrides: &[&str]) -> Result<Experiment, Failure> {
    read_all(&[("test.yaml", text)], overrides)
}

/// An experiment from the first of several files.
pub(crate) fn read_all(files: &[(&str, &str)], overrides: &[&str]) -> Result<Experiment, Failure> {
    let overrides: Vec<String> = overrides.iter().map(|&text| text.to_owned()).collect();
    let all: BTreeMap<String, Vec<u8>> =
        files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())).collect();
    load(&all, files[0].0, &overrides)
}

/// An experiment of name and [`SETTINGS`] followed by `more`, which must be right.
pub(crate) fn experiment(more: &str) -> Experiment {
    read(&format!("name: test\n{SETTINGS}{more}"), &[]).unwrap_or_else(|failure| panic!("{failure}"))
}

/// The first run of a text, with settings from the command line.
pub(crate) fn run_of(text: &str, settings: &[&str]) -> RunSummary {
    let experiment = read(text, settings).unwrap_or_else(|failure| panic!("{settings:?}: {failure}"));
    run(&experiment).variants.swap_remove(0)
}

/// The messages of a failure.
pub(crate) fn messages(failure: &Failure) -> Vec<&str> {
    failure.problems.iter().map(|problem| problem.message.as_str()).collect()
}

/// Everything, one after the other.
pub(crate) fn options() -> Options {
    Options { seed: 1, jobs: Some(1), variants: Vec::new(), reproduce: String::new() }
}

/// What an experiment finds.
pub(crate) fn run(experiment: &Experiment) -> Summary {
    execute(experiment, &options(), &Unwatched).unwrap_or_else(|refusal| panic!("{refusal}"))
}
