//! Settings of recomputation. The time of a profiled pipeline's extra forward pass is a fact of its stages, which the
//! decision does not see.

use hw_models::settings::{Bytes, Count, Duration, PerStage, StageSet};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::diagnostic::Diagnostic;
use crate::graph::cut::LayerPlace;
use crate::passes::technique::{Around, Facts, ModelKind, Technique};
use crate::passes::{Pipelining, Saving};

use super::NAME;
use super::modules::{Modules, RecomputeModule};

const MODE: &str = "techniques.recompute.mode";
const MODULES: &str = "techniques.recompute.modules";
const EARLY_STOP: &str = "techniques.recompute.early_stop";
const LAYERS: &str = "techniques.recompute.layers";
const EVERY: &str = "techniques.recompute.every";
const OTHERS: &str = "techniques.recompute.others";
const KEEPS: &str = "techniques.recompute.keeps";

/// Recompute activations before the backward pass instead of keeping them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Recompute {
    /// Part of a transformer layer that is recomputed; `full` when absent.
    pub mode: Option<Mode>,
    /// True: `full` ends with the last tensor that the backward pass needs, as PyTorch's
    /// non-reentrant checkpoints since 2.1. False: it ends with the layer, as in Megatron-LM.
    pub early_stop: Option<bool>,
    /// Modules of a layer that recompute, instead of a mode.
    // Not a set, so that a name written twice can be refused.
    pub modules: Option<Vec<RecomputeModule>>,
    /// Number of layers that recompute, from the first of each chunk of a stage on; all when
    /// absent.
    pub layers: Option<Count<1, 4_096>>,
    /// Period of layers of a stage that recompute in full, counted over its chunks: with 2 the
    /// second, the fourth and so on. The others recompute nothing. All recompute when absent.
    // torchtitan's `selective` with a number (`_apply_ac_to_transformer_block`): one counter of the
    // process, `ptd_checkpoint_wrapper._count`, and a layer is wrapped where it is a multiple.
    pub every: Option<Count<1, 4_096>>,
    /// Part that the other layers recompute; none when absent.
    pub others: Option<Mode>,
    /// Time of the extra forward pass of a profiled pipeline; the stage's forward time when absent.
    pub forward: Option<PerStage<Duration>>,
    /// Stages of a profiled pipeline that recompute; all when absent.
    pub stages: Option<StageSet>,
    /// Checkpoint that a stage of a profiled pipeline keeps of each micro-batch; nothing when absent.
    pub keeps: Option<PerStage<Bytes>>,
}

/// Activations that layers recompute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "RecomputeMode")]
pub enum Mode {
    /// Nothing.
    None,
    /// Scores, softmax, dropout and context of the attention: large, and cheap to compute again.
    // Korthikanti et al. 2023, section 5. With flash attention, which does that by itself, its forward
    // kernel once more, as in Megatron-LM.
    Selective,
    /// Everything but the input of the layer.
    Full,
    /// As `full`, but recomputation ends with the last tensor that the backward pass needs.
    // PyTorch's checkpoints without reentrance, from 2.1 (`set_checkpoint_early_stop`). Where no dropout
    // follows, the last product is not repeated.
    #[serde(skip)]
    FullEarlyStop,
    /// Some modules of the layer.
    #[serde(skip)]
    Modules(Modules),
    /// Everything but the input of the layer and the results of attention, of every second product
    /// beginning with the first, and of reduce-scatters: torchtitan's `selective` with option `op`.
    Operators,
}

