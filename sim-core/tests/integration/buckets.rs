//! Fluids that are faster for a while, beyond the small program of a write cache running out.

use sim_core::fixed::Rate;
use sim_core::platform::{Bucket, Demand, Platform};
use sim_core::program::{Activity, StartState};
use sim_core::{Options, simulate};

use crate::support::*;

const UNIT: u64 = 1_000_000_000_000;

/// A disk that sustains half a unit per second and bursts at one for one unit above that. Writing 3/2 at a pace of 3/4 takes
/// 2 s and half of the cache, which refills in 2 idle seconds; 3 units then take 2 s until the cache is full and 2 s more.
#[test]
fn a_bucket_refills_after_a_slow_activity() {
    let (mut platform, mut p) = (Platform::default(), program());
    let disk = platform.fluid("disk", 0.5e12, BUSY);
    platform.fluids[disk.index()].bucket = Some(Bucket::full(Rate::per_second(1e12), UNIT));
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
    platform.fluids[requests.index()].bucket = Some(Bucket::full(Rate::per_second(150.0), 50));
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

/// The disk of before: 3/2 units at its burst rate of 1 take 1.5 s and 3/4 of a full cache, and leave as much as refills
/// in a second beside them. From an empty cache they take 3 s, and from one of 1/4 it takes 1/2 s until that is used up.
#[test]
fn a_bucket_begins_with_its_tokens_and_tells_what_is_left() {
    for (tokens, idle, end, left) in [
        (UNIT, 0, 1.5, UNIT / 4),
        (UNIT, 1, 2.5, 3 * UNIT / 4),
        (UNIT, 2, 3.5, UNIT),
        (0, 0, 3.0, 0),
        (0, 1, 4.0, UNIT / 2),
        (UNIT / 4, 0, 2.5, 0),
        (u64::MAX, 0, 1.5, UNIT / 4),
    ] {
        let (mut platform, mut p) = (Platform::default(), program());
        let disk = platform.fluid("disk", 0.5e12, BUSY);
        platform.fluids[disk.index()].bucket =
            Some(Bucket { tokens, ..Bucket::full(Rate::per_second(1e12), UNIT) });
        let network = platform.fluid("network", 1e12, BUSY);
        let route = platform.route([Demand::on(disk)]);
        let costs = p.cost_table(vec![Activity::moving(3 * UNIT / 2, 0, BUSY), lasting(idle)], vec![]);
        let binding = p.binding([route.0], Some(costs));
        stream(&mut p, "writer", binding, vec![run(0), run(1)]);
        for segments in [false, true] {
            let options = Options { segments, ..Options::default() };
            let run = simulate(&platform, &p, &StartState::default(), &options).expect("a valid program");
            let [of_disk, of_network] = [disk, network].map(|fluid| run.fluids[fluid.index()].tokens);
            assert_eq!((run.time.as_secs(), of_disk), (end, Some(left)), "from {tokens}, idle {idle} s");
            assert_eq!(of_network, None);
        }
    }
}
