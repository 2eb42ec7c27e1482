//! The settings of a scenario, typed.
//!
//! The types here are the language: their documentation is what editors show, `document` turns them into a JSON
//! Schema, and `shape` answers questions about paths from that same schema. Choices are externally tagged and
//! nothing is flattened or untagged, because serde forgets positions in those forms.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::constants::Constants;

mod campaign;
mod date;
pub(crate) mod document;
mod figure;
mod layers;
mod memory;
mod model;
mod network;
mod parallelism;
mod programmed;
mod reference;
mod run;
mod sequence_parallel;
pub(crate) mod shape;
mod software;
mod stage_layers;
mod storage;
mod trace;
mod training;

pub use campaign::{Campaign, CheckpointStore, Checkpoints, Failures, Interval, MeanTime, Price, Prices};
pub use date::Date;
pub use document::json_schema;
pub use figure::{Figure, FigureKind};
pub(crate) use figure::{meaning, same_meaning};
pub use hw_models::allocator::Settings as Allocator;
pub use hw_models::machine::{Settings as Machine, SingleNode};
pub(crate) use hw_models::settings::split as split_quantity;
pub use hw_models::settings::{
    Amount, Bytes, Count, Duration, Money, PerStage, Period, Rate, Share, StageSet,
};
pub use layers::LayerList;
pub use memory::{BytesPerParameter, MemoryLimit, Pinned, WhenFull};
pub use model::{Device, Model, ProfiledPipeline, Stages};
pub(crate) use network::AnyLayer;
pub use network::{GraphData, GraphNetwork, LayerWidth, ListedLayer, NetworkLayers, NetworkSettings};
pub use parallelism::{Idle, OverlapGradientReduce, Parallelism};
pub(crate) use programmed::ProgramPreset;
pub use programmed::{ProgramBase, Programmed};
pub use reference::reference;
pub use run::{DriveState, Fold, Noise, Pause, Run, Segments, Steps};
pub use sequence_parallel::SequenceParallel;
pub use shape::Shape;
pub(crate) use software::FRAMEWORK;
pub use software::{Accumulate, Attention, Gelu, Gradients, ImageLayers, LayersOf, Optimizer, Software};
pub use stage_layers::StageLayers;
pub use storage::{ArrayRates, DriveArray, Storage};
pub(crate) use trace::Recorded;
pub use trace::Trace;
pub use training::{Precision, Training};
pub use workloads::feed::{Access, Cache, CachePolicy, Features, Home, Process, Sampling, SamplingPlace};
pub use workloads::host_update::KeptParameters;
pub use workloads::memory::Placeholder;
pub use workloads::model::layered::Optimizer as UpdateRule;
pub use workloads::model::network::System;
pub use workloads::model::transformer::{
    Adapters, AddedTo, Bias, ContextExchange, CrossEntropy, Encoder, Fp8, Gather, GatherLimit, Mlp, Norm,
    Positions, Scaling, Sequence, Sharding, SoftmaxFusion as FusedSoftmax, Step,
    TransformerSettings as Transformer,
};
pub use workloads::order::{MicroBatches, PipelineSchedule as Schedule};
pub use workloads::passes::Techniques;
pub use workloads::passes::realise::messages::SendMode;
pub use workloads::passes::recompute::{Mode as RecomputeMode, Recompute};
pub use workloads::placement::Placement;
pub use workloads::plan::Launch;
pub(crate) use workloads::plan::Levels;
pub use workloads::program::execution::{Execution, Mode};
pub use workloads::trace::{Elementwise, Launching, Loader, WhatIf};
pub use workloads::transfer::Outside;

/// Everything that determines a run: what is trained, on what, how, and with which techniques.
///
/// What a setting is where it is absent can depend on the model; the check of an experiment fills it in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Hardware that the model is trained on; a profiled pipeline and a trace need none.
    pub machine: Option<Machine>,
    /// Arrays of drives of each node by name, which techniques keep tensors and states on; when absent all drives of a node are one.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    #[schemars(extend("examples" = [{ "nvme": { "drives": 4 } }]))]
    pub storage: Storage,
    /// Hardware files of `foretrain calibrate`, laid over the machine: what they measured replaces what the catalogue says, the
    /// rest stays. Paths are relative to this file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("examples" = [["out/calibration/hardware.yaml"]]))]
    pub calibration: Vec<String>,
    /// Model that is trained.
    pub model: Model,
    /// Features of the nodes of a graph, and how mini-batches get their rows.
    pub features: Option<Features>,
    /// How much work one training step is; a trace needs none.
    #[serde(skip_serializing_if = "Training::is_empty")]
    pub training: Training,
    /// How the work is spread over devices.
    #[serde(default)]
    pub parallelism: Parallelism,
    /// Limits of memory, and bytes held throughout.
    #[serde(default)]
    pub memory: MemoryLimit,
    /// Which kernels the training framework uses.
    pub software: Option<Software>,
    /// Techniques that change what is executed, where and in which order; each at most once, their order has no meaning.
    #[serde(default)]
    pub techniques: Techniques,
    /// The whole training run: its length, checkpoints, failures and prices.
    pub campaign: Option<Campaign>,
    /// How the simulation itself runs.
    #[serde(default)]
    pub run: Run,
    /// What the simulation rests on; the check of an experiment fills it in.
    #[serde(skip)]
    pub(crate) constants: Constants,
    /// Levels of write caches and heat of drives at the start; the search for those that last fills
    /// them in.
    #[serde(skip)]
    pub(crate) levels: Levels,
}

impl Scenario {
    /// Its copy with the model of its program alone, trained as if there were no program.
    pub(crate) fn without_program(&self) -> Self {
        let model = match &self.model {
            Model::Program(program) => match &program.base {
                Some(ProgramBase::Transformer(model)) => Model::Transformer(model.clone()),
                Some(ProgramBase::Layers(model)) => Model::Layers(model.clone()),
                None => self.model.clone(),
            },
            model => model.clone(),
        };
        Self { model, ..self.clone() }
    }

    /// Stages of the pipeline; always there once the scenario has been checked.
    pub fn stages(&self) -> usize {
        match self.model.profile() {
            Some(pipeline) => pipeline.stages.get() as usize,
            None => self.parallelism.pipeline.map_or(1, Count::get) as usize,
        }
    }
}

/// The word that a file would say.
pub(crate) fn word(value: &impl Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}
