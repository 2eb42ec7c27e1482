//! Records of a measurement as JSON lines: a heading, then a line for each task, the last one of a task counts.

use std::fs;
use std::io;
use std::path::Path;

use calibration::measure::{Heading, Record};
use scenarios::{WrongLine, read_lines};

use crate::cli::lines::Names;
use crate::cli::trouble::Trouble;

/// How records of a measurement are called.
pub(super) const SAMPLES: Names = Names { partial: "samples.partial.jsonl", whole: "samples.jsonl" };
/// Longest file that is read.
const MOST_BYTES: u64 = 256 << 20;

/// What a measurement that was interrupted left: none if there is nothing. What a device did that was held back is measured anew.
///
/// # Errors
/// When its records cannot be read, or are of something else.
pub(super) fn left(folder: &Path, heading: &Heading) -> Result<Option<Vec<Record>>, Trouble> {
    let path = folder.join(SAMPLES.partial);
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
    read(&folder.join(SAMPLES.partial)).map_or(0, |(_, records)| records.len())
}

/// A heading and the records after it.
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
    let expected = "is no record of a measurement: expected a file `samples.jsonl` of `foretrain calibrate`";
    let lines = read_lines(&text).map_err(|WrongLine { line, error }| match line {
        1 => wrong(expected.to_owned()),
        _ => wrong(format!("line {line}: {error}")),
    });
    let (heading, lines): (_, Vec<(_, Record)>) = lines?;
    let mut records: Vec<Record> = Vec::new();
    for (_, record) in lines {
        match records.iter_mut().find(|known| known.is_of(&record.probe, &record.of)) {
            Some(known) => *known = record,
            None => records.push(record),
        }
    }
    Ok((heading, records))
}
