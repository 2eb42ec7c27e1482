//! `foretrain run --shard`: a worker, and the journals that workers leave for `foretrain merge`.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use reports::summary::SCHEMA_VERSION;
use scenarios::Experiment;
use scenarios::run::{self, Done, Options, Progress, Shard};
use serde::Serialize;

use super::Exit;
use super::files::{cannot_write, make};
use super::interrupt::{self, interrupted};
use super::journal::{Content, Heading, Journal};
use super::printer::Printer;
use super::progress::Bar;
use super::request::Request;
use super::run::{Output, command};
use super::trouble::{self, Trouble};

/// End of the name of a shard's journal.
const EXTENSION: &str = "jsonl";

/// Shards that are told of at a time.
const LISTED_MAX: usize = 10;

/// A shard that has ended, for programs.
#[derive(Serialize)]
struct Ended<'a> {
    schema_version: u32,
    shard: String,
    done: u64,
    of: u64,
    journal: &'a Path,
    merge: &'a str,
}

/// A journal of a shard.
pub(super) struct Merged {
    pub(super) shard: Shard,
    pub(super) content: Content,
}

/// Simulates what a shard's journal does not know yet.
pub(super) fn work(
    experiment: &Experiment,
    options: &Options,
    request: &Request<'_>,
    shard: Shard,
    printer: &Printer,
) -> Result<Exit, Trouble> {
    let folder = folder(request);
    make(&folder)?;
    let path = folder.join(format!("{}.{EXTENSION}", shard.to_string().replace('/', "-of-")));
    let journal = Journal::open(path, Heading::of(experiment, options, Some(shard)), printer);
    let progress = Work { bar: request.bar(experiment), journal: &journal };
    let leave = || {
        let kept = journal.ended().map_or(0, |ended| ended.len());
        printer.complain(&format!("interrupted; {kept} simulations of the shard had ended and are kept"));
        Exit::Interrupted
    };
    let work = || run::work(experiment, options, shard, &progress, &journal);
    let done = interrupt::patiently(work, leave)?;
    drop(progress);
    let is_interrupted = interrupted();
    if !is_interrupted {
        journal.end();
    }
    if let Some((path, error)) = journal.failure() {
        return Err(cannot_write(path, error));
    }
    let Done { done, of } = done;
    if is_interrupted {
        printer.complain(&format!("interrupted; {done} of {of} runs of the shard are kept"));
        return Ok(Exit::Interrupted);
    }
    let merge = command(request.words("merge").into_iter());
    match request.how.format {
        Output::Table | Output::Csv => {
            let counted = if experiment.search().is_some() { "plans" } else { "runs" };
            printer.print(&format!("shard {shard}: {done} of {of} {counted}; after all shards: {merge}\n"))
        }
        Output::Json => printer.print(&trouble::json(&Ended {
            schema_version: SCHEMA_VERSION,
            shard: shard.to_string(),
            done,
            of,
            journal: journal.path(),
            merge: &merge,
        })),
    }
}

/// The journals of all shards that have begun.
///
/// # Errors
/// Journals that cannot be read, or are of another version or other settings: all of them.
pub(super) fn read(request: &Request<'_>, wanted: &Heading) -> Result<Vec<Merged>, Trouble> {
    let mut merged = Vec::new();
    let mut problems: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for path in paths(&folder(request))? {
        match read_one(&path, wanted) {
            Ok(journal) => merged.extend(journal),
            Err(problem) => problems.entry(problem).or_default().push(format!("  {}", path.display())),
        }
    }
    let told = |(problem, paths): (String, Vec<String>)| format!("{problem}\n{}", listed(paths.into_iter()));
    match problems.is_empty() {
        true => Ok(merged),
        false => Err(Trouble::Mistake(problems.into_iter().map(told).collect::<Vec<_>>().join("\n"))),
    }
}

/// The first of many lines.
pub(super) fn listed(lines: impl ExactSizeIterator<Item = String>) -> String {
    let more = lines.len().saturating_sub(LISTED_MAX);
    let more = (more > 0).then(|| format!("  and {more} more"));
    lines.take(LISTED_MAX).chain(more).collect::<Vec<_>>().join("\n")
}

/// The folder of the journals of an experiment's shards.
pub(super) fn folder(request: &Request<'_>) -> PathBuf {
    request.how.out.join(format!("{}.shards", request.folder))
}

/// The journals in a folder, in the order of their names.
fn paths(folder: &Path) -> Result<Vec<PathBuf>, Trouble> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => {
            return Err(Trouble::Mistake(format!("cannot read `{}`: {error}", folder.display())));
        }
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension() == Some(OsStr::new(EXTENSION)));
    paths.sort();
    Ok(paths)
}

/// `None`: a shard that has not begun.
fn read_one(path: &Path, wanted: &Heading) -> Result<Option<Merged>, String> {
    let content = Content::read(path).map_err(|error| format!("journals cannot be read: {error}"))?;
    let Some(heading) = &content.heading else { return Ok(None) };
    let Some(shard) = heading.shard.as_ref().and_then(|shard| shard.parse().ok()) else {
        return Err("journals are of no shard: move them elsewhere".to_owned());
    };
    if !wanted.is_of_version(heading) {
        return Err(format!(
            "shards were run with foretrain {}, and this is {}: run them again, or merge them with that",
            heading.foretrain, wanted.foretrain
        ));
    }
    if wanted.experiment != heading.experiment {
        const PROBLEM: &str = "shards were run with other settings, or with another text of the file: \
            give `merge` the same `--set`, `--variant` and `--seed`, or run them again";
        return Err(PROBLEM.to_owned());
    }
    Ok(Some(Merged { shard, content }))
}

/// Progress of a worker, which stops where nothing can be kept.
struct Work<'a> {
    bar: Bar,
    journal: &'a Journal,
}

impl Progress for Work<'_> {
    fn begin(&self, runs: u64) {
        self.bar.begin(runs);
    }

    fn done(&self) {
        self.bar.done();
    }

    fn stop(&self) -> bool {
        self.bar.stop() || self.journal.failure().is_some()
    }
}
