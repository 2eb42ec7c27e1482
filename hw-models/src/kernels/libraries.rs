//! Which libraries a framework takes its kernels from, as far as that decides how fast they are.
//!
//! The tables that kernels are fitted to time one kernel at a time, with the libraries of their day. In a training run
//! products follow each other without end, so that the board's power holds them at
//! [`GemmParameters::continuous`](super::GemmParameters::continuous), whatever a table says of shapes that it timed for a few
//! milliseconds, and a run of some years ago had other kernels.

use serde::{Deserialize, Serialize};

use super::{AttentionParameters, Dtype, GpuFacts, KernelParameters};

/// Libraries of a framework.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Libraries {
    /// Where flash attention is from.
    pub flash: Flash,
    /// Fraction of peak that matrix products of 16 bits hold; none: what the catalogue has.
    pub products: Option<f64>,
    /// Whether products are [persistent](KernelParameters::persistent); none: what the catalogue has.
    pub persistent: Option<bool>,
    /// True if products in fp16 are summed in fp16.
    pub half_sums: bool,
}

/// Implementations of flash attention.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Flash {
    /// FlashAttention-2 in CUDA.
    #[default]
    Second,
    /// FlashAttention-3.
    Third,
    /// That of cuDNN.
    Cudnn,
    /// The first algorithm in Triton (`flash_attn_triton.py`), as of 2022 and 2023.
    Triton,
}

/// How fast an implementation of flash attention is, for each flop of one that the parameters of a generation are of.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Speedup {
    /// Forward.
    pub forward: f64,
    /// Backward.
    pub backward: f64,
}

/// Of the one in Triton, than which FlashAttention-2 is "around 1.3-1.5x" faster forward and "around 2x" backward (Dao,
/// "FlashAttention-2", 2023, section 4.1, on A100).
const TRITON: Speedup = Speedup { forward: 1.0 / 1.4, backward: 1.0 / 2.0 };

impl GpuFacts {
    /// These facts with the rates of `libraries`.
    #[must_use]
    pub fn with(mut self, libraries: Libraries) -> Self {
        if let Some(peak) = self.fp16_sums_flops.filter(|_| libraries.half_sums) {
            self.peak_flops.insert(Dtype::Fp16, peak);
        }
        self
    }
}

impl KernelParameters {
    /// The parameters in a training run with `libraries`.
    #[must_use]
    pub fn in_training(mut self, libraries: Libraries) -> Self {
        for (dtype, gemm) in &mut self.gemm {
            let held = libraries.products.filter(|_| dtype.bytes() == 2).or(gemm.continuous);
            gemm.sustained = held.unwrap_or(gemm.sustained);
            gemm.held = held;
        }
        self.persistent = libraries.persistent.unwrap_or(self.persistent);
        if let Some(speedup) = self.attention.speedup(libraries.flash) {
            // Times are told as a whole: what is not hidden of memory is faster, too.
            for (pass, times) in [
                (&mut self.attention.forward, speedup.forward),
                (&mut self.attention.backward, speedup.backward),
            ] {
                pass.e_max *= times;
                pass.serial /= times;
            }
        }
        self
    }
}

impl AttentionParameters {
    /// None: as fast as what the parameters are of.
    fn speedup(&self, flash: Flash) -> Option<Speedup> {
        let known = self.libraries.get(&flash).copied();
        known.or_else(|| (flash == Flash::Triton).then_some(TRITON))
    }
}
