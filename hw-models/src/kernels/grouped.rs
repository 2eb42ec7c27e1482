//! Grouped matrix products: the experts of a mixture, the types of a graph.
//!
//! The tiles of all groups share the SMs, so that waves are counted over all of them together and
//! the start is paid once: a product with a batch, at rates that were measured on grouped products.
//! Where a library launches each group on its own (TransformerEngine's loop over streams), the next
//! group cannot start before it is issued: 160 groups of 154 rows take twice as long on B200 as 80
//! of 308, which are the same products. Groups of unequal rows count as so many of their mean. The
//! contraction of a weight gradient is as short as a group's rows, so that what its blocks add to
//! in memory is less hidden behind them than in a single product: `serial` is fitted apart. On B200
//! sums in fp32 take a third longer than in bf16.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::gemm::Factors;
use super::{
    Attached, Dtype, Gemm, GemmParameters, KernelClass, KernelCost, KernelError, KernelModel, Layout, Shape,
};
use crate::provenance::{Confidence, Origin, Provenance};

/// Source of rates in 8 bits: those of single products in 8 bits, and what groups add in 16.
pub(super) static IN_8_BITS: LazyLock<Provenance> = LazyLock::new(|| Provenance {
    origin: Origin::Estimate,
    source: "factors of grouped products in 16 bits on rates of single products in 8 bits".to_owned(),
    confidence: Confidence::Low,
});

/// Products of groups that differ in their operands, in one kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
        let grouped = self.parameters.grouped(gemm.dtype)?;
        let (factor, issued) = (grouped.layout(gemm.layout), gemm.batch as f64 * grouped.issue_us * 1e-6);
        let single = self.parameters.gemm(gemm.dtype)?;
        let parameters =
            &GemmParameters { serial: grouped.serial.unwrap_or(single.serial), ..single.clone() };
        let (factors, class) = (Factors { tile: factor, held: factor }, KernelClass::Grouped(gemm.dtype));
        let mut cost = self.product(gemm, &Attached::NONE, parameters, factors, class)?;
        for row in &mut cost.rows {
            row.bytes_per_s = row.bytes_per_s.min(cost.bytes as f64 / issued);
        }
        let compute = gemm.flops() / (self.peak(gemm.dtype)? * parameters.most(factor));
        Ok(self.corrected(cost, compute, || shape.among_measured()))
    }
}

impl GroupedGemm {
    /// Its place among measured products: weight gradients that are not added to fp32 have one of
    /// their own.
    pub fn among_measured(&self) -> Shape {
        let Gemm { layout, accumulate, .. } = self.groups;
        let mut shape = self.groups.among_measured();
        if layout == Layout::WeightGradient && accumulate != Some(Dtype::Fp32) {
            shape.kind += 1;
        }
        shape
    }
}
