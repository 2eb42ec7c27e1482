//! Which GPU of the machine each rank runs on.

use crate::limits::Invalid;

/// In which order the stages of a pipeline take GPUs. Within a stage tensor ranks are next to each other, then those
/// that have parts of the same sequences, then data ranks, as in Megatron-LM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// Stage after stage.
    #[default]
    Sequential,
    /// A stage and its partner `p - 1 - x` next to each other (Kim et al. 2023): what BPipe moves stays in a node.
    PairAdjacent,
}

/// The extent of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Ranks that share each layer, t.
    pub tensor: u32,
    /// Ranks that have parts of the same sequences, c.
    pub context: u32,
    /// Copies of the model, d.
    pub data: u32,
    /// Pipeline stages, p.
    pub stages: u32,
    /// Of the c d ranks that hold the same parameters otherwise, so many next to each other share the experts, e.
    pub expert: u32,
}

impl Extent {
    /// The common case: nobody shares sequences or experts.
    pub const fn new(tensor: u32, data: u32, stages: u32) -> Self {
        Self { tensor, context: 1, data, stages, expert: 1 }
    }

    /// Ranks per stage.
    pub const fn replicas(self) -> u32 {
        self.tensor * self.context * self.data
    }

    /// Ranks that hold the same parameters but for experts, c d.
    pub const fn copies(self) -> u64 {
        self.context as u64 * self.data as u64
    }

    /// Ranks in all.
    pub const fn ranks(self) -> u64 {
        (self.tensor as u64 * self.stages as u64).saturating_mul(self.copies())
    }

    /// The number of the GPU of replica `replica` of a stage.
    pub const fn gpu(self, placement: Placement, stage: u32, replica: u32) -> u32 {
        let position = match placement {
            Placement::Sequential => stage,
            Placement::PairAdjacent if 2 * stage < self.stages => 2 * stage,
            Placement::PairAdjacent => 2 * (self.stages - 1 - stage) + 1,
        };
        position * self.replicas() + replica
    }

    /// Checks that there are GPUs for all ranks; those above the last rank are idle.
    ///
    /// # Errors
    /// If there are too few, or no ranks, with the number of data ranks that would do.
    pub fn fits(self, gpus: u32) -> Result<(), Invalid> {
        if (1..=u64::from(gpus)).contains(&self.ranks()) {
            return Ok(());
        }
        let Self { tensor, context, data, stages, .. } = self;
        let model = (u64::from(tensor) * u64::from(stages)).saturating_mul(context.into());
        let remedy = match u64::from(gpus).checked_div(model) {
            Some(copies @ 1..) => format!("it holds `data: {copies}`"),
            _ => format!("{model} GPUs hold one copy of the model, so split it less, or take more nodes"),
        };
        let parts = if context > 1 { format!(" x context {context}") } else { String::new() };
        let problem = format!(
            "tensor {tensor} x pipeline {stages}{parts} x data {data} are {} GPUs, but the machine has {gpus}: {remedy}",
            self.ranks()
        );
        Err(Invalid { field: "parallelism", problem })
    }
}
