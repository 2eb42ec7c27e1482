//! The list of passes.

use std::collections::BTreeSet;

use hw_models::settings::{Duration, PerStage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::diagnostic::Diagnostic;
use crate::graph::OpId;
use crate::graph::cut::Cut;
use crate::graph::operator::OperatorList;
use crate::host_update::{HostRates, HostedStates};
use crate::lanes::QUEUE;
use crate::order::PipelineSchedule;

use super::bpipe::{self, Bpipe};
use super::fusion::{Candidate, Explanation, Fusing, Fusion, Prices};
use super::host_buffers::Buffering;
use super::lms::Lms;
use super::movement_plan::MovementPlan;
use super::no_sums::{NoSums, releasing};
use super::offload::ActivationOffload;
use super::paged_states::PagedStates;
use super::realise::launches::{LaunchWaits, Launches};
use super::realise::messages::SendMode;
use super::realise::transfers::Transfers;
use super::realise::visits::Visits;
use super::recompute::Recompute;
use super::swap::Swap;
use super::technique::Technique;
use super::vdnn::Vdnn;
use super::zero_infinity::ZeroInfinity;
use super::zero_offload::ZeroOffload;
use super::{ModelKind, Pass, Saving};

/// How the stages of a model work together.
#[derive(Clone, Debug, PartialEq)]
pub struct Pipelining {
    /// Micro-batches per step, at least 1.
    pub micro_batches: u32,
    /// In which order.
    pub schedule: PipelineSchedule,
    /// What messages occupy.
    pub send: SendMode,
    /// Steps, at least 1, each with a flush: a stage begins a step after its own last operation of
    /// the step before.
    pub steps: u32,
    /// Gradients are not added to sums: the first takes the place of one.
    pub no_sums: bool,
    /// Passes over memory that follow each other are one kernel (`torch.compile`), where
    /// `techniques` say nothing else.
    pub compiled: bool,
    /// Times of kernels, where groups of operators are chosen by them.
    pub prices: Option<Prices>,
    /// Launches that a device may have waiting.
    pub launch_queue: u64,
    /// Operators that wait for their own launch.
    pub launch_waits: LaunchWaits,
    /// Operators that hosts issue after the device has ended all before, as their allocators return
    /// memory.
    pub drained: BTreeSet<OpId>,
    /// What is changed of what is executed, where and in which order.
    pub techniques: Techniques,
}

impl Pipelining {
    /// One step of plain training: messages occupy nothing, nothing is compiled or changed.
    pub fn plain(schedule: PipelineSchedule, micro_batches: u32) -> Self {
        let techniques = Techniques::default();
        let (send, steps) = (SendMode::Latency, 1);
        let (no_sums, compiled) = (false, false);
        let (launch_queue, launch_waits) = (QUEUE, LaunchWaits::default());
        Self {
            micro_batches,
            schedule,
            send,
            steps,
            no_sums,
            compiled,
            prices: None,
            launch_queue,
            launch_waits,
            drained: BTreeSet::new(),
            techniques,
        }
    }
}

/// Techniques that change what is executed, where and in which order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Techniques {
    /// Settings of real systems by name, such as `ssdtrain` (`foretrain list presets`). Settings
    /// that are written beside them win.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("examples" = [["ssdtrain"]]))]
    pub presets: Vec<String>,
    /// Recompute activations before the backward pass instead of keeping them.
    pub recompute: Option<Recompute>,
    /// Balance activation memory between the stages `x` and `p - 1 - x` (Kim et al., ICML 2023).
    pub bpipe: Option<Bpipe>,
    /// Move what the forward pass saves to host memory or drives, and back before the backward
    /// pass needs it.
    pub activation_offload: Option<ActivationOffload>,
    /// Keep the states of the optimizer with the hosts, which update: gradients leave, parameters
    /// come back (Ren et al., ATC 2021).
    pub zero_offload: Option<ZeroOffload>,
    /// Swap only the activations that the GPU's memory has no room for, to host memory and back.
    pub swap: Option<Swap>,
    /// Keep the states of the optimizer on drives, and parameters in host memory or on drives
    /// (Rajbhandari et al., SC 2021).
    pub zero_infinity: Option<ZeroInfinity>,
    /// Offload inputs of convolutional layers to host memory one by one, with the algorithms that
    /// memory allows (Rhu et al., MICRO 2016).
    pub vdnn: Option<Vdnn>,
    /// Reclaim memory of inactive tensors when the allocator has nothing suitable (PyTorch Large
    /// Model Support, IBM).
    pub lms: Option<Lms>,
    /// Keep the states of the optimizer in host memory; those of a group visit the GPU for their
    /// update.
    pub paged_states: Option<PagedStates>,
    /// Move tensors as a file says: which, where to, and when back.
    pub movement_plan: Option<MovementPlan>,
    /// Make one kernel of several operators (Jung, Dao and Lee, PLDI 2021; TVM, cuDNN, XLA,
    /// TorchInductor).
    pub fusion: Option<Fusion>,
}

