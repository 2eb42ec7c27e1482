//! Checks of a program, all at once: names that mean nothing, tensors that nothing makes,
//! statements without effect, and statements that the chosen mode cannot express.

use std::collections::BTreeMap;

use hw_models::catalogue::nearest::{list, remedy};
use thiserror::Error;

use super::convert::refused;
use super::execution::{Execution, Mode};
use super::path::{GRADIENTS, LOSS};
use super::reach::Reached;
use super::statement::{Branch, HOST, Loop, Program, Runnable, Statement};

/// A fault of a program.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{path}: {message}: {remedy}")]
pub struct Fault {
    /// Path of the setting, from that of the program: `iteration[3].branch.then[0].run`.
    pub path: String,
    /// The fault.
    pub message: String,
    /// A change that mends it.
    pub remedy: String,
}

/// Faults of a program over a model of `blocks` blocks, executed in a mode.
pub fn check(program: Program<'_>, execution: Execution, blocks: u32) -> Vec<Fault> {
    let ever = Reached::default().behind(program, program.iteration);
    let mut check = Check { program, blocks, ever, named: BTreeMap::new(), faults: Vec::new() };
    check.fragments();
    check.loader();
    if program.iteration.is_empty() {
        check.fault("iteration", "has no statements", "add `- run: [forward, backward, update]`");
    } else if !check.ever.ran {
        let remedy = "add `- run: [forward, backward, update]`, or take a way that runs operators";
        check.fault("iteration", "runs no operator on any path", remedy);
    }
    check.statements(program.iteration, "iteration", Reached::default());
    if execution.mode == Mode::Static {
        for (path, reason) in refused(program) {
            let message = format!("`static` cannot convert a statement that {}", reason.message());
            check.fault(&path, message, reason.remedy());
        }
    }
    check.faults
}

struct Check<'a> {
    program: Program<'a>,
    blocks: u32,
    /// State behind the iteration.
    ever: Reached<'a>,
    /// Paths of branches and loops by name.
    named: BTreeMap<&'a str, String>,
    faults: Vec<Fault>,
}

/// Names that a fragment cannot have: passes, their results, and the decider of branches.
const TAKEN: [&str; 6] = ["forward", "backward", "update", LOSS, GRADIENTS, HOST];

impl<'a> Check<'a> {
    fn fault(&mut self, path: &str, message: impl Into<String>, remedy: impl Into<String>) {
        self.faults.push(Fault { path: path.to_owned(), message: message.into(), remedy: remedy.into() });
    }

    fn fragments(&mut self) {
        for name in self.program.fragments.keys() {
            let path = format!("fragments.{name}");
            if TAKEN.contains(&name.as_str()) {
                let message = format!("`{name}` already has a meaning in programs");
                self.fault(&path, message, format!("rename it, and keep off {}", list(TAKEN)));
            } else if name.parse() != Ok(Runnable::Fragment(name.clone())) {
                let message = format!("`run: {name:?}` would not name this fragment");
                self.fault(&path, message, "rename it to a word that does not begin with `forward `");
            }
        }
    }

    fn loader(&mut self) {
        if self.program.loader.is_some() && !asks_batch(self.program.iteration) {
            let remedy = "add `- feed: { batch: true }` to the iteration, or remove `loader`";
            self.fault("loader", "makes batches that no statement feeds", remedy);
        }
    }

    /// Checks statements, with the state in which the first is reached.
    fn statements(&mut self, statements: &'a [Statement], at: &str, mut state: Reached<'a>) {
        for (number, statement) in statements.iter().enumerate() {
            self.statement(statement, &format!("{at}[{number}]"), &state);
            state = state.behind_one(self.program, statement);
        }
    }

    fn statement(&mut self, statement: &'a Statement, at: &str, state: &Reached<'a>) {
        let mut inner = state.clone();
        match statement {
            Statement::Feed(feed) if !feed.batch && feed.scalar.is_none() => {
                self.fault(&format!("{at}.feed"), "feeds nothing", "write `batch: true` or `scalar: NAME`");
            }
            Statement::Run(runs) => self.runs(&runs.0, at, state),
            Statement::Fetch(fetch) => self.tensor(&fetch.tensor, &[], &format!("{at}.fetch.tensor"), state),
            Statement::Branch(branch) => self.branch(branch, at, state),
            Statement::Loop(it) => {
                self.repeated(it, at);
                if it.trips.most > 1 {
                    // The second trip finds what the first one left.
                    inner = inner.or(state.clone().behind(self.program, &it.body));
                }
            }
            _ => {}
        }
        for (field, list) in statement.lists() {
            self.statements(list, &format!("{at}.{field}"), inner.clone());
        }
    }

