//! Which GPU of the machine each rank runs on.

use hw_models::settings::Count;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::diagnostic::Diagnostic;

/// Order in which ranks take GPUs. Tensor ranks are adjacent, then context-parallel ranks; then
/// come copies or stages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// All copies of a stage, then the next stage: Megatron-LM's `tp-cp-ep-dp-pp`.
    #[default]
    Sequential,
    /// As `sequential`, but the stages `x` and `p - 1 - x` next to each other, so that BPipe's evictions
    /// stay in a node.
    PairAdjacent,
    /// All stages of a copy, then the next copy: Megatron-LM's `tp-cp-ep-pp-dp` (`use_tp_pp_dp_mapping`),
    /// so that boundary tensors stay in a node and gradients leave it.
    CopyAfterCopy,
    /// The GPU of every rank, in the order of `sequential`. GPUs are numbered node by node from 0.
    #[serde(rename = "gpus")]
    Listed(Vec<Count<0, 1_048_575>>),
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
    /// Of the same ranks, so many next to each other share what copies of a model do.
    pub sharing: u32,
}

impl Extent {
    /// The common case: nobody shares sequences or experts.
    pub const fn new(tensor: u32, data: u32, stages: u32) -> Self {
        Self { tensor, context: 1, data, stages, expert: 1, sharing: data }
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
    pub fn gpu(self, placement: &Placement, stage: u32, replica: u32) -> u32 {
        let rank = |position: u32| position * self.replicas() + replica;
        match placement {
            Placement::Sequential => rank(stage),
            Placement::PairAdjacent if 2 * stage < self.stages => rank(2 * stage),
            Placement::PairAdjacent => rank(2 * (self.stages - 1 - stage) + 1),
            Placement::CopyAfterCopy => {
                let of_stage = self.tensor * self.context;
                (replica / of_stage * self.stages + stage) * of_stage + replica % of_stage
            }
            Placement::Listed(gpus) => gpus[rank(stage) as usize].get() as u32,
        }
    }

    /// Checks that `placement` gives every rank one of so many GPUs, and no two the same.
    ///
    /// # Errors
    /// If a list is too short or too long, or names a GPU twice or one that there is not.
    pub fn placed(self, placement: &Placement, gpus: u32) -> Result<(), Diagnostic> {
        let Placement::Listed(list) = placement else { return Ok(()) };
        let ranks = self.ranks();
        let list: Vec<u64> = list.iter().map(|gpu| gpu.get()).collect();
        let mut sorted = list.clone();
        sorted.sort_unstable();
        let problem = if list.len() as u64 != ranks {
            format!("`gpus` lists {} for {ranks} ranks: give one for each", list.len())
        } else if let Some(absent) = list.iter().find(|&&gpu| gpu >= gpus.into()) {
            format!("there is no GPU {absent}: the machine's are 0 to {}", gpus.saturating_sub(1))
        } else if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            format!("GPU {} is listed twice: a rank needs one of its own", twice[0])
        } else {
            return Ok(());
        };
        Err(Diagnostic::sentence("placement", problem))
    }

    /// Checks that there are GPUs for all ranks; those above the last rank are idle.
    ///
    /// # Errors
    /// If there are too few, or no ranks, with the number of data ranks that would do.
    pub fn fits(self, gpus: u32) -> Result<(), Diagnostic> {
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
        Err(Diagnostic::sentence("parallelism", problem))
    }
}
