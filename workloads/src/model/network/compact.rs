//! Compact materialisation (Hector, ASPLOS 2024): what each edge has, but depends on a node at one
//! of its ends and on its type alone, is there once for each pair of the two. Systems that run
//! relation by relation have it once for each node of the type at that end, with edges or without.

use super::layer::{By, End, Made, NetworkLayer, Space, ValueId};

/// Moves every such value of edges to a space of nodes at one end.
#[must_use]
pub(super) fn stored_at(mut layer: NetworkLayer, space: fn(End) -> Space) -> NetworkLayer {
    for id in layer.ids() {
        if layer.get(id).space == Space::Edges
            && let Some(end) = depends(&layer, id)
        {
            layer.values[id.0].space = space(end);
        }
    }
    layer
}

/// The end that a product of edges depends on, beside their type.
fn depends(layer: &NetworkLayer, id: ValueId) -> Option<End> {
    let Made::Linear(of, weight) = layer.get(id).made else { return None };
    if layer.weights[weight.0].by == By::Nothing {
        return None;
    }
    match layer.get(of).space {
        Space::Edges => None,
        nodes => Some(nodes.end()),
    }
}