/// Settings of techniques that are facts of hardware.
pub const FACTS: [&str; 1] = [bpipe::TRANSFER];

/// All passes of a plan, and `more` of somebody else, in the order in which they are applied.
pub fn list(pipelining: &Pipelining, more: Vec<Box<dyn Pass>>) -> Vec<Box<dyn Pass>> {
    fn one<P: Pass + 'static>(pass: P) -> Option<Box<dyn Pass>> {
        Some(Box::new(pass))
    }
    let techniques = pipelining.techniques.clone();
    let send = pipelining.send;
    let passes = [
        // Before anything that changes operators: what is executed again is what was executed.
        techniques.recompute.and_then(one),
        // What is not executed is not merged.
        pipelining.no_sums.then_some(NoSums).and_then(one),
        // A compiler sees what is executed again with the rest of the backward pass.
        pipelining.fusion().map(|fusion| fusion.pass(pipelining.prices.clone())).and_then(one),
        // What convolutions may take instead is priced with what they take.
        techniques.vdnn.and_then(|vdnn| one(vdnn.variants())),
        // Who moves what is decided by one technique a storage; each refuses what another has
        // decided.
        techniques.bpipe.and_then(one),
        techniques.activation_offload.and_then(one),
        techniques.swap.and_then(one),
        techniques.vdnn.and_then(one),
        techniques.lms.and_then(one),
        techniques.movement_plan.and_then(one),
        // After all that leave for hosts are known: which of them find page-locked memory there.
        one(Buffering),
        // The plain step, with what is exchanged: later realisers find every operator in it.
        one(Visits),
        // Copies hang on operators of the compute lane, which are all there.
        one(Transfers),
        // What is sent when a pass has ended is sent after its copies have been launched.
        one(send),
        // Hosts issue what the lanes have by now.
        one(Launches {
            blocking: send.blocks(),
            queue: pipelining.launch_queue,
            waits: pipelining.launch_waits,
            drained: pipelining.drained.clone(),
        }),
        // Meetings stand around passes, whatever they consist of.
        techniques.swap.and_then(|swap| one(swap.phases())),
    ];
    in_order(passes.into_iter().flatten().chain(more).collect())
}

impl Pipelining {
    /// States of a model of so many stages that are with hosts. Sums of gradients over several
    /// micro-batches are whole there.
    pub(crate) fn hosted(&self, stages: u32) -> Option<HostedStates> {
        let hosted = self.techniques.hosted(stages)?;
        Some(HostedStates { all_gradients: hosted.all_gradients || self.micro_batches > 1, ..hosted })
    }

    /// Groups of operators that are one kernel.
    fn fusion(&self) -> Option<Fusion> {
        let compiled = || self.compiled.then(Fusion::passes);
        self.techniques.fusion.clone().or_else(compiled)
    }

    /// True if blocks may execute operators of their neighbours.
    pub(crate) fn crosses_blocks(&self) -> bool {
        self.fusion().is_some_and(|fusion| fusion.crosses_blocks())
    }

    /// The blocks of a model as its passes rewrite them.
    pub(crate) fn rewritten(&self, mut model: Cut) -> Cut {
        list(self, Vec::new()).iter().for_each(|pass| pass.rewrite(&mut model));
        model
    }

    /// The groups that fusion makes of the blocks of a model, where there is fusion.
    pub(crate) fn fused(&self, model: Cut) -> Option<Explanation> {
        let (fusing, model) = self.fusing(|| model)?;
        Some(fusing.explained(&model))
    }

    /// Kernels among which fusion searches.
    pub(crate) fn candidates(&self, model: Cut) -> Vec<Candidate> {
        self.fusing(|| model).map_or_else(Vec::new, |(fusing, model)| fusing.candidates(&model))
    }

    /// The refusal of a model with too many groups for fusion to search, or with none of the
    /// kernels that were measured.
    pub(crate) fn unfusable(&self, model: impl FnOnce() -> Cut) -> Option<Diagnostic> {
        self.fusion().filter(Fusion::may_be_refused)?;
        let (fusing, model) = self.fusing(model)?;
        fusing.beyond(&model).or_else(|| fusing.misfits(&model))
    }

