//! Files as they are read and written: no further than makes sense, and as a whole or not at all.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use scenarios::refuse_special;

use super::trouble::Trouble;

/// Makes a folder, before anything is computed that would have nowhere to go.
///
/// # Errors
/// When it cannot be made.
pub(super) fn make(folder: &Path) -> Result<(), Trouble> {
    fs::create_dir_all(folder).map_err(|error| cannot_write(folder, &error))
}

/// Puts a file into a folder as a whole: one that was there stays until the new one is complete.
///
/// # Errors
/// A folder that cannot be written any more; nothing is left of the new file then.
pub(super) fn put(folder: &Path, name: &str, bytes: &[u8]) -> Result<PathBuf, Trouble> {
    let (fresh, path) = (folder.join(format!(".{name}")), folder.join(name));
    let put =
        write(&fresh, bytes).and_then(|()| fs::rename(&fresh, &path)).and_then(|()| sync_folder(folder));
    put.map_err(|error| {
        // How it ended matters, not whether its beginning can be taken away.
        let _ = fs::remove_file(&fresh);
        cannot_write(folder, &error)
    })?;
    Ok(path)
}

/// Opens a file that another one names.
pub(super) fn open_regular(path: &str) -> io::Result<File> {
    let kind = fs::metadata(path)?.file_type();
    refuse_special(kind.is_file() || kind.is_dir())?;
    File::open(path)
}

/// Writes a file so that it is on its drive before it is called by its final name.
pub(super) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Brings names of files in a folder to its drive, where folders can be opened for that.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// Why a folder cannot be written, and what to do about it.
pub(super) fn cannot_write(folder: &Path, error: &io::Error) -> Trouble {
    let (reason, remedy) = match error.kind() {
        ErrorKind::NotADirectory | ErrorKind::AlreadyExists => ("a file is in the way".to_owned(), ""),
        ErrorKind::PermissionDenied => ("permission denied".to_owned(), ""),
        ErrorKind::ReadOnlyFilesystem => ("its drive is read-only".to_owned(), ""),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            ("the drive is full".to_owned(), "free some space, or ")
        }
        ErrorKind::FileTooLarge => {
            ("files may not be that long".to_owned(), "raise the limit (`ulimit -f`), or ")
        }
        _ => (error.to_string(), ""),
    };
    let shown = folder.display();
    Trouble::Mistake(format!("cannot write `{shown}`: {reason}; {remedy}choose another folder with `--out`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_a_folder_cannot_be_written_is_told_with_a_remedy() {
        let told = |kind| match cannot_write(Path::new("out"), &io::Error::from(kind)) {
            Trouble::Mistake(message) => message,
            other => panic!("{other:?}"),
        };
        let other = "choose another folder with `--out`";
        let expected = [
            (ErrorKind::AlreadyExists, format!("a file is in the way; {other}")),
            (ErrorKind::PermissionDenied, format!("permission denied; {other}")),
            (ErrorKind::ReadOnlyFilesystem, format!("its drive is read-only; {other}")),
            (ErrorKind::StorageFull, format!("the drive is full; free some space, or {other}")),
            (
                ErrorKind::FileTooLarge,
                format!("files may not be that long; raise the limit (`ulimit -f`), or {other}"),
            ),
        ];
        for (kind, words) in expected {
            assert_eq!(told(kind), format!("cannot write `out`: {words}"));
        }
    }

    #[test]
    fn what_cannot_be_written_leaves_nothing() {
        let folder = std::env::temp_dir().join(format!("foretrain-files-{}", std::process::id()));
        make(&folder).expect("a new folder");
        put(&folder, "a", b"old").expect("it is empty");
        // A folder of its name is in the way of the new file.
        fs::create_dir(folder.join("b")).expect("a new folder");
        put(&folder, "b", b"new").expect_err("it cannot be renamed over a folder");
        let names: Vec<_> =
            fs::read_dir(&folder).expect("it is there").flatten().map(|e| e.file_name()).collect();
        assert_eq!((names.len(), fs::read(folder.join("a")).expect("it is there")), (2, b"old".to_vec()));
        fs::remove_dir_all(&folder).expect("it is ours");
    }
}
