//! Writing lists of operators. A source joins operators by names of tensors; when a list or a block is finished, its draft
//! gives each tensor an id.

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::Phase;
use crate::graph::block::Block;
use crate::graph::handed::Handed;
use crate::graph::operator::{
    Collective, CollectiveKind, Dtype, Gemm, Group, GroupedGemm, Label, Layout, Math, Module, Operator,
    OperatorList, Stream, StreamClass, Tensor, TensorId, Work,
};

pub(crate) use super::names::Name;

/// An operator that names its tensors; those that it fills with their bytes.
pub(crate) type Drafted = Operator<Name, (Name, u64)>;

/// A list of operators under construction.
pub(crate) struct Draft {
    pub(crate) operators: Vec<Drafted>,
    /// What the next operators belong to.
    pub(crate) phase: Phase,
}

/// A block under construction.
pub(crate) struct BlockDraft {
    /// What it starts from, and its bytes.
    pub(crate) input: (Name, u64),
    pub(crate) output_gradient: Option<Name>,
    pub(crate) forward: Vec<Drafted>,
    pub(crate) backward: Vec<Drafted>,
    pub(crate) middle: Option<[Name; 2]>,
}

/// How a collective runs beside what follows it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Issue {
    /// What follows waits.
    Waiting,
    /// What follows runs beside it until it needs the result.
    Beside,
}

impl Draft {
    pub(crate) const fn new(phase: Phase) -> Self {
        Self { operators: Vec::new(), phase }
    }

    /// Appends an operator; `writes` are names and bytes.
    pub(crate) fn push(
        &mut self,
        name: impl Into<Name>,
        work: Work,
        reads: &[Name],
        writes: &[(Name, u64)],
    ) -> &mut Drafted {
        let operator = Operator::of(name.into().label(), self.phase, work);
        self.operators.push(Operator { reads: reads.to_vec(), writes: writes.to_vec(), ..operator });
        let last = self.operators.len() - 1;
        &mut self.operators[last]
    }

    /// Appends a pass over memory that reads and writes so many bytes.
    pub(crate) fn stream(
        &mut self,
        name: impl Into<Name>,
        class: StreamClass,
        traffic: (u64, u64),
        reads: &[Name],
        writes: &[(Name, u64)],
    ) -> &mut Drafted {
        self.push(name, Work::Stream(Stream::pass(class, traffic)), reads, writes)
    }

    /// Appends a pass over memory that walks over so many rows one by one.
    pub(crate) fn walk(
        &mut self,
        name: impl Into<Name>,
        (class, rows): (StreamClass, u64),
        (bytes_read, bytes_written): (u64, u64),
        reads: &[Name],
        writes: &[(Name, u64)],
    ) -> &mut Drafted {
        let walk = self.stream(name, class, (bytes_read, bytes_written), reads, writes);
        if let Work::Stream(stream) = &mut walk.work {
            stream.rows = Some(rows);
        }
        walk
    }

    /// Appends a pass that looks up so many elements by index.
    pub(crate) fn look_up(
        &mut self,
        name: impl Into<Name>,
        (class, elements): (StreamClass, u64),
        traffic: (u64, u64),
        reads: &[Name],
        writes: &[(Name, u64)],
    ) -> &mut Drafted {
        let pass = self.stream(name, class, traffic, reads, writes);
        if let Work::Stream(stream) = &mut pass.work {
            stream.looked_up = elements;
        }
        pass
    }

    /// Appends what adds gradients of `tokens` (bytes) to the rows of a `table` that they were looked up in: all of them other
    /// rows as far as the table has as many. Sums of each row go to memory in fp32 and back (PyTorch's
    /// `embedding_backward_cuda_kernel`).
    pub(crate) fn add_to_rows(
        &mut self,
        name: impl Into<Name>,
        dtype: Dtype,
        (tokens, table): (u64, u64),
        reads: &[Name],
    ) -> &mut Drafted {
        let rows = tokens.min(table);
        let sums = rows / dtype.bytes() * Dtype::Fp32.bytes();
        let traffic = (tokens + sums, sums + rows);
        self.stream(name, StreamClass::EmbeddingGradient, traffic, reads, &[])
    }

    /// Appends a matrix product of `batch`, `m`, `n`, `k`.
    pub(crate) fn gemm(
        &mut self,
        name: impl Into<Name>,
        (batch, m, n, k): (u64, u64, u64, u64),
        (dtype, layout): (Dtype, Layout),
        reads: &[Name],
        writes: &[(Name, u64)],
    ) -> &mut Drafted {
        let gemm = Gemm { batch, m, n, k, dtype, layout, accumulate: None };
        self.push(name, Work::Gemm(gemm), reads, writes)
    }

    /// Appends a grouped matrix product of so many groups of `m`, `n`, `k`.
    pub(crate) fn grouped(
        &mut self,
        name: impl Into<Name>,
        (batch, m, n, k): (u64, u64, u64, u64),
        (dtype, layout, accumulate): (Dtype, Layout, Option<Dtype>),
        reads: &[Name],
        writes: &[(Name, u64)],
    ) {
        let groups = Gemm { batch, m, n, k, dtype, layout, accumulate };
        self.push(name, Work::Grouped(GroupedGemm { groups }), reads, writes);
    }

