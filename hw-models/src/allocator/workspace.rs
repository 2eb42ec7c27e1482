//! Memory that a framework allocates for libraries.

use indexmap::IndexMap;
use serde::Deserialize;

use crate::provenance::Provenance;

/// What libraries take, `hw-models/catalogue/memory.yaml`: a [`FrameworkMemory`].
pub const MEMORY: &str = include_str!("../../catalogue/memory.yaml");

/// What libraries take.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrameworkMemory {
    /// For matrix products, one for each stream that has them.
    pub matrix_workspace: Workspaces,
}

/// Workspaces by the generation of the GPU.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workspaces {
    /// Of generations without an entry.
    pub default: Workspace,
    /// By `architecture` of a GPU.
    pub generations: IndexMap<String, Workspace>,
}

/// A workspace and where its size is from.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workspace {
    /// Its size.
    pub bytes: u64,
    /// Where that is from.
    pub provenance: Provenance,
}

impl Workspaces {
    /// That of a GPU of this generation.
    pub fn of(&self, architecture: &str) -> &Workspace {
        self.generations.get(architecture).unwrap_or(&self.default)
    }
}
