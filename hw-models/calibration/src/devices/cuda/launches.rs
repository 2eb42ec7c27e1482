//! What launching kernels takes on the host, and what passes between them.

use std::time::Instant;

use cudarc::driver::sys::CUstream;

use super::kernels::{Empty, Turning};
use super::timer::{Enqueue, SHORTEST, Timer};
use super::{Gpu, Timed};
use crate::measure::{DeviceError, Launch, Spin};

/// Launches that the driver takes before it makes the host wait for the GPU.
const AHEAD: u32 = 256;

/// Kernels that do nothing.
pub(super) struct Launches {
    kernel: Empty,
    waited: bool,
}

impl Launches {
    pub(super) fn of(gpu: &Gpu, task: &Launch) -> Result<Self, DeviceError> {
        Ok(Self { kernel: gpu.kernels.empty(task.arguments)?, waited: task.waited })
    }
}

impl Timed for Launches {
    fn time(&mut self, timer: &Timer, executions: u32) -> Result<f64, DeviceError> {
        let stream = timer.stream.cu_stream();
        if self.waited {
            timer.wait()?;
            let begun = Instant::now();
            for _ in 0..executions {
                self.kernel.launch(stream)?;
                timer.wait()?;
            }
            return Ok(begun.elapsed().as_secs_f64());
        }
        let (mut left, mut seconds) = (executions, 0.0);
        while left > 0 {
            let now = left.min(AHEAD);
            timer.wait()?;
            let begun = Instant::now();
            (0..now).try_for_each(|_| self.kernel.launch(stream))?;
            seconds += begun.elapsed().as_secs_f64();
            left -= now;
        }
        Ok(seconds)
    }
}

/// Kernels that turn, launched one by one: the difference between many and few, as of graphs, is without what comes before the
/// first one and after the last.
pub(super) struct Spins(Spinning);

/// Launches of the longer and the shorter row.
const ROWS: [u32; 2] = [120, 20];

/// A kernel that turns for so many clocks.
pub(super) struct Spinning {
    kernel: Turning,
    clocks: u64,
}

impl Spins {
    pub(super) fn of(gpu: &Gpu, task: &Spin) -> Result<Self, DeviceError> {
        Ok(Self(Spinning::of(gpu, task)?))
    }
}

impl Spinning {
    pub(super) fn of(gpu: &Gpu, task: &Spin) -> Result<Self, DeviceError> {
        Ok(Self { kernel: gpu.kernels.spin(0)?, clocks: u64::from(task.clocks) })
    }
}

impl Timed for Spins {
    fn time(&mut self, timer: &Timer, executions: u32) -> Result<f64, DeviceError> {
        let step = ROWS[0] - ROWS[1];
        let rounds = executions.div_ceil(step);
        let mut difference = 0.0;
        for _ in 0..rounds {
            difference += timer.in_stream(&self.0, ROWS[0])? - timer.in_stream(&self.0, ROWS[1])?;
        }
        Ok((difference / f64::from(rounds * step)).max(SHORTEST) * f64::from(executions))
    }
}

impl Enqueue for Spinning {
    fn enqueue(&self, stream: CUstream, _: u64) -> Result<(), DeviceError> {
        self.kernel.launch(stream, 1, self.clocks)
    }

    fn is_hot(&self) -> bool {
        true
    }
}
