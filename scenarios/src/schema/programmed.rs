//! A program over the operators of a model.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use workloads::program::statement::{BatchLoader, Fragment, Program, Statement};

use super::{LayerList, Transformer};

/// A program over the operators of a model on one GPU: what Python does in an iteration, statement by statement. How it is
/// executed says `software.execution`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Programmed {
    /// The model whose operators it runs.
    pub base: ProgramBase,
    /// Operators that `run` may name beside those of the model.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub fragments: IndexMap<String, Fragment>,
    /// Where batches come from; if not given they are in the memory of the GPU.
    pub loader: Option<BatchLoader>,
    /// Statements of each iteration, in order.
    pub iteration: Vec<Statement>,
}

/// The model of a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProgramBase {
    /// A transformer, decoder or encoder.
    Transformer(Box<Transformer>),
    /// A list of layers.
    Layers(Box<LayerList>),
}

impl Programmed {
    /// What is executed.
    pub(crate) fn program(&self) -> Program<'_> {
        let Self { fragments, loader, iteration, .. } = self;
        Program { fragments, loader: loader.as_ref(), iteration }
    }
}
