//! The drive below a folder: blocks of a [file](Laid).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use io_uring::IoUring;
use rustix::fs::{Advice, fadvise};

use super::blocks::{Block, Buffer};
use super::laid::{Laid, failed};
use super::uring;
use crate::measure::{Access, DeviceError, Disk, Pages, Route, Task};

/// What of the file goes through the page cache when all of it should be there (bytes): no cache of a core holds it.
const WINDOW: u64 = 256 << 20;
/// Requests that a ring has room for.
const ENTRIES: u32 = 256;

/// A file on the drive.
pub(super) struct Drive {
    file: Laid,
    ring: Option<IoUring>,
    buffers: Vec<Buffer>,
    /// Where the next block is, in blocks.
    next: u64,
}

impl Drive {
    /// Makes the file and fills it.
    pub(super) fn lay(folder: &Path) -> Result<Self, DeviceError> {
        let (file, ring) = (Laid::on(folder)?, IoUring::new(ENTRIES).ok());
        Ok(Self { file, ring, buffers: Vec::new(), next: 0 })
    }

    /// Makes buffers ready, and puts what the task needs into the page cache or out of it.
    pub(super) fn prepare(&mut self, task: &Task) -> Result<(), DeviceError> {
        let (block, depth, pages) = match *task {
            Task::Disk(Disk { block, depth, pages, .. }) => (block, depth, pages),
            _ => (task.bytes(), 1, Pages::Small),
        };
        let buffers = (0..depth.max(1)).map(|_| Buffer::new(block as usize, pages));
        let memory = |error: io::Error| failed(&format!("memory in {pages} pages"), &error);
        self.buffers = buffers.collect::<io::Result<_>>().map_err(memory)?;
        self.next = 0;
        if let Task::Disk(Disk { route: Route::Cached, block, .. }) = *task {
            let buffer = self.buffers[0].bytes(block as usize);
            for offset in (0..WINDOW.min(self.file.length)).step_by(block as usize) {
                self.file
                    .cached
                    .read_exact_at(buffer, offset)
                    .map_err(|error| failed("reading the file", &error))?;
            }
        }
        Ok(())
    }

    /// Time of so many blocks.
    pub(super) fn time(&mut self, task: &Task, executions: u32) -> Result<f64, DeviceError> {
        let failed = |error: io::Error| failed(&task.to_string(), &error);
        match *task {
            Task::Disk(disk) if disk.route == Route::Direct => self.direct(&disk, executions),
            Task::Disk(disk) => {
                if disk.route == Route::Cold {
                    // Only pages that are clean can go.
                    self.file.cached.sync_data().map_err(failed)?;
                    fadvise(&self.file.cached, 0, None, Advice::DontNeed)
                        .map_err(|error| failed(error.into()))?;
                }
                let window = if disk.route == Route::Cached { WINDOW } else { self.file.length };
                let blocks = self.blocks(&disk, window, executions);
                let buffer = &mut self.buffers[0];
                let begun = Instant::now();
                for block in blocks {
                    one(&self.file.cached, disk.access, buffer, block).map_err(failed)?;
                }
                Ok(begun.elapsed().as_secs_f64())
            }
            Task::Flush { block } => {
                let bytes = self.buffers[0].bytes(block as usize);
                let begun = Instant::now();
                for _ in 0..executions {
                    self.file.cached.write_all_at(bytes, 0).map_err(failed)?;
                    self.file.cached.sync_data().map_err(failed)?;
                }
                Ok(begun.elapsed().as_secs_f64())
            }
            _ => Err(failed(io::ErrorKind::Unsupported.into())),
        }
    }

