//! Fluids that are faster for a while, beyond the small program of a write cache running out.

use sim_core::fixed::Rate;
use sim_core::platform::{Bucket, Demand, Platform};
use sim_core::program::Activity;

use crate::support::*;

const UNIT: u64 = 1_000_000_000_000;

/// A disk that sustains half a unit per second and bursts at one for one unit above that. Writing 3/2 at a pace of 3/4 takes
/// 2 s and half of the cache, which refills in 2 idle seconds; 3 units then take 2 s until the cache is full and 2 s more.
#[test]
fn a_bucket_refills_after_a_slow_activity() {
    let (mut platform, mut p) = (Platform::default(), program());
    let disk = platform.fluid("disk", 0.5e12, BUSY);
    platform.fluids[disk.index()].bucket = Some(Bucket { burst: Rate::per_second(1e12), volume: UNIT });
    let route = platform.route([Demand::on(disk)]);
    let slow = Activity { cap: Rate::per_second(0.75e12), ..Activity::moving(3 * UNIT / 2, 0, BUSY) };
    let costs = p.cost_table(vec![slow, lasting(2), Activity::moving(3 * UNIT, 0, BUSY)], vec![]);
    let binding = p.binding([route.0], Some(costs));
    stream(&mut p, "writer", binding, vec![run(0), run(1), run(2)]);
    assert_eq!(ends(&platform, &p), [8.0]);
}

/// So few units per second (requests) that three activities cannot use all of them for rounding: that does not count as
/// idle. 50 above the sustained rate last a second, until 150 of 900 are done; 750 at 100/s take 7.5 s more.
#[test]
fn a_bucket_that_has_run_out_stays_empty_under_load() {
    let (mut platform, mut p) = (Platform::default(), program());
    let requests = platform.fluid("requests", 100.0, BUSY);
    platform.fluids[requests.index()].bucket = Some(Bucket { burst: Rate::per_second(150.0), volume: 50 });
    let route = platform.route([Demand::on(requests)]);
    let costs = p.cost_table(vec![Activity::moving(300, 0, BUSY)], vec![]);
    let binding = p.binding([route.0], Some(costs));
    for _ in 0..3 {
        stream(&mut p, "reader", binding, vec![run(0)]);
    }
    for end in ends(&platform, &p) {
        assert!((end - 8.5).abs() < 0.3, "{end} s: rates this low are resolved to 1 %");
    }
}
