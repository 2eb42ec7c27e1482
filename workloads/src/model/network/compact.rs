//! Compact materialisation (Hector, ASPLOS 2024): what each edge has, but depends on a node at one
//! of its ends and on its type alone, is there once for each pair of the two.

use super::layer::{By, End, Made, NetworkLayer, Space, ValueId};

/// Moves every such value of edges to pairs.
#[must_use]
pub(super) fn compacted(mut layer: NetworkLayer) -> NetworkLayer {
    for id in layer.ids() {
        if layer.get(id).space == Space::Edges
            && let Some(end) = depends(&layer, id)
        {
            layer.values[id.0].space = Space::Pairs(end);
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
        Space::Sources | Space::Pairs(End::Source) => Some(End::Source),
        Space::Destinations | Space::Pairs(End::Destination) => Some(End::Destination),
        Space::Edges => None,
    }
}