    fn runs(&mut self, runs: &'a [Runnable], at: &str, state: &Reached<'a>) {
        if runs.is_empty() {
            self.fault(
                &format!("{at}.run"),
                "runs nothing",
                "name passes or fragments, or remove the statement",
            );
        }
        let mut state = state.clone();
        for (number, run) in runs.iter().enumerate() {
            let at = match runs.len() {
                1 => format!("{at}.run"),
                _ => format!("{at}.run[{number}]"),
            };
            self.run(run, &at, &state);
            state.run(self.program, run);
        }
    }

    fn run(&mut self, run: &Runnable, at: &str, state: &Reached<'a>) {
        match run {
            &Runnable::Forward(Some((from, to))) => {
                let blocks = self.blocks;
                if from >= to {
                    let remedy =
                        format!("write the first block and the one behind the last: `forward 0..{blocks}`");
                    self.fault(at, format!("`{run}` has no blocks"), remedy);
                } else if to > blocks {
                    let message = format!("`{run}` is beyond the {blocks} blocks of the model");
                    let from = if from < blocks { from } else { 0 };
                    self.fault(at, message, format!("use at most `forward {from}..{blocks}`"));
                }
            }
            Runnable::Backward if !state.forward => {
                let message = "runs backward where nothing has run forward";
                self.fault(at, message, "add `forward`, or a fragment with `backward` operators, before it");
            }
            Runnable::Fragment(name) if !self.program.fragments.contains_key(name) => {
                let names = self.program.fragments.keys().map(String::as_str);
                let known: Vec<&str> = ["forward", "backward", "update"].into_iter().chain(names).collect();
                let message = format!("`{name}` is neither a pass nor a fragment");
                self.fault(at, message, remedy(name, &known, "run"));
            }
            _ => {}
        }
    }

    /// Checks the name of a tensor that is read, or one of `others`.
    fn tensor(&mut self, name: &str, others: &[&str], at: &str, state: &Reached<'a>) {
        if others.contains(&name) || state.made.contains(name) {
            return;
        }
        let fragments: Vec<&str> = self.program.fragments.keys().map(String::as_str).collect();
        let known = [&[LOSS, GRADIENTS], &fragments[..], others].concat();
        let maker = match name {
            LOSS => "forward",
            GRADIENTS => "backward",
            _ => name,
        };
        if !known.contains(&name) {
            self.fault(at, format!("`{name}` is no tensor of this program"), remedy(name, &known, "name"));
        } else if self.ever.made.contains(name) {
            let message = format!("`{name}` is made only behind this statement");
            self.fault(at, message, format!("move the statement behind `run: {maker}`"));
        } else {
            let message = format!("`{name}` is made on no path");
            self.fault(at, message, format!("add `- run: {maker}` before the statement"));
        }
    }

    fn branch(&mut self, branch: &'a Branch, at: &str, state: &Reached<'a>) {
        let at = format!("{at}.branch");
        self.name(&branch.name, &at);
        self.tensor(&branch.by, &[HOST], &format!("{at}.by"), state);
    }

    fn repeated(&mut self, it: &'a Loop, at: &str) {
        let at = format!("{at}.loop");
        self.name(&it.name, &at);
        if it.trips.most == 0 {
            self.fault(
                &format!("{at}.trips"),
                "a loop of no trips never runs",
                "write at least 1, or remove the loop",
            );
        }
        if it.body.is_empty() {
            self.fault(
                &format!("{at}.body"),
                "a loop without statements",
                "add statements, or remove the loop",
            );
        }
    }

    /// Checks the name of a branch or loop, of which each has its own.
    fn name(&mut self, name: &'a str, at: &str) {
        if let Some(first) = self.named.get(name) {
            let message = format!("`{name}` is the name of `{first}`, too");
            return self.fault(&format!("{at}.name"), message, "give each branch and loop a name of its own");
        }
        self.named.insert(name, at.to_owned());
    }
}

/// True if statements feed a batch.
fn asks_batch(statements: &[Statement]) -> bool {
    statements.iter().any(|statement| {
        matches!(statement, Statement::Feed(feed) if feed.batch)
            || statement.lists().into_iter().any(|(_, list)| asks_batch(list))
    })
}
