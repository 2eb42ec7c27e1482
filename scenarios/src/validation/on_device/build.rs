//! From a scenario to what PyTorch builds: the same figures, so that a row is said once.

use serde::Serialize;
use workloads::model::transformer::{
    AddedTo, AttentionKernel, CrossEntropy, Dtype, Execution, Fusion, Overlap, Sharding, SoftmaxFusion,
    Split, States, Step, Transformer,
};
use workloads::plan::{Launch, TransformerPlan};

use super::recompute;
use crate::plans;
use crate::schema::Scenario;

/// A transformer and how it is trained, as `step.py` takes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub struct Build {
    layers: u32,
    hidden: u32,
    ffn: u32,
    heads: u32,
    vocabulary: u32,
    max_positions: u32,
    sequence: u32,
    micro_batch: u32,
    dropout: bool,
    attention: &'static str,
    gelu: &'static str,
    optimizer: &'static str,
    compile: bool,
    launch: &'static str,
    recompute: &'static str,
    /// Number of layers that recompute, from the first on.
    recomputed_layers: u32,
    early_stop: bool,
    /// Micro-batches of a step.
    accumulate: u64,
}

/// The fusions that the script knows: choices within them are taken from the scenario.
const EAGER: Fusion = Fusion {
    softmax: SoftmaxFusion::Off,
    activation: false,
    residual: false,
    bias: true,
    strided_heads: false,
    cross_entropy: CrossEntropy::Operators,
    gradient_accumulation: AddedTo::Nothing,
    ..Fusion::ALL
};

impl Build {
    /// Blocks of the forward pass: embedding, layers and head.
    pub(super) const fn blocks(&self) -> u32 {
        self.layers + 2
    }

    /// Whether autograd asks what becomes of a tensor as its operator ends, in every step.
    pub(super) fn leaves_saved_tensors_to_autograd(&self) -> bool {
        self.launch == "eager" && !self.compile && self.recompute == "none"
    }
}

/// What PyTorch builds for a checked scenario.
///
/// # Errors
/// What of the scenario the script has no part for.
pub fn build(scenario: &Scenario) -> Result<Build, String> {
    let Some(model) = scenario.model.transformer() else {
        return Err("PyTorch builds transformers: `model.transformer`".to_owned());
    };
    let plan = plans::transformer::plan(scenario, model);
    known(scenario, &plan)?;
    let TransformerPlan { model, execution, deployment, .. } = plan;
    let (mode, layers, early_stop) = recompute::recomputed(&deployment.pipelining.techniques, model.layers)?;
    Ok(Build {
        layers: model.layers,
        hidden: model.hidden,
        ffn: model.ffn,
        heads: model.heads,
        vocabulary: model.vocabulary,
        max_positions: model.max_positions,
        sequence: execution.sequence,
        micro_batch: execution.micro_batch,
        dropout: model.dropout,
        attention: match execution.attention {
            AttentionKernel::Materialised => "materialised",
            AttentionKernel::Flash => "flash",
        },
        gelu: if execution.fusion.gelu { "kernel" } else { "operators" },
        optimizer: if execution.fusion.optimizer { "fused" } else { "operators" },
        compile: deployment.pipelining.compiled,
        launch: match deployment.launch {
            Launch::Eager => "eager",
            Launch::Graph => "graph",
            Launch::Free => return Err("a host is never free: `software.launch` eager or graph".to_owned()),
        },
        recompute: mode,
        recomputed_layers: layers,
        early_stop,
        accumulate: scenario.training.micro_batches(),
    })
}

/// Whether the script has a part for all that a plan says beyond what [`Build`] tells.
fn known(scenario: &Scenario, plan: &TransformerPlan) -> Result<(), String> {
    let TransformerPlan { model, execution, .. } = plan;
    let gpt = Transformer {
        ffn: model.ffn,
        dropout: model.dropout,
        tied_embedding: false,
        ..Transformer::gpt(model.layers, model.hidden, model.heads, model.vocabulary, model.max_positions)
    };
    let fusion = Fusion {
        gelu: execution.fusion.gelu,
        optimizer: execution.fusion.optimizer,
        softmax_keys: execution.fusion.softmax_keys,
        // LayerNorm, learned positions and no adapters: these change nothing.
        norm: execution.fusion.norm,
        rotary: execution.fusion.rotary,
        adapters: execution.fusion.adapters,
        ..EAGER
    };
    let states = States::CopiedGradients;
    let Execution { micro_batch, sequence, attention, .. } = *execution;
    let alone = Execution {
        fusion,
        states,
        vocabulary_multiple: 1,
        // What ranks exchange does not matter where there is one.
        reduces_beside: execution.reduces_beside,
        exchanges_beside: execution.exchanges_beside,
        gathers_again: execution.gathers_again,
        ..Execution::new(micro_batch, sequence, Split::NONE, Dtype::Bf16, attention)
    };
    let pipelining = &plan.deployment.pipelining;
    let techniques = &pipelining.techniques;
    let says = [
        (*model != gpt, "the model is a GPT with an output matrix of its own (`tied_embedding: false`)"),
        (execution.step != Step::Whole, "a step is `full`"),
        (execution.split != Split::NONE || plan.data != 1, "there is one rank"),
        (execution.dtype != Dtype::Bf16, "`training.precision` is bf16-mixed"),
        (execution.states != states, "`memory.bytes_per_parameter` is 20: gradients are copied to fp32"),
        (
            execution.fusion != fusion,
            "`software` is `{ layers: hugging-face, fused_softmax: off, cross_entropy: operators }` but for `gelu`, \
             `optimizer`, `attention` and `compile`",
        ),
        (pipelining.no_sums, "matrices have sums of gradients: `software.gradients: added`"),
        (execution.adapters.is_some(), "weights are trained, not adapters"),
        (*execution != alone, "linear layers are not in 8 bits, nor in pieces"),
        (plan.sharding != Sharding::None || plan.overlap != Overlap::default(), "nothing is shared"),
        (
            techniques.leave_for_hosts() || techniques.hosted(1).is_some(),
            "nothing leaves the GPU but activations",
        ),
        (
            plan.deployment.buffers.locked.is_some(),
            "every tensor that leaves has a buffer: remove `memory.pinned`",
        ),
        (
            scenario.memory.footprint_ratio.is_some(),
            "the GPU has the memory that it has, or less by `memory.limit`",
        ),
    ];
    match says.into_iter().find(|(wrong, _)| *wrong) {
        Some((_, needed)) => Err(format!("PyTorch has no part for this scenario: {needed}")),
        None => Ok(()),
    }
}
