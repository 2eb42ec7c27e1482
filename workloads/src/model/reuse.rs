//! How far back operators have last touched what they read, in bytes of anything touched since: what a cache goes by.

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::operator::{Operator, Tensor, TensorId};

/// A tensor that was touched before, and is read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reuse {
    /// Its size.
    pub bytes: u64,
    /// Bytes touched from one use of it to the next, itself included.
    pub distance: u64,
}

/// For each of some operators that run one after the other, what it reads again of their `tensors`. `before` has been filled
/// just before the first.
///
/// Operators go through their tensors from end to end. So between two uses of a part of a tensor lie the rest of the tensor,
/// every tensor of the operators in between, each once, and in the mean one half of the other tensors of the two
/// operators themselves. Whatever else they touch, weights and tensors that others have filled, is new each time.
pub fn reused(operators: &[Operator], tensors: &[Tensor], before: Option<TensorId>) -> Vec<Vec<Reuse>> {
    let touched = Touched::by(operators, tensors, before);
    let mut last: BTreeMap<TensorId, usize> = BTreeMap::new();
    let mut reused = Vec::with_capacity(operators.len());
    // The first entry stands for what came before.
    for (at, now) in touched.iter().enumerate() {
        if let Some(op) = at.checked_sub(1).map(|n| &operators[n]) {
            let again = |&tensor: &TensorId| {
                let bytes = *now.known.get(&tensor)?;
                let distance = distance(tensor, bytes, &touched[*last.get(&tensor)?..=at]);
                Some(Reuse { bytes, distance })
            };
            reused.push(BTreeSet::from_iter(&op.reads).into_iter().filter_map(again).collect());
        }
        last.extend(now.known.keys().map(|&tensor| (tensor, at)));
    }
    reused
}

/// What an operator touches.
struct Touched {
    /// Tensors that the operators fill or find filled, with their sizes.
    known: BTreeMap<TensorId, u64>,
    /// Bytes of all else.
    unknown: u64,
}

impl Touched {
    fn by(operators: &[Operator], tensors: &[Tensor], before: Option<TensorId>) -> Vec<Self> {
        let filled: BTreeSet<TensorId> =
            operators.iter().flat_map(|op| &op.writes).chain(&before).copied().collect();
        let known = |touched: &mut dyn Iterator<Item = &TensorId>| -> BTreeMap<TensorId, u64> {
            let known = touched.filter(|tensor| filled.contains(tensor));
            known.map(|&tensor| (tensor, tensors[tensor.0 as usize].bytes)).collect()
        };
        let first = Self { known: known(&mut before.iter()), unknown: 0 };
        let touched = |op: &Operator| {
            let known = known(&mut op.reads.iter().chain(&op.writes));
            let unknown = op.work.bytes().saturating_sub(known.values().sum());
            Self { known, unknown }
        };
        std::iter::once(first).chain(operators.iter().map(touched)).collect()
    }
}

/// From the first to the last of some operators, which both touch a tensor of so many bytes.
fn distance(tensor: TensorId, bytes: u64, operators: &[Touched]) -> u64 {
    let [first, between @ .., last] = operators else { return bytes };
    let mut seen = BTreeSet::from([tensor]);
    let mut whole = bytes;
    for op in between {
        let new = op.known.iter().filter(|(other, _)| seen.insert(**other));
        whole = whole.saturating_add(new.map(|(_, bytes)| bytes).sum::<u64>()).saturating_add(op.unknown);
    }
    let beside = |op: &Touched| {
        let others = op.known.iter().filter(|(other, _)| !seen.contains(other));
        others.map(|(_, bytes)| bytes).sum::<u64>().saturating_add(op.unknown)
    };
    whole.saturating_add(beside(first).saturating_add(beside(last)) / 2)
}
