//! Messages one after the other, each behind its length (a varint, as protobuf delimits them).

use std::io::{self, Read};

/// Longest message that is kept in memory: a node with all its tensors takes some kilobytes.
const LENGTH_MAX: u64 = 4 << 20;

/// Most bytes of a varint.
const VARINT_MAX: usize = 10;

/// Reads messages.
pub(super) struct Messages<R> {
    input: R,
    /// Bytes before the message that is read next.
    pub(super) position: u64,
    message: Vec<u8>,
}

/// The next part of a file.
#[derive(Debug)]
pub(super) enum Next<'a> {
    /// A message.
    Message(&'a [u8]),
    /// A message that was passed over, as it is too long.
    Long,
    /// The end of the file, after a whole message.
    End,
    /// The end of the file within a message, in words.
    BrokenOff(String),
}

impl<R: Read> Messages<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, position: 0, message: Vec::new() }
    }

    /// Reads the next one.
    pub(super) fn next(&mut self) -> io::Result<Next<'_>> {
        let begin = self.position;
        let length = match self.length()? {
            Length::Bytes(length) => length,
            Length::End => return Ok(Next::End),
            Length::Broken => {
                return Ok(Next::BrokenOff(format!("no length of a message at byte {begin}")));
            }
        };
        self.message.clear();
        let mut body = self.input.by_ref().take(length);
        let read = match length > LENGTH_MAX {
            true => io::copy(&mut body, &mut io::sink())?,
            false => body.read_to_end(&mut self.message)? as u64,
        };
        self.position += read;
        Ok(match read == length {
            false => Next::BrokenOff(format!("{read} of the {length} bytes of the message at byte {begin}")),
            true if length > LENGTH_MAX => Next::Long,
            true => Next::Message(&self.message),
        })
    }

    fn length(&mut self) -> io::Result<Length> {
        let mut length = 0;
        for place in 0..VARINT_MAX {
            let mut byte = [0];
            if self.input.read(&mut byte)? == 0 {
                return Ok(if place == 0 { Length::End } else { Length::Broken });
            }
            self.position += 1;
            length |= u64::from(byte[0] & 0x7f) << (7 * place).min(63);
            if byte[0] < 0x80 {
                return Ok(Length::Bytes(length));
            }
        }
        Ok(Length::Broken)
    }
}

enum Length {
    Bytes(u64),
    End,
    Broken,
}
