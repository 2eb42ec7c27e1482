//! A model cut into the positions of a chain of stages: its different blocks, and which of them a position executes.

use super::block::Block;
pub use super::part::PartKind;

/// A model on the positions of a chain. Layers need not be alike: each position says which block comes when.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cut {
    /// The different blocks.
    pub blocks: Vec<Block>,
    /// By position, what it executes in the forward pass, in this order.
    pub positions: Vec<Vec<Piece>>,
    /// True if ranks gather the parameters of a block before it: nothing of it is executed earlier.
    pub gathered: bool,
}

/// A block at its place in the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Place of the block.
    pub kind: PartKind,
    /// Index in [`Cut::blocks`].
    pub block: usize,
    /// Its place among layers: they may keep only their input for the backward pass. `None`: an end
    /// of a transformer.
    pub layer: Option<LayerPlace>,
    /// Parameters that are its own.
    pub owned: u64,
    /// Parameters of its own that have gradients; the others are frozen.
    pub trained: u64,
    /// Parameters that it reads, be they those of another piece.
    pub read: u64,
    /// Parameters of both kinds that belong to experts which ranks share.
    pub experts: u64,
}

/// Place of a layer among others, counted from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayerPlace {
    /// Its number in its chunk.
    pub in_chunk: u32,
    /// Its number on its stage, chunk after chunk.
    pub on_stage: u32,
}

impl Cut {
    /// Adds a block unless it is known; gives its number.
    pub fn block(&mut self, block: Block) -> usize {
        self.blocks.iter().position(|known| *known == block).unwrap_or_else(|| {
            self.blocks.push(block);
            self.blocks.len() - 1
        })
    }

    /// Bytes of activations that a position holds at least from its forward pass on, for a
    /// micro-batch. What a block leaves to the next counts as that one's.
    pub fn held(&self, position: u32) -> u64 {
        let of = |block: &Block| {
            let of_next =
                |tensor| Some(tensor) == block.output || block.handed.forward.given.contains(&tensor);
            let saved = block.saved().into_iter().filter(|&tensor| !of_next(tensor));
            saved.map(|tensor| block.tensor(tensor).bytes).sum::<u64>()
        };
        let by_block: Vec<u64> = self.blocks.iter().map(of).collect();
        let pieces = self.positions.get(position as usize).into_iter().flatten();
        pieces.map(|piece| by_block[piece.block]).sum()
    }

    /// Gives each piece another block, made of its own by what is `asked` of it there. Equal blocks
    /// become one.
    pub fn rewrite<K: PartialEq>(
        &mut self,
        asked: impl Fn(&Piece) -> K,
        rewritten: impl Fn(&Block, &K) -> Block,
    ) {
        let mut made = Self::default();
        let mut left: Vec<&mut Piece> = self.positions.iter_mut().flatten().collect();
        for (number, block) in self.blocks.iter().enumerate() {
            let (own, others): (Vec<_>, Vec<_>) = left.into_iter().partition(|piece| piece.block == number);
            left = others;
            let mut known: Vec<(K, usize)> = Vec::new();
            for piece in own {
                let asked = asked(piece);
                let like = known.iter().find(|(other, _)| *other == asked).map(|&(_, block)| block);
                piece.block = like.unwrap_or_else(|| made.block(rewritten(block, &asked)));
                known.push((asked, piece.block));
            }
        }
        self.blocks = made.blocks;
    }
}
