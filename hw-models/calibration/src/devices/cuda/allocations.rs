//! What allocating memory and giving it back take on the host.
#![expect(unsafe_code, reason = "memory of the driver's pool is asked for in the order of a stream")]

use std::time::Instant;

use cudarc::driver::result;

use super::Timed;
use super::errors::failed;
use super::memory::{Buffer, Pinned};
use super::timer::Timer;
use crate::measure::{Allocated, Allocation, DeviceError};

impl Timed for Allocation {
    fn time(&mut self, timer: &Timer, executions: u32) -> Result<f64, DeviceError> {
        timer.wait()?;
        let begun = Instant::now();
        for _ in 0..executions {
            match self.memory {
                Allocated::Device => drop(Buffer::of(self.bytes)?),
                Allocated::Pinned => drop(Pinned::of(self.bytes)?),
                Allocated::Pool => pooled(timer, self.bytes)?,
            }
        }
        Ok(begun.elapsed().as_secs_f64())
    }
}

/// Memory of the pool: it has kept what was given back, as nothing waits for the stream in between.
fn pooled(timer: &Timer, bytes: u64) -> Result<(), DeviceError> {
    let stream = timer.stream.cu_stream();
    // SAFETY: the stream is there; the memory is used by nobody, and given back once.
    let done = unsafe {
        result::malloc_async(stream, bytes as usize).and_then(|pointer| result::free_async(pointer, stream))
    };
    done.map_err(|error| failed("allocating from the driver's pool", error))
}
