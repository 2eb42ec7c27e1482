//! Convolutions whose filters see one channel each: a sum per output on the ordinary cores.
//!
//! ```text
//! time = start + max(multiply-adds x 2 loads / (32 loads a cycle and SM), bytes / HBM)
//! ```
//!
//! PyTorch's kernels (aten/src/ATen/native/cuda/DepthwiseConv2d.cu) give an output to a thread, which loads an input and a
//! weight for every multiplication and addition; nothing is shared between channels. An SM of Volta, Ampere (GA100) and
//! Hopper loads for 32 threads a cycle (NVIDIA's white papers: 32 load/store units). It does 64 multiply-adds in fp32 there
//! on V100 and A100, so the loads allow a quarter of the fp32 peak; elsewhere that is an estimate.

use super::rows::Blocks;
use super::{Attached, Convolution, Dtype, KernelClass, KernelCost, KernelError, KernelModel, StreamClass};

/// Share of the fp32 peak that a pair of loads for each multiply-add leaves.
const LOADED: f64 = 32.0 / 2.0 / 64.0;
/// Threads of a block, an output each (`CUDA_NUM_THREADS` of PyTorch).
const BLOCK_OUTPUTS: u64 = 1_024;
/// Blocks of so many threads that an SM of 2,048 threads holds at once.
const BLOCKS_PER_SM: u64 = 2;

impl KernelModel {
    /// A convolution whose groups have one channel.
    pub(super) fn depthwise(
        &self,
        shape: &Convolution,
        attached: &Attached,
    ) -> Result<KernelCost, KernelError> {
        let parameters = self.parameters.stream(StreamClass::Elementwise)?;
        let rate = LOADED * self.peak(Dtype::Fp32)? / f64::from(self.facts.sms.max(1));
        let ([height, width], flops) = (shape.output(), shape.flops());
        let outputs =
            [shape.out_channels, height, width].into_iter().fold(shape.batch, u64::saturating_mul).max(1);
        // Each thread loads what a filter covers, and so does the prologue.
        let covered = flops / 2.0;
        let blocks = Blocks {
            count: outputs.div_ceil(BLOCK_OUTPUTS),
            resident: BLOCKS_PER_SM,
            bytes: attached.traffic(shape.bytes(), [shape.input_bytes(), shape.output_bytes()]),
            achieved: parameters.achieved,
            serial: 0.0,
            seconds: |sms| {
                let before = attached.before.map_or(0.0, |each| self.issue_seconds(each, covered, sms));
                let behind = self.issue_seconds(attached.behind, outputs as f64, sms);
                flops / (rate * f64::from(sms)) + before + behind
            },
        };
        let class = KernelClass::Stream(StreamClass::Elementwise);
        Ok(blocks.cost(self, parameters.start_us, flops, class))
    }
}
