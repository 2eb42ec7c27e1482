//! Steps of a training run: each layer allocates tensors of its own sizes, half of which live to its backward pass. The
//! caching allocator beside the plain one.
//!
//! `cargo bench -p hw-models --bench allocator`

#![expect(clippy::print_stdout, reason = "a bench prints its table")]

use std::hint::black_box;
use std::time::Instant;

use hw_models::allocator::{Request, Settings, StreamNumber, Usage, replay, replay_plainly};

/// Tensors that a layer allocates.
const TENSORS: u32 = 20;
/// Layers of a step.
const LAYERS: u32 = 100;
/// Measurements; the best counts, as everything else is other load of the machine.
const REPEATS: usize = 3;

fn main() {
    let expandable = Settings { expandable_segments: true, ..Settings::default() };
    println!("allocations              ms   ns/request   plain, ms   plain vs it");
    for (name, settings) in [("segments", Settings::default()), ("expandable", expandable)] {
        for allocations in [2_000, 20_000, 1_000_000] {
            let list = steps(allocations);
            let fast = best(|| replay(&list, u64::MAX, &settings).expect("a list that can be made"));
            let figures = format!("{:>9.2} {:>12.1}", fast * 1e3, fast * 1e9 / list.len() as f64);
            if allocations > 20_000 {
                println!("{allocations:>9} {name:<10} {figures}");
                continue;
            }
            let plain = best(|| replay_plainly(&list, u64::MAX, &settings).expect("a list that can be made"));
            println!("{allocations:>9} {name:<10} {figures} {:>11.1} {:>11.0}x", plain * 1e3, plain / fast);
        }
    }
}

/// Whole steps of together so many allocations.
fn steps(allocations: u32) -> Vec<Request> {
    let mut list = Vec::new();
    let mut first = 0;
    while first < allocations {
        for layer in 0..LAYERS {
            let of_layer = first + layer * TENSORS;
            for tensor in 0..TENSORS {
                // From half a KiB to some 30 MiB, the same in each step.
                let bytes = (700 + 13 * u64::from(layer % 7)) << (tensor % 16);
                list.push(Request::Allocate { bytes, stream: StreamNumber(0), kind: "activations" });
                if tensor % 2 == 1 {
                    list.push(Request::Free(of_layer + tensor - 1));
                }
            }
        }
        for layer in (0..LAYERS).rev() {
            list.extend(
                (1..TENSORS).step_by(2).map(|tensor| Request::Free(first + layer * TENSORS + tensor)),
            );
        }
        first += LAYERS * TENSORS;
    }
    list
}

/// Seconds of the best measurement.
fn best(run: impl Fn() -> Usage) -> f64 {
    let once = |_| {
        let start = Instant::now();
        black_box(run());
        start.elapsed().as_secs_f64()
    };
    (0..REPEATS).map(once).fold(f64::INFINITY, f64::min)
}
