//! Lays a model on pipeline stages: the operator graph of its blocks.
//!
//! What the blocks save for their backward pass is one storage per block (two where the gradients are apart): it is
//! allocated by the first operator of the block and freed after the last that needs it, and what lives shorter is memory
//! that the stage holds throughout. Where a technique decides about tensors one by one, each is a storage of its own
//! ([`by_tensor`]).

mod by_tensor;

use std::collections::BTreeMap;
use std::ops::Range;

use crate::chain::Chain;
use crate::graph::{Op, OpGraph, OpId, OperatorId, Phase, Purpose, Storage, StorageId};
use crate::model::cut::{Cut, PartKind};
use crate::model::reuse::{Reuse, reused};
use crate::model::transformer::{Block, Collective, Operator, Tensor, Work, beside};

use self::by_tensor::Names;

/// A model on its stages.
#[derive(Clone, Debug)]
pub(crate) struct Laid {
    pub(crate) graph: OpGraph,
    /// By [`OperatorId`], what it reads again.
    pub(crate) reused: Vec<Vec<Reuse>>,
    /// Per stage, the most bytes alive at once beyond the most that is saved; none where each tensor is a storage.
    pub(crate) transient: Vec<u64>,
    /// The blocks of the model, by position of the chain, then in the order of the forward pass.
    pub(crate) parts: Vec<Part>,
    /// By stage and chunk; none where what a block saves is one storage.
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
    /// Adds operators that run one after the other, of which the first finds `before` just filled. Gives the number of the
    /// first.
    pub(crate) fn add(&mut self, operators: &[Operator], before: Option<Tensor>) -> u32 {
        self.reused.extend(reused(operators, before));
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
        let known = self.graph.operators().iter().position(|known| *known == operator);
        let known = known.map_or_else(|| self.add(&[operator], None), |known| known as u32);
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
    /// where what a block saves is one storage.
    pub(crate) middle: Option<[u32; 2]>,
    /// Parameters that are its own.
    pub(crate) owned: u64,
    /// Parameters that it reads, be they those of the embedding.
    pub(crate) read: u64,
    /// Those of both that are experts which ranks share.
    pub(crate) experts: u64,
}

/// What a storage is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grain {
    /// All that a block saves.
    Block,
    /// One tensor, whether it is saved or not.
    Tensor,
}

