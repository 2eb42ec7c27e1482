//! How the chunks of a model lie on the pipeline stages.

/// The positions of the model's chunks in the direction of the forward pass, and the stage each is on. Position `k` is
/// chunk `k / stages`; micro-batches visit the positions in ascending order forward, in descending order backward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Pipeline stages, at least 1.
    pub stages: u32,
    /// Chunks per stage, at least 1.
    pub chunks: u32,
    /// Whether every second chunk runs from the last stage back to the first (a V, Qi et al. 2024), rather than
    /// starting over at the first stage (interleaving, Narayanan et al. 2021).
    pub folded: bool,
}

/// A hop from one position to the next that crosses a boundary between stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hop {
    /// Stage the activations leave; their gradients return to it.
    pub from: u32,
    /// Stage the activations go to.
    pub to: u32,
}

impl Chain {
    /// One chunk per stage.
    pub const fn straight(stages: u32) -> Self {
        Self { stages, chunks: 1, folded: false }
    }

    /// Number of positions.
    pub const fn positions(self) -> u32 {
        self.stages * self.chunks
    }

    /// Number of hops between stages, of any chain however long.
    pub(crate) const fn hops(self) -> u64 {
        let (stages, chunks) = (self.stages as u64, self.chunks as u64);
        let turns = if self.folded { chunks - 1 } else { 0 };
        if stages > 1 { (stages * chunks).saturating_sub(1 + turns) } else { 0 }
    }

    /// The stage of a position.
    pub const fn stage(self, position: u32) -> u32 {
        let along = position % self.stages;
        if self.folded && self.chunk(position) % 2 == 1 { self.stages - 1 - along } else { along }
    }

    /// The chunk of a position.
    pub const fn chunk(self, position: u32) -> u32 {
        position / self.stages
    }

    /// The position of a stage's chunk.
    pub const fn position(self, stage: u32, chunk: u32) -> u32 {
        let along = if self.folded && chunk % 2 == 1 { self.stages - 1 - stage } else { stage };
        chunk * self.stages + along
    }

    /// The hop from `position` to the next one; none after the last position and where both are on one stage.
    pub fn hop(self, position: u32) -> Option<Hop> {
        let next = position + 1;
        if next >= self.positions() {
            return None;
        }
        let hop = Hop { from: self.stage(position), to: self.stage(next) };
        (hop.from != hop.to).then_some(hop)
    }
}
