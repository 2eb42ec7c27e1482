//! Graph networks: layers that combine the features of a node with those of its neighbours, with
//! weights for types of nodes and edges.
//!
//! ```text
//!   NetworkKind      GCN, GraphSAGE, GAT, R-GCN, RGAT, HGT
//!      |
//!   NetworkLayer     values with rows of nodes, of edges, or of pairs of a node and a type
//!      |  reorder, compact
//!      |  Subgraph: rows and edges, all or sampled; System: which kernels, Support: which networks
//!   LayeredModel     blocks of operators, as lists of layers have
//! ```

mod compact;
mod emit;
#[cfg(test)]
mod evaluate;
mod kinds;
mod layer;
mod model;
mod reorder;
mod subgraph;
mod support;
mod system;

pub use kinds::{LayerShape, NetworkKind};
pub use model::Network;
pub use subgraph::{RelationCounts, Subgraph};
pub use support::{Asked, SUPPORT, Support};
pub use system::{Hector, System};
