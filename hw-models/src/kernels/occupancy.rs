//! Occupancy: thread blocks resident on an SM, and the limit that binds.
//!
//! The rules are those of the CUDA occupancy calculator: a warp gets its registers in units, from
//! the share of the scheduler that it is bound to; a block gets its shared memory in units, with
//! what the system keeps of it.

use crate::catalogue::{Multiprocessor, WARP};

/// Resources that a thread block holds while it is resident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockResources {
    /// Threads.
    pub threads: u32,
    /// Registers of a thread.
    pub registers: u32,
    /// Shared memory (bytes).
    pub shared_bytes: u32,
}

/// Blocks resident on an SM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occupancy {
    /// Resident blocks. 0: the kernel cannot be launched.
    pub blocks: u32,
    /// Limit that keeps further blocks out.
    pub limit: Limit,
}

/// Limits of residency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    /// Threads of an SM or a block.
    Threads,
    /// Blocks of an SM.
    Blocks,
    /// Registers.
    Registers,
    /// Shared memory.
    SharedMemory,
}

impl Occupancy {
    /// Blocks that an SM of a kind holds.
    pub fn of(sm: &Multiprocessor, block: &BlockResources) -> Self {
        let warps = block.threads.div_ceil(WARP).max(1);
        let by_threads = if block.threads > sm.threads_per_block { 0 } else { sm.warps() / warps };
        let limits = [
            (by_threads, Limit::Threads),
            (sm.blocks, Limit::Blocks),
            (by_registers(sm, block.registers, warps), Limit::Registers),
            (by_shared_memory(sm, block.shared_bytes), Limit::SharedMemory),
        ];
        let (blocks, limit) = limits.into_iter().min().unwrap_or((0, Limit::Blocks));
        Self { blocks, limit }
    }
}

fn by_registers(sm: &Multiprocessor, registers: u32, warps: u32) -> u32 {
    if registers > sm.registers_per_thread {
        return 0;
    }
    let of_warp = (registers.max(1) * WARP).next_multiple_of(sm.register_unit.max(1));
    if of_warp.saturating_mul(warps) > sm.registers_per_block {
        return 0;
    }
    let schedulers = sm.schedulers.max(1);
    sm.registers / schedulers / of_warp * schedulers / warps
}

fn by_shared_memory(sm: &Multiprocessor, bytes: u32) -> u32 {
    if bytes > sm.shared_bytes_per_block {
        return 0;
    }
    let held = (bytes + sm.shared_reserved_bytes).next_multiple_of(sm.shared_unit.max(1));
    sm.shared_bytes.checked_div(held).unwrap_or(u32::MAX)
}
