//! One experiment as a command line asks for it: which runs, and where their results go.

use std::path::PathBuf;
use std::time::Duration;

use scenarios::Experiment;
use scenarios::run::Options;

use super::input::{self, Changes};
use super::journal::{Heading, Journal};
use super::printer::Printer;
use super::progress::Bar;
use super::run::{Output, command};
use super::{Format, SEED};

/// Which runs, and where their results go.
#[derive(Debug, clap::Args)]
pub(super) struct How {
    /// Run only this variant; may be repeated
    #[arg(long = "variant", value_name = "NAME")]
    variants: Vec<String>,
    /// The root of all randomness
    #[arg(long, value_name = "N", default_value_t = SEED)]
    seed: u64,
    /// Simulations at a time; as many as there are processors if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(super) jobs: Option<u16>,
    /// The folder in which each scenario gets a folder of results
    #[arg(long, value_name = "DIR", default_value = OUT)]
    pub(super) out: PathBuf,
    /// What is printed
    #[arg(long, value_enum, default_value_t = Output::Table)]
    pub(super) format: Output,
    /// Print everything, not what fits on a screen
    #[arg(long)]
    pub(super) all: bool,
    /// End with exit code 1 if no run has a step time
    #[arg(long)]
    pub(super) fail_if_none_fits: bool,
    /// Show no progress
    #[arg(long, short)]
    pub(super) quiet: bool,
}

/// Folder of results where none is given.
const OUT: &str = "out";

/// A file to run.
pub(super) struct Request<'a> {
    pub(super) file: &'a str,
    /// Name of its folder of results.
    pub(super) folder: String,
    pub(super) changes: &'a Changes,
    pub(super) how: &'a How,
}

impl How {
    /// Form of problems beside such results.
    pub(super) fn problems_as(&self) -> Format {
        if self.format == Output::Json { Format::Json } else { Format::Table }
    }
}

impl<'a> Request<'a> {
    /// A request for one file alone.
    pub(super) fn alone(file: &'a str, changes: &'a Changes, how: &'a How) -> Self {
        Self { file, folder: input::folder_name(file), changes, how }
    }

    pub(super) fn options(&self) -> Options {
        Options {
            seed: self.how.seed,
            jobs: self.how.jobs.map(usize::from),
            variants: self.how.variants.clone(),
            reproduce: command(self.same_results("run").into_iter()),
        }
    }

    /// Words of a verb with the same results, in the same folder.
    pub(super) fn words(&self, verb: &str) -> Vec<String> {
        let mut words = self.same_results(verb);
        if self.how.out.as_os_str() != OUT {
            words.extend(["--out".to_owned(), self.how.out.to_string_lossy().into_owned()]);
        }
        words
    }

    /// Words of a verb with the same results; where and how these are shown is left out.
    fn same_results(&self, verb: &str) -> Vec<String> {
        let mut words = vec![verb.to_owned(), self.file.to_owned()];
        words.extend(self.changes.set.iter().flat_map(|set| ["--set".to_owned(), set.clone()]));
        words.extend(self.how.variants.iter().flat_map(|variant| ["--variant".to_owned(), variant.clone()]));
        if self.how.seed != SEED {
            words.extend(["--seed".to_owned(), self.how.seed.to_string()]);
        }
        words
    }

    /// A bar that counts the runs of an experiment, and ends a search after its budget.
    pub(super) fn bar(&self, experiment: &Experiment) -> Bar {
        let (counted, budget) = match experiment.search() {
            Some(search) => ("plans", search.budget_ns().map(Duration::from_nanos)),
            None => ("runs", None),
        };
        Bar::new(self.how.quiet, counted).at_a_time(self.how.jobs).within(budget)
    }

    /// The journal beside the results; none for a single run, which is lost as a whole.
    pub(super) fn journal(&self, experiment: &Experiment, printer: &Printer) -> Option<Journal> {
        let variants = match self.how.variants.len() {
            0 => experiment.variants().count(),
            chosen => chosen,
        };
        if experiment.search().is_none() && variants == 1 && experiment.count() == 1 {
            return None;
        }
        let path = self.how.out.join(format!(".{}.journal", self.folder));
        let journal = Journal::open(path, Heading::of(experiment, &self.options(), None), printer);
        if journal.len() > 0 {
            printer.tell(&format!(
                "note: this run goes on with {} simulations of one that was stopped\n",
                journal.len()
            ));
        }
        Some(journal)
    }
}
