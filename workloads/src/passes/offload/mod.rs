//! Activation offload: what a forward pass saves leaves the GPU and comes back for the backward pass (Wu et al., SSDTrain, DAC
//! 2025; Rhu et al., vDNN, MICRO 2016).
//!
//! Tensors are taken one by one, so that one which two operators save is moved once. Small ones
//! stay, for which a copy is mostly its start, and of the others those that the backward pass needs
//! first: they would hardly be away. The host asks for what is next module by module, ahead of the
//! GPU, or the GPU a number of tensors ahead.

pub mod adaptive;
mod modules;

use std::collections::BTreeMap;
use std::ops::Range;

use hw_models::settings::{Bytes, Count};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::chain::Chain;
use crate::diagnostic::Diagnostic;
use crate::error::PlanError;
use crate::graph::part::PartKind;
use crate::graph::{OpGraph, OpId, Phase, StorageId};
use crate::liveness::{Gap, gaps};
use crate::order::{Order, PipelineSchedule, Visit};
use crate::transfer::{Asked, Conflict, Dispositions, Medium, Outside, Stay, Transfer};

use self::adaptive::{Profile, Tracked};
pub use self::modules::OffloadModule;
use super::asking::Modules;
use super::{
    Added, Around, Context, Facts, Kind, LayerOps, ModelKind, OnDrives, Pass, Plan, RankProfile, Saving,
    Size, Technique, Techniques,
};

pub use crate::transfer::Store;

/// The name of this technique in scenarios and errors.
pub const NAME: &str = "activation_offload";

const PATH: &str = "techniques.activation_offload";
const TO: &str = "techniques.activation_offload.to";

/// Tensors that are offloaded, at least (bytes): 8 Mi elements of two bytes (SSDTrain).
const SMALLEST: u64 = 16 << 20;

/// Layers that stay where those that adaptive keep would do not fit.
const FEWER_LAYERS: [u64; 6] = [16, 8, 4, 2, 1, 0];

/// Move what the forward pass saves to host memory or drives, tensor by tensor, and back before the
/// backward pass needs it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ActivationOffload {
    /// Smaller tensors stay; 16 MiB when absent, 8 Mi elements of two bytes as in SSDTrain.
    pub smallest: Option<Bytes>,
    /// Modules of transformer layers whose activations leave, as in Megatron Core's
    /// `--offload-modules`; all when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [["core-attention", "mlp"]]))]
    pub modules: Option<Vec<OffloadModule>>,
    /// Tensors of a module in flight to the host: the GPU waits once it has filled one more
    /// (Megatron Core's limit in flight, which counts modules). No limit when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<Count<0, 65_536>>,
    /// Activations of each micro-batch that stay on every GPU, for each chunk of its stage.
    pub keep: Keep,
    /// Destination of the tensors.
    pub to: Outside,
    /// Arrays of `storage` that they go to, of the GPUs of a node in turn; the only one when absent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("examples" = [["left", "right"]]))]
    pub arrays: Vec<String>,
    /// Prefetch distance: a tensor is loaded when the backward pass on the GPU needs the one that
    /// many before it, offloaded or not. When absent, the host prefetches as it enters the backward
    /// pass of a module: the tensors of the two modules after the next (SSDTrain).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefetch: Option<Count<0, 65_536>>,
    /// Start of the copy of a tensor.
    pub store: Store,
    /// Forwarding (SSDTrain): a tensor that is needed before its copy has ended stays resident. A
    /// queued copy is cancelled, and nothing is loaded.
    pub forwarding: bool,
    /// True if passes wait for each copy: out when a tensor is filled, back when it is needed
    /// (`cpu_checkpointing` of DeepSpeed).
    pub synchronous: bool,
    /// True if buffers in host memory are page-locked. Otherwise one host thread copies each tensor
    /// once more in each direction, and it crosses host memory three times.
    pub pinned: bool,
}

impl Default for ActivationOffload {
    fn default() -> Self {
        Self {
            smallest: None,
            modules: None,
            in_flight: None,
            keep: Keep::default(),
            to: Outside::Host,
            arrays: Vec::new(),
            prefetch: None,
            store: Store::Produced,
            forwarding: true,
            synchronous: false,
            pinned: true,
        }
    }
}

