//! Sums of gradients over micro-batches.

use super::draft::{Draft, Name};
use super::execution::ShardedTransformer;
use crate::graph::operator::StreamClass;

impl Draft {
    /// Appends a pass that adds the `gradient` of so many parameters, in the type of activations, to its sum over
    /// micro-batches.
    pub(super) fn accumulate(
        &mut self,
        name: impl Into<Name>,
        on: &ShardedTransformer,
        gradient: Name,
        parameters: u64,
    ) {
        let sum = parameters * on.execution().states.gradient_bytes();
        let traffic = (on.bytes(parameters) + sum, sum);
        self.stream(name, StreamClass::Elementwise, traffic, &[gradient], &[]);
    }
}
