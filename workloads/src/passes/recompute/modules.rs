//! Modules of a transformer layer that recompute, by the names of Megatron Core's
//! `--recompute-modules` (`transformer_config.py`, `recompute_modules`; 2026).
//!
//! Ordinary checkpoints keep the input of a module and execute it again when its backward pass
//! begins. Others discard the output of a module, and execute it again when the backward pass of
//! its consumer begins, whose input it is (`CheckpointWithoutOutput`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::graph::operator::Module;

/// Modules of a layer that can recompute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RecomputeModule {
    /// Scores, softmax, dropout and context of the attention, as mode `selective` (`core_attn`).
    CoreAttention,
    /// A dense MLP: both linear layers, and their collectives (`mlp`).
    Mlp,
    /// Function between the linear layers of a dense MLP, whose output is discarded.
    Activation,
    /// Router, experts and exchanges of a mixture of experts, with the shared expert (`moe`).
    Moe,
    /// Function between the linear layers of experts, whose output is discarded (`moe_act`).
    MoeActivation,
    /// MLP that all tokens pass (`shared_experts`).
    SharedExperts,
    /// Norms before attention and MLP, whose outputs are discarded (`layernorm`).
    LayerNorm,
    /// Layers from latent vectors to queries, keys and values, whose outputs are discarded
    /// (`mla_up_proj`).
    MlaUpProjection,
}

/// A set of modules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Modules(u8);

/// Operators that run again, and the modules before whose backward pass they do.
pub(super) struct Checkpoint {
    pub(super) operators: Module,
    pub(super) before: &'static [Module],
}

impl RecomputeModule {
    /// All modules. A module comes after those that read its output, so that the operators of these
    /// read it where it is filled again.
    pub const ALL: [Self; 8] = [
        Self::CoreAttention,
        Self::MlaUpProjection,
        Self::Activation,
        Self::Mlp,
        Self::MoeActivation,
        Self::SharedExperts,
        Self::Moe,
        Self::LayerNorm,
    ];

    /// Its name in scenarios.
    pub const fn name(self) -> &'static str {
        match self {
            Self::CoreAttention => "core-attention",
            Self::Mlp => "mlp",
            Self::Activation => "activation",
            Self::Moe => "moe",
            Self::MoeActivation => "moe-activation",
            Self::SharedExperts => "shared-experts",
            Self::LayerNorm => "layer-norm",
            Self::MlaUpProjection => "mla-up-projection",
        }
    }

    /// The module that recomputes it, too.
    pub(super) const fn outer(self) -> Option<Self> {
        match self {
            Self::Activation => Some(Self::Mlp),
            Self::MoeActivation | Self::SharedExperts => Some(Self::Moe),
            _ => None,
        }
    }

    /// True if its output is discarded where it is kept as the input of an 8-bit product.
    pub const fn discards_input_of_products(self) -> bool {
        matches!(self, Self::LayerNorm | Self::Activation | Self::MoeActivation)
    }

    const fn checkpoints(self) -> &'static [Checkpoint] {
        const fn own(module: &'static [Module; 1]) -> Checkpoint {
            Checkpoint { operators: module[0], before: module }
        }
        const CORE_ATTENTION: &[Checkpoint] = &[own(&[Module::CoreAttention])];
        const MLP: &[Checkpoint] = &[own(&[Module::Mlp])];
        const MOE: &[Checkpoint] = &[own(&[Module::Moe])];
        const SHARED_EXPERTS: &[Checkpoint] = &[own(&[Module::SharedExperts])];
        match self {
            Self::CoreAttention => CORE_ATTENTION,
            Self::Mlp => MLP,
            Self::Moe => MOE,
            Self::SharedExperts => SHARED_EXPERTS,
            // The backward pass of an MLP begins with that of its second linear layer.
            Self::Activation => &[Checkpoint { operators: Module::Activation, before: &[Module::Mlp] }],
            Self::MoeActivation => {
                &[Checkpoint { operators: Module::ExpertActivation, before: &[Module::ExpertDown] }]
            }
            Self::LayerNorm => &[
                Checkpoint { operators: Module::MlpNorm, before: &[Module::Mlp, Module::Moe] },
                Checkpoint { operators: Module::AttentionNorm, before: &[Module::Attention] },
            ],
            Self::MlaUpProjection => {
                &[Checkpoint { operators: Module::LatentUp, before: &[Module::CoreAttention] }]
            }
        }
    }
}

impl Modules {
    /// True if a module is one of them.
    pub const fn contains(self, module: RecomputeModule) -> bool {
        self.0 & (1 << module as u8) != 0
    }

    /// Checkpoints, in the order of [`RecomputeModule::ALL`].
    pub(super) fn checkpoints(self) -> impl Iterator<Item = &'static Checkpoint> {
        let chosen = RecomputeModule::ALL.into_iter().filter(move |module| self.contains(*module));
        chosen.flat_map(RecomputeModule::checkpoints)
    }
}

impl FromIterator<RecomputeModule> for Modules {
    fn from_iter<T: IntoIterator<Item = RecomputeModule>>(modules: T) -> Self {
        Self(modules.into_iter().fold(0, |set, module| set | 1 << module as u8))
    }
}
