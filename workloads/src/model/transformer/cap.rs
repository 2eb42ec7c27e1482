//! A soft cap, `c tanh(x / c)`, on attention scores or logits (Gemma 2, 2024, section 2): a kernel
//! an operator, or one for all three where activations are fused.

use super::draft::{Draft, Name};
use super::execution::ShardedTransformer;
use super::names::names;
use crate::graph::operator::StreamClass;

names! { $
    /// Names of the operators and tensors of a cap.
    Cap by cap_names;
    raw: "" _ " before cap",
    cap: "cap " _ "",
    divide: "divide " _ " by cap",
    divided: "" _ " divided by cap",
    tanh: "tanh of " _ "",
    squashed: "" _ " within one",
    cap_gradient: "cap " _ " gradient",
    scale_gradient: "scale " _ " gradient by cap",
    scaled_gradient: "" _ " gradient times cap",
    tanh_gradient: "tanh gradient of " _ "",
    squashed_gradient: "" _ " gradient within one",
    raw_gradient: "" _ " gradient before cap",
}

impl Cap {
    /// The forward pass from tensor [`Self::raw`] of `bytes` to tensor `capped`.
    pub(super) fn forward(&self, draft: &mut Draft, on: &ShardedTransformer, capped: Name, bytes: u64) {
        let mut pass = |name, from, to| {
            draft.stream(name, StreamClass::Elementwise, (bytes, bytes), &[from], &[(to, bytes)]);
        };
        if on.execution().fusion.activation {
            pass(self.cap, self.raw, capped);
            return;
        }
        pass(self.divide, self.raw, self.divided);
        pass(self.tanh, self.divided, self.squashed);
        pass(self.cap, self.squashed, capped);
    }

    /// From the `gradient` of what was `capped` to that of the raw tensor, whose name is returned.
    pub(super) fn backward(
        &self,
        draft: &mut Draft,
        on: &ShardedTransformer,
        (capped, gradient): (Name, Name),
        bytes: u64,
    ) -> Name {
        let class = StreamClass::Elementwise;
        let writes = [(self.raw_gradient, bytes)];
        if on.execution().fusion.activation {
            draft.stream(self.cap_gradient, class, (2 * bytes, bytes), &[gradient, capped], &writes);
            return self.raw_gradient;
        }
        let scaled = [(self.scaled_gradient, bytes)];
        draft.stream(self.scale_gradient, class, (bytes, bytes), &[gradient], &scaled);
        let reads = [self.scaled_gradient, self.squashed];
        let within = [(self.squashed_gradient, bytes)];
        draft.stream(self.tanh_gradient, class, (2 * bytes, bytes), &reads, &within);
        draft.stream(self.cap_gradient, class, (bytes, bytes), &[self.squashed_gradient], &writes);
        self.raw_gradient
    }
}
