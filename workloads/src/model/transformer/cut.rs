//! A transformer on the positions of a chain: the embedding on the first, the head on the last, layers spread evenly or as
//! listed.

use crate::chain::Chain;
use crate::graph::Phase;
use crate::graph::cut::{Cut, PartKind, Piece};

use super::draft::Draft;
use super::{
    Block, DataParallel, LayerKind, Layers, RankParameters, Recompute, ShardedTransformer, Sharding,
};
use crate::graph::operator::{Dtype, Operator, StreamClass};

/// What layers recompute: the first so many of each chunk in one mode, the others in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerRecompute {
    /// Of the first layers of a chunk.
    pub first: Recompute,
    /// How many those are; none: all.
    pub layers: Option<u32>,
    /// Of the others.
    pub others: Recompute,
}

impl LayerRecompute {
    /// No layer recomputes.
    pub const NONE: Self = Self { first: Recompute::None, layers: None, others: Recompute::None };

    /// What layer `n` of a chunk recomputes.
    const fn of(&self, n: u32) -> Recompute {
        match self.layers {
            Some(layers) if n >= layers => self.others,
            _ => self.first,
        }
    }
}

impl ShardedTransformer {
    /// The blocks of every position of `chain`, whose parameters ranks of `data` may share. The stage of both ends has a
    /// tied embedding once.
    pub(crate) fn cut(&self, chain: Chain, recompute: LayerRecompute, data: &DataParallel) -> Cut {
        let mut cut = Cut::default();
        let ends = self.parameters(0, true, true);
        let outer = |block, parameters| self.copied_out(block, parameters, data, false);
        let embedding = cut.block(outer(self.embedding(), ends.embedding));
        let head = cut.block(outer(self.head(), ends.head + ends.final_norm));
        // Layers of one kind that recompute the same are one block.
        let mut known: Vec<((LayerKind, Recompute), usize)> = Vec::new();
        for position in 0..chain.positions() {
            let (is_first, is_last) = (position == 0, position + 1 == chain.positions());
            let mut pieces = Vec::new();
            if is_first {
                let count = self.parameters(0, true, false).embedding;
                pieces.push(Piece {
                    kind: PartKind::Embedding,
                    block: embedding,
                    owned: count,
                    read: count,
                    experts: 0,
                });
            }
            for (n, layer) in (0..).zip(self.execution().split.layers_at(position, self.model())) {
                let kind = self.model().layer_kind(layer);
                let RankParameters { layers: count, experts, .. } =
                    self.parameters(Layers::from_iter([kind]), false, false);
                let like = (kind, recompute.of(n));
                let block = known.iter().find(|(known, _)| *known == like).map(|&(_, block)| block);
                let block = block.unwrap_or_else(|| {
                    let layer = match kind {
                        LayerKind::Dense => self.layer(recompute.of(n)),
                        LayerKind::Experts => self.expert_layer(recompute.of(n)),
                    };
                    let block = cut.block(self.copied_out(layer, count, data, true));
                    known.push((like, block));
                    block
                });
                pieces.push(Piece { kind: PartKind::Layer, block, owned: count, read: count, experts });
            }
            if is_last {
                let of_stage = self.parameters(0, chain.stage(0) == chain.stage(position), true);
                let owned = of_stage.head + of_stage.final_norm;
                let read = self.parameters(0, false, true).total();
                pieces.push(Piece { kind: PartKind::Head, block: head, owned, read, experts: 0 });
            }
            cut.positions.push(pieces);
        }
        cut
    }

    /// The layers on a stage of `chain`.
    pub(crate) fn layers_on(&self, chain: Chain, stage: u32) -> Layers {
        let positions = (0..chain.chunks).map(|chunk| chain.position(stage, chunk));
        let layers = positions.flat_map(|position| self.execution().split.layers_at(position, self.model()));
        layers.map(|layer| self.model().layer_kind(layer)).collect()
    }

    /// A block that begins with copies of its gathered parameters to each of them, where ranks share them one by one;
    /// `again` in the backward pass, if they are gathered for that.
    fn copied_out(&self, mut block: Block, parameters: u64, data: &DataParallel, again: bool) -> Block {
        let gather = data.gathers_beside().filter(|gather| gather.per_parameter);
        let Some(gather) = gather.filter(|_| data.sharding == Sharding::Parameters) else { return block };
        let bytes = parameters * self.execution().states.parameter_bytes() - self.saved_by_narrow(&block);
        let copy = |operators: &mut Vec<Operator>, phase| {
            let mut draft = Draft::new(phase);
            draft.stream("copy gathered parameters", StreamClass::Elementwise, (bytes, bytes), &[], &[]);
            operators.splice(..0, draft.list().operators);
        };
        copy(&mut block.forward, Phase::Forward);
        if again && gather.reshard_after_forward {
            copy(&mut block.backward, Phase::BackwardInput);
        }
        block
    }

    /// Bytes that weights of a block take less where they are gathered in 8 bits.
    fn saved_by_narrow(&self, block: &Block) -> u64 {
        let each = self.execution().states.parameter_bytes() - Dtype::Fp8.bytes();
        if self.execution().gathers_narrow() { each * block.narrow_weights() } else { 0 }
    }
}
