//! A model cut into the positions of a chain of stages: its different blocks, and which of them a position executes.

use super::transformer::Block;
pub(crate) use crate::graph::part::PartKind;

/// A model on the positions of a chain. Layers need not be alike: each position says which block comes when.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cut {
    /// The different blocks.
    pub(crate) blocks: Vec<Block>,
    /// By position, what it executes in the forward pass, in this order.
    pub(crate) positions: Vec<Vec<Piece>>,
}

/// A block at its place in the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) kind: PartKind,
    /// Which of [`Cut::blocks`].
    pub(crate) block: usize,
    /// Parameters that are its own.
    pub(crate) owned: u64,
    /// Parameters that it reads, be they those of another piece.
    pub(crate) read: u64,
    /// Those of both that are experts which ranks share.
    pub(crate) experts: u64,
}

impl Cut {
    /// Adds a block unless it is known; gives its number.
    pub(crate) fn block(&mut self, block: Block) -> usize {
        self.blocks.iter().position(|known| *known == block).unwrap_or_else(|| {
            self.blocks.push(block);
            self.blocks.len() - 1
        })
    }
}
