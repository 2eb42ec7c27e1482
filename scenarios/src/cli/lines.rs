//! Lines of JSON that are written as things end, to a file that has another name until all are there: who is killed loses no more
//! than what it was at.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::files::{cannot_write, make, put};
use super::trouble::Trouble;

/// A file that lines are appended to.
pub(super) struct Lines {
    folder: PathBuf,
    names: Names,
    file: File,
}

/// How such a file is called.
#[derive(Clone, Copy)]
pub(super) struct Names {
    /// While something is missing.
    pub(super) partial: &'static str,
    /// When all is there.
    pub(super) whole: &'static str,
}

impl Lines {
    /// Begins a file with a heading and what is known already.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub(super) fn begin<Known: Serialize>(
        folder: &Path,
        names: Names,
        heading: &impl Serialize,
        known: &[Known],
    ) -> Result<Self, Trouble> {
        make(folder)?;
        let text: String = std::iter::once(line(heading)).chain(known.iter().map(line)).collect();
        let path = put(folder, names.partial, text.as_bytes())?;
        let file = OpenOptions::new().append(true).open(path);
        Ok(Self {
            folder: folder.to_owned(),
            names,
            file: file.map_err(|error| cannot_write(folder, &error))?,
        })
    }

    /// Appends a line.
    ///
    /// # Errors
    /// A full drive.
    pub(super) fn append(&mut self, value: &impl Serialize) -> io::Result<()> {
        self.file.write_all(line(value).as_bytes())
    }

    /// Gives the file its name, now that it is complete.
    ///
    /// # Errors
    /// A folder that cannot be written any more.
    pub(super) fn complete(self) -> Result<PathBuf, Trouble> {
        let Names { partial, whole } = self.names;
        let path = self.folder.join(whole);
        let renamed = fs::rename(self.folder.join(partial), &path);
        renamed.map_err(|error| cannot_write(&self.folder, &error))?;
        Ok(path)
    }
}

/// Plain data as a line of JSON, its end included.
pub(super) fn line(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("plain data with text keys can be written as JSON") + "\n"
}
