//! The command of a text that trains: its arguments, and the GPUs that its launcher starts.

use super::rules::is_name;
use super::shell::{Command, Script, Word};
use crate::text::problem::Problem;
use crate::text::source::{Mark, SourceId};

/// An argument as it is given, or a key of a document.
#[derive(Clone, Debug)]
pub(super) struct Given {
    /// Name in the table.
    pub(super) name: String,
    /// Name in the text, which an older release may have had.
    pub(super) written: String,
    pub(super) mark: Mark,
    pub(super) values: Vec<Word>,
}

/// Arguments of the training program, and those of its launcher.
#[derive(Debug, Default)]
pub(super) struct Training {
    pub(super) arguments: Vec<Given>,
    pub(super) launcher: Vec<Given>,
}

/// Processes that a launcher starts, as far as it says so.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Launched {
    /// On each node.
    pub(super) per_node: Option<u64>,
    pub(super) nodes: Option<u64>,
}

/// Finds the command that trains: the one Python program that has one of the `known` arguments. In
/// a text without programs all arguments count, on lines of their own or in arrays.
///
/// # Errors
/// A text without arguments, and one with several commands that train.
pub(super) fn training(
    script: Script,
    source: SourceId,
    known: impl Fn(&str) -> bool,
) -> Result<Training, Problem> {
    let is_known = |word: &Word| known(word.text().split('=').next().unwrap_or_default());
    let program = |command: &Command| command.iter().position(|word| word.text().ends_with(".py"));
    let programs: Vec<(&Command, usize)> = script
        .commands
        .iter()
        .filter_map(|command| Some((command, program(command)?)))
        .filter(|(command, program)| command[program + 1..].iter().any(is_known))
        .collect();
    match programs[..] {
        [(command, program)] => {
            return Ok(Training {
                arguments: given(&command[program + 1..], source)?,
                launcher: launcher(&command[..program], source),
            });
        }
        [(first, _), (second, _), ..] => {
            let message = "two commands of the text train a model";
            let help = "keep the one that is meant, in a file of its own";
            return Err(Problem::new(second[0].mark(source), message)
                .label("again here")
                .note(first[0].mark(source), "first here")
                .help(help));
        }
        [] => {}
    }
    let begins = |command: &&Command| command.first().is_some_and(|word| is_name(&word.text()));
    let mut words: Vec<Word> = script.commands.iter().filter(begins).flatten().cloned().collect();
    if words.is_empty() {
        words = script.arrays.into_iter().flat_map(|(_, words)| words).collect();
    }
    let first = words.iter().position(|word| is_name(&word.text()));
    let Some(first) = first else {
        let help = "give a launch script, or the arguments alone: `--num-layers 24 --hidden-size 1024 ...`";
        return Err(Problem::new(source.start(), "the text has no arguments").help(help));
    };
    Ok(Training { arguments: given(&words[first..], source)?, launcher: Vec::new() })
}

/// Arguments of the launcher, behind its own name.
fn launcher(words: &[Word], source: SourceId) -> Vec<Given> {
    let first = words.iter().position(|word| is_name(&word.text())).unwrap_or(words.len());
    given(&words[first..], source).unwrap_or_default()
}

/// Puts values to their names.
fn given(words: &[Word], source: SourceId) -> Result<Vec<Given>, Problem> {
    let mut found: Vec<Given> = Vec::new();
    for word in words {
        let (text, mark) = (word.text(), word.mark(source));
        match found.last_mut() {
            _ if is_name(&text) => {
                let (name, value) = match word.cut('=') {
                    Some((name, value)) => (name.text(), vec![value]),
                    None => (text, Vec::new()),
                };
                found.push(Given { written: name.clone(), name, mark, values: value });
            }
            Some(last) => last.values.push(word.clone()),
            None => {
                let message = match word.unknown() {
                    Some(unknown) => format!("`{}` has no value in this text", unknown.written),
                    None => format!("`{}` belongs to no argument", crate::text::node::shorten(&text)),
                };
                let help = "remove it, or assign above what it stands for";
                return Err(Problem::new(mark, message).help(help));
            }
        }
    }
    Ok(found)
}

/// Processes that a launcher starts.
pub(super) fn launched(launcher: &[Given]) -> Launched {
    let number = |names: [&str; 3]| {
        let given = launcher.iter().rev().find(|given| names.contains(&given.name.as_str()))?;
        given.values.first()?.text().parse::<u64>().ok().filter(|number| *number > 0)
    };
    Launched {
        per_node: number(["--nproc_per_node", "--nproc-per-node", "--num_gpus"]),
        nodes: number(["--nnodes", "--num_nodes", "--num-nodes"]),
    }
}
