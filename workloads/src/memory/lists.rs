//! The operators of a block with numbers in place of the names of tensors: a step executes the same few lists very often.

use crate::graph::Phase;
use crate::graph::block::Block;
use crate::graph::operator::{Gemm, GroupedGemm, Operator, Work};

/// A tensor of a block.
pub(super) type Slot = usize;

/// A block and the parts of its backward pass.
#[derive(Clone, Debug)]
pub(super) struct Lists {
    pub(super) forward: Vec<Listed>,
    pub(super) backward_weight: Vec<Listed>,
    backward: Vec<Listed>,
    backward_input: Vec<Listed>,
    /// How many tensors it names.
    pub(super) slots: usize,
    pub(super) input: Slot,
    pub(super) input_bytes: u64,
    pub(super) output: Option<Slot>,
    /// None of a block that no other follows.
    pub(super) output_gradient: Option<Slot>,
    pub(super) input_gradient: Option<Slot>,
    /// How many operators at the end of the backward pass follow that of all blocks.
    pub(super) afterwards: usize,
}

/// An operator.
#[derive(Clone, Debug)]
pub(super) struct Listed {
    pub(super) name: &'static str,
    pub(super) is_recomputed: bool,
    pub(super) workspace: u64,
    pub(super) reads: Vec<Slot>,
    /// What it fills, with its bytes.
    pub(super) fills: Vec<(Slot, u64)>,
    /// A weight gradient that it adds to a sum.
    pub(super) adds: Option<WeightGradient>,
}

/// A weight gradient.
#[derive(Clone, Copy, Debug)]
pub(super) struct WeightGradient {
    /// Rows and columns.
    pub(super) shape: (u64, u64),
    pub(super) bytes: u64,
}

impl Lists {
    pub(super) fn of(block: &Block) -> Self {
        let mut numbers = Numbers::default();
        let mut list =
            |operators: &[Operator]| operators.iter().map(|op| Listed::of(op, &mut numbers)).collect();
        let (forward, backward) = (list(&block.forward), list(&block.backward));
        let (backward_input, backward_weight) =
            (list(&block.backward_input()), list(&block.backward_weight()));
        Self {
            forward,
            backward,
            backward_input,
            backward_weight,
            input: numbers.of(block.input.name),
            input_bytes: block.input.bytes,
            output: block.output().map(|tensor| numbers.of(tensor.name)),
            output_gradient: block.output_gradient.map(|name| numbers.of(name)),
            input_gradient: block.input_gradient().map(|tensor| numbers.of(tensor.name)),
            afterwards: block.afterwards(),
            slots: numbers.0.len(),
        }
    }

    /// What a visit of a backward pass executes.
    pub(super) fn backward(&self, phase: Phase) -> &[Listed] {
        if phase == Phase::BackwardInput { &self.backward_input } else { &self.backward }
    }
}

impl Listed {
    fn of(op: &Operator, numbers: &mut Numbers) -> Self {
        let adds = match op.work {
            Work::Gemm(gemm) | Work::Grouped(GroupedGemm { groups: gemm }) if gemm.accumulate.is_some() => {
                let Gemm { m, n, dtype, .. } = gemm;
                Some(WeightGradient { shape: (m, n), bytes: m * n * dtype.bytes() })
            }
            _ => None,
        };
        Self {
            name: op.name,
            is_recomputed: op.phase == Phase::Recompute,
            workspace: op.workspace,
            reads: op.reads.iter().map(|name| numbers.of(name)).collect(),
            fills: op.writes.iter().map(|tensor| (numbers.of(tensor.name), tensor.bytes)).collect(),
            adds,
        }
    }
}

/// The names of a block's tensors; each has its position as number.
#[derive(Default)]
struct Numbers(Vec<&'static str>);

impl Numbers {
    fn of(&mut self, name: &'static str) -> Slot {
        self.0.iter().position(|known| *known == name).unwrap_or_else(|| {
            self.0.push(name);
            self.0.len() - 1
        })
    }
}
