//! Streaming multiprocessors: limits of the blocks that are resident on one, and its rates.

use serde::{Deserialize, Serialize};

use crate::provenance::Sources;

/// A streaming multiprocessor of a compute capability.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Multiprocessor {
    /// Registers of 32 bits.
    pub registers: u32,
    /// Most registers of a block.
    pub registers_per_block: u32,
    /// Most registers of a thread.
    pub registers_per_thread: u32,
    /// Registers that a warp is given at a time.
    pub register_unit: u32,
    /// Shared memory (bytes).
    pub shared_bytes: u32,
    /// Most shared memory that a block may ask for (bytes).
    pub shared_bytes_per_block: u32,
    /// Shared memory that a block is given at a time (bytes).
    pub shared_unit: u32,
    /// Shared memory of each block that the system keeps (bytes).
    pub shared_reserved_bytes: u32,
    /// Most resident threads.
    pub threads: u32,
    /// Most threads of a block.
    pub threads_per_block: u32,
    /// Most resident blocks.
    pub blocks: u32,
    /// Warp schedulers, each of which issues an instruction a clock and has its share of the registers.
    pub schedulers: u32,
    /// Fused multiply-adds in fp32 a clock.
    pub fp32_lanes: u32,
    /// Addresses of loads and stores a clock.
    pub load_store_lanes: u32,
    /// Results of special functions a clock.
    pub special_lanes: u32,
    /// Bytes that shared memory delivers a clock.
    pub shared_bytes_per_clock: u32,
    /// Bytes that the bus to the L2 cache carries a clock.
    pub l2_bytes_per_clock: u32,
    /// Clocks from a load from shared memory to its use.
    pub shared_latency: u32,
    /// Clocks from a load from the L2 cache to its use.
    pub l2_latency: u32,
    /// Where the figures come from.
    #[serde(skip_serializing)]
    pub sources: Sources,
}

/// Threads of a warp.
pub const WARP: u32 = 32;

impl Multiprocessor {
    /// Most resident warps.
    pub const fn warps(&self) -> u32 {
        self.threads / WARP
    }
}
