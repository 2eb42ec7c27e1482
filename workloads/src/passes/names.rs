//! Names of operators and tensors, by which files of users and lists for them tell these apart.
//!
//! An operator of a layer is `layers.3.qkv`, layers counted over the whole model; others are
//! `embedding.`, `head.` or `stages.1.` and their label. Blanks are hyphens, and a second operator
//! of one name in a pass ends in `#2`. A tensor has the name of the operator that fills it, a
//! second one of it ends in `:2`.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::graph::part::PartKind;
use crate::graph::{OpGraph, OpId, StorageId};

use super::LayerOps;

/// Names of the operators of visits, and of what they fill.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    ops: BTreeMap<OpId, String>,
    tensors: BTreeMap<StorageId, String>,
}

impl Names {
    /// Names in a graph with these layers, by position of the chain, then in the order of the
    /// forward pass.
    pub(crate) fn of(graph: &OpGraph, layers: &[LayerOps]) -> Self {
        let places = places(layers);
        let (mut ops, mut tensors) = (BTreeMap::new(), BTreeMap::new());
        for ((stage, ..), visit) in graph.visits() {
            let mut used: BTreeMap<String, u32> = BTreeMap::new();
            for &op in visit {
                let place = places.iter().find(|(ranges, _)| ranges.iter().any(|it| it.contains(&op.0)));
                let place = place.map_or_else(|| format!("stages.{stage}"), |(_, name)| name.clone());
                let label = graph.operator(op).name.replace(' ', "-");
                let name = counted(format!("{place}.{label}"), '#', &mut used);
                // What is filled piece by piece is named by the last of these operators.
                let mut filled = BTreeMap::new();
                for &storage in &graph.get(op).writes {
                    tensors.insert(storage, counted(name.clone(), ':', &mut filled));
                }
                ops.insert(op, name);
            }
        }
        Self { ops, tensors }
    }

    /// Name of an operator; empty for one of no visit.
    pub(crate) fn op(&self, op: OpId) -> &str {
        self.ops.get(&op).map_or("", String::as_str)
    }

    /// Name of a tensor; empty where no visit fills it.
    pub(crate) fn tensor(&self, storage: StorageId) -> &str {
        self.tensors.get(&storage).map_or("", String::as_str)
    }
}

/// Operators of each layer, of the embedding and of the head, with their names.
fn places(layers: &[LayerOps]) -> Vec<([Range<u32>; 2], String)> {
    let mut count = 0..;
    let name = |kind| match kind {
        PartKind::Embedding => "embedding".to_owned(),
        PartKind::Layer => format!("layers.{}", count.next().unwrap_or(0)),
        PartKind::Head => "head".to_owned(),
    };
    let names: Vec<String> = layers.iter().map(|layer| layer.kind).map(name).collect();
    layers.iter().map(|layer| [layer.forward.clone(), layer.backward.clone()]).zip(names).collect()
}

/// A name, with its number behind a mark unless it is the first.
fn counted(name: String, mark: char, used: &mut BTreeMap<String, u32>) -> String {
    let count = used.entry(name.clone()).or_insert(0);
    *count += 1;
    if *count == 1 { name } else { format!("{name}{mark}{count}") }
}
