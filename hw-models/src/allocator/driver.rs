//! Memory that an allocator has of the driver, and calls that a request makes.

use std::ops::{Add, AddAssign, Sub};

/// Segments, each one call of the driver: `cudaMalloc` or `cudaFree`, or the same of a page of a
/// segment that grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Segments {
    /// How many.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Calls of the driver for one request, for which no free block did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverCalls {
    /// The position of the request in the list.
    pub request: usize,
    /// Free segments that were returned first, as the driver had no more: `cudaFree` waits for the
    /// device.
    pub returned: Segments,
    /// Segments that were asked for.
    pub asked: Segments,
}

impl Add for Segments {
    type Output = Self;

    fn add(self, more: Self) -> Self {
        Self { count: self.count + more.count, bytes: self.bytes + more.bytes }
    }
}

impl AddAssign for Segments {
    fn add_assign(&mut self, more: Self) {
        *self = *self + more;
    }
}

impl Sub for Segments {
    type Output = Self;

    fn sub(self, less: Self) -> Self {
        Self { count: self.count - less.count, bytes: self.bytes - less.bytes }
    }
}
