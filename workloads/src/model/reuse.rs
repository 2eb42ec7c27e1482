//! How far back operators have last touched what they read, in bytes of anything touched since: what a cache goes by.

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::operator::{Operator, Tensor};

/// A tensor that was touched before, and is read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reuse {
    /// Its size.
    pub bytes: u64,
    /// Bytes touched from one use of it to the next, itself included.
    pub distance: u64,
}

/// For each of some operators that run one after the other, what it reads again. `before` has been filled just before the
/// first.
///
/// Operators go through their tensors from end to end. So between two uses of a part of a tensor lie the rest of the tensor,
/// every tensor of the operators in between, each once, and in the mean one half of the other tensors of the two
/// operators themselves. What they touch that has no name, weights above all, is new each time.
pub fn reused(operators: &[Operator], before: Option<Tensor>) -> Vec<Vec<Reuse>> {
    let touched = Touched::by(operators, before);
    let mut last: BTreeMap<&str, usize> = BTreeMap::new();
    let mut reused = Vec::with_capacity(operators.len());
    // The first entry stands for what came before.
    for (at, now) in touched.iter().enumerate() {
        if let Some(op) = at.checked_sub(1).map(|n| &operators[n]) {
            let mut names = op.reads.clone();
            names.sort_unstable();
            names.dedup();
            let again = |name: &str| {
                let bytes = *now.named.get(name)?;
                let distance = distance(name, bytes, &touched[*last.get(name)?..=at]);
                Some(Reuse { bytes, distance })
            };
            reused.push(names.into_iter().filter_map(again).collect());
        }
        last.extend(now.named.keys().map(|&name| (name, at)));
    }
    reused
}

/// What an operator touches.
struct Touched<'a> {
    /// Tensors with their sizes.
    named: BTreeMap<&'a str, u64>,
    /// Bytes of what has no name.
    nameless: u64,
}

impl<'a> Touched<'a> {
    fn by(operators: &'a [Operator], before: Option<Tensor>) -> Vec<Self> {
        let written = operators.iter().flat_map(|op| &op.writes);
        let sizes: BTreeMap<&str, u64> =
            written.chain(&before).map(|tensor| (tensor.name, tensor.bytes)).collect();
        let first =
            Self { named: before.iter().map(|tensor| (tensor.name, tensor.bytes)).collect(), nameless: 0 };
        let touched = |op: &'a Operator| {
            let names = op.reads.iter().copied().chain(op.writes.iter().map(|tensor| tensor.name));
            let named: BTreeMap<&str, u64> =
                names.filter_map(|name| Some((name, *sizes.get(name)?))).collect();
            let nameless = op.work.bytes().saturating_sub(named.values().sum());
            Self { named, nameless }
        };
        std::iter::once(first).chain(operators.iter().map(touched)).collect()
    }
}

/// From the first to the last of some operators, which both touch a tensor of so many bytes.
fn distance(name: &str, bytes: u64, operators: &[Touched<'_>]) -> u64 {
    let [first, between @ .., last] = operators else { return bytes };
    let mut seen = BTreeSet::from([name]);
    let mut whole = bytes;
    for op in between {
        let new = op.named.iter().filter(|(other, _)| seen.insert(*other));
        whole = whole.saturating_add(new.map(|(_, bytes)| bytes).sum::<u64>()).saturating_add(op.nameless);
    }
    let beside = |op: &Touched<'_>| {
        let others = op.named.iter().filter(|(other, _)| !seen.contains(*other));
        others.map(|(_, bytes)| bytes).sum::<u64>().saturating_add(op.nameless)
    };
    whole.saturating_add(beside(first).saturating_add(beside(last)) / 2)
}
