//! The list of passes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::diagnostic::Diagnostic;
use crate::graph::cut::Cut;
use crate::model::hosted::HostedStates;
use crate::model::transformer::{DataParallel, Step};
use crate::order::PipelineSchedule;

use super::Pass;
use super::bpipe::Bpipe;
use super::fusion::Fusion;
use super::host_buffers::Buffering;
use super::offload::ActivationOffload;
use super::realise::launches::Launches;
use super::realise::messages::SendMode;
use super::realise::moves::Moves;
use super::realise::offload::Offloads;
use super::realise::visits::Visits;
use super::recompute::Recompute;
use super::swap::Swap;
use super::swap::phases::Phases;
use super::zero_infinity::{self, ZeroInfinity};
use super::zero_offload::ZeroOffload;

/// How the stages of a model work together.
#[derive(Clone, Debug, PartialEq)]
pub struct Pipelining {
    /// Micro-batches per step, at least 1.
    pub micro_batches: u32,
    /// In which order.
    pub schedule: PipelineSchedule,
    /// What messages occupy.
    pub send: SendMode,
    /// Steps, at least 1, each with a flush: a stage begins a step after its own last operation of the step before.
    pub steps: u32,
    /// Passes over memory that follow each other are one kernel (`torch.compile`).
    pub compiled: bool,
    /// What is changed of what is executed, where and in which order.
    pub techniques: Techniques,
}

/// Techniques that change what is executed, where and in which order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Techniques {
    /// Recompute activations before the backward pass instead of keeping them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recompute: Option<Recompute>,
    /// Balance activation memory between the stages `x` and `p - 1 - x` (Kim et al., ICML 2023).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bpipe: Option<Bpipe>,
    /// Move what the forward pass saves to host memory or drives, and back before the backward pass needs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activation_offload: Option<ActivationOffload>,
    /// Keep the states of the optimizer with the hosts, which update: gradients leave, parameters come back (Ren et al., ATC 2021).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zero_offload: Option<ZeroOffload>,
    /// Move as much of what the forward pass saves to host memory, and back, as must be for the GPU's memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap: Option<Swap>,
    /// Keep the states of the optimizer on drives, and parameters in host memory or on drives (Rajbhandari et al., SC 2021).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zero_infinity: Option<ZeroInfinity>,
}

/// All passes of a plan, and `more` of somebody else, in the order in which they are applied.
pub fn list(pipelining: &Pipelining, more: Vec<Box<dyn Pass>>) -> Vec<Box<dyn Pass>> {
    fn one<P: Pass + 'static>(pass: P) -> Option<Box<dyn Pass>> {
        Some(Box::new(pass))
    }
    let Techniques { recompute, bpipe, activation_offload, swap, .. } = pipelining.techniques.clone();
    let send = pipelining.send;
    let passes = [
        // Before anything that changes operators: what is executed again is what was executed.
        recompute.and_then(one),
        // A compiler sees what is executed again with the rest of the backward pass.
        pipelining.compiled.then_some(Fusion).and_then(one),
        // Who moves what is decided by one technique a storage; each refuses what another has decided.
        bpipe.and_then(one),
        activation_offload.and_then(one),
        swap.and_then(one),
        // After all that leave for hosts are known: which of them find page-locked memory there.
        one(Buffering),
        // The plain step, with what is exchanged: later realisers find every operator in it.
        one(Visits),
        // Copies hang on operators of the compute lane, which are all there.
        one(Moves),
        one(Offloads),
        // What is sent when a pass has ended is sent after its copies have been launched.
        one(send),
        // Hosts issue what the lanes have by now.
        one(Launches { blocking: send.blocks() }),
        // Meetings stand around passes, whatever they consist of.
        swap.and_then(|swap| one(Phases(swap.coordination))),
    ];
    in_order(passes.into_iter().flatten().chain(more).collect())
}

impl Pipelining {
    /// The blocks of a model as its passes rewrite them.
    pub(crate) fn rewritten(&self, mut model: Cut) -> Cut {
        list(self, Vec::new()).iter().for_each(|pass| pass.rewrite(&mut model));
        model
    }
}

/// The passes by kind, and each after those that it follows; otherwise in the given order.
pub fn in_order(mut passes: Vec<Box<dyn Pass>>) -> Vec<Box<dyn Pass>> {
    passes.sort_by_key(|pass| pass.kind());
    let mut ordered: Vec<Box<dyn Pass>> = Vec::with_capacity(passes.len());
    while !passes.is_empty() {
        let waits = |pass: &dyn Pass| passes.iter().any(|other| pass.follows().contains(&other.name()));
        // Passes that follow each other in a circle are taken as they come.
        let next = passes.iter().position(|pass| !waits(pass.as_ref())).unwrap_or(0);
        ordered.push(passes.remove(next));
    }
    ordered
}

impl Techniques {
    /// No technique.
    pub const NONE: Self = Self {
        recompute: None,
        bpipe: None,
        activation_offload: None,
        zero_offload: None,
        swap: None,
        zero_infinity: None,
    };

    /// Whether activations leave the GPUs for their hosts.
    pub(crate) const fn leave_for_hosts(&self) -> bool {
        self.activation_offload.is_some() || self.swap.is_some()
    }

    /// What of the states of a model of so many stages is with hosts.
    pub(crate) fn hosted(&self, stages: u32) -> Option<HostedStates> {
        let infinity = self.zero_infinity.as_ref().map(ZeroInfinity::hosted);
        self.zero_offload.map(|technique| technique.hosted(stages)).or(infinity)
    }

    /// Reports what keeps hosts from updating a model of so many stages, of which `data` are copies.
    pub fn check_hosts(
        &self,
        stages: u32,
        data: &DataParallel,
        step: Step,
        wrong: &mut impl FnMut(Diagnostic),
    ) {
        if let Some(technique) = self.zero_offload {
            technique.check(stages, data, step, wrong);
        }
        if let Some(technique) = &self.zero_infinity {
            technique.check(stages, data, step, wrong);
        }
        if self.zero_offload.is_some() && self.zero_infinity.is_some() {
            wrong(zero_infinity::refusal("two techniques decide where states are: remove one of the two"));
        }
    }
}
