//! Which libraries a framework takes its kernels from, as far as that decides how fast they are.
//!
//! The tables that kernels are fitted to time one kernel at a time, with the libraries of their day. In a training run
//! products follow each other without end, so that the board's power holds them at
//! [`GemmParameters::continuous`](super::GemmParameters::continuous), and a run of some years ago had other kernels.

use super::{AttentionParameters, KernelParameters};

/// Libraries of a framework.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Libraries {
    /// Where flash attention is from.
    pub flash: Flash,
    /// Fraction of peak that matrix products of 16 bits hold; none: what the catalogue has.
    pub products: Option<f64>,
    /// Whether products are [persistent](KernelParameters::persistent); none: what the catalogue has.
    pub persistent: Option<bool>,
}

/// Implementations of flash attention.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flash {
    /// FlashAttention-2 in CUDA.
    #[default]
    Second,
    /// The first algorithm in Triton (`flash_attn_triton.py`), as of 2022 and 2023.
    Triton,
}

/// How much faster FlashAttention-2 is than the one in Triton, forward: "around 1.3-1.5x" (Dao, "FlashAttention-2", 2023,
/// section 4.1, on A100).
const FORWARD: f64 = 1.4;
/// The same backward: "around 2x".
const BACKWARD: f64 = 2.0;

impl KernelParameters {
    /// The parameters in a training run with `libraries`.
    #[must_use]
    pub fn in_training(mut self, libraries: Libraries) -> Self {
        for (dtype, gemm) in &mut self.gemm {
            let held = libraries.products.filter(|_| dtype.bytes() == 2).or(gemm.continuous);
            gemm.sustained = held.unwrap_or(gemm.sustained);
        }
        self.persistent = libraries.persistent.unwrap_or(self.persistent);
        if libraries.flash == Flash::Triton {
            self.attention.slow_down(FORWARD, BACKWARD);
        }
        self
    }
}

impl AttentionParameters {
    fn slow_down(&mut self, forward: f64, backward: f64) {
        self.forward.e_max /= forward;
        self.backward.e_max /= backward;
    }
}
