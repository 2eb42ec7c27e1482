//! Input that may be packed with gzip.

use std::fmt;
use std::io::{self, Cursor, ErrorKind, Read};

use flate2::read::MultiGzDecoder;

use super::Fault;

/// Unpacked bytes up to which any ratio is fine.
const HARMLESS: u64 = 64 << 20;

/// Ratio of packing beyond it: lists of edges reach 3 to 30, deflate's limit is 1032.
const MOST_RATIO: u64 = 200;

/// A reader that unpacks what is packed.
pub(super) enum Unpacked<R: Read> {
    Plain(Begun<R>),
    Packed { decoder: Box<MultiGzDecoder<Counted<Begun<R>>>>, unpacked: u64 },
}

/// A reader of which the first bytes were read.
type Begun<R> = io::Chain<Cursor<Vec<u8>>, R>;

/// A file that unpacks to far more than edges would.
#[derive(Debug)]
pub(super) struct Bomb;

impl fmt::Display for Bomb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unpacks to more than {MOST_RATIO} times its size")
    }
}

impl std::error::Error for Bomb {}

impl<R: Read> Unpacked<R> {
    pub(super) fn new(mut input: R) -> Result<Self, Fault> {
        const MAGIC: [u8; 2] = [0x1f, 0x8b];
        let mut start = Vec::new();
        let read = input.by_ref().take(2).read_to_end(&mut start);
        read.map_err(|error| super::unreadable(&error))?;
        let packed = start == MAGIC;
        let input = Cursor::new(start).chain(input);
        Ok(if packed {
            let decoder = Box::new(MultiGzDecoder::new(Counted { input, bytes: 0 }));
            Self::Packed { decoder, unpacked: 0 }
        } else {
            Self::Plain(input)
        })
    }
}

impl<R: Read> Read for Unpacked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(input) => input.read(buffer),
            Self::Packed { decoder, unpacked } => {
                let bytes = decoder.read(buffer).map_err(|error| {
                    let cut = error.kind() == ErrorKind::UnexpectedEof;
                    if cut { io::Error::new(error.kind(), "it ends within what gzip packed") } else { error }
                })?;
                *unpacked += bytes as u64;
                let packed = decoder.get_ref().bytes;
                if *unpacked > HARMLESS && *unpacked / MOST_RATIO > packed {
                    return Err(io::Error::other(Bomb));
                }
                Ok(bytes)
            }
        }
    }
}

/// A reader that counts its bytes.
pub(super) struct Counted<R> {
    input: R,
    bytes: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.input.read(buffer)?;
        self.bytes += bytes as u64;
        Ok(bytes)
    }
}
