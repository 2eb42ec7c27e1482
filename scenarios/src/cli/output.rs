//! The folder of results, replaced as a whole: a reader finds the old results or the new ones, never a mixture.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use reports::summary::Summary;

use super::files::{cannot_write, sync_folder, write};
use super::trouble::Trouble;

pub(super) const JSON: &str = "results.json";
pub(super) const CSV: &str = "results.csv";
pub(super) const REPORT: &str = "report.html";
const SCENARIO: &str = "scenario.yaml";

/// What a run leaves behind, as bytes.
pub(super) struct Results {
    /// `results.json`.
    pub(super) json: Vec<u8>,
    /// `results.csv`.
    pub(super) csv: Vec<u8>,
    report: Vec<u8>,
    /// A scenario: the base after `extends`, `--set` and defaults.
    scenario: String,
}

/// A folder that will take the place of another. Dropping it leaves no trace.
pub(super) struct Staging {
    target: PathBuf,
    staged: PathBuf,
    /// Where the old results wait until the new ones are in place.
    replaced: PathBuf,
    /// The staged folder, locked for as long as this process may fill it. `None`: locks are not to
    /// be had here.
    _lock: Option<File>,
}

impl Results {
    /// Writes every page, beside the `scenario` that was run.
    ///
    /// # Errors
    /// A page that cannot be drawn.
    pub(super) fn of(summary: &Summary, scenario: String) -> Result<Self, Trouble> {
        Ok(Self {
            json: page(JSON, |out| reports::json::write(out, summary))?,
            csv: page(CSV, |out| reports::csv::write(out, summary))?,
            report: page(REPORT, |out| reports::html::write(out, summary))?,
            scenario,
        })
    }

    /// Every file with its name.
    pub(super) fn files(&self) -> [(&'static str, &[u8]); 4] {
        [(JSON, &self.json), (CSV, &self.csv), (REPORT, &self.report), (SCENARIO, self.scenario.as_bytes())]
    }
}

/// What a writer makes.
///
/// # Errors
/// A page that cannot be drawn.
pub(super) fn page(
    name: &str,
    write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>,
) -> Result<Vec<u8>, Trouble> {
    let mut bytes = Vec::new();
    write(&mut bytes).map_err(|error| Trouble::Mistake(format!("cannot make {name}: {error}")))?;
    Ok(bytes)
}

impl Staging {
    /// Prepares to replace `out/name`. Done before a run, so that a long one does not end with nowhere to write.
    ///
    /// # Errors
    /// A folder that cannot be written, or one with files that are not results.
    pub(super) fn open(out: &Path, name: &str) -> Result<Self, Trouble> {
        let target = out.join(name);
        refuse_strangers(&target)?;
        sweep_up(out, &target, name);
        let id = std::process::id();
        let [staged, replaced] = [NEW, OLD].map(|what| out.join(format!("{}{id}", hidden(name, what))));
        fs::create_dir_all(&staged).map_err(|error| cannot_write(&target, &error))?;
        let lock = locked(&staged);
        Ok(Self { target, staged, replaced, _lock: lock })
    }

    /// Fills the folder with files and puts it in place.
    ///
    /// # Returns
    /// The path of the folder.
    ///
    /// # Errors
    /// A full or vanished disk; the old results are then still there.
    pub(super) fn commit(&self, files: &[(&str, &[u8])]) -> Result<PathBuf, Trouble> {
        let fill = || files.iter().try_for_each(|(name, bytes)| write(&self.staged.join(name), bytes));
        let fill = || fill().and_then(|()| sync_folder(&self.staged));
        fill().and_then(|()| self.replace()).map_err(|error| cannot_write(&self.target, &error))?;
        Ok(self.target.clone())
    }

    /// Leaves no trace.
    pub(super) fn clear(&self) {
        // Either is usually gone by now, and litter must not hide how the run ended.
        let _ = fs::remove_dir_all(&self.staged);
        let _ = fs::remove_dir_all(&self.replaced);
    }

    /// A folder with files cannot be renamed over; the old one steps aside first.
    fn replace(&self) -> io::Result<()> {
        let had_old = match fs::rename(&self.target, &self.replaced) {
            Ok(()) => true,
            Err(error) if error.kind() == ErrorKind::NotFound => false,
            Err(error) => return Err(error),
        };
        let replaced = fs::rename(&self.staged, &self.target);
        if had_old && replaced.is_err() {
            fs::rename(&self.replaced, &self.target)?;
        }
        replaced.and_then(|()| self.target.parent().map_or(Ok(()), sync_folder))
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Kinds of folders beside the results.
const NEW: &str = "new";
const OLD: &str = "old";

/// Beginning of the name of a folder beside the results, before the id of a process.
fn hidden(name: &str, what: &str) -> String {
    format!(".{name}.{what}.")
}

/// The lock of a folder. `None`: another process has it, or there are no locks of folders here.
fn locked(folder: &Path) -> Option<File> {
    let folder = File::open(folder).ok()?;
    folder.try_lock().ok().map(|()| folder)
}

/// Takes away what killed runs left beside the results. Results that were about to be replaced are
/// put back where the new ones did not get there.
fn sweep_up(out: &Path, target: &Path, name: &str) {
    let [new, old] = [NEW, OLD].map(|what| hidden(name, what));
    for entry in fs::read_dir(out).into_iter().flatten().flatten() {
        let found = entry.file_name().to_string_lossy().into_owned();
        let Some(id) = found.strip_prefix(&new).or_else(|| found.strip_prefix(&old)) else { continue };
        let [staged, replaced] = [&new, &old].map(|what| out.join(format!("{what}{id}")));
        if staged.exists() && locked(&staged).is_none() {
            continue;
        }
        // What cannot be mended is in nobody's way.
        if !target.exists() {
            let _ = fs::rename(&replaced, target);
        }
        let _ = fs::remove_dir_all(replaced);
        let _ = fs::remove_dir_all(staged);
    }
}

/// Replacing a folder removes what is in it, so everything in it must be results.
fn refuse_strangers(target: &Path) -> Result<(), Trouble> {
    let entries = match fs::read_dir(target) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(cannot_write(target, &error)),
    };
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    match names.filter(|name| ![JSON, CSV, REPORT, SCENARIO].contains(&name.as_str())).min() {
        None => Ok(()),
        Some(stranger) => Err(Trouble::Mistake(format!(
            "`{}` would be replaced, but `{stranger}` in it is not a result: move it, or choose another folder with \
             `--out`",
            target.display()
        ))),
    }
}
