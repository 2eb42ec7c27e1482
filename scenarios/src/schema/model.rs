//! What is trained: a pipeline whose stage times are known from a profile, a transformer or a list of layers on
//! a machine, a program over one of those, or recorded steps.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Bytes, Count, Duration, GraphNetwork, LayerList, PerStage, ProgramBase, Programmed, Trace, Transformer,
};

/// Pipeline stages; at most the 4,096 layers of the deepest model.
pub type Stages = Count<1, 4096>;

/// Model that is trained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Model {
    /// A pipeline with given stage times; it needs no machine.
    ProfiledPipeline(Box<ProfiledPipeline>),
    /// A transformer, decoder or encoder; it needs a machine.
    Transformer(Box<Transformer>),
    /// A list of layers; it needs a machine.
    Layers(Box<LayerList>),
    /// A graph network; it needs a machine.
    Graph(Box<GraphNetwork>),
    /// A program over the operators of a transformer or of a list of layers; it needs a machine.
    Program(Box<Programmed>),
    /// Recorded steps of a real program, replayed; it needs no machine and no training.
    Trace(Box<Trace>),
}

impl Model {
    /// Path of its settings.
    pub(crate) fn path(&self) -> &'static str {
        match self {
            Self::ProfiledPipeline(_) => "model.profiled_pipeline",
            Self::Transformer(_) => "model.transformer",
            Self::Layers(_) => "model.layers",
            Self::Graph(_) => "model.graph",
            Self::Program(_) => "model.program",
            Self::Trace(_) => "model.trace",
        }
    }

    /// Its profile, where its stage times are given.
    pub(crate) fn profile(&self) -> Option<&ProfiledPipeline> {
        if let Self::ProfiledPipeline(pipeline) = self { Some(pipeline) } else { None }
    }

    /// Parts of the model's `config.json` that change the computation and are not modelled, a
    /// sentence each.
    pub fn not_modelled(&self) -> &[String] {
        self.transformer().map_or(&[], |model| &model.not_modelled)
    }

    /// The transformer, where it is one or a program runs one.
    pub(crate) fn transformer(&self) -> Option<&Transformer> {
        match self {
            Self::Transformer(model) => Some(model),
            Self::Program(program) => match program.base.as_ref()? {
                ProgramBase::Transformer(model) => Some(model),
                ProgramBase::Layers(_) => None,
            },
            _ => None,
        }
    }

    /// Access to the same.
    pub(crate) fn transformer_mut(&mut self) -> Option<&mut Transformer> {
        match self {
            Self::Transformer(model) => Some(model),
            Self::Program(program) => match program.base.as_mut()? {
                ProgramBase::Transformer(model) => Some(model),
                ProgramBase::Layers(_) => None,
            },
            _ => None,
        }
    }

    /// The graph network, where it is one.
    pub(crate) fn graph(&self) -> Option<&GraphNetwork> {
        if let Self::Graph(model) = self { Some(model) } else { None }
    }

    /// Access to the same.
    pub(crate) fn graph_mut(&mut self) -> Option<&mut GraphNetwork> {
        if let Self::Graph(model) = self { Some(model) } else { None }
    }

    /// The program, where it is one.
    pub(crate) fn program(&self) -> Option<&Programmed> {
        if let Self::Program(program) = self { Some(program) } else { None }
    }

    /// The trace, where it is one.
    pub(crate) fn trace(&self) -> Option<&Trace> {
        if let Self::Trace(trace) = self { Some(trace) } else { None }
    }

    /// The list of layers, where it is one or a program runs one.
    pub(crate) fn layers(&self) -> Option<&LayerList> {
        match self {
            Self::Layers(model) => Some(model),
            Self::Program(program) => match program.base.as_ref()? {
                ProgramBase::Layers(model) => Some(model),
                ProgramBase::Transformer(_) => None,
            },
            _ => None,
        }
    }
}

/// A pipeline whose stage times and sizes are known from a profile. Times and sizes are those of one micro-batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProfiledPipeline {
    /// Number of stages.
    pub stages: Stages,
    /// Time of a stage's forward pass.
    pub forward: PerStage<Duration>,
    /// Time of the backward pass with respect to the input; the stage before waits only for this.
    pub backward_input: PerStage<Duration>,
    /// Time of the backward pass with respect to the weights.
    pub backward_weight: PerStage<Duration>,
    /// Time of sending a boundary tensor to a neighbouring stage, in either direction.
    pub transfer: PerStage<Duration>,
    /// Activations that a stage keeps from the forward pass until the backward pass.
    pub activation: PerStage<Bytes>,
    /// The part of `activation` that the backward pass of the weights still needs after that of the input.
    pub activation_kept_for_weight: Option<PerStage<Bytes>>,
    /// Weights, gradients and optimizer states, held all the time.
    pub weights: Option<PerStage<Bytes>>,
    /// The device of each stage; without it memory is unlimited.
    pub device: Option<Device>,
}

/// The memory of the device that runs a stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Memory of the device.
    pub memory: Bytes,
    /// Memory that the driver, the context and the communicator take.
    pub reserved: Option<Bytes>,
}
