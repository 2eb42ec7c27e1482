//! The headline: the answer in one sentence of at most 25 words, also when the answer is no.
//!
//! It is made of [`Claim`]s, each of which follows from `results.csv` alone; a property test
//! derives them again. The claim that answers comes first; those that follow are left out where the
//! sentence gets too long.

mod claim;
mod failure;
mod many_cases;
mod notes;
mod one_case;
mod words;

use std::fmt;

pub use crate::ranking::{Speed, fastest};
pub use claim::{Claim, Range, Rate, Saving, Setting, Wins};
pub use failure::verdict;
pub(crate) use failure::{brief_verdict, failed_briefly};
pub(crate) use notes::{
    approximate, drive_states, idle, mostly_estimated, notes, rests_on, retrying, unsteady, without_allocator,
};

use crate::ranking::Comparison;
use crate::summary::{Interrupted, RunSummary};

/// The most words of a headline.
pub const WORDS_MAX: usize = 25;
/// Names that a list has before it counts the others.
const NAMED: usize = 3;

/// Result of a comparison, the answer first.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Claims of the headline, clause by clause.
    pub claims: Vec<Claim>,
}

/// Claims to choose from: the first of the `heads` that is short enough (the last, if none is),
/// then every one of the `tails` for which there is room.
struct Draft {
    heads: Vec<Vec<Claim>>,
    tails: Vec<Claim>,
}

/// Compares `runs` over the swept `axes`: `cases` are given, the other axes chosen.
pub fn finding(
    runs: &[RunSummary],
    axes: &[String],
    cases: &[String],
    interrupted: Option<Interrupted>,
) -> Finding {
    let all = Comparison::of(runs, axes, cases);
    let mut draft = match all.cases.as_slice() {
        [] => Draft { heads: vec![vec![Claim::NothingRan]], tails: Vec::new() },
        [case] => one_case::draft(&all, case),
        _ => many_cases::draft(&all),
    };
    draft.tails.splice(0..0, recorded(&all));
    let first = interrupted.map(|Interrupted { ended, planned }| Claim::Interrupted { ended, planned });
    draft.shortened(first.into_iter().collect())
}

/// Recorded host time of the first unchanged replay, or else of the first one.
fn recorded(all: &Comparison<'_>) -> Option<Claim> {
    let replays = || all.runs().filter_map(|run| Some((run, run.replay.as_ref()?)));
    let (run, replay) =
        replays().find(|(_, replay)| replay.what_if.is_empty()).or_else(|| replays().next())?;
    Some(Claim::Recorded { name: all.naming.run(run), share: replay.host_share })
}

impl Draft {
    fn shortened(self, first: Vec<Claim>) -> Finding {
        let with = |claims: &[Claim], more: &[Claim]| Finding { claims: [claims, more].concat() };
        let mut heads = self.heads.iter().map(|head| with(&first, head));
        let last = self.heads.last().map(|head| with(&first, head));
        let head = heads.find(Finding::is_short).or(last);
        self.tails.iter().fold(head.unwrap_or(Finding { claims: first }), |finding, tail| {
            let longer = with(&finding.claims, std::slice::from_ref(tail));
            if longer.is_short() { longer } else { finding }
        })
    }
}

impl Finding {
    fn is_short(&self) -> bool {
        self.to_string().split_whitespace().count() <= WORDS_MAX
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clauses: Vec<String> = self.claims.iter().map(Claim::to_string).collect();
        write!(f, "{}.", clauses.join("; "))
    }
}

/// `a, b and c`; of many, the first `named` and how many more.
fn list(names: &[impl AsRef<str>], named: usize) -> String {
    let mut names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    let others = (names.len() > named + 1).then(|| format!("{} others", names.split_off(named).len()));
    names.extend(others.as_deref());
    match &names[..] {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [head @ .., last] => format!("{} and {last}", head.join(", ")),
    }
}
