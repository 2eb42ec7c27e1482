//! Lays a model on pipeline stages: the operator graph of its blocks, and a storage for each of their tensors.

mod visits;

use std::collections::BTreeMap;
use std::ops::Range;

use crate::chain::Chain;
use crate::graph::cut::{Cut, PartKind};
use crate::graph::handed::Shared;
use crate::graph::operator::{OperatorList, Tensor, TensorId};
use crate::graph::{Op, OpGraph, OpId, OperatorId, Phase, Purpose, Storage, StorageId};
use crate::model::reuse::{Reuse, reused};
use crate::model::transformer::{Block, Collective, Operator, Work, beside};

use self::visits::Tensors;

/// A model on its stages.
#[derive(Clone, Debug, Default)]
pub(crate) struct Laid {
    pub(crate) graph: OpGraph,
    /// By [`OperatorId`], what it reads again.
    pub(crate) reused: Vec<Vec<Reuse>>,
    /// The blocks of the model, by position of the chain, then in the order of the forward pass.
    pub(crate) parts: Vec<Part>,
    /// By stage and chunk.
    pub(crate) ends: BTreeMap<(u32, u32), Ends>,
}

/// Storages that a chunk has in common with its neighbours.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ends {
    pub(crate) input: Option<StorageId>,
    pub(crate) output: Option<StorageId>,
    /// The gradient of its output.
    pub(crate) gradient: Option<StorageId>,
    pub(crate) input_gradient: Option<StorageId>,
}

impl Laid {
    /// Adds operators that run one after the other on `tensors`, of which the first finds `before` just filled. Gives the
    /// number of the first.
    fn add(&mut self, operators: &[Operator], tensors: &[Tensor], before: &[TensorId]) -> u32 {
        self.reused.extend(reused(operators, tensors, before));
        let first = self.graph.operators().len() as u32;
        for operator in operators {
            self.graph.work(operator.clone());
        }
        first
    }

    /// Adds an operator of no visit to a chunk of a stage, with the storages that it reads and writes; equal ones share what
    /// they cost.
    pub(crate) fn add_beside(
        &mut self,
        (stage, chunk): (u32, u32),
        (name, phase, work): (&'static str, Phase, Work),
        [reads, writes]: [Vec<StorageId>; 2],
    ) -> OpId {
        let operator = Operator::of(name, phase, work);
        // Alike ones are added one after the other: the last come first.
        let known = self.graph.operators().iter().rposition(|known| *known == operator);
        let known = known.map_or_else(|| self.add(&[operator], &[], &[]), |known| known as u32);
        let operator = OperatorId(known);
        self.graph.op_beside_visits(Op {
            operator,
            stage,
            chunk,
            phase,
            reads,
            writes,
            beside: 0,
            awaited: false,
        })
    }

    /// The collective behind a node.
    pub(crate) fn exchanged(&self, op: OpId) -> Option<Collective> {
        match self.graph.operator(op).work {
            Work::Collective(collective) => Some(collective),
            _ => None,
        }
    }
}

/// A block of the model in the graph: which operators it has in the visits, by number.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) stage: u32,
    pub(crate) chunk: u32,
    pub(crate) kind: PartKind,
    pub(crate) forward: Range<u32>,
    /// The whole backward pass, or that of the input.
    pub(crate) backward: Range<u32>,
    /// Those that gradients of weights come from.
    pub(crate) weight: Range<u32>,
    /// Operators at the end of its backward pass that follow that of all blocks.
    pub(crate) afterwards: u32,
    /// The first operator of its MLP in the forward pass, and that of its attention in the backward pass; none of a block without, and
    /// where gradients of weights are visits of their own.
    pub(crate) middle: Option<[u32; 2]>,
    /// Parameters that are its own.
    pub(crate) owned: u64,
    /// Parameters of its own that have gradients.
    pub(crate) trained: u64,
    /// Parameters that it reads, be they those of the embedding.
    pub(crate) read: u64,
    /// Those of both that are experts which ranks share.
    pub(crate) experts: u64,
}

impl Part {
    /// Numbers of its operators in all passes.
    pub(crate) fn passes(&self) -> impl Iterator<Item = u32> + use<> {
        // The whole backward pass has the gradients of weights in it.
        let weight = if self.weight == self.backward { 0..0 } else { self.weight.clone() };
        self.forward.clone().chain(self.backward.clone()).chain(weight)
    }
}

