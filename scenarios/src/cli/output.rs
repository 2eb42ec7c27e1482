//! The folder of results, replaced as a whole: a reader finds the old results or the new ones, never a mixture.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use reports::summary::Summary;

use super::files::cannot_write;
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
        let beside = |what: &str| out.join(format!(".{name}.{what}.{}", std::process::id()));
        let staging = Self { target, staged: beside("new"), replaced: beside("old") };
        fs::create_dir_all(&staging.staged).map_err(|error| cannot_write(&staging.target, &error))?;
        Ok(staging)
    }

    /// Fills the folder with files and puts it in place.
    ///
    /// # Returns
    /// The path of the folder.
    ///
    /// # Errors
    /// A full or vanished disk; the old results are then still there.
    pub(super) fn commit(self, files: &[(&str, &[u8])]) -> Result<PathBuf, Trouble> {
        let fill = || files.iter().try_for_each(|(name, bytes)| fs::write(self.staged.join(name), bytes));
        fill().and_then(|()| self.replace()).map_err(|error| cannot_write(&self.target, &error))?;
        Ok(self.target.clone())
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
        replaced
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // Either is usually gone by now, and litter must not hide how the run ended.
        let _ = fs::remove_dir_all(&self.staged);
        let _ = fs::remove_dir_all(&self.replaced);
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
