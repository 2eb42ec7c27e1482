//! Work that goes on until the board is warm, and draws what it draws.

use std::thread;
use std::time::{Duration, Instant};

use super::beside::work;
use super::timer::{Enqueue, Timer};
use super::{Gpu, Timed};
use crate::measure::{DeviceError, Phase, Sustained};

/// How long the load goes on before it counts as held.
const LOAD: Duration = Duration::from_secs(4);
/// How long the GPU rests before a load begins.
const REST: Duration = Duration::from_millis(300);
/// How long one execution of nothing takes.
const IDLE: Duration = Duration::from_millis(1);
/// Executions that are queued at a time.
const QUEUED: u32 = 16;

/// Work under load; none where the GPU is left alone.
pub(super) struct Load {
    work: Option<Box<dyn Enqueue>>,
    phase: Phase,
}

impl Load {
    pub(super) fn of(gpu: &Gpu, task: &Sustained) -> Result<Self, DeviceError> {
        let load = Self { work: work(gpu, task.work, task.data)?, phase: task.phase };
        if task.phase == Phase::Held {
            let begun = Instant::now();
            while begun.elapsed() < LOAD {
                load.execute(&gpu.timer, QUEUED)?;
            }
        }
        Ok(load)
    }

    /// Time of some executions (s).
    fn execute(&self, timer: &Timer, executions: u32) -> Result<f64, DeviceError> {
        if let Some(work) = &self.work {
            return timer.in_stream(&**work, executions);
        }
        let begun = Instant::now();
        thread::sleep(IDLE * executions);
        Ok(begun.elapsed().as_secs_f64())
    }
}

impl Timed for Load {
    fn time(&mut self, timer: &Timer, executions: u32) -> Result<f64, DeviceError> {
        timer.wait()?;
        if self.phase == Phase::Begun {
            thread::sleep(REST);
        }
        self.execute(timer, executions)
    }
}