    /// Appends a collective over `bytes`, those of the whole tensor; one that writes nothing works in place.
    pub(crate) fn collective(
        &mut self,
        name: impl Into<Name>,
        (kind, group, bytes): (CollectiveKind, Group, u64),
        issue: Issue,
        reads: &[Name],
        writes: &[(Name, u64)],
    ) {
        let overlaps_next = issue == Issue::Beside;
        let work = Collective { kind, group, bytes, overlaps_next, copied: false };
        self.push(name, Work::Collective(work), reads, writes);
    }

    /// Says what the operator that was appended last does to elements.
    pub(crate) fn does(&mut self, math: Math) {
        if let Some(last) = self.operators.last_mut() {
            last.math = Some(math);
        }
    }

    /// Appends, in another part of the step, what `write` does.
    pub(crate) fn within<R>(&mut self, phase: Phase, write: impl FnOnce(&mut Self) -> R) -> R {
        let outer = std::mem::replace(&mut self.phase, phase);
        let written = write(self);
        self.phase = outer;
        written
    }

    /// Appends operators of a module; those of a module within it keep theirs.
    pub(crate) fn module<R>(&mut self, module: Module, write: impl FnOnce(&mut Self) -> R) -> R {
        let first = self.operators.len();
        let written = write(self);
        self.operators[first..].iter_mut().for_each(|op| _ = op.module.get_or_insert(module));
        written
    }

    /// The finished list, of no block.
    pub(crate) fn list(self) -> OperatorList {
        let mut tensors = Tensors::default();
        let operators = tensors.resolve(self.operators, &BTreeSet::new());
        OperatorList { tensors: tensors.all, operators }
    }
}

impl BlockDraft {
    /// The finished block. A name stands for the tensor that was filled under it last; what the backward pass reads of the
    /// forward pass is one tensor there, which may be filled piece by piece.
    pub(crate) fn block(self) -> Block {
        let saved = self.saved();
        let mut tensors = Tensors::default();
        let input = tensors.fill(self.input.0.label(), self.input.1);
        let forward = tensors.resolve(self.forward, &saved);
        let output = self.output_gradient.and_then(|_| last_filled(forward.iter()));
        let bytes = output.map_or(0, |output| tensors.all[output.0 as usize].bytes);
        let between = self.middle.map(|[between, _]| tensors.latest(between));
        let output_gradient = self.output_gradient.map(|name| tensors.fill(name.label(), bytes));
        let backward = tensors.resolve(self.backward, &BTreeSet::new());
        let middle =
            between.zip(self.middle).map(|(between, [_, gradient])| [between, tensors.latest(gradient)]);
        let input_gradient = last_filled(backward.iter().filter(|op| op.phase == Phase::BackwardInput));
        let tensors = tensors.all;
        let handed = Handed::default();
        Block { tensors, input, output, output_gradient, input_gradient, forward, backward, middle, handed }
    }

    /// Names that the backward pass reads before it fills them.
    fn saved(&self) -> BTreeSet<Label> {
        let (mut saved, mut filled) = (BTreeSet::new(), BTreeSet::new());
        for op in &self.backward {
            saved.extend(op.reads.iter().map(|name| name.label()).filter(|name| !filled.contains(name)));
            filled.extend(op.writes.iter().map(|(name, _)| name.label()));
        }
        saved
    }
}

/// The result of operators: the last that fills anything fills it first.
fn last_filled<'a>(operators: impl DoubleEndedIterator<Item = &'a Operator>) -> Option<TensorId> {
    operators.rev().find_map(|op| op.writes.first().copied())
}

/// The tensors of lists, found by name.
#[derive(Default)]
struct Tensors {
    all: Vec<Tensor>,
    latest: BTreeMap<Label, TensorId>,
}

impl Tensors {
    /// Another tensor under a name.
    fn fill(&mut self, name: Label, bytes: u64) -> TensorId {
        let id = TensorId(self.all.len() as u32);
        self.latest.insert(name.clone(), id);
        self.all.push(Tensor { name, bytes });
        id
    }

    /// The tensor that a name stands for; one that nobody has filled comes from elsewhere.
    fn latest(&mut self, name: Name) -> TensorId {
        let name = name.label();
        self.latest.get(&name).copied().unwrap_or_else(|| self.fill(name, 0))
    }

    /// Gives tensors ids; those `in_pieces` keep theirs.
    fn resolve(&mut self, list: Vec<Drafted>, in_pieces: &BTreeSet<Label>) -> Vec<Operator> {
        let resolved = |op: Drafted| {
            let reads = op.reads.iter().map(|&name| self.latest(name)).collect();
            let fill = |(name, bytes): (Name, u64)| {
                let name = name.label();
                let begun = self.latest.get(&name).copied().filter(|_| in_pieces.contains(&name));
                begun.unwrap_or_else(|| self.fill(name, bytes))
            };
            let writes = op.writes.iter().copied().map(fill).collect();
            op.with_tensors(reads, writes)
        };
        list.into_iter().map(resolved).collect()
    }
}
