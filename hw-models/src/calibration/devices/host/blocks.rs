//! Blocks of a file, and memory that a drive can write to.

/// A block of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// Where it begins (bytes).
    pub(super) offset: u64,
    /// Its size (bytes).
    pub(super) length: usize,
}

/// What a drive asks of addresses and offsets past the page cache.
pub(super) const ALIGNMENT: usize = 4096;

/// Memory that begins at a multiple of [`ALIGNMENT`].
pub(super) struct Aligned {
    bytes: Vec<u8>,
    from: usize,
}

impl Aligned {
    /// So many bytes of numbers that do not compress.
    pub(super) fn new(length: usize) -> Self {
        let mut state = 1_u64;
        let mut random = || {
            // Marsaglia's xorshift (2003).
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let mut bytes = vec![0; length + ALIGNMENT];
        let from = bytes.as_ptr().align_offset(ALIGNMENT);
        for eight in bytes[from..].chunks_mut(8) {
            eight.copy_from_slice(&random().to_le_bytes()[..eight.len()]);
        }
        Self { bytes, from }
    }

    /// The first `length` of them.
    pub(super) fn bytes(&mut self, length: usize) -> &mut [u8] {
        &mut self.bytes[self.from..self.from + length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_begins_where_drives_want_it() {
        for length in [1, 4096, 100_000] {
            let mut aligned = Aligned::new(length);
            let bytes = aligned.bytes(length);
            assert_eq!((bytes.as_ptr() as usize % ALIGNMENT, bytes.len()), (0, length));
            assert_eq!(bytes, Aligned::new(length).bytes(length), "the same wherever it is");
        }
    }
}
