//! Copies between the host and the GPU.
#![expect(unsafe_code, reason = "the driver cannot check what memory it is told to copy")]

use std::time::Instant;

use cudarc::driver::sys::{self, CUstream};

use super::errors::failed;
use super::memory::{Buffer, Pinned};
use super::timer::{Enqueue, Timer};
use super::{Gpu, Timed};
use crate::measure::{DeviceError, Direction, HostSide, Transfer};

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

/// A stream of copies, and one of copies that go the other way.
pub(super) struct Lane {
    copy: PinnedCopy,
    stream: Timer,
    back: PinnedCopy,
    against: Timer,
}

impl Lane {
    fn of(gpu: &Gpu, direction: Direction, bytes: u64) -> Result<Self, DeviceError> {
        let other = match direction {
            Direction::ToDevice => Direction::ToHost,
            Direction::ToHost => Direction::ToDevice,
        };
        let [copy, back] = [PinnedCopy::of(direction, bytes)?, PinnedCopy::of(other, bytes)?];
        Ok(Self { copy, stream: gpu.timer()?, back, against: gpu.timer()? })
    }
}

/// Copies that are timed.
pub(super) enum Copies {
    /// Of pinned memory, issued ahead.
    Issued(PinnedCopy),
    /// The same on several streams each way.
    Against(Vec<Lane>),
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
        if task.against > 0 {
            let lanes = (0..task.against).map(|_| Lane::of(gpu, direction, bytes));
            return Ok(Self::Against(lanes.collect::<Result<_, _>>()?));
        }
        let copy = PinnedCopy::of(direction, bytes)?;
        if task.waited {
            return Ok(Self::Waited(copy));
        }
        Ok(Self::Issued(copy))
    }
}

impl Timed for Copies {
    fn time(&mut self, timer: &Timer, executions: u32) -> Result<f64, DeviceError> {
        let all = |copy: &PinnedCopy, stream: CUstream, count: u32| {
            (0..u64::from(count)).try_for_each(|at| copy.enqueue(stream, at))
        };
        match self {
            // The host's pace counts: copies that are small are issued no faster.
            Self::Issued(copy) => timer.span(|stream| all(copy, stream, executions)),
            Self::Against(lanes) => {
                // Twice as many go the other way, so that the way is never free.
                for lane in &*lanes {
                    all(&lane.back, lane.against.stream.cu_stream(), 2 * executions + 1)?;
                }
                let seconds = timer.span(|_| {
                    lanes.iter().try_for_each(|lane| lane.stream.follow(timer))?;
                    for lane in &*lanes {
                        all(&lane.copy, lane.stream.stream.cu_stream(), executions)?;
                    }
                    lanes.iter().try_for_each(|lane| timer.follow(&lane.stream))
                });
                lanes.iter().try_for_each(|lane| lane.against.wait())?;
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
