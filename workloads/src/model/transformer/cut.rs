//! A transformer on the positions of a chain: the embedding on the first, the head on the last, layers spread evenly or as
//! listed.

use crate::chain::Chain;
use crate::graph::Phase;
use crate::graph::cut::{Cut, LayerPlace, PartKind, Piece};

use super::draft::Draft;
use super::{Block, DataParallel, LayerKind, Layers, ShardedTransformer, Sharding};
use crate::graph::operator::{Dtype, Operator, StreamClass};

impl ShardedTransformer {
    /// The blocks of every position of `chain`. The stage of both ends has a tied embedding once.
    pub(crate) fn cut(&self, chain: Chain) -> Cut {
        let mut cut = Cut::default();
        let embedding = cut.block(self.embedding());
        let head = cut.block(self.head());
        let layers_at = |position| self.execution().split.layers_at(position, self.model());
        // Layers of one kind and attention are one block.
        let mut known: Vec<((LayerKind, bool), usize)> = Vec::new();
        for position in 0..chain.positions() {
            let (is_first, is_last) = (position == 0, position + 1 == chain.positions());
            let mut pieces = Vec::new();
            if is_first {
                let rank = self.parameters(0, true, false);
                pieces.push(Piece {
                    kind: PartKind::Embedding,
                    block: embedding,
                    layer: None,
                    owned: rank.embedding,
                    trained: rank.trained().total(),
                    read: rank.embedding,
                    experts: 0,
                });
            }
            let (stage, chunk) = (chain.stage(position), chain.chunk(position));
            let before =
                (0..chunk).map(|chunk| layers_at(chain.position(stage, chunk)).len() as u32).sum::<u32>();
            for (in_chunk, layer) in (0..).zip(layers_at(position)) {
                let kind = self.model().layer_kind(layer);
                let rank = self.parameters(Layers::from_iter([kind]), false, false);
                let (count, trained, experts) = (rank.total(), rank.trained().total(), rank.experts);
                let kind = (kind, self.model().has_window(layer));
                let block = known.iter().find(|(known, _)| *known == kind).map(|&(_, block)| block);
                let block = block.unwrap_or_else(|| {
                    let block = cut.block(self.layer_at(layer));
                    known.push((kind, block));
                    block
                });
                let kind = PartKind::Layer;
                let layer = Some(LayerPlace { in_chunk, on_stage: before + in_chunk });
                pieces.push(Piece { kind, block, layer, owned: count, trained, read: count, experts });
            }
            if is_last {
                let of_stage = self.parameters(0, chain.stage(0) == chain.stage(position), true);
                let owned = of_stage.head + of_stage.final_norm;
                let read = self.parameters(0, false, true).total();
                let trained = if self.trains_weights() { owned } else { 0 };
                let (kind, layer, experts) = (PartKind::Head, None, 0);
                pieces.push(Piece { kind, block: head, layer, owned, trained, read, experts });
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

    /// Blocks that begin with copies of their gathered parameters to each of them, where ranks
    /// share them one by one; layers in the backward pass, too, if they are gathered for that.
    pub(crate) fn copied_out(&self, mut cut: Cut, data: &DataParallel) -> Cut {
        let gather = data.gathers_beside().filter(|gather| gather.per_parameter);
        let Some(gather) = gather.filter(|_| data.sharding == Sharding::Parameters) else { return cut };
        cut.rewrite(
            |piece| (piece.kind, piece.owned),
            |block, &(kind, parameters)| {
                let mut block = block.clone();
                let bytes =
                    parameters * self.execution().states.parameter_bytes() - self.saved_by_narrow(&block);
                let copy = |operators: &mut Vec<Operator>, phase| {
                    let mut draft = Draft::new(phase);
                    let traffic = (bytes, bytes);
                    draft.stream("copy gathered parameters", StreamClass::Elementwise, traffic, &[], &[]);
                    operators.splice(..0, draft.list().operators);
                };
                copy(&mut block.forward, Phase::Forward);
                if kind == PartKind::Layer && gather.reshard_after_forward {
                    copy(&mut block.backward, Phase::BackwardInput);
                }
                block
            },
        );
        cut
    }

    /// Bytes that weights of a block take less where they are gathered in 8 bits.
    fn saved_by_narrow(&self, block: &Block) -> u64 {
        let each = self.execution().states.parameter_bytes() - Dtype::Fp8.bytes();
        if self.execution().gathers_narrow() { each * block.narrow_weights() } else { 0 }
    }
}
