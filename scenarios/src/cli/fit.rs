//! `foretrain fit`: the largest model, batch or sequence that a machine trains, or the fewest nodes that train a model.

use std::io::{self, Read};

use clap::ValueEnum;
use scenarios::best_plan::{Asked, LastFit};
use scenarios::{Experiment, Opened, load};

use super::Exit;
use super::files::open_regular;
use super::input::{self, Changes};
use super::interrupt;
use super::printer::Printer;
use super::request::{How, Request};
use super::run::{command, simulate};
use super::task::Task;
use super::trouble::Trouble;

/// What is asked for, of which model and machine.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    task: Task,
    /// The quantity whose largest value that fits is looked for
    #[arg(long, value_enum, default_value_t = Largest::Model, conflicts_with = "fewest")]
    largest: Largest,
    /// The quantity whose fewest that do are looked for
    #[arg(long, value_enum)]
    fewest: Option<Fewest>,
    /// Most time of a step, such as `20 s`
    #[arg(long, value_name = "TIME")]
    within: Option<String>,
    /// Print the scenario that would be run, and simulate nothing
    #[arg(long)]
    print: bool,
    #[command(flatten)]
    changes: Changes,
    #[command(flatten)]
    how: How,
}

/// Quantities that may be as large as fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Largest {
    /// Layers of the model, as wide as they are
    Model,
    /// Tokens of a sequence
    Sequence,
    /// Sequences that a GPU works on at a time
    Batch,
    /// Sequences of a step, for which `--within` is needed
    GlobalBatch,
}

/// Quantities that may be as few as do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Fewest {
    /// GPUs, in nodes of the machine
    Gpus,
}

/// Name of the scenario among files that are read.
const SCENARIO: &str = "<fit>";

/// Writes the scenario, and runs it unless it is only to be printed.
pub(super) fn fit(arguments: &Arguments, printer: &Printer) -> Result<Exit, Trouble> {
    interrupt::catch();
    asked(arguments, printer).or_else(|trouble| Ok(trouble.report(printer, arguments.how.problems_as())))
}

fn asked(arguments: &Arguments, printer: &Printer) -> Result<Exit, Trouble> {
    let Arguments { task: Task { model, machine, .. }, changes, how, .. } = arguments;
    let text = arguments.last_fit().scenario().map_err(Trouble::Mistake)?;
    if arguments.print {
        return printer.print(&text);
    }
    let experiment = read(&text, changes)?;
    let folder = input::folder_name(&format!("fit-{model}-{machine}").replace(['.', '/'], "-"));
    let request = Request { file: SCENARIO, folder, changes, how };
    let mut options = request.options();
    options.reproduce = command(arguments.words().into_iter());
    let journal = request.journal(&experiment, printer);
    simulate(&experiment, &options, &request, (journal, None), printer)
}

/// Reads a text as a scenario beside the files of this machine.
fn read(text: &str, changes: &Changes) -> Result<Experiment, Trouble> {
    let files = Opened(|path: &str| -> io::Result<Box<dyn Read>> {
        match path {
            SCENARIO => Ok(Box::new(io::Cursor::new(text.to_owned()))),
            path => Ok(Box::new(open_regular(path)?)),
        }
    });
    Ok(load(&files, SCENARIO, &changes.set)?)
}

impl Arguments {
    fn last_fit(&self) -> LastFit<'_> {
        let asked = match (self.fewest, self.largest) {
            (Some(Fewest::Gpus), _) => Asked::FewestNodes,
            (None, Largest::Model) => Asked::LargestModel,
            (None, Largest::Sequence) => Asked::LargestSequence,
            (None, Largest::Batch) => Asked::LargestMicroBatch,
            (None, Largest::GlobalBatch) => Asked::LargestGlobalBatch,
        };
        LastFit { plan: self.task.best_plan(), asked, within: self.within.as_deref() }
    }

    /// Words of a command with the same results.
    fn words(&self) -> Vec<String> {
        let quantity = match self.fewest {
            Some(fewest) => Some(("--fewest", fewest.to_possible_value())),
            None => Some(("--largest", self.largest.to_possible_value())),
        };
        let quantity = quantity.and_then(|(flag, value)| Some((flag, value?.get_name().to_owned())));
        let Task { model, machine, fabric, global_batch, sequence } = &self.task;
        let others = [
            quantity,
            self.within.clone().map(|value| ("--within", value)),
            fabric.clone().map(|value| ("--fabric", value)),
            global_batch.map(|value| ("--global-batch", value.to_string())),
            sequence.map(|value| ("--sequence", value.to_string())),
        ];
        let mut words = ["fit", model, machine].map(str::to_owned).to_vec();
        words.extend(others.into_iter().flatten().flat_map(|(flag, value)| [flag.to_owned(), value]));
        words.extend(self.changes.set.iter().flat_map(|set| ["--set".to_owned(), set.clone()]));
        words
    }
}
