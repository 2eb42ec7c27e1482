//! Blocks of a file, and memory that a drive can write to.
#![expect(
    unsafe_code,
    reason = "pages are asked for one by one, so that it is known what pieces memory is in"
)]

use std::ffi::c_void;
use std::io;
use std::ptr::{self, NonNull};

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rustix::mm::{self, Advice, MapFlags, ProtFlags};

use crate::measure::Pages;

/// A block of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// Where it begins (bytes).
    pub(super) offset: u64,
    /// Its size (bytes).
    pub(super) length: usize,
}

/// Bytes of a small page, of which a drive asks addresses and offsets past the page cache to be multiples.
const SMALL: usize = 4096;
/// Bytes of a huge one.
const HUGE: usize = 2 << 20;

/// Memory that a drive can write to: it begins at a page.
pub(super) struct Buffer {
    mapped: NonNull<c_void>,
    /// What is mapped (bytes).
    length: usize,
    /// Where the first page begins in it.
    from: usize,
}

// SAFETY: what is mapped belongs to one buffer alone.
unsafe impl Send for Buffer {}

impl Buffer {
    /// So many bytes of numbers that do not compress. Small pages are taken from all over memory, as those of a process are
    /// that has run for a while; how many in a row are neighbours is left to chance otherwise.
    pub(super) fn new(length: usize, pages: Pages) -> io::Result<Self> {
        let page = match pages {
            Pages::Small => SMALL,
            Pages::Huge => HUGE,
        };
        let used = length.max(1).next_multiple_of(page);
        let (all, access) = (used + page, ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: nothing else is at an address that the kernel chooses.
        let mapped = unsafe { mm::mmap_anonymous(ptr::null_mut(), all, access, MapFlags::PRIVATE)? };
        let mapped = NonNull::new(mapped).ok_or(io::ErrorKind::OutOfMemory)?;
        let from = mapped.as_ptr().cast::<u8>().align_offset(page);
        let mut buffer = Self { mapped, length: all, from };
        buffer.advise(pages)?;
        buffer.touch(used);
        buffer.fill(used);
        Ok(buffer)
    }

    /// Which pages the kernel should take. One that knows no huge ones has only small ones.
    fn advise(&self, pages: Pages) -> io::Result<()> {
        let advice = match pages {
            Pages::Small => Advice::LinuxNoHugepage,
            Pages::Huge => Advice::LinuxHugepage,
        };
        // SAFETY: it changes in which pages the memory is, nothing of what it holds.
        let advised = unsafe { mm::madvise(self.mapped.as_ptr(), self.length, advice) };
        if pages == Pages::Small { Ok(()) } else { Ok(advised?) }
    }

    /// Takes the pages, in an order of which no two are neighbours but by chance.
    fn touch(&mut self, used: usize) {
        let mut places: Vec<usize> = (0..used).step_by(SMALL).collect();
        places.shuffle(&mut ChaCha8Rng::seed_from_u64(0));
        let bytes = self.bytes(used);
        places.into_iter().for_each(|place| bytes[place] = 1);
    }

    fn fill(&mut self, used: usize) {
        let mut state = 1_u64;
        for eight in self.bytes(used).chunks_exact_mut(8) {
            // Marsaglia's xorshift (2003).
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            eight.copy_from_slice(&state.to_le_bytes());
        }
    }

    /// The first `length` of its bytes.
    pub(super) fn bytes(&mut self, length: usize) -> &mut [u8] {
        let most = self.length - self.from;
        // SAFETY: `from` and what follows is mapped, zeroed by the kernel, and borrowed with the buffer.
        unsafe {
            std::slice::from_raw_parts_mut(self.mapped.as_ptr().cast::<u8>().add(self.from), length.min(most))
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: it was mapped by `new`, and nothing borrows it any more. That it cannot be given back changes nothing.
        let _ = unsafe { mm::munmap(self.mapped.as_ptr(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_begins_where_drives_want_it_and_holds_the_same_wherever_it_is() {
        for (length, pages, page) in
            [(1, Pages::Small, SMALL), (4096, Pages::Small, SMALL), (100_000, Pages::Small, SMALL)]
                .into_iter()
                .chain([(1 << 20, Pages::Huge, HUGE)])
        {
            let Ok(mut buffer) = Buffer::new(length, pages) else {
                assert_eq!(pages, Pages::Huge, "a kernel need not have huge pages");
                continue;
            };
            let bytes = buffer.bytes(length);
            assert_eq!((bytes.as_ptr() as usize % page, bytes.len()), (0, length));
            let mut other = Buffer::new(length, pages).unwrap();
            assert_eq!(bytes, other.bytes(length));
        }
    }
}
