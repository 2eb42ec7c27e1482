//! The plan of a list of layers.

use workloads::diagnostic::Diagnostic;
use workloads::model::layered::{self, LayeredExecution, LayeredModel, Misfit, Shape};
use workloads::model::transformer::{AttentionKernel, States};
use workloads::plan::{LayeredPlan, PlanError};

use super::transformer;
use crate::catalogue;
use crate::schema::{ImageLayers, LayerList, LayersOf, Scenario};

/// The plan of a checked scenario whose model is `settings`.
///
/// # Errors
/// What the check of the scenario would have found.
pub(crate) fn plan(scenario: &Scenario, settings: &LayerList) -> Result<LayeredPlan, PlanError> {
    let model = read(scenario, settings).map_err(|misfit| {
        PlanError::Invalid(vec![Diagnostic::sentence("model.layers", misfit.to_string())])
    })?;
    Ok(plan_of(scenario, model))
}

/// The plan of a scenario whose model has been read.
pub(crate) fn plan_of(scenario: &Scenario, model: LayeredModel) -> LayeredPlan {
    LayeredPlan {
        model,
        stages: scenario.stages() as u32,
        data: scenario.parallelism.data.map_or(1, |data| data.get() as u32),
        sharding: scenario.parallelism.sharding.unwrap_or_default(),
        overlap: transformer::overlap(scenario),
        feed: None,
        deployment: transformer::deployment(scenario),
    }
}

/// The layers of a model: its own or those of its preset, for samples as long as the scenario says.
pub(crate) fn layers(scenario: &Scenario, settings: &LayerList) -> layered::LayerList {
    let preset = settings.preset.as_ref().and_then(|name| catalogue::layered_presets().get(name));
    let mut layers = match preset {
        Some(preset) => preset.model.clone(),
        None => layered::LayerList {
            input: settings.input.unwrap_or_default(),
            list: settings.list.clone().unwrap_or_default(),
            decoder: settings.decoder.clone(),
        },
    };
    layers.input = settings.input.unwrap_or(layers.input);
    if let (Some(tokens), Some(sequence)) = (&mut layers.input.tokens, scenario.training.sequence) {
        *tokens = sequence.get() as u32;
    }
    layers
}

/// The model of a scenario.
///
/// # Errors
/// The first layer that does not fit what it is given.
pub(crate) fn read(scenario: &Scenario, settings: &LayerList) -> Result<LayeredModel, Misfit> {
    LayeredModel::new(&layers(scenario, settings), &execution(scenario))
}

pub(super) fn execution(scenario: &Scenario) -> LayeredExecution {
    let common = transformer::execution(scenario);
    // Flash attention takes fp16 or bf16.
    let single = common.states == States::Full;
    LayeredExecution {
        micro_batch: common.micro_batch,
        dtype: common.dtype,
        attention: if single { AttentionKernel::Materialised } else { common.attention },
        states: common.states,
        optimizer: scenario.training.optimizer.unwrap_or_default(),
        step: common.step,
        in_operators: scenario
            .software
            .as_ref()
            .is_some_and(|software| software.layers == LayersOf::HuggingFace),
        gelu: common.fusion.gelu,
        cudnn: scenario.software.as_ref().is_some_and(|it| it.image_layers == Some(ImageLayers::Cudnn)),
    }
}

/// Tokens of a sample, where it has any.
pub(crate) fn tokens(scenario: &Scenario, settings: &LayerList) -> Option<u64> {
    match Shape::of(&layers(scenario, settings).input) {
        Some(Shape::Ids { tokens }) => Some(tokens),
        _ => None,
    }
}
