//! Files that are opened one by one, as front ends open them.

use std::io::{self, BufRead, BufReader, ErrorKind, Read};

use super::files::Files;
use crate::hardware::MAX_BYTES;

/// Files from a function that opens the one at a path: of a disk, of standard input, of a program.
pub struct Opened<F>(pub F);

impl<F: Fn(&str) -> io::Result<Box<dyn Read>>> Files for Opened<F> {
    fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        let bytes = (self.0)(path).and_then(|stream| beginning(stream, MAX_BYTES));
        bytes.map_err(|error| reason(&error))
    }

    fn open(&self, path: &str) -> Result<Box<dyn Read + '_>, String> {
        // A folder can be opened as a file can; only reading tells.
        let begun = (self.0)(path).map(BufReader::new).and_then(|mut stream| {
            stream.fill_buf()?;
            Ok(stream)
        });
        Ok(Box::new(begun.map_err(|error| reason(&error))?))
    }
}

/// The first `most` bytes of a stream, and one more where it is longer: enough to see that it is.
///
/// # Errors
/// Errors of the stream.
pub fn beginning(from: impl Read, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(most as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Refuses what another file names unless it is a file or a folder: reading a pipe or a device may
/// never end.
///
/// # Errors
/// That it is one.
pub fn refuse_special(is_file_or_folder: bool) -> io::Result<()> {
    match is_file_or_folder {
        true => Ok(()),
        false => Err(io::Error::other("it is a pipe or a device, not a file")),
    }
}

/// Why a file cannot be read, in a few words.
fn reason(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "there is no such file".to_owned(),
        ErrorKind::IsADirectory => "it is a folder".to_owned(),
        ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream that opens and cannot be read, as a folder.
    struct Folder;

    impl Read for Folder {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(ErrorKind::IsADirectory.into())
        }
    }

    fn open(path: &str) -> io::Result<Box<dyn Read>> {
        match path {
            "folder" => Ok(Box::new(Folder)),
            "file" => Ok(Box::new(b"text".as_slice())),
            "endless" => Ok(Box::new(io::repeat(b'x'))),
            _ => Err(ErrorKind::NotFound.into()),
        }
    }

    #[test]
    fn what_cannot_be_read_is_told_before_anything_is_read_of_it() {
        let files = Opened(open);
        for (path, reason) in [("folder", "it is a folder"), ("nothing", "there is no such file")] {
            assert_eq!(files.read(path).expect_err(path), reason);
            assert_eq!(files.open(path).err().as_deref(), Some(reason));
        }
    }

    #[test]
    fn a_file_is_read_whole_and_an_endless_one_a_byte_too_far() {
        let files = Opened(open);
        assert_eq!(files.read("file").as_deref(), Ok(b"text".as_slice()));
        assert_eq!(files.read("endless").map(|bytes| bytes.len()), Ok(MAX_BYTES + 1));
        let mut text = String::new();
        files.open("file").expect("it is there").read_to_string(&mut text).expect("it is text");
        assert_eq!(text, "text");
    }
}
