//! The hold model: `n` entries are pending; each step takes the earliest and sets it again a random time later. The
//! radix heap beside the plain heap and beside a bare loop over the same draws, in one process.
//!
//! `cargo bench -p sim-core --bench queue`

#![expect(clippy::print_stdout, reason = "a bench prints its table")]

#[path = "../tests/integration/plain_timers.rs"]
mod plain_timers;

use std::hint::black_box;
use std::time::Instant;

use sim_core::queue::finish::FinishTree;
use sim_core::queue::timers::Timers;
use sim_core::time::Time;

use plain_timers::PlainTimers;

/// Steps per measurement.
const STEPS: usize = 4_000_000;
/// Measurements; the best counts, as everything else is other load of the machine.
const REPEATS: usize = 3;

fn main() {
    println!("ns per event      bare    radix    plain   radix vs plain   M events/s   re-key");
    for pending in [1, 16, 64, 100, 10_000, 1_000_000] {
        let bare = best(|| bare(pending));
        let radix = best(|| hold_timers(pending));
        let plain = best(|| hold_plain(pending));
        let rekey = best(|| rekey(pending));
        println!(
            "{pending:>9} pending {bare:>5.1} {radix:>8.1} {plain:>8.1} {:>15.1}x {:>12.1} {rekey:>8.1}",
            plain / radix,
            1e3 / radix
        );
    }
    println!("ns per entry of an instant shared by all");
    for pending in [512, 8_192] {
        println!("{pending:>9} pending {:>14.1}", best(|| lock_step(pending)));
    }
}

/// Nanoseconds per step of the best measurement.
fn best(mut run: impl FnMut() -> u64) -> f64 {
    let once = |_| {
        let start = Instant::now();
        black_box(run());
        start.elapsed().as_secs_f64() * 1e9 / STEPS as f64
    };
    (0..REPEATS).map(once).fold(f64::INFINITY, f64::min)
}

/// Uniform durations up to 2 ms in ps: a linear congruential generator, cheaper than the queues.
struct Durations(u64);

impl Durations {
    #[inline]
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }
}

fn bare(pending: usize) -> u64 {
    let mut durations = Durations(1);
    let mut clocks = vec![0u64; pending];
    for i in 0..STEPS {
        clocks[i % pending] += durations.next();
    }
    clocks.iter().fold(0, |sum, clock| sum ^ clock)
}

/// The hold model over a type with the interface of timers.
macro_rules! hold {
    ($name:ident, $timers:ty) => {
        fn $name(pending: usize) -> u64 {
            let mut durations = Durations(1);
            let mut timers = <$timers>::default();
            for entity in 0..pending as u32 {
                timers.push(Time(durations.next()), entity);
            }
            let (mut out, mut done, mut now) = (Vec::new(), 0, Time::ZERO);
            while done < STEPS {
                now = timers.next_time();
                timers.drain(now, &mut out);
                done += out.len();
                for entity in out.drain(..) {
                    timers.push(now + Time(durations.next()), entity);
                }
            }
            now.0
        }
    };
}

hold!(hold_timers, Timers);
hold!(hold_plain, PlainTimers);

/// Re-keys a random entry of the finish tree to a later time.
fn rekey(pending: usize) -> u64 {
    let mut durations = Durations(1);
    let mut heap = FinishTree::default();
    for id in 0..pending as u32 {
        heap.set(id, Time(durations.next()));
    }
    for step in 0..STEPS {
        let draw = durations.next();
        heap.set((draw % pending as u64) as u32, Time(step as u64 * 1_000 + draw));
    }
    heap.peek().map_or(0, |(time, _)| time.0)
}

/// All entries come at the same instants.
fn lock_step(pending: usize) -> u64 {
    let mut durations = Durations(1);
    let mut timers = Timers::default();
    for entity in 0..pending as u32 {
        timers.push(Time(1), entity);
    }
    let (mut out, mut done, mut now) = (Vec::new(), 0, Time::ZERO);
    while done < STEPS {
        now = timers.next_time();
        timers.drain(now, &mut out);
        done += out.len();
        let duration = Time(durations.next() + 1);
        for entity in out.drain(..) {
            timers.push(now + duration, entity);
        }
    }
    now.0
}
