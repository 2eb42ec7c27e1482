//! The headline: a verdict of at most 15 words, also when the answer is no, and its conditions.
//!
//! It is made of [`Claim`]s, each of which follows from `results.csv` alone; a property test
//! derives them again. The claim that answers is the verdict; its details and the claims that
//! follow are the conditions, which are left out where they get too long.

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
pub(crate) use failure::{brief_verdict, failed_briefly, without_result};
pub(crate) use notes::{
    approximate, conditions, drive_states, idle, notes, rests_on, retrying, unsteady, without_allocator,
};

use crate::ranking::Comparison;
use crate::summary::{Interrupted, RunSummary};

/// The most words of a verdict.
pub const VERDICT_WORDS_MAX: usize = 15;
/// The most words of a verdict and its conditions.
pub const WORDS_MAX: usize = 45;
/// Names that a list has before it counts the others.
const NAMED: usize = 3;

/// Result of a comparison, the answer first.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Claims of the headline, the verdict first.
    pub claims: Vec<Claim>,
}

/// Answer of an experiment, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headline {
    /// One sentence.
    pub verdict: String,
    /// Sentences that say where and by how much; may be empty.
    pub conditions: String,
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
    /// The sentences of its claims.
    pub fn headline(&self) -> Headline {
        let sentences = self.claims.iter().flat_map(|claim| [Some(claim.to_string()), claim.detail()]);
        let mut sentences = sentences.flatten().map(|sentence| format!("{sentence}."));
        Headline {
            verdict: sentences.next().unwrap_or_default(),
            conditions: sentences.collect::<Vec<_>>().join(" "),
        }
    }

    fn is_short(&self) -> bool {
        let Headline { verdict, conditions } = self.headline();
        let words = |text: &str| text.split_whitespace().count();
        words(&verdict) <= VERDICT_WORDS_MAX && words(&verdict) + words(&conditions) <= WORDS_MAX
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.headline().fmt(f)
    }
}

impl fmt::Display for Headline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verdict, conditions } = self;
        write!(f, "{verdict}{}{conditions}", if conditions.is_empty() { "" } else { " " })
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
