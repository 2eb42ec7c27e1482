//! Facts that a technique tells about itself, so that checks, plans and remedies name none; and
//! techniques that do not go together.

use std::fmt;

use hw_models::settings::Share;

use crate::diagnostic::Diagnostic;
use crate::graph::OpGraph;
use crate::host_update::HostRates;
use crate::host_update::{ALL, HostedStates};
use crate::model::hosted::INVOLVED;
use crate::model::transformer::{DataParallel, Sharding, Step};
use crate::order::PipelineSchedule;

use super::{LayerOps, Pipelining, Saving, Techniques};

/// Settings of a technique, and their meaning to the rest of a plan.
pub trait Technique {
    /// Facts of the settings, for a model of so many stages.
    fn facts(&self, stages: u32) -> Facts<'_>;

    /// Its settings that leave more memory of GPUs free, for models of `layers` on a stage;
    /// settings that a model has no use for are refused like any others.
    fn savings(_layers: u32) -> Vec<Saving>
    where
        Self: Sized,
    {
        Vec::new()
    }

    /// Ways to do what its settings leave open, each with its name, among `all` techniques.
    fn alternatives(&self, _all: &Techniques) -> Vec<(String, Techniques)> {
        Vec::new()
    }

    /// Settings to take instead where these do not fit, each with its name, among `all` techniques:
    /// the fastest that fits.
    fn instead(&self, _all: &Techniques) -> Vec<(String, Techniques)> {
        Vec::new()
    }

    /// Reports settings that do not go with each other or with the rest of the plan.
    fn check(&self, _: &Around<'_>, _wrong: &mut dyn FnMut(Diagnostic)) {}

    /// Reports settings about tensors or operators that a model does not have.
    fn check_tensors(&self, _: &OpGraph, _layers: &[LayerOps], _wrong: &mut dyn FnMut(Diagnostic)) {}

    /// Stages that lend micro-batches to others.
    fn lenders(&self, _stages: u32, _micro_batches: u32) -> Vec<u32> {
        Vec::new()
    }

    /// True if a stage of a profiled pipeline executes its forward pass again.
    fn runs_again(&self, _stage: u32) -> bool {
        false
    }

    /// Bytes of its activations that a stage of a profiled pipeline keeps, and their setting.
    fn keeps(&self, _stage: u32) -> Option<(&'static str, u64)> {
        None
    }

    /// Reports what does not go with the stages of a profiled pipeline.
    fn check_profiled(&self, _: &Pipelining, _stages: u32, _found: &mut Vec<Diagnostic>) {}
}

/// Facts of a technique.
#[derive(Clone, Debug, Default)]
pub struct Facts<'a> {
    /// Path of the settings: `techniques.swap`.
    pub path: &'static str,
    /// Note on the technique where it decides the fate of activations: "lends them to another
    /// stage".
    pub activations: Option<&'static str>,
    /// Page-locking of host memory that activations pass. `None`: they stay on GPUs.
    pub activations_pinned: Option<bool>,
    /// True if it plans copies by the links to hosts.
    pub weighs_host_links: bool,
    /// True if it may take other kernels for the same work.
    pub chooses_kernels: bool,
    /// True if recomputation by another technique may take the place of what it does.
    pub recomputes: bool,
    /// Page-locking of host memory that gradients and parameters pass. `None`: they stay on GPUs.
    pub exchanged_pinned: Option<bool>,
    /// States of the optimizer that are with hosts, and the setting of those that are updated
    /// together.
    pub hosted: Option<(HostedStates, &'static str)>,
    /// Limits of hosts that update.
    pub rates: HostRates,
    /// Tensors that are on drives, or can be.
    pub drives: Option<OnDrives<'a>>,
    /// Bytes per second between stages of a profiled pipeline that lend each other micro-batches.
    /// `None`: at once.
    pub partner_rate: Option<f64>,
}

/// Kinds of models, named in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelKind {
    /// Stages with given times.
    Profile,
    /// A transformer on a machine.
    Transformer,
    /// A list of layers on a machine.
    Layers,
}

impl fmt::Display for ModelKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Profile => "a profiled pipeline",
            Self::Transformer => "a transformer",
            Self::Layers => "a list of layers",
        })
    }
}

/// Settings of a plan beside its techniques.
#[derive(Clone, Copy, Debug)]
pub struct Around<'a> {
    /// Kind of model.
    pub model: ModelKind,
    /// Order of visits.
    pub schedule: PipelineSchedule,
    /// Pipeline stages.
    pub stages: u32,
    /// Copies of the model, and the states that they share.
    pub data: &'a DataParallel,
    /// Extent of a step.
    pub step: Step,
}

