//! What is measured of a GPU.

/// What a suite depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CudaFacts {
    /// Streaming multiprocessors.
    pub sms: u32,
    /// Second-level cache (bytes).
    pub cache: u64,
    /// Memory (bytes).
    pub memory: u64,
    /// Compute capability, `90` for 9.0.
    pub capability: u32,
    /// Generation and lanes of its PCIe link to the host, if they are known.
    pub link: Option<(u32, u32)>,
}
