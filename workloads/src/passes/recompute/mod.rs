//! Activation recomputation (Chen et al. 2016): the forward pass keeps a checkpoint, and runs again right before the
//! backward pass.

mod blocks;
mod modules;
mod settings;

use crate::graph::block::Block;
use crate::graph::cut::{Cut, Piece};
use crate::graph::operator::{Label, Tensor, TensorId, Work};

use super::{Kind, Pass};

pub use blocks::recomputed;
pub use modules::{Modules, RecomputeModule};
pub use settings::{Mode, Recompute};

/// The name of this technique in scenarios and errors.
pub const NAME: &str = "recompute";

impl Pass for Recompute {
    fn name(&self) -> &'static str {
        NAME
    }

    fn kind(&self) -> Kind {
        Kind::Rewriter
    }

    fn rewrite(&self, model: &mut Cut) {
        let stages: Vec<Option<u32>> = model.blocks.iter().map(profiled).collect();
        let mode = |piece: &Piece| piece.layer.map_or(Mode::None, |layer| self.mode(layer));
        model.rewrite(mode, |block, &mode| match profiled(block) {
            Some(stage) if self.covers(stage) => {
                let chunks = stages.iter().filter(|of| **of == Some(stage)).count();
                keeping(&recomputed(block, Mode::Full), self.kept(stage) / chunks as u64)
            }
            Some(_) => block.clone(),
            None => recomputed(block, mode),
        });
    }
}

/// The stage of a block of which only a profile knows what it does.
fn profiled(block: &Block) -> Option<u32> {
    match block.forward.first()?.work {
        Work::Opaque { stage, .. } => Some(stage),
        _ => None,
    }
}

/// A block of a profile that recomputes from a checkpoint of so many bytes. The checkpoint takes
/// from what the input gradient needs first, then from what the weight gradient needs.
fn keeping(block: &Block, bytes: u64) -> Block {
    let mut block = block.clone();
    let [again, gradient, ..] = block.backward.as_mut_slice() else { return block };
    let mut left = bytes;
    for id in &again.writes {
        let Tensor { bytes, .. } = &mut block.tensors[id.0 as usize];
        let taken = left.min(*bytes);
        (*bytes, left) = (*bytes - taken, left - taken);
    }
    let checkpoint = TensorId(block.tensors.len() as u32);
    block.tensors.push(Tensor { name: Label::Borrowed("checkpoint"), bytes: bytes - left });
    again.reads.push(checkpoint);
    gradient.reads.push(checkpoint);
    // A profile says what a pass saves, not what else it has meanwhile.
    block.forward[0].writes = vec![checkpoint];
    block
}
