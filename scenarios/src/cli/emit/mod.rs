//! `foretrain run --emit`: what runs all shards of an experiment on a cluster, then merges them.

use std::env;
use std::io;
use std::path::PathBuf;

use clap::ValueEnum;
use scenarios::Experiment;
use scenarios::interchange::quoted;
use scenarios::run::{Options, Refusal, plan};
use serde::Serialize;

use super::Exit;
use super::printer::Printer;
use super::progress::Bar;
use super::request::Request;
use super::trouble::Trouble;

/// Shards where no number is given.
const SHARDS: u32 = 16;

/// A cluster, by what starts workers there.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Cluster {
    /// A job script for an array of Slurm jobs
    Slurm,
    /// A Python program that starts workers as tasks of Ray
    Ray,
}

/// Prints the file for a cluster; nothing is simulated.
pub(super) fn emit(
    experiment: &Experiment,
    options: &Options,
    request: &Request<'_>,
    (cluster, shards): (Cluster, Option<u32>),
    printer: &Printer,
) -> Result<Exit, Trouble> {
    if experiment.asks() {
        return Err(Refusal::OneAfterTheOther.into());
    }
    let plan = plan(experiment, options, &Bar::new(request.how.quiet, "runs"))?;
    let shards = shards.unwrap_or(match plan.searched {
        true => SHARDS,
        false => u32::try_from(plan.runs).unwrap_or(SHARDS).clamp(1, SHARDS),
    });
    let program = path(env::current_exe())?;
    let folder = path(env::current_dir())?;
    let values = [
        ("NAME", request.folder.clone()),
        ("SHARDS", shards.to_string()),
        ("CORES", request.how.jobs.unwrap_or(1).to_string()),
        ("PROGRAM", cluster.word(&program)),
        ("FOLDER", cluster.word(&folder)),
        ("RUN", cluster.list(&request.words("run"))),
        ("MERGE", cluster.list(&request.words("merge"))),
    ];
    printer.print(&filled(cluster.template(), &values))
}

impl Cluster {
    const fn template(self) -> &'static str {
        match self {
            Self::Slurm => include_str!("slurm.sh"),
            Self::Ray => include_str!("ray.py"),
        }
    }

    /// A text in the language of the template.
    fn word(self, word: &str) -> String {
        match self {
            Self::Slurm => quoted(word),
            Self::Ray => json(&word),
        }
    }

    /// Words of a command in the language of the template.
    fn list(self, words: &[String]) -> String {
        match self {
            Self::Slurm => words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "),
            Self::Ray => json(&words),
        }
    }
}

fn path(path: io::Result<PathBuf>) -> Result<String, Trouble> {
    let path =
        path.map_err(|error| Trouble::Mistake(format!("workers cannot be told where to run: {error}")));
    Ok(path?.to_string_lossy().into_owned())
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("texts can be written as JSON")
}

/// A template with a value for each `{{NAME}}`.
fn filled(template: &str, values: &[(&str, String)]) -> String {
    let mut parts = template.split("{{");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once("}}").unwrap_or((part, ""));
        text.extend(values.iter().filter(|(known, _)| *known == name).map(|(_, value)| value.as_str()));
        text.push_str(rest);
    }
    text
}
