//! `foretrain merge`: results of a run whose shards were simulated apart.

use std::collections::{BTreeMap, BTreeSet};

use scenarios::Experiment;
use scenarios::run::{Options, Shard, lacking};

use super::Exit;
use super::input::{self, Changes};
use super::interrupt;
use super::journal::{Heading, Journal};
use super::printer::Printer;
use super::request::{How, Request};
use super::run::{command, simulate};
use super::shards::{self, Merged};
use super::trouble::Trouble;

/// Shards to merge, and how.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The scenario file that the shards were run of
    #[arg(value_name = "FILE|NAME")]
    file: String,
    #[command(flatten)]
    changes: Changes,
    #[command(flatten)]
    how: How,
    /// Simulate here what the shards lack
    #[arg(long)]
    finish: bool,
}

/// Writes the results of all shards together.
pub(super) fn merge(arguments: &Arguments, printer: &Printer) -> Result<Exit, Trouble> {
    interrupt::catch();
    merged(arguments, printer).or_else(|trouble| Ok(trouble.report(printer, arguments.how.problems_as())))
}

fn merged(arguments: &Arguments, printer: &Printer) -> Result<Exit, Trouble> {
    let Arguments { file, changes, how, finish } = arguments;
    let request = Request::alone(file, changes, how);
    let experiment = input::experiment(file, changes)?;
    let options = request.options();
    let merged = shards::read(&request, &Heading::of(&experiment, &options, None))?;
    let ended: BTreeMap<Shard, bool> =
        merged.iter().map(|Merged { shard, content }| (*shard, content.ended)).collect();
    let mut journal = request.journal(&experiment, printer);
    if let Some(journal) = &mut journal {
        merged.into_iter().for_each(|merged| journal.learn(merged.content));
    }
    if let (false, Some(journal)) = (finish, &journal) {
        let missing = missing(&experiment, &options, &request, (&ended, journal))?;
        if !missing.is_empty() {
            return Err(Trouble::Mistake(told(&missing, &request)));
        }
    }
    simulate(&experiment, &options, &request, (journal, None), printer)
}

/// Shards that lack something, and how much in words.
fn missing(
    experiment: &Experiment,
    options: &Options,
    request: &Request<'_>,
    (ended, journal): (&BTreeMap<Shard, bool>, &Journal),
) -> Result<Vec<(Shard, String)>, Trouble> {
    let unfinished = |count: u32| {
        let all = Shard::all(count).map(|shard| (shard, ended.get(&shard).copied()));
        all.filter(|(_, ended)| *ended != Some(true))
    };
    // Of shards of several numbers those that lack least.
    let counts: BTreeSet<u32> = ended.keys().map(|shard| shard.count()).collect();
    let Some(count) = counts.into_iter().min_by_key(|&count| unfinished(count).count()) else {
        let first = command(request.words("run").into_iter());
        return Err(Trouble::Mistake(format!(
            "there are no shards in `{}`: begin with `{first} --shard 1/4`, or run all of it with `{first}`",
            shards::folder(request).display()
        )));
    };
    if experiment.search().is_some() {
        let state = |ended: Option<bool>| match ended {
            Some(_) => "was stopped before its end",
            None => "has not begun",
        };
        return Ok(unfinished(count).map(|(shard, ended)| (shard, state(ended).to_owned())).collect());
    }
    let mut lacking = lacking(experiment, options, count, journal)?;
    // The few outcomes that no journal can hold are simulated here.
    lacking.retain(|shard, _| ended.get(shard) != Some(&true));
    let runs = |runs: u64| if runs == 1 { "1 run".to_owned() } else { format!("{runs} runs") };
    Ok(lacking.into_iter().map(|(shard, lacks)| (shard, format!("lacks {}", runs(lacks)))).collect())
}

/// The shards that lack something, each with the command that goes on with it.
fn told(missing: &[(Shard, String)], request: &Request<'_>) -> String {
    let run = command(request.words("run").into_iter());
    let lines = missing.iter().map(|(shard, lack)| format!("  shard {shard} {lack}: {run} --shard {shard}"));
    format!(
        "incomplete shards, {} of {}: run them, or let `--finish` simulate here what they lack\n{}",
        missing.len(),
        missing[0].0.count(),
        shards::listed(lines)
    )
}
