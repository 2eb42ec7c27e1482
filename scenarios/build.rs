//! Gives the binary its version: that of the manifest, the commit where git knows one, and digits of
//! the sources, which change before they are committed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Everything that a simulation is made of, seen from this crate.
const SOURCES: [&str; 10] = [
    "../Cargo.lock",
    "../sim-core/src",
    "../hw-models/src",
    "../hw-models/catalogue",
    "../hw-models/calibration/src",
    "../workloads/src",
    "../workloads/presets",
    "../reports/src",
    "src",
    "validation/step-spreads.csv",
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let version = env!("CARGO_PKG_VERSION");
    let version = match git(&["rev-parse", "--short=10", "HEAD"]) {
        Some(commit) => format!("{version} ({commit})"),
        None => version.to_owned(),
    };
    println!("cargo::rustc-env=FORETRAIN_VERSION={version}");
    // The log of HEAD grows with every commit and checkout. Cargo would rebuild for ever over a file that is missing.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| Path::new(log).exists());
    if let Some(log) = log {
        println!("cargo::rerun-if-changed={log}");
    }
    let there = SOURCES.iter().map(Path::new).filter(|path| path.exists());
    let mut files = Vec::new();
    for path in there {
        println!("cargo::rerun-if-changed={}", path.display());
        list(path, &mut files);
    }
    println!("cargo::rustc-env=FORETRAIN_SOURCES={:016x}", digest(&files));
}

/// Every file at or below a path, in an order that every machine has.
fn list(path: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(path) else {
        files.push(path.to_owned());
        return;
    };
    let mut below: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    below.sort();
    below.iter().for_each(|path| list(path, files));
}

/// 64-bit FNV-1a over the names and bytes of files.
fn digest(files: &[PathBuf]) -> u64 {
    let add = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    files.iter().fold(0xcbf2_9ce4_8422_2325, |hash, path| {
        let name = path.to_string_lossy().into_owned().into_bytes();
        name.into_iter().chain(fs::read(path).unwrap_or_default()).fold(hash, add)
    })
}

/// What git answers on one line; nothing without git or outside of a repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output =
        Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    let line = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (!line.is_empty()).then_some(line)
}
