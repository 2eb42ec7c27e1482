//! A transformer on the positions of a chain: the embedding on the first, the head on the last, layers spread evenly.

use crate::chain::Chain;
use crate::model::cut::{Cut, PartKind, Piece};

use super::{Block, LayerKind, Layers, RankParameters, Recompute, ShardedTransformer, Step};

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
    /// What layer `n` of a chunk recomputes.
    const fn of(&self, n: u32) -> Recompute {
        match self.layers {
            Some(layers) if n >= layers => self.others,
            _ => self.first,
        }
    }
}

impl ShardedTransformer {
    /// The blocks of every position of `chain`. The stage of both ends has a tied embedding once.
    pub(crate) fn cut(&self, chain: Chain, recompute: LayerRecompute) -> Cut {
        let mut cut = Cut::default();
        let (embedding, head) =
            (cut.block(self.of_step(self.embedding())), cut.block(self.of_step(self.head())));
        let layers = self.execution().split.layers_per_chunk(self.model());
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
            for n in 0..layers {
                let kind = self.model().layer_kind(position * layers + n);
                let block = cut.block(self.of_step(match kind {
                    LayerKind::Dense => self.layer(recompute.of(n)),
                    LayerKind::Experts => self.expert_layer(recompute.of(n)),
                }));
                let RankParameters { layers: count, experts, .. } =
                    self.parameters(Layers::from_iter([kind]), false, false);
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
        let each = self.execution().split.layers_per_chunk(self.model());
        let positions = (0..chain.chunks).map(|chunk| chain.position(stage, chunk));
        let layers = positions.flat_map(|position| position * each..(position + 1) * each);
        layers.map(|layer| self.model().layer_kind(layer)).collect()
    }

    /// A block as a step executes it.
    fn of_step(&self, mut block: Block) -> Block {
        if self.execution().step == Step::Forward {
            block.backward.clear();
        }
        block
    }
}
