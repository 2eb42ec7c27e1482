//! How data-parallel ranks share a model, when they exchange its gradients and parameters, and what of it is with their hosts.

use hw_models::settings::Count;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::host_update::HostedStates;
use crate::model::hosted::Places;

use super::{Group, RankParameters, ShardedTransformer, Sharding, StateBytes, States};

/// Ranks that hold the same parameters but for experts, or share them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataParallel {
    /// How many they are.
    pub ranks: u32,
    /// So many of them share the experts, e.
    pub expert: u32,
    /// What they share.
    pub sharding: Sharding,
    /// So many of them, next to each other, share; others hold the same: all, or hybrid sharding (Zhao et al., VLDB 2023, section
    /// 3.2.2; MiCS, Zhang et al., VLDB 2022).
    pub sharing: u32,
    /// What they exchange beside forward and backward passes.
    pub overlap: Overlap,
    /// States of the optimizer that are with hosts; none: they are on the GPUs.
    pub hosted: Option<HostedStates>,
}

/// What data-parallel ranks exchange beside forward and backward passes. By default as little as can be: what is whole on
/// every rank is exchanged once a step, after the last backward pass, as by Megatron-LM's own data parallelism (`local`)
/// through 2022.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overlap {
    /// Bytes of gradients that are summed together, as soon as the last of them is there: in the last backward pass of the
    /// step, or in every one where gradients are shared. None: all at the end of the step, or those of a block of the model
    /// where gradients are shared.
    pub bucket: Option<u64>,
    /// Stages of a pipeline launch sums that happen once a step at the same time.
    pub align: bool,
    /// Parameters are gathered block by block: in the first forward pass of the step, or for every pass where parameters
    /// are shared, which need this. None: all at the end of the step.
    pub gather: Option<Gather>,
}

/// Gathers of parameters that overlap passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "OverlapParameterGather")]
pub struct Gather {
    /// Parameters that are gathered together.
    pub unit: GatherUnit,
    /// Prefetch distance of forward passes in units; with 1, two of them are whole at a time.
    pub forward_prefetch: Count<0, 4_096>,
    /// Prefetch distance of backward passes, for which sharded parameters are gathered again.
    pub backward_prefetch: Count<0, 4_096>,
    /// Sharded parameters are freed after the forward pass.
    pub reshard_after_forward: bool,
    /// Each parameter is sharded by itself, so that gathered parameters are copied to each of them, as in
    /// PyTorch's FSDP2; in FSDP1 those of a block are one flat tensor.
    pub per_parameter: bool,
    /// Limit on how early gathers take memory.
    pub limit: GatherLimit,
    /// Stages of a pipeline with several chunks launch gathers that happen once a step at the same
    /// time: of two chunks when the step begins, of each later one with the passes of the chunk
    /// before (Megatron-LM's `align_param_gather`). Otherwise a chunk's are launched in its first
    /// pass.
    pub align: bool,
}

/// Parameters that are gathered together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GatherUnit {
    /// A block of the model, as in PyTorch's FSDP.
    #[default]
    Block,
    /// Each weight by itself, again for every product with it, as in DeepSpeed's ZeRO-3 where
    /// modules are larger than `stage3_max_reuse_distance`. The rest of a block is gathered once
    /// for all of it.
    Module,
}

/// Limit on how early gathers take memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GatherLimit {
    /// The device: gathers wait there for the computation before them, and the host goes on, as in
    /// PyTorch's FSDP2.
    #[default]
    Device,
    /// The host: it waits until the device has used the gathers before, as FSDP1 with
    /// `limit_all_gathers`.
    Host,
    /// Nothing: the host allocates as far ahead as it runs, as FSDP1 without `limit_all_gathers`.
    /// Memory runs out where PyTorch would wait for the device and try again.
    None,
}

impl Default for Gather {
    /// As PyTorch's FSDP with its defaults: one block ahead (`limit_all_gathers`, `BACKWARD_PRE`), `FULL_SHARD`.
    fn default() -> Self {
        Self {
            unit: GatherUnit::Block,
            forward_prefetch: Count::literal(1),
            backward_prefetch: Count::literal(1),
            reshard_after_forward: true,
            per_parameter: false,
            limit: GatherLimit::Device,
            align: true,
        }
    }
}