impl Technique for Recompute {
    fn facts(&self, _stages: u32) -> Facts<'_> {
        Facts { path: "techniques.recompute", ..Facts::default() }
    }

    fn savings(layers: u32) -> Vec<Saving> {
        const AGAIN: &str = "layers keep only their input, and compute the rest again in the backward pass";
        let first = |layers| format!("{{ mode: full, layers: {layers} }}");
        let all = if layers == 0 { "{}" } else { "{ mode: full }" };
        let settings = (1..layers).map(first).chain([all.to_owned()]).collect();
        let part = |mode: &str, effect| Saving::new(NAME, &format!("{{ mode: {mode} }}"), effect);
        vec![
            part("selective", "attention computes its scores again in the backward pass"),
            part("operators", "layers compute all but attention and every second product again"),
            Saving { technique: NAME, settings, effect: AGAIN },
        ]
    }

    fn runs_again(&self, stage: u32) -> bool {
        self.covers(stage)
    }

    fn keeps(&self, stage: u32) -> Option<(&'static str, u64)> {
        Some((KEEPS, self.kept(stage)))
    }

    fn check_profiled(&self, pipelining: &Pipelining, stages: u32, found: &mut Vec<Diagnostic>) {
        let mut wrong = |field, problem: String| found.push(Diagnostic::sentence(field, problem));
        let listed = match &self.stages {
            Some(StageSet::Listed(stages)) => Some(stages),
            None | Some(StageSet::All) => None,
        };
        let beyond = |stage: &u64| *stage >= u64::from(stages);
        for stage in listed.into_iter().flatten().map(|stage| stage.get()).filter(beyond) {
            wrong(
                "recompute.stages",
                format!("there is no stage {stage}: they are 0 to {}", stages.saturating_sub(1)),
            );
        }
        if listed.is_some_and(Vec::is_empty) {
            wrong("recompute.stages", "names no stage: leave it out for all stages".to_owned());
        }
        for technique in pipelining.techniques.all() {
            let lenders = technique.lenders(stages, pipelining.micro_batches);
            let nothing_left = |stage: &u32| self.covers(*stage) && self.kept(*stage) == 0;
            if let Some(stage) = lenders.into_iter().find(nothing_left) {
                let path = technique.facts(stages).path;
                let problem = format!(
                    "`recompute` and `{}` both decide where the activations of stage {stage} are: let recomputation \
                     keep some bytes (`keeps`), which can then be moved, or apply the two to different stages (`stages`)",
                    path.trim_start_matches("techniques."),
                );
                found.push(Diagnostic::sentence("recompute", problem).with(path, ""));
            }
        }
    }

    fn check(&self, around: &Around<'_>, wrong: &mut dyn FnMut(Diagnostic)) {
        const FORWARD: &str = "techniques.recompute.forward";
        const STAGES: &str = "techniques.recompute.stages";
        const WHOLE: &str = "its stages recompute as a whole; give `stages` and what each `keeps`";
        const FOLLOWS: &str = "it follows from the operators that run again; remove it";
        const ALL: &str = "all blocks recompute; remove it";
        let Self { mode, early_stop, modules, layers, every, others, forward, stages, keeps } = self;
        let foreign: &[(bool, &'static str, &str)] = match around.model {
            ModelKind::Profile => &[
                (mode.is_some(), MODE, WHOLE),
                (early_stop.is_some(), EARLY_STOP, "the time of what is computed again is given; remove it"),
                (modules.is_some(), MODULES, WHOLE),
                (layers.is_some(), LAYERS, WHOLE),
                (every.is_some(), EVERY, WHOLE),
                (others.is_some(), OTHERS, WHOLE),
            ],
            ModelKind::Transformer => &[
                (forward.is_some(), FORWARD, FOLLOWS),
                (stages.is_some(), STAGES, "give `mode`, and with `layers` how many of each chunk"),
                (keeps.is_some(), KEEPS, "it follows from `mode`; remove it"),
            ],
            ModelKind::Layers => &[
                (forward.is_some(), FORWARD, FOLLOWS),
                (stages.is_some(), STAGES, ALL),
                (keeps.is_some(), KEEPS, "a block keeps its input; remove it"),
                (modules.is_some(), MODULES, "write `mode: full`: blocks keep only their input"),
                (layers.is_some(), LAYERS, ALL),
                (every.is_some(), EVERY, ALL),
                (others.is_some(), OTHERS, ALL),
            ],
        };
        for &(_, path, remedy) in foreign.iter().filter(|(given, ..)| *given) {
            wrong(around.foreign(path, remedy));
        }
        let partial = match mode {
            Some(Mode::Selective) => Some("selective"),
            Some(Mode::Operators) => Some("operators"),
            _ => None,
        };
        if let Some(word) = partial.filter(|_| around.model == ModelKind::Layers) {
            let message = format!("`{MODE}: {word}` has no meaning for {}", around.model);
            wrong(Diagnostic::new(MODE, message, "write `full`: blocks keep only their input"));
        }
        if around.model == ModelKind::Transformer {
            self.check_modules(wrong);
            self.check_every(wrong);
        }
    }
}

