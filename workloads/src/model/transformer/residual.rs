//! Bias, dropout and addition of a branch to the residual stream.

use super::Bias;
use super::draft::{Draft, Name};
use super::execution::ShardedTransformer;
use super::names::names;
use crate::graph::operator::{Math, StreamClass};

names! { $
    /// Names of the operators and tensors where a branch ends.
    ResidualNames by residual_names;
    fused: "" _ " to residual",
    bias: "" _ " bias",
    dropout: "" _ " dropout",
    add: "" _ " residual addition",
    dropped: "" _ " dropped",
    mask: "" _ " dropout mask",
    output: "" _ " residual",
    dropout_gradient: "" _ " dropout gradient",
    bias_gradient: "" _ " bias gradient",
}

impl ResidualNames {
    /// `residual + dropout(branch + bias)`: 7 bytes an element as one kernel with half precision and dropout, 15 as
    /// three. The mask takes one byte an element.
    pub(super) fn forward(
        &self,
        draft: &mut Draft,
        on: &ShardedTransformer,
        branch: Name,
        residual: Name,
    ) -> Name {
        let elements = on.residual_elements();
        let bytes = on.bytes(elements);
        let mask = if on.model().dropout { elements } else { 0 };
        let class = StreamClass::Elementwise;
        let result = [(self.output, bytes), (self.mask, mask)];
        let result = if on.model().dropout { &result[..] } else { &result[..1] };
        if on.execution().fusion.residual {
            let pass =
                draft.stream(self.fused, class, (2 * bytes, bytes + mask), &[branch, residual], result);
            pass.math = (!on.model().dropout).then_some(Math::Add);
            return self.output;
        }
        if on.model().bias == Bias::All && !on.execution().fusion.bias {
            draft.stream(self.bias, class, (bytes, bytes), &[branch], &[]).math = Some(Math::Bias);
        }
        let mut branch = branch;
        if on.model().dropout {
            let writes = [(self.dropped, bytes), (self.mask, mask)];
            draft.stream(self.dropout, class, (bytes, bytes + mask), &[branch], &writes).math =
                Some(Math::Dropout);
            branch = self.dropped;
        }
        let pass = draft.stream(self.add, class, (2 * bytes, bytes), &[branch, residual], &result[..1]);
        pass.math = Some(Math::Add);
        self.output
    }

    /// From the gradient of the sum to that of the branch; the residual's is the same as that of the sum.
    pub(super) fn backward(&self, draft: &mut Draft, on: &ShardedTransformer, gradient: Name) -> Name {
        let elements = on.residual_elements();
        let bytes = on.bytes(elements);
        let mut branch = gradient;
        if on.model().dropout {
            let reads = [gradient, self.mask];
            let writes = [(self.dropout_gradient, bytes)];
            draft.stream(
                self.dropout_gradient,
                StreamClass::Elementwise,
                (bytes + elements, bytes),
                &reads,
                &writes,
            );
            branch = self.dropout_gradient;
        }
        if on.model().bias == Bias::All && on.trains_weights() {
            draft.stream(self.bias_gradient, StreamClass::Reduction, (bytes, 0), &[branch], &[]);
        }
        branch
    }
}

/// Sums two gradients of the residual stream.
pub(super) fn add_gradients(
    draft: &mut Draft,
    on: &ShardedTransformer,
    addends: [Name; 2],
    sum: Name,
) -> Name {
    let bytes = on.bytes(on.residual_elements());
    draft.stream(sum, StreamClass::Elementwise, (2 * bytes, bytes), &addends, &[(sum, bytes)]);
    sum
}
