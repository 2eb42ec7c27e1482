//! Linear operators in another order (Hector, ASPLOS 2024): of `X W w` the weights are multiplied
//! first, for each type of edges, and `X` by their product.

use super::layer::{By, Made, NetworkLayer, ValueId, Weight, WeightId};

/// Folds every product of a product whose inner value may go, or is no wider for that.
///
/// `X (W w)` instead of `(X W) w` saves the inner product where nothing else reads it, and is
/// cheaper by itself where `w` has fewer columns than rows. Both weights must be chosen by types
/// that the outer one knows: a type of edges has one type of nodes at each end.
#[must_use]
pub(super) fn reordered(mut layer: NetworkLayer) -> NetworkLayer {
    for id in layer.ids() {
        if let Some((of, factors)) = chain(&layer, id) {
            let product = layer.folded(factors);
            layer.values[id.0].made = Made::Linear(of, product);
        }
    }
    layer
}

/// Innermost value of a chain of two products, and its weights.
fn chain(layer: &NetworkLayer, id: ValueId) -> Option<(ValueId, [WeightId; 2])> {
    let Made::Linear(inner, outer_weight) = layer.get(id).made else { return None };
    let Made::Linear(of, inner_weight) = layer.get(inner).made else { return None };
    let outer = &layer.weights[outer_weight.0];
    let narrows = outer.columns < outer.rows;
    let is_typed = outer.by == By::EdgeType;
    (is_typed && (narrows || layer.readers(inner).count() == 1)).then_some((of, [inner_weight, outer_weight]))
}

impl NetworkLayer {
    /// The product of two weights: every head of the second has columns of its own.
    fn folded(&mut self, factors: [WeightId; 2]) -> WeightId {
        let [inner, outer] = factors.map(|factor| &self.weights[factor.0]);
        let (heads, rows, columns) = (1, inner.rows, outer.heads * outer.columns);
        let weight =
            Weight { name: "folded weight", by: outer.by, heads, rows, columns, product: Some(factors) };
        self.weights.push(weight);
        WeightId(self.weights.len() - 1)
    }
}
