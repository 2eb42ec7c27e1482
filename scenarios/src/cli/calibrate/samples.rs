//! Records of a measurement as JSON lines: a heading, then a line for each task, the last one of a task counts.
//!
//! Lines are written as tasks end, to a file that has another name until the measurement is complete, so that one that is
//! killed loses no more than the task it was at.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use hw_models::calibration::measure::{Heading, Record};

use crate::cli::files::{cannot_write, make};
use crate::cli::trouble::Trouble;

/// Records of a measurement that is complete.
pub(super) const SAMPLES: &str = "samples.jsonl";
/// Those of one that is not.
const PARTIAL: &str = "samples.partial.jsonl";
/// Longest file that is read.
const MOST_BYTES: u64 = 256 << 20;

/// A file that records are appended to.
pub(super) struct Samples {
    folder: PathBuf,
    file: File,
}

/// What a measurement that was interrupted left: none if there is nothing. What a device did that was held back is measured anew.
///
/// # Errors
/// When its records cannot be read, or are of something else.
pub(super) fn left(folder: &Path, heading: &Heading) -> Result<Option<Vec<Record>>, Trouble> {
    let path = folder.join(PARTIAL);
    if !path.exists() {
        return Ok(None);
    }
    let (found, records) = read(&path)?;
    let differs = match () {
        () if found.device != heading.device => Some("another device"),
        () if found.foretrain != heading.foretrain => Some("another version of foretrain"),
        () => None,
    };
    match differs {
        Some(what) => Err(Trouble::Mistake(format!(
            "`{}` is of {what}: leave out `--resume` to begin anew",
            path.display()
        ))),
        None => Ok(Some(records.into_iter().filter(Record::is_sound).collect())),
    }
}

/// How many records an interrupted measurement left.
pub(super) fn abandoned(folder: &Path) -> usize {
    read(&folder.join(PARTIAL)).map_or(0, |(_, records)| records.len())
}

/// A heading and the records after it. A last line without an end was being written when its writer was killed.
///
/// # Errors
/// When the file cannot be read, with the line.
pub(super) fn read(path: &Path) -> Result<(Heading, Vec<Record>), Trouble> {
    let wrong = |what: String| Trouble::Mistake(format!("{}: {what}", path.display()));
    let unreadable = |error: io::Error| wrong(format!("cannot be read: {error}"));
    if fs::metadata(path).map_err(unreadable)?.len() > MOST_BYTES {
        return Err(wrong(format!("is longer than {} MiB", MOST_BYTES >> 20)));
    }
    let text = fs::read_to_string(path).map_err(unreadable)?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let mut lines = whole.lines().enumerate();
    let expected = "is no record of a measurement: expected a file `samples.jsonl` of `foretrain calibrate`";
    let (_, first) = lines.next().ok_or_else(|| wrong(expected.to_owned()))?;
    let heading: Heading = serde_json::from_str(first).map_err(|_| wrong(expected.to_owned()))?;
    let mut records: Vec<Record> = Vec::new();
    for (at, line) in lines {
        let record: Record =
            serde_json::from_str(line).map_err(|error| wrong(format!("line {}: {error}", at + 1)))?;
        match records.iter_mut().find(|known| known.is_of(&record.probe, &record.of)) {
            Some(known) => *known = record,
            None => records.push(record),
        }
    }
    Ok((heading, records))
}

impl Samples {
    /// Begins a file with a heading and the records that are known.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub(super) fn begin(folder: &Path, heading: &Heading, known: &[Record]) -> Result<Self, Trouble> {
        let cannot = |error: io::Error| cannot_write(folder, &error);
        make(folder)?;
        let mut text = line(heading);
        known.iter().for_each(|record| text += &line(record));
        // Beside the old one until it is whole.
        let fresh = folder.join(format!(".{PARTIAL}"));
        fs::write(&fresh, text).and_then(|()| fs::rename(&fresh, folder.join(PARTIAL))).map_err(cannot)?;
        let file = OpenOptions::new().append(true).open(folder.join(PARTIAL)).map_err(cannot)?;
        Ok(Self { folder: folder.to_owned(), file })
    }

    /// Appends a record.
    ///
    /// # Errors
    /// A full disk, in words.
    pub(super) fn append(&mut self, record: &Record) -> Result<(), String> {
        self.file.write_all(line(record).as_bytes()).map_err(|error| error.to_string())
    }

    /// Gives the file its name: the measurement is complete.
    ///
    /// # Errors
    /// A folder that cannot be written any more.
    pub(super) fn complete(self) -> Result<(), Trouble> {
        let renamed = fs::rename(self.folder.join(PARTIAL), self.folder.join(SAMPLES));
        renamed.map_err(|error| cannot_write(&self.folder, &error))
    }
}

fn line(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("plain data with text keys can be written as JSON") + "\n"
}
