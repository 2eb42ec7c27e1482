//! A product that goes on until the board is warm.

use std::thread;
use std::time::{Duration, Instant};

use super::products::Products;
use super::timer::Timer;
use super::{Gpu, Timed};
use crate::measure::{DeviceError, Phase, Sustained};

/// How long the load goes on before it counts as held.
const LOAD: Duration = Duration::from_secs(4);
/// How long the GPU rests before a load begins.
const REST: Duration = Duration::from_millis(300);
/// Products that are queued at a time.
const QUEUED: u32 = 16;

/// A product under load.
pub(super) struct Load {
    product: Products,
    phase: Phase,
}

impl Load {
    pub(super) fn of(gpu: &Gpu, task: &Sustained) -> Result<Self, DeviceError> {
        let product = Products::of(gpu, &task.product, task.data)?;
        if task.phase == Phase::Held {
            let begun = Instant::now();
            while begun.elapsed() < LOAD {
                gpu.timer.in_stream(&product, QUEUED)?;
            }
        }
        Ok(Self { product, phase: task.phase })
    }
}

impl Timed for Load {
    fn time(&mut self, timer: &Timer, executions: u32) -> Result<f64, DeviceError> {
        timer.wait()?;
        if self.phase == Phase::Begun {
            thread::sleep(REST);
        }
        timer.in_stream(&self.product, executions)
    }
}
