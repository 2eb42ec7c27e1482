//! Kernels of GPUs that a scenario describes: those of the GPU that one is like, at its own peaks
//! and rates.

use crate::catalogue::Gpu;
use crate::provenance::Provenance;

use super::{KernelCatalogue, KernelError, KernelParameters};

impl KernelCatalogue {
    /// The parameters of a GPU by its name; of one that is described as like another, that one's as
    /// estimates.
    ///
    /// # Errors
    /// When its generation is unknown.
    pub fn of(&self, name: &str, gpu: &Gpu) -> Result<KernelParameters, KernelError> {
        match &gpu.like {
            None => self.parameters(name, &gpu.architecture),
            Some(like) => Ok(self.parameters(like, &gpu.architecture)?.carried_over(like)),
        }
    }
}

impl KernelParameters {
    /// Fractions and starts of this GPU for another, for which they are estimates.
    #[must_use]
    pub fn carried_over(mut self, from: &str) -> Self {
        let Self { cache, gemm, batched, grouped, convolution, attention, stream, .. } = &mut self;
        let products = gemm.values_mut().chain(batched.values_mut()).map(|products| &mut products.provenance);
        let convolutions = convolution.values_mut().map(|of_type| &mut of_type.provenance);
        let streams = stream.values_mut().map(|of_class| &mut of_class.provenance);
        let others = [&mut cache.provenance, &mut grouped.provenance, &mut attention.provenance];
        for provenance in products.chain(convolutions).chain(streams).chain(others) {
            *provenance = Provenance::carried_over(from);
        }
        self
    }
}
