//! Memory of the GPU, and memory of the host that the GPU reads and writes.
#![expect(unsafe_code, reason = "memory is taken from the driver and given back to it")]

use std::ffi::c_void;

use cudarc::driver::result;
use cudarc::driver::sys::{self, CUdeviceptr, CUstream};

use super::errors::failed;
use crate::measure::DeviceError;

/// Memory of the GPU. Giving it back waits for what still runs.
pub(super) struct Buffer {
    pointer: CUdeviceptr,
    bytes: u64,
}

impl Buffer {
    pub(super) fn of(bytes: u64) -> Result<Self, DeviceError> {
        // SAFETY: nothing is read of it before it is written.
        let pointer = unsafe { result::malloc_sync(bytes.max(1) as usize) };
        let doing = format!("allocating {} MiB of the GPU", bytes >> 20);
        Ok(Self { pointer: pointer.map_err(|error| failed(&doing, error))?, bytes })
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The place so many bytes from its start.
    pub(super) const fn at(&self, offset: u64) -> CUdeviceptr {
        self.pointer + offset
    }

    /// Fills it with zeros.
    pub(super) fn clear(&self, stream: CUstream) -> Result<(), DeviceError> {
        // SAFETY: it has that many bytes.
        let cleared = unsafe { result::memset_d8_async(self.pointer, 0, self.bytes as usize, stream) };
        cleared.map_err(|error| failed("filling memory with zeros", error))
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: it was allocated by `of`, and is given back once.
        let _ = unsafe { result::free_sync(self.pointer) };
    }
}

/// Page-locked memory of the host: all its pages are there once it is allocated.
pub(super) struct Pinned {
    pointer: *mut c_void,
    bytes: u64,
}

impl Pinned {
    pub(super) fn of(bytes: u64) -> Result<Self, DeviceError> {
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
        // SAFETY: nothing is read of it before it is written.
        let pointer = unsafe { result::malloc_host(bytes.max(1) as usize, flags) };
        let pointer = pointer.map_err(|error| match error.0 {
            sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => DeviceError::exhausted(
                format!("page-locked memory of {} MiB", bytes >> 20),
                "end other programs, or raise the limit (`ulimit -l`)",
            ),
            _ => failed("locking memory of the host", error),
        })?;
        Ok(Self { pointer, bytes })
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) const fn pointer(&self) -> *mut c_void {
        self.pointer
    }

    /// Where the GPU sees it.
    pub(super) fn device(&self) -> Result<CUdeviceptr, DeviceError> {
        let mut pointer = 0;
        // SAFETY: it was allocated for the GPU to see.
        let told = unsafe { sys::cuMemHostGetDevicePointer_v2(&raw mut pointer, self.pointer, 0) }.result();
        told.map_err(|error| failed("mapping memory of the host", error)).map(|()| pointer)
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: it was allocated by `of`, and is given back once.
        let _ = unsafe { result::free_host(self.pointer) };
    }
}

/// Sets of arrays that executions take turns with, so that none finds its own in the cache.
pub(super) struct Rotation {
    region: Buffer,
    /// Bytes of each array of a set, rounded up.
    arrays: Vec<u64>,
    sets: u64,
}

/// Arrays begin at multiples of this (bytes): what `cuMemAlloc` and cuBLASLt's choice of kernels go by.
const ALIGNMENT: u64 = 256;
/// Most sets: as many as a graph of executions has nodes.
const SETS: u64 = 120;

impl Rotation {
    /// Sets of arrays of so many bytes that take `beyond` together; one set for 0.
    pub(super) fn of(arrays: &[u64], beyond: u64) -> Result<Self, DeviceError> {
        let arrays: Vec<u64> = arrays.iter().map(|bytes| bytes.div_ceil(ALIGNMENT) * ALIGNMENT).collect();
        let set = arrays.iter().sum::<u64>().max(ALIGNMENT);
        let sets = beyond.div_ceil(set).clamp(1, SETS);
        Ok(Self { region: Buffer::of(set.saturating_mul(sets))?, arrays, sets })
    }

    /// Where an array begins in the set of the `at`-th execution. The same arrays of all sets lie together.
    pub(super) fn array(&self, array: usize, at: u64) -> CUdeviceptr {
        let before = self.arrays[..array].iter().sum::<u64>() * self.sets;
        self.region.at(before + at % self.sets * self.arrays[array])
    }

    /// How many sets.
    pub(super) const fn sets(&self) -> u64 {
        self.sets
    }

    /// All memory of it.
    pub(super) const fn region(&self) -> &Buffer {
        &self.region
    }

    /// Bytes of the first arrays of all sets.
    pub(super) fn first(&self, arrays: usize) -> u64 {
        self.arrays[..arrays].iter().sum::<u64>() * self.sets
    }
}
