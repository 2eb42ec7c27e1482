//! Rows that a kernel reads from memory of the host, or writes there, without a copy.
#![expect(
    unsafe_code,
    reason = "the table is as long as the kernel takes it to be, which the driver cannot check"
)]

use super::kernels::Kernel;
use super::memory::{Buffer, Pinned};
use super::timer::Timer;
use super::{Gpu, Timed};
use crate::measure::{DeviceError, ZeroCopy};

/// Lines of memory, which rows that are aligned begin at (bytes).
const LINE: u64 = 128;
/// Threads of a block, and blocks of an SM: as many as hold more requests than a link takes.
const THREADS: u32 = 256;
const BLOCKS: u32 = 8;

/// A table of rows.
pub(super) struct Rows {
    kernel: Kernel,
    task: ZeroCopy,
    table: Pinned,
    sums: Buffer,
    most_blocks: u32,
    /// Rows of batches before: each batch takes others.
    seed: u64,
}

impl Rows {
    pub(super) fn of(gpu: &Gpu, task: &ZeroCopy) -> Result<Self, DeviceError> {
        Ok(Self {
            kernel: gpu.kernels.rows(task.access)?,
            task: *task,
            table: Pinned::of(task.bytes)?,
            sums: Buffer::of(LINE)?,
            most_blocks: BLOCKS * gpu.facts.sms,
            seed: 0,
        })
    }

    /// Bytes from the start of a row to that of the next: a row that begins anywhere in its first line ends within.
    fn slot(&self) -> u64 {
        let lines = self.task.row.div_ceil(LINE) + if self.task.aligned { 0 } else { 1 };
        lines * LINE
    }
}

impl Timed for Rows {
    /// As many rows as executions, by one kernel.
    fn time(&mut self, timer: &Timer, executions: u32) -> Result<f64, DeviceError> {
        let (slot, words, rows) = (self.slot(), self.task.row / 4, u64::from(executions));
        let blocks = (rows * words).div_ceil(u64::from(THREADS)).clamp(1, u64::from(self.most_blocks)) as u32;
        let slots = (self.table.bytes() / slot).max(1);
        let arguments = [
            self.table.device()?,
            slots,
            slot,
            u64::from(self.task.aligned),
            self.seed,
            words,
            rows,
            self.sums.at(0),
        ];
        self.seed += rows;
        timer.hold_up(1)?;
        // SAFETY: rows lie within their slots and slots within the table; both outlive the kernel, which is waited for.
        timer.span(|stream| unsafe { self.kernel.launch(stream, [blocks, THREADS, 0], &arguments) })
    }
}
