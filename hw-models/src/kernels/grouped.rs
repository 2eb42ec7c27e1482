//! Grouped matrix products: the experts of a mixture, the types of a graph.
//!
//! One kernel works through the tiles of all groups, so that waves are counted over all of them together and the start
//! is paid once; it is a product with a batch, at rates that were measured on grouped kernels. Groups of unequal rows
//! count as so many of their mean.

use super::{Gemm, KernelClass, KernelCost, KernelError, KernelModel, Shape};

/// Products of groups that differ in their operands, in one kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupedGemm {
    /// The groups as a batch of equal products: `m` is the mean of their rows where rows are dealt out (forward, input
    /// gradient), `k` where rows are summed over (weight gradient).
    pub groups: Gemm,
}

impl KernelModel {
    /// A grouped matrix product.
    ///
    /// # Errors
    /// When the GPU has no rate or the catalogue no parameters for the type.
    pub fn grouped(&self, shape: &GroupedGemm) -> Result<KernelCost, KernelError> {
        let gemm = &shape.groups;
        let factor = self.parameters.grouped(gemm.dtype)?.layout(gemm.layout);
        let parameters = self.parameters.gemm(gemm.dtype)?;
        let cost = self.product(gemm, parameters, factor, KernelClass::Grouped(gemm.dtype))?;
        let compute = gemm.flops() / self.peak(gemm.dtype)?;
        Ok(self.corrected(cost, compute, || shape.among_measured()))
    }
}

impl GroupedGemm {
    /// Its place among measured products.
    pub(crate) fn among_measured(&self) -> Shape {
        self.groups.among_measured()
    }
}
