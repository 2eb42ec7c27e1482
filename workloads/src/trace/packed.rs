//! Files that may be packed with gzip or zstd.

use std::io::{self, BufReader, Read};

use flate2::read::MultiGzDecoder;
use ruzstd::decoding::StreamingDecoder;

/// The bytes of a file, unpacked if its first ones say that it is packed.
pub(super) fn unpacked<'a>(input: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let mut input = BufReader::with_capacity(1 << 16, input);
    let mut magic = [0; 4];
    let count = fill(&mut input, &mut magic)?;
    let input = io::Cursor::new(magic).take(count as u64).chain(input);
    Ok(match magic {
        [0x1f, 0x8b, ..] => Box::new(MultiGzDecoder::new(input)),
        [0x28, 0xb5, 0x2f, 0xfd] => Box::new(StreamingDecoder::new(input).map_err(io::Error::other)?),
        _ => Box::new(input),
    })
}

/// Reads as many bytes as there are.
fn fill(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut count = 0;
    while count < buffer.len() {
        match input.read(&mut buffer[count..])? {
            0 => break,
            read => count += read,
        }
    }
    Ok(count)
}
