//! A file on the drive below a folder, which is gone when the measurement is, however that ends.
//!
//! The file is made and its name removed at once, so that nothing is left behind by a process that is killed. It is as long
//! as can be written in [`LAYING`] seconds, at most [`LONGEST`].

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Instant;

use rustix::fs::{OFlags, statvfs};

use super::blocks::Buffer;
use crate::measure::{DeviceError, Found, Pages};

/// Longest file (bytes).
const LONGEST: u64 = 2 << 30;
/// Shortest file that tells anything (bytes).
const SHORTEST: u64 = 256 << 20;
/// Time that the file is written for (s).
const LAYING: f64 = 5.0;
/// Blocks it is written in (bytes).
const LAID: usize = 16 << 20;
/// Free space that is left alone, as a share of it.
const LEFT: f64 = 0.5;

/// A file on a drive.
pub(in super::super) struct Laid {
    /// Past the page cache. `None`: the file system has no such way.
    direct: Option<File>,
    /// Through it.
    pub(super) cached: File,
    /// Bytes.
    pub(in super::super) length: u64,
}

impl Laid {
    /// The file, past the page cache.
    ///
    /// # Errors
    /// That the file system has no such way.
    pub(in super::super) fn direct(&self) -> Result<&File, DeviceError> {
        self.direct.as_ref().ok_or_else(|| {
            let why = "its file system has no way past the page cache (O_DIRECT)".to_owned();
            DeviceError::unable("the drive", why)
        })
    }

    /// Makes the file and fills it.
    pub(in super::super) fn on(folder: &Path) -> Result<Self, DeviceError> {
        let failed = |error: io::Error| failed(&format!("writing to {}", folder.display()), &error);
        let (cached, direct) = make(folder).map_err(|error| {
            DeviceError::missing(
                format!("a file in {} ({error})", folder.display()),
                "name a folder that can be written with `--dir`",
            )
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
        Ok(Self { direct, cached, length })
    }
}

/// Whether a file can be made in a folder.
pub(super) fn writable(folder: &Path) -> Found {
    match make(folder) {
        Ok(_) => Found::Present(folder.display().to_string()),
        Err(error) => Found::missing(
            format!("{}: {error}", folder.display()),
            "name a folder that can be written with `--dir`",
        ),
    }
}

/// A file without a name, opened both ways.
pub(super) fn make(folder: &Path) -> io::Result<(File, Option<File>)> {
    let path = folder.join(format!(".foretrain-{}.probe", std::process::id()));
    let cached = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
    let direct =
        OpenOptions::new().read(true).write(true).custom_flags(OFlags::DIRECT.bits() as i32).open(&path);
    fs::remove_file(&path)?;
    Ok((cached, direct.ok()))
}

fn exhausted(folder: &Path, free: u64) -> DeviceError {
    DeviceError::exhausted(
        format!("space in {} ({} MiB free)", folder.display(), free >> 20),
        format!("free {} MiB, or name another folder with `--dir`", 2 * (SHORTEST >> 20)),
    )
}

/// What went wrong with a drive, and what to do about it.
pub(super) fn failed(doing: &str, error: &io::Error) -> DeviceError {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => DeviceError::exhausted(
            "space on the drive",
            "free some, or name a folder on another drive with `--dir`",
        ),
        _ => DeviceError::failed(doing, error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_cannot_be_written_is_told_with_what_to_do() {
        let nowhere = Path::new("/nonexistent/folder");
        assert!(matches!(writable(nowhere), Found::Missing { .. }));
        let error = Laid::on(nowhere).err().expect("there is no such folder").to_string();
        assert!(error.contains("/nonexistent/folder") && error.contains("`--dir`"), "{error}");
    }
}
