//! How far back operators have last touched what they read, in bytes of anything touched since: what a cache goes by.

use std::collections::BTreeSet;

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
///
/// Tensors that were touched last behind an operator are those that lie between, so that sums over
/// the places of last uses tell distances (Olken, "Efficient methods for calculating the success
/// function of fixed space replacement policies", 1981).
pub fn reused(operators: &[Operator], tensors: &[Tensor], before: &[TensorId]) -> Vec<Vec<Reuse>> {
    let touched = Touched::by(operators, tensors, before);
    let mut uses = Uses::new(tensors.len(), touched.len());
    let mut reused = Vec::with_capacity(operators.len());
    // The first entry stands for what came before.
    for (at, now) in touched.iter().enumerate() {
        if let Some(op) = at.checked_sub(1).map(|n| &operators[n]) {
            let again = |&tensor: &TensorId| {
                let &(_, bytes) = now.known.iter().find(|(known, _)| *known == tensor)?;
                let first = uses.last[tensor.0 as usize]?;
                Some(Reuse {
                    bytes,
                    distance: bytes.saturating_add(uses.between(tensor, &touched, first, at)),
                })
            };
            reused.push(BTreeSet::from_iter(&op.reads).into_iter().filter_map(again).collect());
        }
        uses.touch(now, at);
    }
    reused
}

/// What an operator touches.
struct Touched {
    /// Tensors that the operators fill or find filled, each once, with their sizes.
    known: Vec<(TensorId, u64)>,
    /// Bytes of all else.
    unknown: u64,
}

impl Touched {
    fn by(operators: &[Operator], tensors: &[Tensor], before: &[TensorId]) -> Vec<Self> {
        let mut filled = vec![false; tensors.len()];
        let writes = operators.iter().flat_map(|op| &op.writes).chain(before);
        writes.for_each(|tensor| filled[tensor.0 as usize] = true);
        let known = |touched: &mut dyn Iterator<Item = &TensorId>| -> Vec<(TensorId, u64)> {
            let known = touched.filter(|tensor| filled[tensor.0 as usize]);
            let mut known: Vec<_> = known.map(|&tensor| (tensor, tensors[tensor.0 as usize].bytes)).collect();
            known.sort_unstable();
            known.dedup();
            known
        };
        let first = Self { known: known(&mut before.iter()), unknown: 0 };
        let touched = |op: &Operator| {
            let known = known(&mut op.reads.iter().chain(&op.writes));
            let unknown = op.work.bytes().saturating_sub(known.iter().map(|(_, bytes)| bytes).sum());
            Self { known, unknown }
        };
        std::iter::once(first).chain(operators.iter().map(touched)).collect()
    }
}

/// Last uses of tensors up to now.
struct Uses {
    /// By tensor, the operator that touched it last.
    last: Vec<Option<usize>>,
    /// Bytes of tensors by the operator that touched them last, and of what has no name by its own,
    /// as a tree of sums (Fenwick, 1994).
    bytes: Vec<u64>,
}

impl Uses {
    fn new(tensors: usize, operators: usize) -> Self {
        Self { last: vec![None; tensors], bytes: vec![0; operators + 1] }
    }

    /// Bytes that lie between two uses of a tensor, by `first` and `at`: all of the operators in
    /// between, and a half of what these two touch beside.
    fn between(&self, tensor: TensorId, touched: &[Touched], first: usize, at: usize) -> u64 {
        let is_other = |last: &dyn Fn(Option<usize>) -> bool, of: &Touched| {
            let others = of.known.iter().filter(|(other, _)| *other != tensor);
            let beside = others.filter(|(other, _)| last(self.last[other.0 as usize]));
            beside.map(|(_, bytes)| bytes).sum::<u64>().saturating_add(of.unknown)
        };
        let of_first = is_other(&|last| last == Some(first), &touched[first]);
        let of_last = is_other(&|last| last.is_none_or(|last| last <= first), &touched[at]);
        let whole = self.sum(at).wrapping_sub(self.sum(first + 1));
        whole.saturating_add(of_first.saturating_add(of_last) / 2)
    }

    /// Takes down what an operator touches.
    fn touch(&mut self, now: &Touched, at: usize) {
        for &(tensor, bytes) in &now.known {
            if let Some(before) = self.last[tensor.0 as usize].replace(at) {
                self.add(before, bytes.wrapping_neg());
            }
            self.add(at, bytes);
        }
        self.add(at, now.unknown);
    }

    fn add(&mut self, at: usize, bytes: u64) {
        let mut node = at + 1;
        while node < self.bytes.len() {
            self.bytes[node] = self.bytes[node].wrapping_add(bytes);
            node += node & node.wrapping_neg();
        }
    }

    /// Bytes of all operators before one.
    fn sum(&self, before: usize) -> u64 {
        let (mut node, mut sum) = (before, 0_u64);
        while node > 0 {
            sum = sum.wrapping_add(self.bytes[node]);
            node &= node - 1;
        }
        sum
    }
}
