//! RMSNorm in operators, `(x.float() * rsqrt(mean(x.float()^2) + eps)).type_as(x) * weight` as torchtitan and the authors of
//! Llama write it, with what autograd makes of it: fp32 in between, a kernel an operator. What is left out are those on a
//! number a token.

use super::draft::{Draft, Name};
use super::execution::ShardedTransformer;
use super::norm::NormNames;
use crate::graph::operator::{Dtype, StreamClass};

impl NormNames {
    /// Of so many bytes of input and of statistics.
    pub(super) fn forward_in_operators(
        &self,
        draft: &mut Draft,
        on: &ShardedTransformer,
        input: Name,
        (half, statistics): (u64, u64),
    ) {
        let (class, single) = (StreamClass::Elementwise, self.single_bytes(on, half));
        draft.stream(self.cast, class, (half, single), &[input], &[(self.single, single)]);
        draft.stream(self.square, class, (single, single), &[self.single], &[(self.squared, single)]);
        let writes = [(self.statistics, statistics)];
        draft.stream(self.mean, StreamClass::Reduction, (single, statistics), &[self.squared], &writes);
        let reads = [self.single, self.statistics];
        draft.stream(self.scale, class, (single + statistics, single), &reads, &[(self.scaled, single)]);
        draft.stream(self.cast_back, class, (single, half), &[self.scaled], &[(self.normed, half)]);
        draft.stream(self.weigh, class, (half, half), &[self.normed], &[(self.output, half)]);
    }

    /// From the gradient of the output to that of the input, and the weight's.
    pub(super) fn backward_in_operators(
        &self,
        draft: &mut Draft,
        on: &ShardedTransformer,
        gradient: Name,
        (half, statistics): (u64, u64),
    ) {
        let (class, reduction) = (StreamClass::Elementwise, StreamClass::Reduction);
        let single = self.single_bytes(on, half);
        draft.stream(self.normed_gradient, class, (half, half), &[gradient], &[(self.normed_gradient, half)]);
        if on.trains_weights() {
            let reads = [gradient, self.normed];
            draft.stream(self.products, class, (2 * half, half), &reads, &[(self.products, half)]);
            draft.stream(self.weight_gradient, reduction, (half, 0), &[self.products], &[]);
        }
        let (reads, writes) = ([self.normed_gradient], [(self.single_gradient, single)]);
        draft.stream(self.cast_gradient, class, (half, single), &reads, &writes);
        let (reads, writes) = ([self.single_gradient, self.statistics], [(self.scaled_gradient, single)]);
        draft.stream(self.scale_gradient, class, (single + statistics, single), &reads, &writes);
        // The scale's own gradient: a product, its sum over each token, and back through mean and square.
        let (reads, writes) = ([self.single_gradient, self.single], [(self.factor_gradient, single)]);
        draft.stream(self.factor_gradient, class, (2 * single, single), &reads, &writes);
        draft.stream(self.factor_sum, reduction, (single, statistics), &[self.factor_gradient], &[]);
        // Of the mean it is a number a token, spread over the row; of the power x^2 that times 2 x^1.
        let (reads, writes) = ([self.factor_gradient], [(self.mean_gradient, single)]);
        draft.stream(self.mean_gradient, class, (statistics, single), &reads, &writes);
        draft.stream(self.power, class, (single, single), &[self.single], &[(self.power, single)]);
        draft.stream(self.twice, class, (single, single), &[self.power], &[(self.twice, single)]);
        let (reads, writes) = ([self.mean_gradient, self.twice], [(self.square_gradient, single)]);
        draft.stream(self.square_gradient, class, (2 * single, single), &reads, &writes);
        let (reads, writes) = ([self.scaled_gradient, self.square_gradient], [(self.added, single)]);
        draft.stream(self.add, class, (2 * single, single), &reads, &writes);
        let (reads, writes) = ([self.added], [(self.input_gradient, half)]);
        draft.stream(self.cast_gradient_back, class, (single, half), &reads, &writes);
    }

    /// Bytes in fp32 of what takes `half` in the type of activations.
    const fn single_bytes(&self, on: &ShardedTransformer, half: u64) -> u64 {
        half / on.execution().dtype.bytes() * Dtype::Fp32.bytes()
    }
}
