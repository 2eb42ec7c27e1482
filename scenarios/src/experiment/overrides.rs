//! `--set path=value` from the command line.

use super::paths;
use crate::text::node::{Layer, Node};
use crate::text::problem::Problem;
use crate::text::source::{Mark, Sources};
use crate::text::yaml;

/// One setting from the command line.
#[derive(Clone, Debug)]
pub(super) struct Override {
    pub(super) path: String,
    pub(super) value: Node,
}

/// Reads `path=value`; the value is YAML, like the right side of a key.
pub(super) fn read(argument: &str, sources: &mut Sources, problems: &mut Vec<Problem>) -> Option<Override> {
    let source = sources.add("--set", argument);
    let Some((path, value)) = argument.split_once('=') else {
        let message = "`--set` needs a path and a value";
        problems.push(Problem::new(source.start(), message).help("write `--set training.micro_batches=8`"));
        return None;
    };
    let path = path.trim();
    if let Err(problem) = paths::check(path, source.start()) {
        problems.push(problem);
        return None;
    }
    // The value is parsed on its own but shown where it stands in the argument.
    let offset = argument.chars().count() as u32 - value.chars().count() as u32;
    let shift = |mark: Mark| if mark.line == 1 { source.at(1, mark.column + offset) } else { source.start() };
    let mut alone = Sources::default();
    let text = alone.add("--set", value);
    let mut found = Vec::new();
    let node = yaml::parse(&alone, text, &mut found);
    for problem in &mut found {
        problem.notes.iter_mut().for_each(|note| note.mark = shift(note.mark));
    }
    problems.append(&mut found);
    let mut node = node?.on(Layer::Set);
    node.remark(&shift);
    Some(Override { path: path.to_owned(), value: node })
}
