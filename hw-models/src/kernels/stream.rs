//! Passes over memory: `start + bytes / (achieved fraction x HBM bandwidth)`.
//!
//! The achieved fraction differs by class because reductions wait at barriers and re-read what does not fit registers;
//! it is measured on tensors far larger than the cache.

use serde::{Deserialize, Serialize};

use super::rows::Blocks;
use super::{KernelClass, KernelCost, KernelError, KernelModel, picoseconds};

/// A pass over memory. A fused chain of operators is one pass over its distinct inputs and outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// What kind of kernel.
    pub class: StreamClass,
    /// Bytes read from HBM.
    pub bytes_read: u64,
    /// Bytes written to HBM.
    pub bytes_written: u64,
}

/// Kinds of streaming kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StreamClass {
    /// One output element from the input elements at its place; casts, copies, dropout, transposes in tiles.
    Elementwise,
    /// Softmax over rows, with or without scale and mask.
    Softmax,
    /// Layer normalisation over rows.
    LayerNorm,
    /// Root-mean-square normalisation over rows.
    RmsNorm,
    /// Sums over rows or columns (gradients of biases, norms).
    Reduction,
    /// Log-softmax and loss over a vocabulary.
    CrossEntropy,
    /// Rows gathered or scattered by index.
    Embedding,
    /// Fused update of parameters and optimizer states.
    Optimizer,
}

/// Bytes of one thread block: 128 threads, 4 elements each, 4 bytes read and 4 written (PyTorch's vectorised
/// elementwise kernel).
const BLOCK_BYTES: u64 = 4_096;
/// Thread blocks of 128 threads that an SM of 2,048 threads holds at once.
const BLOCKS_PER_SM: u64 = 16;

impl KernelModel {
    /// A pass over memory.
    ///
    /// # Errors
    /// When the catalogue has no parameters for the class.
    pub fn stream(&self, shape: &Stream) -> Result<KernelCost, KernelError> {
        let parameters = self.parameters.stream(shape.class)?;
        let bytes = shape.bytes_read.saturating_add(shape.bytes_written).max(1);
        let blocks = Blocks {
            count: bytes.div_ceil(BLOCK_BYTES),
            resident: BLOCKS_PER_SM,
            bytes,
            achieved: parameters.achieved,
            seconds: |_| 0.0,
        };
        Ok(KernelCost {
            fixed: picoseconds(parameters.start_us * 1e-6),
            bytes,
            flops: 0.0,
            sms_wanted: blocks.sms_wanted(self),
            rows: blocks.rows(self),
            class: KernelClass::Stream(shape.class),
        })
    }
}
