//! Updates by hosts: what bounds them, by sockets and tiles.

use hw_models::host_update::HostUpdate;
use hw_models::machine::{Cluster, Machine};

use crate::catalogue::catalogue;

/// Rate of six channels of a socket of a DGX-2 (byte/s).
const MEMORY: f64 = 0.8 * 128e9;
/// Rate of a socket's links to the other (byte/s).
const LINK: f64 = 33.3e9;
const TILE: u64 = 1 << 30;

fn machine(node: &str) -> Machine {
    Machine::build(&catalogue(), &Cluster::new(node, 1)).unwrap()
}

fn seconds(node: &str, parameters: u64, tile: u64) -> f64 {
    HostUpdate { parameters, tile }.seconds(&machine(node)).unwrap()
}

fn close(found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 1e-6, "{found} s instead of {expected} s");
}

/// Sixteen bytes of a parameter are read and twelve written: by one socket all in its memory.
#[test]
fn a_host_of_one_socket_is_as_fast_as_its_memory() {
    for parameters in [1, 1_000_000, 3 * TILE + 5] {
        close(seconds("h200-vm", parameters, TILE), 28.0 * parameters as f64 / (0.8 * 307.2e9));
    }
}

/// States of one tile are on both sockets, half of them away from their threads: 7 bytes of each
/// parameter cross the link one way.
#[test]
fn states_of_one_tile_cross_the_link_of_two_sockets() {
    let parameters = 1_000_000_000;
    close(seconds("dgx-2", parameters, TILE), 7.0 * parameters as f64 / LINK);
    close(seconds("dgx-2", parameters, u64::MAX), 7.0 * parameters as f64 / LINK);
}

/// A tile of much larger states is in one memory, which works alone.
#[test]
fn small_tiles_are_as_fast_as_one_memory() {
    let parameters = 64 * TILE;
    close(seconds("dgx-2", parameters, TILE), 28.0 * parameters as f64 / MEMORY);
}

/// Time grows with parameters, between that of all memories and that of one.
#[test]
fn more_parameters_take_longer_within_bounds() {
    assert_eq!(seconds("dgx-2", 0, TILE), 0.0);
    let times: Vec<f64> = (1..40).map(|n| seconds("dgx-2", n * 300_000_007, TILE)).collect();
    assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "{times:?}");
    for (n, time) in (1..40).zip(times) {
        let parameters = f64::from(n) * 300_000_007.0;
        let (least, most) = (28.0 * parameters / (2.0 * MEMORY), 28.0 * parameters / MEMORY);
        assert!(least <= time && time <= most * 1.000_001, "{n}: {time} s");
    }
}