    /// Past the page cache: through a ring, or where none is allowed by as many threads as blocks are in flight.
    fn direct(&mut self, disk: &Disk, executions: u32) -> Result<f64, DeviceError> {
        let mut blocks = self.blocks(disk, self.file.length, executions);
        let file = self.file.direct()?;
        let begun = Instant::now();
        let moved = match &mut self.ring {
            Some(ring) => uring::transfer(ring, file, disk.access, &mut self.buffers, &mut blocks),
            None => by_threads(file, disk.access, &mut self.buffers, &blocks.collect::<Vec<_>>()),
        };
        moved.map_err(|error| failed(&disk_task(disk), &error))?;
        Ok(begun.elapsed().as_secs_f64())
    }

    /// So many blocks of the first `window` bytes: one after the other from where the last ones ended, or anywhere.
    fn blocks(&mut self, disk: &Disk, window: u64, count: u32) -> impl Iterator<Item = Block> + use<> {
        let (length, random) = (disk.block as usize, disk.random);
        let all = (window.min(self.file.length) / disk.block).max(1);
        let from = self.next;
        self.next += u64::from(count);
        (from..from + u64::from(count)).map(move |at| {
            // An odd multiplier visits every block once before any comes again, where their number is a power of two.
            let at = if random { at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20 } else { at };
            Block { offset: (at % all) * length as u64, length }
        })
    }
}

/// Moves blocks by one thread for each buffer.
fn by_threads(file: &File, access: Access, buffers: &mut [Buffer], blocks: &[Block]) -> io::Result<()> {
    let next = AtomicU64::new(0);
    thread::scope(|scope| {
        let next = &next;
        let threads: Vec<_> = buffers
            .iter_mut()
            .map(|buffer| {
                scope.spawn(move || {
                    while let Some(&block) = blocks.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                        one(file, access, buffer, block)?;
                    }
                    Ok(())
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or(Ok(())))
    })
}

fn one(file: &File, access: Access, buffer: &mut Buffer, block: Block) -> io::Result<()> {
    let bytes = buffer.bytes(block.length);
    match access {
        Access::Read => file.read_exact_at(bytes, block.offset),
        Access::Write => file.write_all_at(bytes, block.offset),
    }
}

fn disk_task(disk: &Disk) -> String {
    Task::Disk(*disk).to_string()
}

#[cfg(test)]
mod tests {
    use super::super::laid::make;
    use super::*;

    const BLOCK: usize = 8192;

    /// Blocks 1 and 4 of six are written, by the ring if there is one and by threads: they hold what was to be written, and the
    /// others what they held.
    #[test]
    fn blocks_go_where_they_should_whichever_way() {
        let (cached, _) = make(&std::env::temp_dir()).expect("a folder for temporary files");
        let blocks = [1, 4].map(|at| Block { offset: at * BLOCK as u64, length: BLOCK });
        let buffer = || Buffer::new(BLOCK, Pages::Small).unwrap();
        let buffers = || [buffer(), buffer()];
        let written = buffers()[0].bytes(BLOCK).to_vec();
        let check = |what: &str| {
            for at in 0..6 {
                let mut found = vec![1; BLOCK];
                cached.read_exact_at(&mut found, at * BLOCK as u64).unwrap();
                let expected = if [1, 4].contains(&at) { written.clone() } else { vec![0; BLOCK] };
                assert!(found == expected, "{what}: block {at}");
            }
            cached.set_len(0).unwrap();
        };
        cached.set_len(6 * BLOCK as u64).unwrap();
        by_threads(&cached, Access::Write, &mut buffers(), &blocks).unwrap();
        check("threads");
        cached.set_len(6 * BLOCK as u64).unwrap();
        if let Ok(mut ring) = IoUring::new(8) {
            uring::transfer(&mut ring, &cached, Access::Write, &mut buffers(), &mut blocks.into_iter())
                .unwrap();
            check("io_uring");
            let beyond = Block { offset: 6 * BLOCK as u64, length: BLOCK };
            let short =
                uring::transfer(&mut ring, &cached, Access::Read, &mut buffers(), &mut [beyond].into_iter());
            assert_eq!(short.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
    }
}