impl DataParallel {
    /// Ranks that exchange everything at the end of the step that they can.
    pub fn new(ranks: u32, sharding: Sharding) -> Self {
        let gather = (sharding == Sharding::Parameters).then(Gather::default);
        Self {
            ranks,
            expert: 1,
            sharding,
            sharing: ranks,
            overlap: Overlap { gather, ..Overlap::default() },
            hosted: None,
        }
    }

    /// The same, but that a rank alone shares nothing, unless hosts hold a part of its states. The distributed optimizer of
    /// Megatron-LM makes one buffer of its parameters even then (measured: 8 tensor ranks of docs/b200 of SimuMax).
    pub(crate) fn among_several(self) -> Self {
        if self.ranks > 1 || self.hosted.is_some() || self.sharding < Sharding::Gradients {
            return self;
        }
        let overlap = Overlap { gather: None, ..self.overlap };
        Self { sharding: Sharding::None, overlap, ..self }
    }

    /// Ranks of a group of those that hold the same parameters, at least one.
    pub(crate) fn holding(&self, group: Group) -> u32 {
        if group == Group::Shard {
            return self.sharing.max(1);
        }
        let sharing = if group == Group::ExpertData { self.expert.max(1) } else { 1 };
        (self.ranks / sharing).max(1)
    }

    /// Those that share what is not experts'.
    pub(crate) const fn sharers(&self) -> Group {
        if self.sharing < self.ranks { Group::Shard } else { Group::Data }
    }

    /// Whether gradients are summed beside backward passes.
    pub fn reduces_beside(&self) -> bool {
        self.ranks > 1 && (self.overlap.bucket.is_some() || self.sharding >= Sharding::Gradients)
    }

    /// Where what a rank holds is.
    pub(crate) fn places(&self, all: StateBytes, states: States, moments: u64) -> Places {
        let nothing = StateBytes { parameters: 0, gradients: 0, optimizer: 0 };
        let here = Places { gpu: all, host: nothing, drives: nothing };
        self.hosted.map_or(here, |hosted| hosted.places(all, states, moments))
    }

    /// Whether parameters are away from the GPUs between passes.
    pub(crate) fn parameters_away(&self) -> bool {
        self.hosted.is_some_and(|hosted| hosted.parameters.are_away())
    }

    /// Whether no rank has whole parameters beside passes.
    pub(crate) fn parts_parameters(&self) -> bool {
        self.sharding == Sharding::Parameters || self.parameters_away()
    }

    /// Whether gradients go to hosts beside backward passes.
    pub(crate) fn leaves_beside(&self) -> bool {
        self.hosted.is_some_and(|hosted| hosted.beside)
    }

    /// How parameters are gathered beside passes, if they are.
    pub fn gathers_beside(&self) -> Option<Gather> {
        let hosted = self.parameters_away();
        let gather = self.overlap.gather.or(hosted.then(Gather::default));
        gather.filter(|_| hosted || (self.ranks > 1 && self.sharding >= Sharding::Optimizer))
    }
}

/// Parameters that the ranks of a group hold, or share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) group: Group,
    /// How many ranks that are, at least one.
    pub(crate) ranks: u32,
    pub(crate) parameters: u64,
}

impl Held {
    /// Whether there is anything to exchange.
    pub(crate) const fn is_exchanged(&self) -> bool {
        self.ranks > 1 && self.parameters > 0
    }
}

impl ShardedTransformer {
    /// Holders of the parameters of a rank: all but experts, and experts that ranks of `data` share.
    pub(crate) fn held(&self, parameters: &RankParameters, data: &DataParallel) -> [Held; 2] {
        let experts = parameters.experts;
        let held = |group, parameters| Held { group, ranks: data.holding(group), parameters };
        [held(data.sharers(), parameters.total() - experts), held(Group::ExpertData, experts)]
    }

    /// Bytes of the parameters of a rank, their gradients and states, of which ranks of `data` hold
    /// or share the same. Frozen ones have neither gradients nor states.
    pub fn state_bytes(&self, parameters: &RankParameters, data: &DataParallel) -> StateBytes {
        let states = self.execution().states;
        let bytes = |parameters: &RankParameters| {
            self.held(parameters, data).map(|held| states.bytes(held.parameters, data.sharding, held.ranks))
        };
        let trained = bytes(&parameters.trained());
        StateBytes {
            parameters: bytes(parameters).iter().map(|bytes| bytes.parameters).sum(),
            gradients: trained.iter().map(|bytes| bytes.gradients).sum(),
            optimizer: trained.iter().map(|bytes| bytes.optimizer).sum(),
        }
    }
}
