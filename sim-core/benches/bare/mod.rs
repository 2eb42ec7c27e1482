//! The yardstick: a bare event loop over a binary heap of packed keys, 64 streams of timers.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::black_box;
use std::time::Instant;

/// Events per second of the bare loop, the best of three.
pub(crate) fn events_per_second() -> f64 {
    let events = 2_000_000u64;
    let mut best = f64::INFINITY;
    for _ in 0..3 {
        let mut heap: BinaryHeap<Reverse<u128>> = (0..64u128).map(Reverse).collect();
        let begun = Instant::now();
        for _ in 0..events {
            let Some(mut top) = heap.peek_mut() else { return 0.0 };
            let stream = top.0 as u64;
            let next = ((top.0 >> 64) as u64) + 1_000_000 + stream * 7_919 % 104_729;
            *top = Reverse((u128::from(next) << 64) | u128::from(stream));
        }
        black_box(&heap);
        best = best.min(begun.elapsed().as_secs_f64());
    }
    events as f64 / best
}
