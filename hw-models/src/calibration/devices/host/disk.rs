//! The drive below a folder: blocks of a file that is gone when the measurement is, however it ends.
//!
//! The file is made and its name removed at once, so that nothing is left behind by a process that is killed. It is as long
//! as can be written in [`LAYING`] seconds, at most [`LONGEST`].

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use io_uring::IoUring;
use rustix::fs::{Advice, OFlags, fadvise, statvfs};

use super::blocks::{Block, Buffer};
use super::uring;
use crate::calibration::measure::{Access, DeviceError, Disk, Found, Pages, Route, Task};

/// Longest file (bytes).
const LONGEST: u64 = 2 << 30;
/// Shortest file that tells anything (bytes).
const SHORTEST: u64 = 256 << 20;
/// Time that the file is written for (s).
const LAYING: f64 = 5.0;
/// Blocks it is written in (bytes).
const LAID: usize = 16 << 20;
/// What of the file goes through the page cache when all of it should be there (bytes): no cache of a core holds it.
const WINDOW: u64 = 256 << 20;
/// Requests that a ring has room for.
const ENTRIES: u32 = 256;
/// Free space that is left alone, as a share of it.
const LEFT: f64 = 0.5;

/// A file on the drive.
pub(super) struct Drive {
    /// Past the page cache; none where the file system has no such way.
    direct: Option<File>,
    /// Through it.
    cached: File,
    length: u64,
    ring: Option<IoUring>,
    buffers: Vec<Buffer>,
    /// Where the next block is, in blocks.
    next: u64,
}

/// Whether a file can be made in a folder.
pub(super) fn writable(folder: &Path) -> Found {
    match make(folder) {
        Ok(_) => Found::Present(folder.display().to_string()),
        Err(error) => Found::Missing {
            why: format!("{}: {error}", folder.display()),
            remedy: "name a folder that can be written with `--dir`".to_owned(),
        },
    }
}

/// A file without a name, opened both ways.
fn make(folder: &Path) -> io::Result<(File, Option<File>)> {
    let path = folder.join(format!(".foretrain-{}.probe", std::process::id()));
    let cached = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
    let direct =
        OpenOptions::new().read(true).write(true).custom_flags(OFlags::DIRECT.bits() as i32).open(&path);
    fs::remove_file(&path)?;
    Ok((cached, direct.ok()))
}

impl Drive {
    /// Makes the file and fills it.
    pub(super) fn lay(folder: &Path) -> Result<Self, DeviceError> {
        let failed = |error: io::Error| failed(&format!("writing to {}", folder.display()), &error);
        let (cached, direct) = make(folder).map_err(|error| DeviceError::Missing {
            what: format!("a file in {} ({error})", folder.display()),
            remedy: "name a folder that can be written with `--dir`".to_owned(),
        })?;
        let free = statvfs(folder).map_or(u64::MAX, |of| of.f_bavail.saturating_mul(of.f_frsize));
        let longest = LONGEST.min((free as f64 * LEFT) as u64);
        if longest < SHORTEST {
            return Err(exhausted(folder, free));
        }
        let file = direct.as_ref().unwrap_or(&cached);
        let mut block =
            Buffer::new(LAID, Pages::Huge).or_else(|_| Buffer::new(LAID, Pages::Small)).map_err(failed)?;
        let begun = Instant::now();
        let mut length = 0;
        while length < SHORTEST || (length + LAID as u64 <= longest && begun.elapsed().as_secs_f64() < LAYING)
        {
            file.write_all_at(block.bytes(LAID), length).map_err(failed)?;
            length += LAID as u64;
        }
        cached.sync_all().map_err(failed)?;
        let ring = IoUring::new(ENTRIES).ok();
        Ok(Self { direct, cached, length, ring, buffers: Vec::new(), next: 0 })
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
            for offset in (0..WINDOW.min(self.length)).step_by(block as usize) {
                self.cached
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
                    self.cached.sync_data().map_err(failed)?;
                    fadvise(&self.cached, 0, None, Advice::DontNeed).map_err(|error| failed(error.into()))?;
                }
                let window = if disk.route == Route::Cached { WINDOW } else { self.length };
                let blocks = self.blocks(&disk, window, executions);
                let buffer = &mut self.buffers[0];
                let begun = Instant::now();
                for block in blocks {
                    one(&self.cached, disk.access, buffer, block).map_err(failed)?;
                }
                Ok(begun.elapsed().as_secs_f64())
            }
            Task::Flush { block } => {
                let bytes = self.buffers[0].bytes(block as usize);
                let begun = Instant::now();
                for _ in 0..executions {
                    self.cached.write_all_at(bytes, 0).map_err(failed)?;
                    self.cached.sync_data().map_err(failed)?;
                }
                Ok(begun.elapsed().as_secs_f64())
            }
            _ => Err(failed(io::ErrorKind::Unsupported.into())),
        }
    }

    /// Past the page cache: through a ring, or where none is allowed by as many threads as blocks are in flight.
    fn direct(&mut self, disk: &Disk, executions: u32) -> Result<f64, DeviceError> {
        let mut blocks = self.blocks(disk, self.length, executions);
        let Some(file) = &self.direct else {
            let why = "its file system has no way past the page cache (O_DIRECT)".to_owned();
            return Err(DeviceError::Unable { device: "the drive".to_owned(), why });
        };
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
        let all = (window.min(self.length) / disk.block).max(1);
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

fn exhausted(folder: &Path, free: u64) -> DeviceError {
    DeviceError::Exhausted {
        what: format!("space in {} ({} MiB free)", folder.display(), free >> 20),
        remedy: format!("free {} MiB, or name another folder with `--dir`", 2 * (SHORTEST >> 20)),
    }
}

fn failed(doing: &str, error: &io::Error) -> DeviceError {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => DeviceError::Exhausted {
            what: "space on the drive".to_owned(),
            remedy: "free some, or name a folder on another drive with `--dir`".to_owned(),
        },
        _ => DeviceError::Failed { doing: doing.to_owned(), why: error.to_string() },
    }
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn a_folder_that_cannot_be_written_is_told_with_what_to_do() {
        let nowhere = Path::new("/nonexistent/folder");
        assert!(matches!(writable(nowhere), Found::Missing { .. }));
        let error = Drive::lay(nowhere).err().expect("there is no such folder").to_string();
        assert!(error.contains("/nonexistent/folder") && error.contains("`--dir`"), "{error}");
    }
}
