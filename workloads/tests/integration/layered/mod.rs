//! Lists of layers: what published models have, to the digit, and what their operators keep.

mod dataflow;
mod experts;
pub(crate) mod memory;
mod presets;
mod recurrent;
mod trace;

use indexmap::IndexMap;
use serde::de::DeserializeOwned;
use serde_yaml::with::singleton_map_recursive;
use workloads::model::layered::{
    LAYERED_PRESETS, LayerList, LayeredExecution, LayeredModel, LayeredPreset, Misfit, Optimizer,
};
use workloads::model::transformer::{AttentionKernel, Dtype, States, Step};

pub(crate) fn execution(micro_batch: u32) -> LayeredExecution {
    LayeredExecution {
        micro_batch,
        dtype: Dtype::Fp32,
        attention: AttentionKernel::Materialised,
        states: States::Full,
        optimizer: Optimizer::Momentum,
        step: Step::Whole,
        in_operators: false,
        gelu: true,
        cudnn: false,
    }
}

pub(crate) fn presets() -> impl Iterator<Item = (String, LayeredPreset)> {
    LAYERED_PRESETS.iter().flat_map(|text| yaml::<IndexMap<String, LayeredPreset>>(text))
}

pub(crate) fn names() -> Vec<String> {
    presets().map(|(name, _)| name).collect()
}

pub(crate) fn preset(name: &str) -> LayerList {
    presets().find(|(known, _)| known == name).unwrap().1.model
}

fn read(text: &str) -> Result<LayeredModel, Misfit> {
    LayeredModel::new(&self::yaml(text), &execution(1))
}

/// Choices are maps of one key.
pub(crate) fn yaml<T: DeserializeOwned>(text: &str) -> T {
    singleton_map_recursive::deserialize(serde_yaml::Deserializer::from_str(text)).unwrap()
}
