//! Layers and stages that recompute exist.

use workloads::model::transformer::{LayerKind, Transformer};
use workloads::passes::recompute::RecomputeModule;

use super::Check;
use super::profiled::STAGES;
use crate::schema::{Count, Scenario, StageSet};

impl Check<'_> {
    /// No more layers of a chunk recompute than it has at most, and some of a stage do.
    pub(super) fn recomputing_layers(&mut self, scenario: &Scenario, layers: u32, chunks: u32) {
        let Some(recompute) = &scenario.techniques.recompute else { return };
        let parts = ["model.transformer.layers", "parallelism.pipeline", "parallelism.schedule"];
        let beyond =
            |count: Option<Count<1, 4_096>>, most: u64| count.map(Count::get).filter(|&count| count > most);
        let on_stage = u64::from(layers) * u64::from(chunks);
        if let Some(every) = beyond(recompute.every, on_stage) {
            let message = format!("no layer is number {every} of its stage, which has {on_stage}");
            let help = format!("use at most {on_stage}, or remove `recompute`");
            self.report_with("techniques.recompute.every", &parts, message, help);
        }
        if let Some(recomputed) = beyond(recompute.layers, layers.into()) {
            let message = format!("{recomputed} layers cannot recompute: a chunk of a stage has {layers}");
            let help = format!("use at most {layers}, or leave `layers` out for all");
            self.report_with("techniques.recompute.layers", &parts, message, help);
        }
    }

    /// Layers have the modules that recompute, and keep what these discard.
    pub(super) fn recomputing_modules(&mut self, scenario: &Scenario, model: &Transformer) {
        let recompute = scenario.techniques.recompute.as_ref();
        let modules = recompute.and_then(|recompute| recompute.modules.as_deref()).unwrap_or_default();
        for (position, &module) in modules.iter().enumerate() {
            let (name, path) = (module.name(), format!("techniques.recompute.modules.{position}"));
            if let Some((missing, remedy)) = missing(module, model) {
                let parts = ["model.transformer.experts", "model.transformer.preset"];
                self.report_with(&path, &parts, format!("`{name}` cannot recompute: {missing}"), remedy);
            } else if module.discards_input_of_products() && scenario.training.fp8.is_some() {
                let message = format!("`{name}` saves nothing: products keep their inputs in 8 bits");
                let remedy = format!("remove `{name}`, or multiply in 16 bits");
                self.report_with(&path, &["training.fp8"], message, remedy);
            }
        }
    }

    /// Stages of a profiled pipeline that are listed exist.
    pub(super) fn recomputing_stages(&mut self, scenario: &Scenario, stages: u64) {
        if let Some(recompute) = &scenario.techniques.recompute
            && let Some(StageSet::Listed(listed)) = &recompute.stages
            && let Some(position) = listed.iter().position(|stage| stage.get() >= stages)
        {
            let path = format!("techniques.recompute.stages.{position}");
            let about = [(&*path, String::new()), (STAGES, format!("stages 0 to {}", stages - 1))];
            let message = format!("there is no stage {} to recompute on", listed[position].get());
            self.report(&about, message, "stages are counted from 0");
        }
    }
}

/// Fault and remedy of a module that layers do not have.
fn missing(module: RecomputeModule, model: &Transformer) -> Option<(&'static str, &'static str)> {
    let experts = model.experts.as_ref();
    let is_dense = (0..model.layers).any(|layer| model.layer_kind(layer) == LayerKind::Dense);
    let shares = experts.is_some_and(|experts| experts.shared_ffn.is_some());
    let (has, missing, remedy) = match module {
        RecomputeModule::CoreAttention => return None,
        RecomputeModule::Mlp => (is_dense, "all layers have experts", "write `moe`"),
        RecomputeModule::Activation => (is_dense, "all layers have experts", "write `moe-activation`"),
        RecomputeModule::Moe => (experts.is_some(), "the model has no experts", "write `mlp`"),
        RecomputeModule::MoeActivation => {
            (experts.is_some(), "the model has no experts", "write `activation`")
        }
        RecomputeModule::SharedExperts => (shares, "no expert is shared by all tokens", "remove it"),
        RecomputeModule::LayerNorm => {
            let remedy = "remove it: the residual stream is kept anyway";
            (model.encoder.is_none(), "what an encoder's norms give is the residual stream", remedy)
        }
        RecomputeModule::MlaUpProjection => {
            (model.latent.is_some(), "attention has no latent vectors", "write `core-attention`")
        }
    };
    (!has).then_some((missing, remedy))
}
