//! A program over the operators of a model.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use workloads::program::statement::{BatchLoader, Fragment, Program, Statement};

use super::{Count, LayerList, Transformer};

/// A program over the operators of a model on one GPU: an iteration in Python, statement by
/// statement. `software.execution` says how it is executed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Programmed {
    /// A published program; what is written beside it takes the place of its own.
    #[schemars(extend("examples" = ["dropblock"]))]
    pub preset: Option<String>,
    /// The model whose operators it runs.
    pub base: Option<ProgramBase>,
    /// Operators that `run` may name, in addition to those of the model.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub fragments: IndexMap<String, Fragment>,
    /// Source of batches; if not given, they are in the memory of the GPU.
    pub loader: Option<BatchLoader>,
    /// Statements of each iteration, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub iteration: Vec<Statement>,
}

/// A published program.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProgramPreset {
    /// Where it is from.
    pub(crate) source: String,
    /// Samples of an iteration, where the scenario says none.
    pub(crate) micro_batch: Count<1, 1_000_000>,
    /// Tokens of a sample, where the scenario says none.
    pub(crate) sequence: Option<Count<1, 16_777_216>>,
    /// Its model.
    pub(crate) base: ProgramBase,
    /// Operators beside those of the model.
    #[serde(default)]
    pub(crate) fragments: IndexMap<String, Fragment>,
    /// Its statements.
    pub(crate) iteration: Vec<Statement>,
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
    /// Takes what is not written from a published program.
    pub(crate) fn fill(&mut self, preset: &ProgramPreset) {
        self.base.get_or_insert_with(|| preset.base.clone());
        for (name, fragment) in &preset.fragments {
            self.fragments.entry(name.clone()).or_insert_with(|| fragment.clone());
        }
        if self.iteration.is_empty() {
            self.iteration.clone_from(&preset.iteration);
        }
    }

    /// The program that is executed.
    pub(crate) fn program(&self) -> Program<'_> {
        let Self { fragments, loader, iteration, .. } = self;
        Program { fragments, loader: loader.as_ref(), iteration }
    }
}