/// Activations of each micro-batch that stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Keep {
    /// Activations of the head and the loss, and of the last layer where each micro-batch's backward
    /// pass follows its forward pass at once.
    LastLayer,
    /// Activations of the head and the loss, and of as many last half layers as could not leave and
    /// return in time. Each rank decides by a third micro-batch of which all leaves: the time of
    /// its forward pass and the rate of its copies (SSDTrain).
    Adaptive,
    /// Activations of the head and the loss, and of this many last layers of each chunk. No layer
    /// when absent: forwarding keeps tensors that are needed soon (SSDTrain).
    Layers(Count<0, 4_096>),
    /// An amount of bytes: the tensors that the backward pass needs first.
    Bytes(Bytes),
}

impl Default for Keep {
    fn default() -> Self {
        Self::Layers(Count::literal(0))
    }
}

/// What leaves of a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// All but so many bytes, those that are needed first.
    AllBut(u64),
    /// What these operators of the backward pass need last.
    NeededBy(Vec<Range<u32>>),
}

impl Pass for ActivationOffload {
    fn name(&self) -> &'static str {
        NAME
    }

    fn kind(&self) -> Kind {
        Kind::Decider
    }

    fn needs_profile(&self) -> bool {
        self.keep == Keep::Adaptive
    }

    fn adds(&self, size: &Size<'_>) -> Added {
        size.copies(|_| true)
    }

    fn apply(&self, plan: &mut Plan, context: &Context<'_>) -> Result<(), PlanError> {
        match context.profile {
            Some(ranks) if self.needs_profile() => self.adapt(plan, context.copies.replicas, ranks),
            // What has left comes back from where it went.
            None if self.needs_profile() => Self { forwarding: false, ..self.clone() }.leave(plan),
            _ => self.leave(plan),
        }
    }
}

impl ActivationOffload {
    /// Decides what leaves by rule, the same for all replicas.
    fn leave(&self, plan: &mut Plan) -> Result<(), PlanError> {
        let (chain, to) = (plan.chain, plan.away);
        let of_stage = |stage| {
            let leaving = self.leaving(&plan.layers, plan.order());
            (0..chain.chunks).map(move |chunk| leaving(stage, chunk)).collect()
        };
        let leaving: Vec<Vec<Leaving>> = (0..chain.stages).map(of_stage).collect();
        let of_chunk = |stage: u32, chunk: u32| leaving[stage as usize][chunk as usize].clone();
        Ok(plan.decide(|graph, _, table| decide(self, (graph, to), chain, of_chunk, table))?)
    }

    /// Decides what leaves each replica by the profiles of its ranks. Replicas that keep the same on all stages are a cohort.
    fn adapt(&self, plan: &mut Plan, replicas: u32, ranks: &[Option<RankProfile>]) -> Result<(), PlanError> {
        let (chain, to) = (plan.chain, plan.away);
        let tracked = |stage| Tracked::of(self, &plan.graph, &plan.layers, stage);
        let stages: Vec<Tracked> = (0..chain.stages).map(tracked).collect();
        let of_rank = |(rank, profile): (usize, &Option<RankProfile>)| {
            let stage = &stages[rank / replicas as usize];
            stage.decide(profile.as_ref().map(|profile| Profile::of(stage, profile)).as_ref())
        };
        let (from, kept): (Vec<Option<usize>>, Vec<_>) = ranks.iter().enumerate().map(of_rank).unzip();
        let (mut known, mut cohort_of): (Vec<Vec<Option<usize>>>, Vec<u32>) = Default::default();
        for replica in 0..replicas as usize {
            let of_replica: Vec<Option<usize>> =
                from.iter().skip(replica).step_by(replicas as usize).copied().collect();
            let cohort = known.iter().position(|other| *other == of_replica).unwrap_or(known.len());
            if cohort == known.len() {
                known.push(of_replica);
            }
            cohort_of.push(cohort as u32);
        }
        plan.split(known.len(), cohort_of);
        let Plan { graph, steps, .. } = plan;
        for (cohort, of_replica) in known.iter().enumerate() {
            let leaving = |stage: u32, _| stages[stage as usize].leaving(of_replica[stage as usize]);
            for step in &mut *steps {
                decide(self, (graph, to), chain, leaving, &mut step.cohorts[cohort].table)?;
            }
        }
        plan.decided.kept = kept;
        Ok(())
    }
}

