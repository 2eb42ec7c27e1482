//! Copies between the host and the GPU.
#![expect(unsafe_code, reason = "the driver cannot check what memory it is told to copy")]

use std::time::Instant;

use cudarc::driver::sys::{self, CUstream};

use super::errors::failed;
use super::memory::{Buffer, Pinned};
use super::timer::{Enqueue, Timer};
use super::{Gpu, Timed};
use crate::calibration::measure::{DeviceError, Direction, HostSide, Transfer};

/// Copies of pinned memory.
pub(super) struct PinnedCopy {
    direction: Direction,
    host: Pinned,
    device: Buffer,
}

impl PinnedCopy {
    pub(super) fn of(direction: Direction, bytes: u64) -> Result<Self, DeviceError> {
        Ok(Self { direction, host: Pinned::of(bytes)?, device: Buffer::of(bytes)? })
    }
}

impl Enqueue for PinnedCopy {
    fn enqueue(&self, stream: CUstream, _: u64) -> Result<(), DeviceError> {
        let (host, bytes) = (self.host.pointer(), self.host.bytes() as usize);
        // SAFETY: both are that long, and live as long as this does, which outlives what runs on the stream.
        let copied = unsafe {
            match self.direction {
                Direction::ToDevice => sys::cuMemcpyHtoDAsync_v2(self.device.at(0), host, bytes, stream),
                Direction::ToHost => sys::cuMemcpyDtoHAsync_v2(host, self.device.at(0), bytes, stream),
            }
        };
        copied.result().map_err(|error| failed("copying", error))
    }
}

/// Copies that are timed.
pub(super) enum Copies {
    /// Of pinned memory, issued ahead; maybe with others that go the other way on a stream of their own.
    Issued(PinnedCopy, Option<(PinnedCopy, Timer)>),
    /// Of pinned memory, each waited for.
    Waited(PinnedCopy),
    /// Of ordinary memory, which the driver waits for.
    Pageable(Direction, Vec<u8>, Buffer),
}

impl Copies {
    pub(super) fn of(gpu: &Gpu, task: &Transfer) -> Result<Self, DeviceError> {
        let Transfer { direction, bytes, .. } = *task;
        if task.host == HostSide::Pageable {
            // Written, so that every page is there.
            return Ok(Self::Pageable(direction, vec![1; bytes as usize], Buffer::of(bytes)?));
        }
        let copy = PinnedCopy::of(direction, bytes)?;
        if task.waited {
            return Ok(Self::Waited(copy));
        }
        let back = match direction {
            Direction::ToDevice => Direction::ToHost,
            Direction::ToHost => Direction::ToDevice,
        };
        let other = || Ok::<_, DeviceError>((PinnedCopy::of(back, bytes)?, gpu.timer()?));
        Ok(Self::Issued(copy, if task.against { Some(other()?) } else { None }))
    }
}

impl Timed for Copies {
    fn time(&mut self, timer: &Timer, executions: u32) -> Result<f64, DeviceError> {
        let all = |copy: &PinnedCopy, stream: CUstream, count: u32| {
            (0..u64::from(count)).try_for_each(|at| copy.enqueue(stream, at))
        };
        match self {
            // The host's pace counts: copies that are small are issued no faster.
            Self::Issued(copy, None) => timer.span(|stream| all(copy, stream, executions)),
            Self::Issued(copy, Some((back, beside))) => {
                // Twice as many go the other way, so that the way is never free.
                all(back, beside.stream.cu_stream(), 2 * executions + 1)?;
                let seconds = timer.span(|stream| all(copy, stream, executions));
                beside.wait()?;
                seconds
            }
            Self::Waited(copy) => {
                timer.wait()?;
                let begun = Instant::now();
                for at in 0..u64::from(executions) {
                    copy.enqueue(timer.stream.cu_stream(), at)?;
                    timer.wait()?;
                }
                Ok(begun.elapsed().as_secs_f64())
            }
            Self::Pageable(direction, host, device) => {
                timer.wait()?;
                let begun = Instant::now();
                (0..executions).try_for_each(|_| pageable(*direction, host, device))?;
                Ok(begun.elapsed().as_secs_f64())
            }
        }
    }
}

/// A copy that has ended when the call returns.
fn pageable(direction: Direction, host: &mut [u8], device: &Buffer) -> Result<(), DeviceError> {
    // SAFETY: both are equally long.
    let copied = unsafe {
        match direction {
            Direction::ToDevice => sys::cuMemcpyHtoD_v2(device.at(0), host.as_ptr().cast(), host.len()),
            Direction::ToHost => sys::cuMemcpyDtoH_v2(host.as_mut_ptr().cast(), device.at(0), host.len()),
        }
    };
    copied.result().map_err(|error| failed("copying", error))
}