/// Lays the pieces of `model` on the positions of `chain`. With `split_backward` the gradients of inputs and of weights
/// are visits of their own. `receive` is what a rank does with what it receives before it is its input; `update` what a
/// stage does once a step.
pub(crate) fn lay(
    model: &Cut,
    chain: Chain,
    split_backward: bool,
    grain: Grain,
    receive: &[Operator],
    update: impl Fn(u32) -> Vec<Operator>,
) -> Laid {
    let mut laying = Laying {
        laid: Laid {
            graph: OpGraph::default(),
            reused: Vec::new(),
            transient: vec![0; chain.stages as usize],
            parts: Vec::new(),
            ends: BTreeMap::new(),
        },
        split_backward,
        grain,
        stage: 0,
        chunk: 0,
    };
    let receive = laying.list(receive, None);
    let listed: Vec<Listed> = model.blocks.iter().map(|block| laying.block(block)).collect();
    let returns = model.blocks.iter().any(|block| !block.backward.is_empty());
    for (position, pieces) in (0..).zip(&model.positions) {
        (laying.stage, laying.chunk) = (chain.stage(position), chain.chunk(position));
        let (is_first, is_last) = (position == 0, position + 1 == chain.positions());
        let blocks: Vec<_> = pieces
            .iter()
            .map(|piece| (piece.kind, &listed[piece.block], [piece.owned, piece.read, piece.experts]))
            .collect();
        let nothing = List::default();
        let received = |needed: bool| if needed { &receive } else { &nothing };
        laying.visits(&blocks, received(!is_first), received(!is_last && returns));
    }
    for stage in 0..chain.stages {
        let list = laying.list(&update(stage), None);
        (laying.stage, laying.chunk) = (stage, 0);
        laying.extend(Phase::Update, &list, &Uses::default());
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
struct Listed {
    forward: List,
    /// The whole backward pass, or that of the input.
    backward: List,
    weight: List,
    /// Bytes saved by the forward pass for the backward pass, and for the gradient of the weights where it is apart.
    saved: u64,
    saved_for_weight: u64,
    /// Bytes that the gradient of the input leaves for that of the weights.
    left_for_weight: u64,
    transient: u64,
    /// Of what is saved, its input.
    saved_input: u64,
    /// Whether what is saved has its output, which is the input of the next block.
    saves_output: bool,
    /// The tensors that it shares with its neighbours, and those that it saves.
    names: Names,
    /// See [`Block::halves`].
    halves: Option<[u32; 2]>,
    /// See [`Block::afterwards`].
    afterwards: u32,
}

/// The storages that operators of a list use, by position.
#[derive(Default)]
struct Uses {
    reads: Vec<(usize, StorageId)>,
    writes: Vec<(usize, StorageId)>,
}

struct Laying {
    laid: Laid,
    split_backward: bool,
    grain: Grain,
    stage: u32,
    chunk: u32,
}

impl Laying {
    fn list(&mut self, operators: &[Operator], before: Option<Tensor>) -> List {
        let start = self.laid.add(operators, before);
        let entry = |(n, op): (usize, &Operator)| Entry {
            operator: OperatorId(start + n as u32),
            beside: beside(&operators[n..]) as u32,
            again: op.phase == Phase::Recompute,
            awaited: op.awaited,
        };
        List(operators.iter().enumerate().map(entry).collect())
    }

    fn block(&mut self, block: &Block) -> Listed {
        let transient = block.transient_forward().max(block.transient_backward());
        let forward = self.list(&block.forward, Some(block.input));
        let gradient = block.gradient();
        let has = |saved: &[Tensor], name| saved.iter().any(|tensor| tensor.name == name);
        let saves_output = block.output().is_some_and(|output| has(&block.saved(), output.name));
        let input = |saved: &[Tensor]| if has(saved, block.input.name) { block.input.bytes } else { 0 };
        if !self.split_backward {
            let backward = self.list(&block.backward, gradient);
            let (saved, weight) = (block.saved_bytes(), List::default());
            return Listed {
                saved_input: input(&block.saved()),
                saves_output,
                forward,
                backward,
                weight,
                saved,
                saved_for_weight: 0,
                left_for_weight: 0,
                transient,
                names: Names::of(block),
                halves: block.halves(),
                afterwards: block.afterwards() as u32,
            };
        }
        let (saved, kept) = (block.saved(), block.kept_for_weight());
        let is_saved = |tensor: &Tensor| has(&saved, tensor.name);
        let bytes = |of_saved: bool| {
            kept.iter().filter(|tensor| is_saved(tensor) == of_saved).map(|tensor| tensor.bytes).sum::<u64>()
        };
        Listed {
            saved_input: input(&saved) - input(&kept),
            saves_output,
            forward,
            backward: self.list(&block.backward_input(), gradient),
            weight: self.list(&block.backward_weight(), None),
            saved: block.saved_bytes() - bytes(true),
            saved_for_weight: bytes(true),
            left_for_weight: bytes(false),
            transient,
            names: Names::of(block),
            halves: None,
            afterwards: block.afterwards() as u32,
        }
    }

    /// The visits of a chunk: blocks forward, then backward in reverse.
    fn visits(&mut self, blocks: &[(PartKind, &Listed, [u64; 3])], received: &List, received_back: &List) {
        if self.grain == Grain::Tensor {
            return self.visits_by_tensor(blocks, received, received_back);
        }
        self.extend(Phase::Forward, received, &Uses::default());
        let (stage, chunk, nothing) = (self.stage, self.chunk, 0..0);
        let mut storages = Vec::with_capacity(blocks.len());
        let mut parts = Vec::with_capacity(blocks.len());
        for (&(kind, block, [owned, read, experts]), bytes) in blocks.iter().zip(saved(blocks)) {
            let saved = self.storage(Purpose::Activation, bytes);
            let kept = self.storage(Purpose::WeightGradientInput, block.saved_for_weight);
            let made: Vec<StorageId> = saved.into_iter().chain(kept).collect();
            let forward =
                self.extend(Phase::Forward, &block.forward, &Uses::throughout(&block.forward, &[], &made));
            let (backward, weight) = (nothing.clone(), nothing.clone());
            let (middle, afterwards) = (None, block.afterwards);
            parts.push(Part {
                stage,
                chunk,
                kind,
                forward,
                backward,
                weight,
                afterwards,
                middle,
                owned,
                read,
                experts,
            });
            let left = self.storage(Purpose::WeightGradientInput, block.left_for_weight);
            storages.push((made, kept.into_iter().chain(left).collect::<Vec<_>>(), left));
        }
        let most = &mut self.laid.transient[self.stage as usize];
        *most = (*most).max(beyond_saved(blocks));
        let backward = if self.split_backward { Phase::BackwardInput } else { Phase::Backward };
        self.extend(backward, received_back, &Uses::default());
        for (((_, block, _), (made, _, left)), part) in blocks.iter().zip(&storages).zip(&mut parts).rev() {
            let left: Vec<StorageId> = left.iter().copied().collect();
            let uses = Uses::throughout(&block.backward, made, &left);
            part.backward = self.extend(backward, &block.backward, &uses);
            part.weight = part.backward.clone();
        }
        if self.split_backward {
            for (((_, block, _), (_, kept, _)), part) in blocks.iter().zip(&storages).zip(&mut parts).rev() {
                let uses = Uses::throughout(&block.weight, kept, &[]);
                part.weight = self.extend(Phase::BackwardWeight, &block.weight, &uses);
            }
        }
        self.laid.parts.extend(parts);
    }

    fn storage(&mut self, purpose: Purpose, bytes: u64) -> Option<StorageId> {
        let (stage, chunk) = (self.stage, self.chunk);
        (bytes > 0).then(|| self.laid.graph.storage(Storage { stage, chunk, purpose, bytes }))
    }

    /// Appends a list to a visit. Gives the numbers of the operators.
    fn extend(&mut self, visit: Phase, List(list): &List, uses: &Uses) -> Range<u32> {
        let (stage, chunk, start) = (self.stage, self.chunk, self.laid.graph.ops().len() as u32);
        let (mut reads, mut writes) = uses.by_position(list.len());
        for (n, &Entry { operator, beside, again, awaited }) in list.iter().enumerate() {
            let phase = if again { Phase::Recompute } else { visit };
            let (reads, writes) = (std::mem::take(&mut reads[n]), std::mem::take(&mut writes[n]));
            let op = Op { operator, stage, chunk, phase, reads, writes, beside, awaited };
            self.laid.graph.op_of(visit, op);
        }
        start..self.laid.graph.ops().len() as u32
    }
}

impl Uses {
    /// The first operator of a list writes `writes`, and needs `reads` as its last does.
    fn throughout(List(list): &List, reads: &[StorageId], writes: &[StorageId]) -> Self {
        let last = list.len().saturating_sub(1);
        let ends = if last > 0 { vec![0, last] } else { vec![0] };
        Self {
            reads: ends.iter().flat_map(|&at| reads.iter().map(move |&storage| (at, storage))).collect(),
            writes: writes.iter().map(|&storage| (0, storage)).collect(),
        }
    }

    /// What each of so many operators reads, and what it writes.
    fn by_position(&self, operators: usize) -> (Vec<Vec<StorageId>>, Vec<Vec<StorageId>>) {
        let of = |uses: &[(usize, StorageId)]| {
            let mut by_position = vec![Vec::new(); operators];
            for &(at, storage) in uses.iter().filter(|(at, _)| *at < operators) {
                by_position[at].push(storage);
            }
            by_position
        };
        (of(&self.reads), of(&self.writes))
    }
}

/// Bytes that each of some blocks saves for its backward pass, one after the other: an input that the block before has saved
/// is not saved again.
fn saved(blocks: &[(PartKind, &Listed, [u64; 3])]) -> Vec<u64> {
    let mut is_there = false;
    let mut saved = Vec::with_capacity(blocks.len());
    for (_, block, _) in blocks {
        saved.push(block.saved - if is_there { block.saved_input } else { 0 });
        is_there = block.saves_output;
    }
    saved
}

/// Most bytes alive at once in the visits of a chunk, beyond all that its blocks save: in a block those before it are saved,
/// and those behind it only for gradients of weights that are still to come.
fn beyond_saved(blocks: &[(PartKind, &Listed, [u64; 3])]) -> u64 {
    let saved = saved(blocks);
    let mut behind: u64 = saved.iter().sum();
    let mut beyond = 0;
    for ((_, block, _), saved) in blocks.iter().zip(saved) {
        behind -= saved;
        beyond = block.transient.saturating_sub(behind).max(beyond);
    }
    beyond
}
