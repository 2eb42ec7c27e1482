//! Threads that stream through memory, as STREAM does (McCalpin, "Memory bandwidth and machine balance in current high
//! performance computers", 1995), and threads that gather rows.
//!
//! Thread `i` runs on core `i` and is the first to touch its part of each array, so that the part is in the memory next to
//! it. The time is from the first thread that begins to the last that ends.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use rustix::thread::{CpuSet, sched_setaffinity};

use super::facts::Facts;
use crate::measure::{DeviceError, Gather, HostMemory, Pattern};

/// Bytes of an element.
const ELEMENT: u64 = size_of::<f64>() as u64;
/// Elements of a page of 4 KiB.
const PAGE: usize = 512;
/// Share of the free memory that arrays may take.
const SHARE: f64 = 0.8;

/// Arrays that are streamed through.
pub(super) struct Streams {
    pattern: Pattern,
    threads: usize,
    arrays: [Vec<f64>; 3],
}

impl Streams {
    pub(super) fn touched(task: &HostMemory, facts: &Facts) -> Result<Self, DeviceError> {
        let arrays = task.pattern.arrays();
        let length = elements(task.bytes, arrays, facts)?;
        let array = |i: u64| if i < arrays { vec![0.0; length] } else { Vec::new() };
        let threads = task.threads as usize;
        let mut streams = Self { pattern: task.pattern, threads, arrays: [0, 1, 2].map(array) };
        streams.each(|_, _, parts| parts.into_iter().for_each(touch));
        Ok(streams)
    }

    pub(super) fn time(&mut self, executions: u32) -> f64 {
        let pattern = self.pattern;
        self.each(|_, barrier, [a, b, c]| {
            barrier.wait();
            let begun = Instant::now();
            for _ in 0..executions {
                pass(pattern, black_box(&mut *a), black_box(&*b), black_box(&*c));
            }
            (begun, Instant::now())
        })
        .into_iter()
        .reduce(around)
        .map_or(0.0, |(begun, ended)| (ended - begun).as_secs_f64())
    }

    /// Runs a thread on each part of the arrays.
    fn each<T: Send>(&mut self, work: impl Fn(usize, &Barrier, [&mut [f64]; 3]) -> T + Sync) -> Vec<T> {
        let threads = self.threads;
        let [a, b, c] = self.arrays.each_mut().map(|array| parts(array, threads));
        on_cores(a.zip(b).zip(c).map(|((a, b), c)| [a, b, c]), threads, work)
    }
}

/// One pass over arrays.
fn pass(pattern: Pattern, a: &mut [f64], b: &[f64], c: &[f64]) {
    /// Sums at a time, so that additions do not wait for each other.
    const SUMS: usize = 16;
    let scalar = black_box(3.0);
    match pattern {
        Pattern::Write => a.fill(scalar),
        Pattern::Read => {
            let mut sums = [0.0; SUMS];
            for chunk in a.chunks_exact(SUMS) {
                sums.iter_mut().zip(chunk).for_each(|(sum, x)| *sum += x);
            }
            black_box(sums);
        }
        Pattern::Copy => a.copy_from_slice(b),
        Pattern::Scale => a.iter_mut().zip(b).for_each(|(a, b)| *a = scalar * b),
        Pattern::Add => a.iter_mut().zip(b).zip(c).for_each(|((a, b), c)| *a = b + c),
        Pattern::Triad => {
            a.iter_mut().zip(b).zip(c).for_each(|((a, b), c)| *a = b + scalar * c);
        }
    }
}

/// An array that rows are gathered from.
pub(super) struct Rows {
    /// Elements of a row.
    row: usize,
    threads: usize,
    source: Vec<f64>,
}

impl Rows {
    pub(super) fn touched(task: &Gather, facts: &Facts) -> Result<Self, DeviceError> {
        let length = elements(task.bytes, 1, facts)?;
        let threads = task.threads as usize;
        let mut source = vec![0.0; length];
        on_cores(parts(&mut source, threads), threads, |_, _, part| touch(part));
        Ok(Self { row: (task.row / ELEMENT).max(1) as usize, threads, source })
    }

    /// Gathers so many rows, all threads together.
    pub(super) fn time(&self, executions: u32) -> f64 {
        let rows = self.source.len() / self.row;
        let each = (executions as usize).div_ceil(self.threads);
        let ends = on_cores((0..self.threads).map(|_| ()), self.threads, |thread, barrier, ()| {
            // A destination that stays in the core's cache.
            let mut gathered = vec![0.0; self.row];
            let mut at = thread as u64;
            barrier.wait();
            let begun = Instant::now();
            for _ in 0..each {
                at = next(at);
                let from = (at % rows as u64) as usize * self.row;
                gathered.copy_from_slice(&self.source[from..from + self.row]);
                black_box(&mut gathered);
            }
            (begun, Instant::now())
        });
        let rounded = each * self.threads;
        let seconds =
            ends.into_iter().reduce(around).map_or(0.0, |(begun, ended)| (ended - begun).as_secs_f64());
        seconds * f64::from(executions) / rounded as f64
    }
}

/// The next number of SplitMix64 (Steele, Lea and Flood, 2014): places that no prefetcher foresees, at two
/// multiplications each.
const fn next(state: u64) -> u64 {
    let z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Elements of each of so many arrays, if there is memory for them.
fn elements(bytes: u64, arrays: u64, facts: &Facts) -> Result<usize, DeviceError> {
    let all = bytes.saturating_mul(arrays);
    if all as f64 > SHARE * facts.available as f64 {
        return Err(DeviceError::exhausted(
            format!("memory for arrays of {} MiB", all >> 20),
            format!("{} MiB are free: end other programs", facts.available >> 20),
        ));
    }
    Ok((bytes / ELEMENT) as usize)
}

/// An array in so many parts; of an array without elements as many empty ones.
fn parts(array: &mut [f64], count: usize) -> impl Iterator<Item = &mut [f64]> {
    let length = array.len().div_ceil(count.max(1)).max(1);
    array
        .chunks_mut(length)
        .map(Some)
        .chain(std::iter::repeat_with(|| None))
        .map(Option::unwrap_or_default)
        .take(count)
}

/// Writes to every page.
fn touch(part: &mut [f64]) {
    part.iter_mut().step_by(PAGE).for_each(|x| *x = 1.0);
}

/// Runs a thread on a core of its own for each of `inputs`, with a barrier that all of them can wait at.
fn on_cores<I: Send, T: Send>(
    inputs: impl Iterator<Item = I>,
    threads: usize,
    work: impl Fn(usize, &Barrier, I) -> T + Sync,
) -> Vec<T> {
    let barrier = Barrier::new(threads);
    thread::scope(|scope| {
        let (work, barrier) = (&work, &barrier);
        let spawned: Vec<_> = inputs
            .enumerate()
            .map(|(thread, input)| {
                scope.spawn(move || {
                    let mut core = CpuSet::new();
                    core.set(thread);
                    // Where that is forbidden threads are where the system has them.
                    let _ = sched_setaffinity(None, &core);
                    work(thread, barrier, input)
                })
            })
            .collect();
        spawned.into_iter().filter_map(|thread| thread.join().ok()).collect()
    })
}

/// The time that two spans take together.
fn around(a: (Instant, Instant), b: (Instant, Instant)) -> (Instant, Instant) {
    (a.0.min(b.0), a.1.max(b.1))
}
