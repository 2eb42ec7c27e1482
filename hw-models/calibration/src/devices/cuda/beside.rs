//! Work of a GPU that is timed while other work goes on.

use cudarc::driver::sys::CUstream;

use super::copies::PinnedCopy;
use super::kernels::Turning;
use super::passes::Passes;
use super::products::Products;
use super::timer::{Enqueue, Timer};
use super::{Gpu, Timed};
use crate::measure::{Beside, Data, DeviceError, Direction, MemoryPass, Pattern, Work};
use hw_models::kernels::Dtype;

/// The other work goes on for so many times as long as the timed work takes alone: work that is slowed down by more is timed
/// with what is left of it.
const LONGER: f64 = 4.0;
/// Executions by which the time of one is known beforehand.
const BEFOREHAND: u32 = 5;
/// How long blocks hold their SMs (clocks): some 4 ms.
const HELD: u64 = 6_000_000;

/// Both, each on a stream of its own.
pub(super) struct Meeting {
    timed: Box<dyn Enqueue>,
    /// The other work, and how often it is executed while the timed work is once.
    meanwhile: Option<(Box<dyn Enqueue>, f64)>,
    other: Timer,
}

impl Meeting {
    pub(super) fn of(gpu: &Gpu, task: &Beside) -> Result<Self, DeviceError> {
        let other = gpu.timer()?;
        let missing = || DeviceError::unable("this GPU", "nothing is timed");
        let timed = work(gpu, task.timed, Data::Random)?.ok_or_else(missing)?;
        let alone = |work: &dyn Enqueue| {
            other.in_stream(work, 1)?;
            Ok::<_, DeviceError>(other.in_stream(work, BEFOREHAND)? / f64::from(BEFOREHAND))
        };
        let meanwhile = match work(gpu, task.meanwhile, Data::Random)? {
            Some(work) => {
                let times = LONGER * alone(&*timed)? / alone(&*work)?.max(1e-7);
                Some((work, times))
            }
            None => None,
        };
        Ok(Self { timed, meanwhile, other })
    }
}

impl Timed for Meeting {
    fn time(&mut self, timer: &Timer, executions: u32) -> Result<f64, DeviceError> {
        if let Some((work, times)) = &self.meanwhile {
            let count = (times * f64::from(executions)).ceil() as u64 + 1;
            let stream = self.other.stream.cu_stream();
            (0..count).try_for_each(|at| work.enqueue(stream, at))?;
        }
        let enqueue =
            |stream: CUstream| (0..u64::from(executions)).try_for_each(|at| self.timed.enqueue(stream, at));
        let seconds = timer.span(enqueue);
        self.other.wait()?;
        seconds
    }
}

/// Work that can be queued, if there is any; products are of `data`.
pub(super) fn work(gpu: &Gpu, work: Work, data: Data) -> Result<Option<Box<dyn Enqueue>>, DeviceError> {
    Ok(Some(match work {
        Work::Product(product) => Box::new(Products::of(gpu, &product, data)?),
        Work::Pass(bytes) => {
            let pass = MemoryPass { pattern: Pattern::Copy, dtype: Dtype::Bf16, bytes, again: false };
            Box::new(Passes::of(gpu, &pass)?)
        }
        Work::ToDevice(bytes) => Box::new(PinnedCopy::of(Direction::ToDevice, bytes)?),
        Work::ToHost(bytes) => Box::new(PinnedCopy::of(Direction::ToHost, bytes)?),
        Work::Hold(blocks) => Box::new(Holders { kernel: gpu.kernels.spin(gpu.shared)?, blocks }),
        Work::Nothing => return Ok(None),
    }))
}

/// Blocks that hold an SM each.
struct Holders {
    kernel: Turning,
    blocks: u32,
}

impl Enqueue for Holders {
    fn enqueue(&self, stream: CUstream, _: u64) -> Result<(), DeviceError> {
        self.kernel.launch(stream, self.blocks, HELD)
    }
}