    /// Fusion, and the blocks of a model as it finds them.
    fn fusing(&self, model: impl FnOnce() -> Cut) -> Option<(Fusing, Cut)> {
        let (fusing, mut model) = (self.fusion()?.pass(self.prices.clone()), model());
        let passes = list(self, Vec::new());
        let before = passes.iter().take_while(|pass| pass.name() != fusing.name());
        before.for_each(|pass| pass.rewrite(&mut model));
        Some((fusing, model))
    }

    /// The update of a rank, without clearing gradients that are released.
    pub(crate) fn updated(&self, update: OperatorList) -> OperatorList {
        if self.no_sums { releasing(update) } else { update }
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
    /// Techniques that are there.
    pub fn all(&self) -> impl Iterator<Item = &dyn Technique> {
        fn one<T: Technique>(technique: &Option<T>) -> Option<&dyn Technique> {
            technique.as_ref().map(|technique| technique as &dyn Technique)
        }
        let all = [
            one(&self.recompute),
            one(&self.bpipe),
            one(&self.activation_offload),
            one(&self.zero_offload),
            one(&self.swap),
            one(&self.zero_infinity),
            one(&self.vdnn),
            one(&self.lms),
            one(&self.movement_plan),
            one(&self.paged_states),
            one(&self.fusion),
        ];
        all.into_iter().flatten()
    }

    /// All but those that move activations to hosts or drives.
    #[must_use]
    pub fn with_activations_on_gpus(&self) -> Self {
        Self {
            activation_offload: None,
            swap: None,
            vdnn: None,
            lms: None,
            movement_plan: None,
            ..self.clone()
        }
    }

    /// Settings of all techniques that leave more memory of GPUs free, for models of a number of
    /// layers on a stage.
    pub fn savings(layers: u32) -> Vec<Saving> {
        let savings = [
            Recompute::savings(layers),
            Bpipe::savings(layers),
            ActivationOffload::savings(layers),
            ZeroOffload::savings(layers),
            Swap::savings(layers),
            ZeroInfinity::savings(layers),
            Vdnn::savings(layers),
            Lms::savings(layers),
            MovementPlan::savings(layers),
            PagedStates::savings(layers),
        ];
        savings.concat()
    }

    /// Ways to do what settings leave open, each with its name: the fastest is to be taken. Empty:
    /// nothing is open.
    pub fn alternatives(&self) -> Vec<(String, Self)> {
        let recomputes = |all: &Self| all.all().any(|technique| technique.facts(1).recomputes);
        let ways: Vec<_> = self.all().flat_map(|technique| technique.alternatives(self)).collect();
        let moving = ways.iter().filter(|(_, way)| recomputes(self) && !recomputes(way));
        let beside: Vec<_> = moving.flat_map(|(name, way)| way.recomputing(name)).collect();
        [ways, beside].concat()
    }

    /// Settings to take instead of these where they do not fit, each with its name: the fastest
    /// that fits.
    pub fn instead(&self) -> Vec<(String, Self)> {
        self.all().flat_map(|technique| technique.instead(self)).collect()
    }

    /// Techniques beside recomputation of each mode; empty where there is some.
    fn recomputing(&self, name: &str) -> Vec<(String, Self)> {
        let with = |(word, it)| (format!("{name}, {word}"), Self { recompute: Some(it), ..self.clone() });
        let modes = self.recompute.is_none().then(Recompute::modes);
        modes.into_iter().flatten().map(with).collect()
    }

    /// Fills in settings that hold for a kind of model where nothing is written.
    pub fn fill(&mut self, model: ModelKind) {
        self.recompute.iter_mut().for_each(|it| it.fill(model));
        self.bpipe.iter_mut().for_each(|it| it.fill(model));
    }

    /// Times of stages of a profile that techniques are given.
    pub fn stage_times(&mut self) -> Vec<&mut PerStage<Duration>> {
        let mut times = Vec::new();
        times.extend(self.recompute.iter_mut().flat_map(Recompute::stage_times));
        times
    }

    /// True if activations leave the GPUs for their hosts.
    pub fn leave_for_hosts(&self) -> bool {
        self.all().any(|technique| technique.facts(1).activations_pinned.is_some())
    }

    /// True if copies are planned by the links to hosts.
    pub(crate) fn weigh_host_links(&self) -> bool {
        self.all().any(|technique| technique.facts(1).weighs_host_links)
    }

    /// Limits of hosts that update.
    pub(crate) fn host_rates(&self) -> HostRates {
        let mut rates = self.all().map(|technique| technique.facts(1).rates);
        rates.find(|&rates| rates != HostRates::default()).unwrap_or_default()
    }

    /// States of a model of so many stages that are with hosts.
    pub fn hosted(&self, stages: u32) -> Option<HostedStates> {
        self.all().find_map(|technique| Some(technique.facts(stages).hosted?.0))
    }
}
