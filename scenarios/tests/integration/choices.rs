//! Swapping that leaves something open is decided by simulation: no way that it had is faster than
//! the one taken.

use reports::summary::RunSummary;

use crate::support::run_of;

const SERVER: &str = "
name: test
machine: { node: supermicro-4029gp-trt }
model: { transformer: { layers: 6, hidden: 1024, heads: 16, vocabulary: 30000, max_positions: 512 } }
training: { micro_batch: 16, accumulate: 4, sequence: 512, precision: fp32 }
parallelism: { data: 4, idle: allow }
memory: { allocator: { expandable_segments: true } }
";
const COORDINATIONS: [&str; 4] = ["oblivious", "disjoint", "shifted", "synchronised"];

fn swapped(settings: &str, memory: &str) -> RunSummary {
    let technique = format!("techniques={settings}");
    run_of(SERVER, &[&technique, memory])
}

fn step(settings: &str, memory: &str) -> f64 {
    swapped(settings, memory).step_time().unwrap_or(f64::INFINITY)
}

#[test]
fn the_automatic_coordination_is_the_fastest_and_says_which() {
    const SHORT: &str = "memory.footprint_ratio=1.33";
    let times = COORDINATIONS.map(|name| step(&format!("{{ swap: {{ coordination: {name} }} }}"), SHORT));
    let least = times.into_iter().fold(f64::INFINITY, f64::min);
    let fastest = COORDINATIONS[times.iter().position(|&time| time == least).expect("one fits")];
    let automatic = swapped("{ swap: { coordination: automatic } }", SHORT);
    assert_eq!(automatic.step_time(), Some(least), "{times:?}");
    assert!(
        automatic.notes.iter().any(|note| note.contains(&format!("`{fastest}`"))),
        "{:?}",
        automatic.notes
    );
    assert!(least < times[0], "behind each other they share the link better: {times:?}");
}

/// Without anything to move nobody waits for anybody.
#[test]
fn copies_with_room_enough_do_not_wait_for_each_other() {
    const ENOUGH: &str = "memory.limit=32 GiB";
    let plain = step("{}", ENOUGH);
    for name in COORDINATIONS {
        assert_eq!(step(&format!("{{ swap: {{ coordination: {name} }} }}"), ENOUGH), plain, "{name}");
    }
}

/// With recomputation, swapping is no slower than either alone, nor than recomputation of a fixed
/// mode beside it.
#[test]
fn swapping_with_recomputation_is_no_slower_than_its_parts() {
    const SHORT: &str = "memory.limit=7.5 GiB";
    let both = step("{ swap: { recompute: true } }", SHORT);
    let parts = [
        "{ swap: {} }",
        "{ recompute: { mode: selective } }",
        "{ recompute: {} }",
        "{ swap: {}, recompute: { mode: selective } }",
    ];
    let times = parts.map(|part| step(part, SHORT));
    assert!(times.iter().all(|&time| both <= time * 1.000_001), "{both}: {times:?}");
    assert!(times.iter().filter(|time| time.is_finite()).count() >= 2, "{times:?}");
}
