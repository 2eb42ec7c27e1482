//! Lanes by hand.

use sim_core::time::Time;
use workloads::lanes::{HostItem, HostTime, Lanes, Simulation, Thread, Why};

/// A thread names what it uses by 16 bits: each object once, however often it is used.
#[test]
fn a_thread_may_use_a_lock_more_than_65536_times() {
    const TIMES: u64 = 70_000;
    let work = HostItem::Work(HostTime { python: 1_000, ..HostTime::default() });
    let locked = [HostItem::Lock(0), work, HostItem::Unlock(0)];
    let mut items = vec![HostItem::Give(5), HostItem::Mark];
    (0..TIMES).for_each(|_| items.extend(locked));
    items.push(HostItem::Mark);
    let other = vec![HostItem::Take(5, Why::Thread), HostItem::Lock(0), work, HostItem::Unlock(0)];
    let thread = |items| Thread { name: String::new(), items };
    let lanes =
        Lanes { threads: vec![thread(items), thread(other)], channels: 6, locks: 1, ..Lanes::default() };
    let marks = Simulation::new(&lanes, 1, None).run().expect("it ends").marks;
    // Each takes the lock in turn: the other once.
    assert_eq!(marks[1] - marks[0], Time::from_ns(TIMES + 1));
}
