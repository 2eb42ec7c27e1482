//! What is measured of a host.

use super::{KIB, MIB, Suite, probe};
use crate::measure::{Access, Disk, Gather, HostMemory, Pages, Pattern, Route, Task};

/// Smallest array that counts as memory.
const ARRAY: u64 = 128 * MIB;

/// What is measured of a host with so many cores and a last-level cache of so many bytes; `quick`: what scenarios ask for
/// most.
pub fn host_suite(cores: u32, cache: u64, quick: bool) -> Suite {
    // Most of an array twice the size of the cache is in memory when its turn comes again.
    let array = ARRAY.max(2 * cache.next_power_of_two());
    let mut threads: Vec<u32> = (0..).map(|power| 1 << power).take_while(|&count| count < cores).collect();
    threads.push(cores.max(1));
    if quick {
        threads = vec![1, cores.max(1)];
    }
    threads.dedup();
    let memory = |pattern, threads, bytes| Task::HostMemory(HostMemory { pattern, threads, bytes });
    let patterns: &[Pattern] = if quick {
        &[Pattern::Write, Pattern::Copy]
    } else {
        &[Pattern::Write, Pattern::Read, Pattern::Copy, Pattern::Triad]
    };
    let sizes: &[u64] = if quick { &[2 * array] } else { &[array, 2 * array] };
    let streams = patterns.iter().flat_map(|&pattern| {
        let threads = threads.iter();
        threads.flat_map(move |&threads| sizes.iter().map(move |&bytes| memory(pattern, threads, bytes)))
    });
    let rows: &[u64] = if quick { &[512, 4_096] } else { &[64, 128, 256, 512, 1_024, 2_048, 4_096] };
    let gathers = rows.iter().flat_map(|&row| {
        threads.iter().map(move |&threads| Task::Gather(Gather { row, threads, bytes: 4 * array }))
    });
    Suite {
        probes: vec![
            probe("memory", "rates of the host's memory, by pattern and threads", streams.collect()),
            probe("disk", "rates and latencies of a drive", disk(quick)),
            probe("gather", "rates of rows gathered from the host's memory", gathers.collect()),
            probe("huge-pages", "rates of a drive to and from memory in huge pages", in_huge_pages(quick)),
        ],
        sentinels: vec![memory(Pattern::Copy, 1, array)],
    }
}

fn disk(quick: bool) -> Vec<Task> {
    let of = |access, route, random, block, depth| {
        Task::Disk(Disk { access, route, random, block, depth, pages: Pages::Small })
    };
    let accesses = [Access::Read, Access::Write];
    let shapes: &[(u64, u32)] = if quick {
        &[(MIB, 1), (MIB, 16)]
    } else {
        &[
            (16 * KIB, 1),
            (64 * KIB, 4),
            (256 * KIB, 1),
            (256 * KIB, 16),
            (MIB, 1),
            (MIB, 16),
            (16 * MIB, 1),
            (16 * MIB, 8),
        ]
    };
    let sequential = accesses.into_iter().flat_map(|access| {
        shapes.iter().map(move |&(block, depth)| of(access, Route::Direct, false, block, depth))
    });
    let depths: &[u32] = if quick { &[1, 32] } else { &[1, 4, 16, 64] };
    let random = accesses
        .into_iter()
        .flat_map(|access| depths.iter().map(move |&depth| of(access, Route::Direct, true, 4 * KIB, depth)));
    // What goes through the page cache takes as long whatever the blocks: several tell it better.
    let sizes: &[u64] = if quick { &[MIB] } else { &[MIB, 2 * MIB, 4 * MIB] };
    let through_cache = sizes.iter().flat_map(|&block| {
        [(Access::Read, Route::Cold), (Access::Read, Route::Cached), (Access::Write, Route::Cached)]
            .map(|(access, route)| of(access, route, false, block, 1))
    });
    // So small that waiting is all they take.
    let flush = [4, 8, 16].into_iter().map(|kib| Task::Flush { block: kib * KIB });
    sequential.chain(random).chain(through_cache).chain(flush).collect()
}

/// After all that scenarios rest on: as fast as they are, writes of these take much of what may be written.
fn in_huge_pages(quick: bool) -> Vec<Task> {
    let shapes: &[(u64, u32)] =
        if quick { &[(MIB, 16)] } else { &[(256 * KIB, 16), (MIB, 16), (4 * MIB, 8)] };
    let of = |access| {
        shapes.iter().map(move |&(block, depth)| {
            let (route, random, pages) = (Route::Direct, false, Pages::Huge);
            Task::Disk(Disk { access, route, random, block, depth, pages })
        })
    };
    [Access::Read, Access::Write].into_iter().flat_map(of).collect()
}
