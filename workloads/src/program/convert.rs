//! Static conversion of a whole program to one graph: rules of what it can express.
//!
//! A converted program is a graph that is built once, from the program's source, and executed
//! without Python. It cannot express:
//!
//! | statement | reason |
//! |---|---|
//! | `mutate` | Python objects change while the program is converted, not while it runs |
//! | `branch` by `host` that goes both ways | Python state is read once; the graph keeps one way |
//! | `fetch` that operators follow | a tensor has no value while the program is converted |
//! | `third_party` | a library gets symbols in place of values |
//! | `generator` | a graph cannot be left and entered again |
//! | `try` | a graph has no handlers of exceptions |
//!
//! A branch by a tensor becomes a conditional of the graph, with both ways in it; a loop whose
//! trips vary becomes a loop of the graph. A branch by `host` that always goes the same way leaves
//! that way in the graph alone. A `fetch` behind all operators is a result of the graph.
//!
//! Source: the limits of AutoGraph as they are recalled from its documentation (Moldovan et al.,
//! AutoGraph: Imperative-style Coding with Graph-based Performance, MLSys 2019; TensorFlow's
//! `autograph/g3doc/reference/limitations.md`), and the failures that Terra's paper reports:
//! mutation of Python objects (DropBlock, MusicTransformer, SDPoint), a tensor materialised during
//! conversion (BERT-CLS), a third-party call (Faster R-CNN). None was verified against the
//! originals.
//!
//! Modes that capture less have no such rules. `compiled` breaks its regions there, and compiles
//! another region where guards of a branch fail. A graph of `cuda-graphs` cannot hold a fetch
//! either, but never has to: a pass that a fetch stands in is captured as two graphs.

use super::statement::{Program, Statement};

/// Reason for which a program cannot be converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// It changes a Python object.
    Mutation,
    /// State of Python decides a branch.
    HostBranch,
    /// It reads a tensor's value, and operators follow.
    Materialised,
    /// It calls a library.
    ThirdParty,
    /// It yields.
    Generator,
    /// It handles exceptions.
    Try,
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Mutation, Self::HostBranch, Self::Materialised, Self::ThirdParty, Self::Generator, Self::Try];

    /// Reason in a few words, for tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mutation => "mutation of a Python object",
            Self::HostBranch => "branch on Python state",
            Self::Materialised => "materialised tensor",
            Self::ThirdParty => "third-party call",
            Self::Generator => "generator",
            Self::Try => "exception handler",
        }
    }

    /// The fault in a sentence.
    pub const fn message(self) -> &'static str {
        match self {
            Self::Mutation => {
                "changes a Python object, which a converted program does once, while it is converted"
            }
            Self::HostBranch => {
                "is decided by Python state, of which a converted program keeps the first value"
            }
            Self::Materialised => {
                "reads a tensor that operators follow, and a tensor has no value while a program is converted"
            }
            Self::ThirdParty => "calls a library, which a converted program hands symbols in place of values",
            Self::Generator => "yields, and a converted program cannot be left and entered again",
            Self::Try => "handles exceptions, and a converted program has none",
        }
    }

    /// A change that mends it.
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::Mutation => "remove it, or use `execution: co-execution`",
            Self::HostBranch => {
                "let a tensor decide (`by: loss`), or use `execution: compiled`, which guards each way"
            }
            Self::Materialised => {
                "fetch behind the last `run`, or use `execution: compiled`, which breaks there"
            }
            Self::ThirdParty | Self::Generator | Self::Try => {
                "remove it, or use `execution: compiled`, which breaks there"
            }
        }
    }
}

/// Statements that cannot be converted, in the order of the program, each with its path.
pub fn refused(program: Program<'_>) -> Vec<(String, Reason)> {
    let mut found = Vec::new();
    list(program.iteration, "iteration", false, &mut found);
    found.reverse();
    found
}

/// Adds what a list of statements has, last to first. `followed`: operators run behind it.
fn list(statements: &[Statement], at: &str, mut followed: bool, found: &mut Vec<(String, Reason)>) {
    for (number, statement) in statements.iter().enumerate().rev() {
        let at = format!("{at}[{number}]");
        let repeated = matches!(statement, Statement::Loop(it) if it.trips.most > 1) && runs(statement);
        for (field, inner) in converted(statement).into_iter().rev() {
            list(inner, &format!("{at}.{field}"), followed || repeated, found);
        }
        found.extend(reason(statement, followed).map(|reason| (at, reason)));
        followed |= runs(statement);
    }
}

fn reason(statement: &Statement, followed: bool) -> Option<Reason> {
    match statement {
        Statement::Mutate(_) => Some(Reason::Mutation),
        Statement::ThirdParty(_) => Some(Reason::ThirdParty),
        Statement::Generator(_) => Some(Reason::Generator),
        Statement::Try(_) => Some(Reason::Try),
        Statement::Fetch(_) => followed.then_some(Reason::Materialised),
        Statement::Branch(branch) => {
            (branch.is_by_host() && branch.may_take() == [true; 2]).then_some(Reason::HostBranch)
        }
        Statement::Feed(_) | Statement::Run(_) | Statement::Python(_) | Statement::Loop(_) => None,
    }
}

/// True if a converted statement runs operators.
fn runs(statement: &Statement) -> bool {
    matches!(statement, Statement::Run(_))
        || converted(statement).into_iter().any(|(_, list)| list.iter().any(runs))
}

/// Lists of statements within one that are converted with it.
fn converted(statement: &Statement) -> Vec<(&'static str, &[Statement])> {
    let mut lists = statement.lists();
    match statement {
        Statement::Branch(branch) if branch.is_by_host() => {
            let mut taken = branch.may_take().into_iter();
            lists.retain(|_| taken.next() == Some(true));
        }
        Statement::Loop(it) if it.trips.most == 0 => lists.clear(),
        _ => {}
    }
    lists
}