/// Decides what leaves each chunk for a medium: of `leaving`, what is large enough.
///
/// # Errors
/// If something else has decided about an activation.
pub fn decide(
    technique: &ActivationOffload,
    (graph, to): (&OpGraph, Medium),
    chain: Chain,
    leaving: impl Fn(u32, u32) -> Leaving,
    table: &mut Dispositions,
) -> Result<(), Conflict> {
    let chunks = (0..chain.stages).flat_map(|stage| (0..chain.chunks).map(move |chunk| (stage, chunk)));
    for (stage, chunk) in chunks {
        let mut candidates = candidates(technique, graph, stage, chunk);
        // What stays counts, too: what leaves is asked for ahead of it.
        let needed: Vec<(StorageId, OpId)> =
            candidates.iter().map(|candidate| (candidate.storage, candidate.needed_by)).collect();
        let modules = Modules::of(graph, (stage, chunk), needed.iter().map(|&(_, op)| op));
        leaving(stage, chunk).choose(&mut candidates);
        let waits = technique.waits(graph, &candidates);
        for gap in candidates {
            let copied_after = technique.copied_after(&gap);
            let Gap { storage, last_used_by: freed_after, needed_by, .. } = gap;
            let at = needed.iter().position(|&(known, _)| known == storage).unwrap_or_default();
            let asked = match technique.prefetch {
                _ if technique.synchronous => Asked::Before(needed_by),
                Some(distance) => Asked::Before(needed[at.saturating_sub(distance.get() as usize)].1),
                None => Asked::Issued(modules.asks(needed_by)),
            };
            let gone_after = waits.get(&storage).copied();
            let forwarded = technique.forwarding && !technique.synchronous;
            let stay = Stay { copied_after, freed_after, gone_after, asked, needed_by, forwarded };
            table.transfer(NAME, graph, Transfer::out(stage, storage, to, stay))?;
        }
    }
    Ok(())
}

impl ActivationOffload {
    /// Bytes of a tensor that leaves, at least.
    pub fn smallest(&self) -> u64 {
        self.smallest.map_or(SMALLEST, Bytes::bytes)
    }

    /// The operator that the copy of a tensor follows.
    const fn copied_after(&self, gap: &Gap) -> OpId {
        match self.store {
            Store::Produced => gap.filled_by,
            Store::LastUse => gap.last_used_by,
        }
    }

    /// By tensor of these, which leave, the operator behind which the GPU waits for its copy.
    fn waits(&self, graph: &OpGraph, leaving: &[Gap]) -> BTreeMap<StorageId, OpId> {
        let copied = || leaving.iter().map(|gap| (*gap, self.copied_after(gap)));
        match self.in_flight {
            _ if self.synchronous => copied().map(|(gap, after)| (gap.storage, after)).collect(),
            Some(most) => modules::waits(graph, copied(), most.get() as usize),
            None => BTreeMap::new(),
        }
    }

    /// What leaves each chunk, unless a profile says more. `layers` are in the order of the forward pass.
    pub(crate) fn leaving(&self, layers: &[LayerOps], order: &Order) -> impl Fn(u32, u32) -> Leaving {
        move |stage, chunk| {
            let of_chunk = layers.iter().filter(|layer| (layer.stage, layer.chunk) == (stage, chunk));
            match self.keep {
                Keep::Bytes(bytes) => Leaving::AllBut(bytes.bytes()),
                Keep::Layers(count) => all_but_last(of_chunk, count.get() as u32),
                Keep::LastLayer => all_but_last(of_chunk, u32::from(returns_at_once(order, stage, chunk))),
                Keep::Adaptive => all_but_last(of_chunk, 0),
            }
        }
    }
}

impl Technique for ActivationOffload {
    fn savings(layers: u32) -> Vec<Saving> {
        const EFFECT: &str = "what the forward pass saves waits in host memory";
        let keeping = |layers| format!("{{ keep: {{ layers: {layers} }} }}");
        let settings = (1..layers).rev().map(keeping).chain(["{}".to_owned()]).collect();
        vec![Saving { technique: NAME, settings, effect: EFFECT }]
    }

