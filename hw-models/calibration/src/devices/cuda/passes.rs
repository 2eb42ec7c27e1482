//! Passes over memory.
#![expect(unsafe_code, reason = "arrays are as long as the passes over them, which the driver cannot check")]

use cudarc::driver::sys::CUstream;

use super::Gpu;
use super::kernels::Streaming;
use super::memory::Rotation;
use super::timer::{BEYOND, Enqueue};
use crate::measure::{DeviceError, MemoryPass};
use hw_models::kernels::Dtype;

/// A pass, and its arrays.
pub(super) struct Passes {
    kernel: Streaming,
    arrays: Rotation,
    /// How many.
    count: usize,
    again: bool,
}

impl Passes {
    pub(super) fn of(gpu: &Gpu, task: &MemoryPass) -> Result<Self, DeviceError> {
        let count = task.pattern.arrays() as usize;
        let beyond = if task.again { 0 } else { BEYOND * gpu.facts.cache };
        let arrays = Rotation::of(&vec![task.bytes; count], beyond)?;
        // Of bf16 whatever the type: what is streamed is as random as can be.
        gpu.kernels.fill(gpu.timer.stream.cu_stream(), Dtype::Bf16, arrays.region(), arrays.first(count))?;
        Ok(Self { kernel: gpu.kernels.pass(task)?, arrays, count, again: task.again })
    }
}

impl Enqueue for Passes {
    fn enqueue(&self, stream: CUstream, at: u64) -> Result<(), DeviceError> {
        // A kernel that reads one array alone does not look at the third.
        let array = |i: usize| self.arrays.array(i.min(self.count - 1), at);
        // SAFETY: the arrays are those of the task, and live as long as this does.
        unsafe { self.kernel.launch(stream, [array(0), array(1), array(2)]) }
    }

    fn is_hot(&self) -> bool {
        self.again
    }
}