impl Around<'_> {
    /// Reports what keeps hosts from updating the states of a technique, around rules of its own.
    pub(super) fn check_hosted(
        &self,
        path: &'static str,
        wrong: &mut dyn FnMut(Diagnostic),
        own: impl FnOnce(&mut dyn FnMut(&str)),
    ) {
        let refused = self.without_update(path);
        let foreign = self.model == ModelKind::Profile;
        refused.into_iter().for_each(&mut *wrong);
        if foreign {
            return;
        }
        let mut refuse = |problem: &str| wrong(Diagnostic::sentence(path, problem).with_all(&INVOLVED));
        own(&mut refuse);
        if self.data.sharing < self.data.ranks {
            refuse("groups of copies that share would each update all: let all copies share");
        }
    }

    /// Refuses ways of sharing with which hosts cannot update what whole parameters on GPUs become.
    pub(super) fn check_shared_states(&self, refuse: &mut dyn FnMut(&str)) {
        if self.data.ranks > 1 && self.data.sharding == Sharding::None {
            refuse(
                "copies that share nothing would each update all: let them share gradients (ZeRO-2), \
                 in a pipeline states of the optimizer (ZeRO-1)",
            );
        }
        if self.stages > 1 && self.data.sharding >= Sharding::Gradients {
            refuse(
                "stages of a pipeline sum gradients on the GPU until the end of the step: let copies share \
                 states of the optimizer (ZeRO-1)",
            );
        }
    }

    /// Refusal of a technique that moves states, where steps end without an update.
    pub(super) fn without_update(&self, path: &'static str) -> Option<Diagnostic> {
        if self.model == ModelKind::Profile {
            return Some(
                self.foreign(path, "its steps end without an update, and it has no host; remove it"),
            );
        }
        let refused = || {
            let message = "a step without an update has no use for states";
            let refused = Diagnostic::new(path, message, "let it be `full`, or remove it");
            refused.with_all(&INVOLVED)
        };
        (self.step != Step::Whole).then(refused)
    }

    /// Refusal of a technique that moves activations, where they are no tensors.
    pub(super) fn without_tensors(&self, path: &'static str) -> Option<Diagnostic> {
        let refused = || self.foreign(path, "its activations are no tensors, and it has no host; remove it");
        (self.model == ModelKind::Profile).then(refused)
    }

    /// Refusal of a setting that has no meaning for the model.
    pub(super) fn foreign(&self, path: &'static str, remedy: &str) -> Diagnostic {
        Diagnostic::new(path, format!("`{path}` has no meaning for {}", self.model), remedy)
    }
}

/// Tensors that can be on drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnDrives<'a> {
    /// Their name: `states`.
    pub what: &'static str,
    /// They come from GPUs, rather than from hosts.
    pub from_gpus: bool,
    /// Setting of their place.
    pub kept: &'static str,
    /// They are on drives.
    pub there: bool,
    /// Arrays of drives that are named for them.
    pub names: &'a [String],
    /// Setting of these names.
    pub arrays: &'static str,
}

impl Techniques {
    /// Reports techniques that do not go together, or not with the rest of a plan.
    pub fn check(&self, around: &Around<'_>, mut wrong: &mut dyn FnMut(Diagnostic)) {
        let (mut moving, mut hosting) = (Vec::new(), None);
        for technique in self.all() {
            let Facts { path, activations, activations_pinned, hosted, rates, .. } =
                technique.facts(around.stages);
            technique.check(around, &mut wrong);
            if [rates.update, rates.gradients].contains(&Some(0.0)) {
                let message = "a host that updates at a rate of 0 never ends";
                wrong(Diagnostic::new(path, message, "write for example `rate: 20 GB/s`, or remove it"));
            }
            if activations_pinned.is_some() && around.schedule.splits_backward() {
                let message = "activations are away until one backward pass, not for two";
                let remedy = format!("use `1f1b`, `gpipe` or `interleaved`, or remove `{path}`");
                let note = "needs tensors for the gradients of inputs, and later for those of weights";
                wrong(Diagnostic::new(path, message, remedy).with("parallelism.schedule", note));
            }
            if let Some(note) = activations {
                let twice = moving.iter().map(|&(other, note)| twice(path, "activations").with(other, note));
                twice.for_each(&mut wrong);
                moving.push((path, note));
            }
            if let Some(other) = hosted.and_then(|_| hosting.replace(path)) {
                wrong(twice(path, "states").with_all(&INVOLVED).with(other, ""));
            }
        }
    }
}

fn twice(technique: &'static str, what: &str) -> Diagnostic {
    Diagnostic::new(technique, format!("two techniques decide where {what} are"), "remove one of the two")
}

/// Billionths of the parameters that hosts update.
pub(super) fn billionths(ratio: Option<Share>) -> u64 {
    ratio.map_or(ALL, Share::billionths).min(ALL)
}

/// Reports a part of the parameters that is none.
pub(super) fn check_ratio(path: &'static str, ratio: Option<Share>, wrong: &mut dyn FnMut(Diagnostic)) {
    if let Some(ratio) = ratio.filter(|ratio| !(0.0..=1.0).contains(&ratio.as_f64())) {
        let message = format!("hosts cannot update {ratio} of the parameters");
        wrong(Diagnostic::new(path, message, "write a ratio from 0 to 1, or remove it for all"));
    }
}