impl Recompute {
    /// Times of stages of a profile among its settings.
    pub(crate) fn stage_times(&mut self) -> Option<&mut PerStage<Duration>> {
        self.forward.as_mut()
    }

    /// Fills in settings that hold for a kind of model where nothing is written.
    pub(crate) fn fill(&mut self, model: ModelKind) {
        match model {
            ModelKind::Profile => _ = self.stages.get_or_insert_default(),
            ModelKind::Transformer | ModelKind::Layers => {
                let mode = if self.modules.is_some() { Mode::Selective } else { Mode::Full };
                self.mode.get_or_insert(mode);
            }
        }
    }

    /// Reports modules that do not go with each other or with other settings.
    fn check_modules(&self, wrong: &mut dyn FnMut(Diagnostic)) {
        let Some(modules) = &self.modules else { return };
        let mut refuse = |message: String, remedy: String| wrong(Diagnostic::new(MODULES, message, remedy));
        if modules.is_empty() {
            refuse("it names no module".to_owned(), "write for example `[core-attention]`".to_owned());
        }
        for (n, module) in modules.iter().enumerate() {
            let name = module.name();
            if modules[..n].contains(module) {
                refuse(format!("`{name}` is there twice"), format!("write `{name}` once"));
            }
            if let Some(outer) = module.outer().filter(|outer| modules.contains(outer)) {
                let message = format!("`{name}` is a part of `{}`, which recomputes it, too", outer.name());
                refuse(message, format!("remove `{name}`"));
            }
        }
        if self.mode.is_some_and(|mode| mode != Mode::Selective) {
            let message = "`modules` says what layers recompute, and so does `mode`";
            let remedy = "write `mode: selective`, or remove one of the two";
            wrong(Diagnostic::new(MODULES, message, remedy).with(MODE, ""));
        }
        if self.early_stop == Some(true) {
            let message = "checkpoints of modules run to their end, as Megatron-LM's do";
            wrong(Diagnostic::new(EARLY_STOP, message, "remove it").with(MODULES, ""));
        }
    }

    /// Reports settings that do not go with layers that recompute wholly, one of several.
    fn check_every(&self, wrong: &mut dyn FnMut(Diagnostic)) {
        if self.every.is_none() {
            return;
        }
        let other_mode = self.mode.is_some_and(|mode| mode != Mode::Full) && self.modules.is_none();
        let others = [
            (other_mode, MODE, "write `mode: full`, or remove `every`"),
            (self.modules.is_some(), MODULES, "remove one of the two"),
            (self.layers.is_some(), LAYERS, "remove one of the two"),
            (self.others.is_some(), OTHERS, "remove it"),
        ];
        for (_, path, remedy) in others.into_iter().filter(|(given, ..)| *given) {
            let message = "with `every`, layers recompute wholly or not at all";
            wrong(Diagnostic::new(path, message, remedy).with(EVERY, ""));
        }
    }

    /// Recomputation of each mode, with its name.
    pub(crate) fn modes() -> [(&'static str, Self); 2] {
        let of = |mode| Self { mode: Some(mode), ..Self::default() };
        [("`recompute: selective`", of(Mode::Selective)), ("`recompute: full`", of(Mode::Full))]
    }

    /// Mode of a layer, by its place.
    pub fn mode(&self, layer: LayerPlace) -> Mode {
        let is_first = self.layers.is_none_or(|first| u64::from(layer.in_chunk) < first.get())
            && self.every.is_none_or(|every| (u64::from(layer.on_stage) + 1).is_multiple_of(every.get()));
        let modules = || self.modules.as_ref().map(|all| Mode::Modules(all.iter().copied().collect()));
        let mode = if is_first {
            modules().or(self.mode).unwrap_or(Mode::Full)
        } else {
            self.others.unwrap_or(Mode::None)
        };
        if mode == Mode::Full && self.early_stop == Some(true) { Mode::FullEarlyStop } else { mode }
    }

    /// Whether a stage recomputes.
    pub fn covers(&self, stage: u32) -> bool {
        self.stages.as_ref().is_none_or(|stages| stages.contains(stage))
    }

    /// Bytes a stage keeps per micro-batch.
    pub fn kept(&self, stage: u32) -> u64 {
        self.keeps.as_ref().map_or(0, |keeps| keeps.at(stage as usize).bytes())
    }
}
