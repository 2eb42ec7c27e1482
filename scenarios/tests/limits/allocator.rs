//! The allocator of the system, which counts what a case holds and asks for.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes at which a case is given no more, which ends the test: the machine survives what the check would not.
const REFUSED: usize = 3 << 30;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);
static ASKED: AtomicUsize = AtomicUsize::new(0);

/// Memory of a case (bytes): the most that it held, and the sum of all that it asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    pub(super) held: usize,
    pub(super) asked: usize,
}

/// Runs `case` and gives its result and its usage. No other test of this file runs meanwhile.
pub(super) fn of<T>(case: impl FnOnce() -> T) -> (T, Usage) {
    let before = HELD.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    ASKED.store(0, Ordering::Relaxed);
    let outcome = case();
    let held = MOST.load(Ordering::Relaxed).saturating_sub(before);
    (outcome, Usage { held, asked: ASKED.load(Ordering::Relaxed) })
}

/// Counts.
pub(super) struct Counting;

// SAFETY: all memory is that of the system's allocator, which is asked for it with the layout that was given.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Ordering::Relaxed).saturating_add(layout.size());
        MOST.fetch_max(held, Ordering::Relaxed);
        ASKED.fetch_add(layout.size(), Ordering::Relaxed);
        if held > REFUSED {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller keeps what `alloc` asks of it.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: it came from `alloc` with this layout.
        unsafe { System.dealloc(memory, layout) }
    }
}
