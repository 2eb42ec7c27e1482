//! What a list of layers on a machine must satisfy.

use hw_models::catalogue::nearest;
use workloads::diagnostic::Diagnostic;
use workloads::model::layered::Misfit;
use workloads::passes::ModelKind;

use super::{Check, batches};
use crate::catalogue;
use crate::plans::layered;
use crate::schema::{Count, LayerList, Parallelism, Scenario, UpdateRule};
use crate::text::node::Value;

const MODEL: &str = "model.layers";
const PRESET: &str = "model.layers.preset";
const LIST: &str = "model.layers.list";
const TENSOR: &str = "parallelism.tensor";
const CONTEXT: &str = "parallelism.context";
const EXPERT: &str = "parallelism.expert";

/// Settings that mean nothing for a list of layers.
const FOREIGN: [(&str, &str); 12] = [
    ("training.fp8", "layers of a list multiply in `precision`; remove it"),
    ("training.adapters", "layers of a list are trained whole; remove it"),
    batches::OF_PIPELINES,
    ("parallelism.stage_layers", "stages of a list of layers follow from what they take; remove it"),
    ("parallelism.sequence_parallel", "layers of a list are not split over ranks; remove it"),
    ("parallelism.sharding_group", "all copies of a list of layers share; remove it"),
    ("parallelism.asynchronous_tensor", "layers of a list are not split over ranks; remove it"),
    ("parallelism.overlap_tensor_reduce", "layers of a list are not split over ranks; remove it"),
    ("parallelism.context_exchange", "layers of a list are not split over ranks; remove it"),
    ("parallelism.scatter_gather", "layers of a list are not split over ranks; remove it"),
    ("software.vocabulary_multiple", "a list says how many rows its tables have; remove it"),
    NO_PLACEHOLDERS,
];

/// A setting that means nothing where no product leaves its gradient in a buffer of another.
pub(super) const NO_PLACEHOLDERS: (&str, &str) =
    ("memory.gradient_placeholders", "its products leave their gradients in memory of their own; remove it");

/// What the workloads call wrong, and the setting that says it.
const SETTINGS: [(&str, &str); 3] = [
    ("pipeline", "parallelism.pipeline"),
    ("schedule", "parallelism.schedule"),
    ("launch", "software.launch"),
];

impl Check<'_> {
    pub(super) fn layered(&mut self, scenario: &mut Scenario) {
        self.foreign(&FOREIGN, "a list of layers");
        let Parallelism { tensor, context, expert, .. } = scenario.parallelism;
        let expert = expert.map_or(1, Count::get);
        let shared = [(TENSOR, tensor.map_or(1, Count::get)), (CONTEXT, context.map_or(1, Count::get))];
        for (path, ranks) in shared.into_iter().chain([(EXPERT, expert)]) {
            if ranks > 1 {
                let help = "use `data` for more copies, or `pipeline` to cut the list into stages";
                let message =
                    format!("`{path}` has no meaning for a list of layers, which are not split over ranks");
                self.report(&[(path, String::new())], message, help);
                return;
            }
        }
        scenario.techniques.fill(ModelKind::Layers);
        scenario.training.optimizer.get_or_insert(UpdateRule::Adam);
        scenario.training.step.get_or_insert_default();
        self.without_backward(scenario);
        let Some(settings) = scenario.model.layers().cloned() else { return };
        let given = self.given(&settings);
        self.on_machine(scenario, MODEL, "a list of layers");
        self.allocator(scenario);
        if given {
            self.read(scenario, &settings);
        }
    }

    /// Whether there are layers to read.
    fn given(&mut self, settings: &LayerList) -> bool {
        match (&settings.preset, &settings.list) {
            (Some(name), None) => {
                let presets = catalogue::layered_presets();
                let known = presets.contains_key(name);
                if !known {
                    let known = presets.keys().map(String::as_str);
                    self.no_preset(PRESET, ("list of layers", name), known);
                }
                if settings.decoder.is_some() {
                    let about = [("model.layers.decoder", String::new()), (PRESET, String::new())];
                    self.report(&about, "a preset has its decoder, if any, with it", "remove one of them");
                }
                known && settings.decoder.is_none()
            }
            (Some(_), Some(_)) => {
                let about = [(LIST, String::new()), (PRESET, String::new())];
                self.report(&about, "a model has a `preset` or a `list`, not both", "remove one of them");
                false
            }
            (None, list) => {
                let missing = [("input", settings.input.is_none()), ("list", list.is_none())];
                let missing: Vec<&str> =
                    missing.iter().filter(|(_, absent)| *absent).map(|(key, _)| *key).collect();
                if !missing.is_empty() {
                    self.incomplete(MODEL, &nearest::list(missing.iter().copied()));
                }
                missing.is_empty()
            }
        }
    }

    /// Whether every layer fits, and the model its stages.
    fn read(&mut self, scenario: &Scenario, settings: &LayerList) {
        let sequence = "training.sequence";
        let tokens = layered::layers(scenario, settings).input.tokens;
        if let (Some(_), None) = (scenario.training.sequence.map(Count::get), tokens) {
            let message = format!("`{sequence}` has no meaning for samples without tokens");
            self.report_with(sequence, &[PRESET], message, "remove it, and write `input` for other samples");
        }
        match layered::read(scenario, settings) {
            Err(Misfit { path, problem }) => {
                let mut here = format!("{MODEL}.{}", path.join("."));
                // A layer with options is found by its name.
                let layer = self.tree.at(&self.keys(&here)).map(|node| &node.value);
                if let Some(Value::Map(map)) = layer
                    && let Some((name, _)) = map.first()
                {
                    here = format!("{here}.{name}");
                }
                let parts = [PRESET, "model.layers.input"];
                let parts = if settings.preset.is_some() { &parts[..] } else { &[] };
                self.report_with(&here, parts, problem, "each layer takes what the one before makes");
            }
            Ok(model) => {
                let found = layered::plan_of(scenario, model).validate().err();
                for Diagnostic { path, message, remedy, .. } in found.into_iter().flatten() {
                    let Some((_, path)) = SETTINGS.iter().find(|(known, _)| *known == path) else {
                        continue;
                    };
                    self.report_with(path, &[], format!("`{path}`: {message}"), remedy);
                }
            }
        }
    }
}
