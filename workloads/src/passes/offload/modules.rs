//! Modules of transformer layers whose activations leave, by the names of Megatron Core's
//! `--offload-modules` (`pipeline_parallel/fine_grained_activation_offload.py`; 2026), and how many
//! of their copies are under way.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::graph::module::Module;
use crate::graph::{OpGraph, OpId, StorageId};
use crate::liveness::Gap;

/// Modules of a layer that can offload: tensors that their backward passes need first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OffloadModule {
    /// Norm before attention (`attn_norm`).
    AttentionNorm,
    /// Attention between its projections (`core_attn`).
    CoreAttention,
    /// Projections of attention, and what they project (`qkv_linear`, `attn_proj`).
    AttentionProjections,
    /// Norm before the MLP (`mlp_norm`).
    MlpNorm,
    /// A dense MLP.
    Mlp,
    /// Router, experts and their exchanges, but for the function between their products
    /// (`expert_fc1`).
    Experts,
    /// Function between the products of experts (`moe_act`).
    MoeActivation,
}

impl OffloadModule {
    /// The module that offloads what a module of a layer needs. `None`: one of another kind of
    /// layer.
    const fn of(module: Module) -> Option<Self> {
        Some(match module {
            Module::AttentionNorm => Self::AttentionNorm,
            Module::CoreAttention => Self::CoreAttention,
            Module::Attention | Module::LatentUp => Self::AttentionProjections,
            Module::MlpNorm => Self::MlpNorm,
            Module::Mlp | Module::Activation => Self::Mlp,
            Module::Moe | Module::SharedExperts | Module::ExpertDown => Self::Experts,
            Module::ExpertActivation => Self::MoeActivation,
            Module::Recurrent => return None,
        })
    }
}

/// The module whose backward pass needs a tensor first.
pub(super) fn module(graph: &OpGraph, gap: &Gap) -> Option<OffloadModule> {
    graph.operator(gap.needed_by).module.and_then(OffloadModule::of)
}

/// By tensor, the operator behind which the GPU waits for its copy, so that no more than `most`
/// tensors of a module are on their way out: the one behind which that many others have followed.
/// `copied` are tensors that leave, and the operators that their copies follow.
pub(super) fn waits(
    graph: &OpGraph,
    copied: impl Iterator<Item = (Gap, OpId)>,
    most: usize,
) -> BTreeMap<StorageId, OpId> {
    let mut by_module: BTreeMap<Option<OffloadModule>, Vec<(OpId, StorageId)>> = BTreeMap::new();
    for (gap, after) in copied {
        by_module.entry(module(graph, &gap)).or_default().push((after, gap.storage));
    }
    let mut waits = BTreeMap::new();
    for mut tensors in by_module.into_values() {
        tensors.sort_unstable();
        let later = tensors.iter().skip(most).map(|&(after, _)| after);
        waits.extend(tensors.iter().zip(later).map(|(&(_, storage), after)| (storage, after)));
    }
    waits
}
