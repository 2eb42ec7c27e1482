//! What the operating system tells of the machine.

use std::fs;
use std::path::Path;
use std::thread::available_parallelism;

use indexmap::IndexMap;

use super::uring;
use crate::measure::{Found, Identity};

/// A machine, as far as its measurement depends on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    /// Cores that this process may use.
    pub(super) cores: u32,
    /// Its last-level cache (bytes); 0 if it is not told.
    pub(super) cache: u64,
    /// Memory that could be taken (bytes).
    pub(super) available: u64,
    processor: String,
    system: String,
}

impl Facts {
    pub(super) fn read() -> Self {
        let file = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let cpuinfo = file("/proc/cpuinfo");
        let processor = field(&cpuinfo, "model name").unwrap_or("unknown processor").to_owned();
        let cache = (0..8).filter_map(|level| {
            bytes(file(&format!("/sys/devices/system/cpu/cpu0/cache/index{level}/size")).trim())
        });
        let available = field(&file("/proc/meminfo"), "MemAvailable").and_then(bytes).unwrap_or(0);
        Self {
            cores: available_parallelism().map_or(1, |cores| cores.get() as u32),
            cache: cache.max().unwrap_or(0),
            available,
            processor,
            system: format!("Linux {}", file("/proc/sys/kernel/osrelease").trim()),
        }
    }

    /// What a calibration of it holds for.
    pub(super) fn identity(&self, folder: &Path) -> Identity {
        let io = match uring::found() {
            Found::Present(_) => "io_uring".to_owned(),
            Found::Missing { why, .. } => format!("threads ({why})"),
        };
        let facts = IndexMap::from([
            ("cores".to_owned(), self.cores.to_string()),
            ("cache_mib".to_owned(), (self.cache >> 20).to_string()),
            ("filesystem".to_owned(), filesystem(folder)),
            ("io".to_owned(), io),
        ]);
        Identity { name: self.processor.clone(), driver: self.system.clone(), facts, fabric: None }
    }

    /// Its memory, in words.
    pub(super) fn memory(&self) -> String {
        format!("{:.1} GiB free, {} cores", self.available as f64 / f64::from(1 << 30), self.cores)
    }
}

/// The clock of the first core (MHz).
pub(super) fn clock_mhz() -> Option<f64> {
    field(&fs::read_to_string("/proc/cpuinfo").ok()?, "cpu MHz")?.parse().ok()
}

/// The value of the first line `name : value`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

/// `32768K` or `24541440 kB` in bytes.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let scale = match text[digits.len()..].trim() {
        "K" | "kB" => 1 << 10,
        "M" => 1 << 20,
        _ => 1,
    };
    digits.parse::<u64>().ok().map(|number| number * scale)
}

/// The type of file system that a folder is on: that of the longest mount point above it.
fn filesystem(folder: &Path) -> String {
    let Ok(folder) = fs::canonicalize(folder) else { return "unknown".to_owned() };
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let above = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (point, kind) = (words.next()?, words.next()?);
        folder.starts_with(point).then_some((point.len(), kind))
    });
    above.max_by_key(|(length, _)| *length).map_or("unknown", |(_, kind)| kind).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_the_kernel_writes_them() {
        assert_eq!(bytes("32768K"), Some(32 << 20));
        assert_eq!(bytes("24541440 kB"), Some(24_541_440 << 10));
        assert_eq!(bytes("8M"), Some(8 << 20));
        assert_eq!(bytes(""), None);
        assert_eq!(field("processor\t: 0\nmodel name\t: A: B\n", "model name"), Some("A: B"));
    }
}