/// Lays the pieces of `model` on the positions of `chain`. With `split_backward` the gradients of inputs and of weights
/// are visits of their own. `receive` is what a rank does with what it receives before it is its input; `update` what a
/// stage does once a step.
pub(crate) fn lay(
    model: &Cut,
    chain: Chain,
    split_backward: bool,
    receive: &OperatorList,
    update: impl Fn(u32) -> OperatorList,
) -> Laid {
    let mut laying = Laying {
        laid: Laid {
            graph: OpGraph::default(),
            reused: Vec::new(),
            parts: Vec::new(),
            ends: BTreeMap::new(),
        },
        split_backward,
        arrived: Vec::new(),
        stage: 0,
        chunk: 0,
    };
    let receive = laying.list(&receive.operators, &receive.tensors, &[]);
    let listed: Vec<Listed<'_>> = model.blocks.iter().map(|block| laying.block(block)).collect();
    let returns = model.blocks.iter().any(|block| !block.backward.is_empty());
    for (position, pieces) in (0..).zip(&model.positions) {
        (laying.stage, laying.chunk) = (chain.stage(position), chain.chunk(position));
        let (is_first, is_last) = (position == 0, position + 1 == chain.positions());
        let blocks: Vec<_> = pieces.iter().map(|piece| (piece, &listed[piece.block])).collect();
        let nothing = List::default();
        let received = |needed: bool| if needed { &receive } else { &nothing };
        laying.visits(&blocks, received(!is_first), received(!is_last && returns));
    }
    for stage in 0..chain.stages {
        let OperatorList { tensors, operators } = update(stage);
        let list = laying.list(&operators, &tensors, &[]);
        (laying.stage, laying.chunk) = (stage, 0);
        laying.extend(Phase::Update, &list, Uses::none(&list));
    }
    laying.laid
}

/// A list of operators.
#[derive(Clone, Debug, Default)]
struct List(Vec<Entry>);

/// An operator of a list.
#[derive(Clone, Copy, Debug)]
struct Entry {
    operator: OperatorId,
    /// How many of those that follow run beside it.
    beside: u32,
    /// Whether it is executed again.
    again: bool,
    /// Whether the host waits for it.
    awaited: bool,
}

/// A block, listed.
struct Listed<'a> {
    forward: List,
    /// The whole backward pass, or that of the input.
    backward: List,
    weight: List,
    tensors: Tensors<'a>,
    /// See [`Block::halves`].
    halves: Option<[u32; 2]>,
    /// See [`Block::afterwards`].
    afterwards: u32,
}

/// The storages that operators of a list use, by position.
struct Uses {
    reads: Vec<Vec<StorageId>>,
    writes: Vec<Vec<StorageId>>,
}

struct Laying {
    laid: Laid,
    split_backward: bool,
    /// What has arrived for a list without operators: the first operator that follows finds it there.
    arrived: Vec<StorageId>,
    stage: u32,
    chunk: u32,
}

impl Laying {
    fn list(&mut self, operators: &[Operator], tensors: &[Tensor], before: &[TensorId]) -> List {
        let start = self.laid.add(operators, tensors, before);
        let entry = |(n, op): (usize, &Operator)| Entry {
            operator: OperatorId(start + n as u32),
            beside: beside(&operators[n..]) as u32,
            again: op.phase == Phase::Recompute,
            awaited: op.awaited,
        };
        List(operators.iter().enumerate().map(entry).collect())
    }

    fn block<'a>(&mut self, block: &'a Block) -> Listed<'a> {
        let (backward, weight) = match self.split_backward {
            true => (block.backward_input(), block.backward_weight()),
            false => (block.backward.clone(), Vec::new()),
        };
        let with = |start: Option<TensorId>, handed: &Shared| -> Vec<TensorId> {
            start.into_iter().chain(handed.taken.iter().copied()).collect()
        };
        let input = with(Some(block.input), &block.handed.forward);
        let gradient = with(block.output_gradient, &block.handed.backward);
        Listed {
            forward: self.list(&block.forward, &block.tensors, &input),
            backward: self.list(&backward, &block.tensors, &gradient),
            weight: self.list(&weight, &block.tensors, &[]),
            tensors: Tensors::of(block, self.split_backward),
            halves: block.halves().filter(|_| !self.split_backward),
            afterwards: block.afterwards() as u32,
        }
    }

    fn storage(&mut self, purpose: Purpose, bytes: u64) -> Option<StorageId> {
        let (stage, chunk) = (self.stage, self.chunk);
        (bytes > 0).then(|| self.laid.graph.storage(Storage { stage, chunk, purpose, bytes }))
    }

    /// Appends a list to a visit. Gives the numbers of the operators.
    fn extend(&mut self, visit: Phase, List(list): &List, mut uses: Uses) -> Range<u32> {
        let (stage, chunk, start) = (self.stage, self.chunk, self.laid.graph.ops().len() as u32);
        if let Some(first) = uses.writes.first_mut() {
            first.append(&mut self.arrived);
        }
        let uses = uses.reads.into_iter().zip(uses.writes);
        for (&Entry { operator, beside, again, awaited }, (reads, writes)) in list.iter().zip(uses) {
            let phase = if again { Phase::Recompute } else { visit };
            let op = Op { operator, stage, chunk, phase, reads, writes, beside, awaited };
            self.laid.graph.op_of(visit, op);
        }
        start..self.laid.graph.ops().len() as u32
    }
}

impl Uses {
    /// None yet of a list.
    fn none(List(list): &List) -> Self {
        Self { reads: vec![Vec::new(); list.len()], writes: vec![Vec::new(); list.len()] }
    }
}