    fn facts(&self, _stages: u32) -> Facts<'_> {
        Facts {
            path: PATH,
            activations: Some("moves all that is large enough"),
            activations_pinned: Some(self.pinned),
            drives: Some(OnDrives {
                what: "activations",
                from_gpus: true,
                kept: TO,
                there: self.to == Outside::Drives,
                names: &self.arrays,
                arrays: "techniques.activation_offload.arrays",
            }),
            ..Facts::default()
        }
    }

    /// Fewer layers: adaptive keep goes by rates alone.
    fn instead(&self, all: &Techniques) -> Vec<(String, Techniques)> {
        if self.keep != Keep::Adaptive {
            return Vec::new();
        }
        let keeping = |layers| {
            let keep = Keep::Layers(Count::literal(layers));
            let technique = Some(Self { keep, ..self.clone() });
            let name = format!("`keep: {{ layers: {layers} }}`");
            (name, Techniques { activation_offload: technique, ..all.clone() })
        };
        FEWER_LAYERS.map(keeping).to_vec()
    }

    fn check(&self, around: &Around<'_>, wrong: &mut dyn FnMut(Diagnostic)) {
        if let Some(refused) = around.without_tensors(PATH) {
            return wrong(refused);
        }
        if self.keep == Keep::Adaptive && matches!(around.schedule, PipelineSchedule::Interleaved(_)) {
            let message = "what stays adaptively is from one forward pass of a stage";
            let remedy = "use `1f1b` or `gpipe`, or say how many layers stay: `keep: { layers: 1 }`";
            let note = "has several forward passes of a stage for each micro-batch";
            let refused = Diagnostic::new("techniques.activation_offload.keep", message, remedy);
            wrong(refused.with("parallelism.schedule", note));
        }
        self.check_modules(around, wrong);
        if self.synchronous && self.prefetch.is_some() {
            let message = "passes that wait for each copy load nothing ahead";
            let note = "lets them wait";
            let refused =
                Diagnostic::new("techniques.activation_offload.prefetch", message, "remove one of the two");
            wrong(refused.with("techniques.activation_offload.synchronous", note));
        }
        if self.to == Outside::Drives && !self.pinned {
            let message = "activations on drives need no page-locked memory";
            let path = "techniques.activation_offload.pinned";
            wrong(Diagnostic::new(path, message, "remove one of the two").with(TO, "keeps them elsewhere"));
        }
    }
}

impl ActivationOffload {
    /// Reports modules and a limit in flight that say nothing.
    fn check_modules(&self, around: &Around<'_>, wrong: &mut dyn FnMut(Diagnostic)) {
        const MODULES: &str = "techniques.activation_offload.modules";
        const IN_FLIGHT: &str = "techniques.activation_offload.in_flight";
        if self.modules.is_some() && around.model != ModelKind::Transformer {
            wrong(around.foreign(MODULES, "remove it: activations of all layers leave"));
        }
        if self.modules.as_ref().is_some_and(Vec::is_empty) {
            let remedy = "write for example `[core-attention]`, or remove it for all";
            wrong(Diagnostic::new(MODULES, "it names no module", remedy));
        }
        if self.synchronous && self.in_flight.is_some() {
            let message = "passes that wait for each copy have none in flight";
            let refused = Diagnostic::new(IN_FLIGHT, message, "remove one of the two");
            wrong(refused.with("techniques.activation_offload.synchronous", "lets them wait"));
        }
    }
}

/// What all layers save but the last so many, without the head. What several save is the first's.
fn all_but_last<'a>(layers: impl Iterator<Item = &'a LayerOps>, count: u32) -> Leaving {
    let mut leaving: Vec<Range<u32>> =
        layers.filter(|layer| layer.kind != PartKind::Head).map(|layer| layer.backward.clone()).collect();
    leaving.truncate(leaving.len().saturating_sub(count as usize));
    Leaving::NeededBy(leaving)
}

impl Leaving {
    /// Of the candidates, in the order in which the backward pass needs them, those that leave.
    fn choose(&self, candidates: &mut Vec<Gap>) {
        let mut kept = 0;
        candidates.retain(|candidate| match self {
            Self::AllBut(bytes) => {
                let stays = kept + candidate.bytes <= *bytes;
                kept += if stays { candidate.bytes } else { 0 };
                !stays
            }
            Self::NeededBy(leaving) => leaving.iter().any(|ops| ops.contains(&candidate.needed_last.0)),
        });
    }
}

/// Whether the backward pass of each micro-batch is what a stage does after its forward pass.
fn returns_at_once(order: &Order, stage: u32, chunk: u32) -> bool {
    let visits = &order.stages[stage as usize];
    let of_chunk = |visit: &Visit| u32::from(visit.chunk) == chunk;
    let mut forward = visits.windows(2).filter(|pair| pair[0].phase == Phase::Forward && of_chunk(&pair[0]));
    forward.all(|pair| {
        pair[1].phase == Phase::Backward && of_chunk(&pair[1]) && pair[1].micro_batch == pair[0].micro_batch
    })
}

/// Activations of a chunk that are large enough to leave, in the order in which the backward pass needs them.
fn candidates(technique: &ActivationOffload, graph: &OpGraph, stage: u32, chunk: u32) -> Vec<Gap> {
    let mut candidates = gaps(graph, stage, chunk);
    let chosen = |gap: &Gap| match &technique.modules {
        Some(modules) => modules::module(graph, gap).is_some_and(|module| modules.contains(&module)),
        None => true,
    };
    candidates.retain(|candidate| candidate.bytes >= technique.smallest() && chosen(candidate));
    candidates
}
