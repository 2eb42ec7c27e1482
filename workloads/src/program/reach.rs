//! Statements of a program on all of its paths at once: tensors that may have been made before
//! a statement, and passes that may have run.

use std::collections::BTreeSet;

use super::path::{GRADIENTS, LOSS};
use super::statement::{Program, Runnable, Statement};

/// State that some path may be in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reached<'a> {
    /// Tensors that have been made.
    pub made: BTreeSet<&'a str>,
    /// Operators have run forward that the next backward pass follows.
    pub forward: bool,
    /// Operators have run.
    pub ran: bool,
}

impl<'a> Reached<'a> {
    /// State behind statements.
    pub fn behind(self, program: Program<'a>, statements: &'a [Statement]) -> Self {
        statements.iter().fold(self, |state, statement| state.behind_one(program, statement))
    }

    /// State behind a statement.
    pub fn behind_one(mut self, program: Program<'a>, statement: &'a Statement) -> Self {
        match statement {
            Statement::Run(runs) => runs.0.iter().for_each(|run| self.run(program, run)),
            Statement::Branch(branch) => {
                let taken = |list: &'a [Statement]| self.clone().behind(program, list);
                return match branch.may_take() {
                    [true, true] => taken(&branch.then).or(taken(&branch.otherwise)),
                    [then, _] => taken(if then { &branch.then } else { &branch.otherwise }),
                };
            }
            Statement::Loop(it) => {
                // More trips change nothing: each sets a flag, clears it or keeps it.
                let repeated = |state: Self| state.behind(program, &it.body);
                return match (it.trips.least, it.trips.most) {
                    (_, 0) => self,
                    (0, _) => repeated(self.clone()).or(self),
                    _ => repeated(self),
                };
            }
            Statement::Try(body) | Statement::Generator(body) => return self.behind(program, body),
            _ => {}
        }
        self
    }

    /// State that either may be in.
    #[must_use]
    pub fn or(mut self, other: Self) -> Self {
        self.made.extend(other.made);
        self.forward |= other.forward;
        self.ran |= other.ran;
        self
    }

    /// Adds operators that run.
    pub fn run(&mut self, program: Program<'a>, run: &'a Runnable) {
        self.ran = true;
        match run {
            Runnable::Forward(_) => {
                self.made.insert(LOSS);
                self.forward = true;
            }
            Runnable::Backward => {
                self.made.insert(GRADIENTS);
                self.forward = false;
            }
            Runnable::Update => {}
            Runnable::Fragment(name) => {
                self.made.insert(name);
                let fragment = program.fragments.get(name);
                self.forward |= fragment.is_none_or(|fragment| fragment.backward.get() > 0);
            }
        }
    }
}
