//! Event queues: the fast ones give what the plain ones give.

use std::collections::BTreeSet;

use proptest::prelude::*;
use sim_core::queue::finish::FinishTree;
use sim_core::queue::timers::Timers;
use sim_core::time::Time;

use super::plain_timers::PlainTimers;

/// A step of a program that uses timers.
#[derive(Clone, Debug)]
enum Step {
    /// Push at this distance from the current instant.
    Push(u64, u32),
    /// Drain the next instant.
    Drain,
    /// Something else happens part of the way to the next timer (in 1/256).
    Pass(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let distance = prop_oneof![
        3 => 0u64..4,
        3 => 0u64..1_000,
        2 => any::<u64>().prop_map(|d| d >> 20),
        1 => any::<u64>(),
        1 => Just(u64::MAX),
    ];
    prop_oneof![
        4 => (distance, 0u32..8).prop_map(|(d, e)| Step::Push(d, e)),
        3 => Just(Step::Drain),
        1 => any::<u8>().prop_map(Step::Pass),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn radix_heap_gives_the_sequences_of_the_plain_heap(steps in prop::collection::vec(step(), 0..200)) {
        let (mut timers, mut plain) = (Timers::default(), PlainTimers::default());
        let mut now = 0u64;
        for step in steps {
            match step {
                Step::Push(distance, entity) => {
                    let time = Time(now.saturating_add(distance));
                    timers.push(time, entity);
                    plain.push(time, entity);
                }
                Step::Drain => {
                    let (mut fast, mut slow) = (vec![99], vec![99]);
                    let next = plain.next_time();
                    timers.drain(next, &mut fast);
                    plain.drain(next, &mut slow);
                    prop_assert_eq!(fast, slow);
                    if next != Time::NEVER {
                        now = next.0;
                    }
                }
                Step::Pass(part) if plain.next_time() != Time::NEVER => {
                    now += ((plain.next_time().0 - now) >> 8) * u64::from(part);
                }
                Step::Pass(_) => {}
            }
            prop_assert_eq!(timers.next_time(), plain.next_time());
        }
    }

    #[test]
    fn finish_heap_gives_the_order_of_a_sorted_set(
        changes in prop::collection::vec((0u32..40, prop::option::weighted(0.8, 0u64..30), any::<bool>()), 0..300),
    ) {
        let (mut heap, mut set) = (FinishTree::default(), BTreeSet::new());
        for (id, time, drain) in changes {
            set.retain(|&(_, other)| other != id);
            match time {
                Some(time) => {
                    heap.set(id, Time(time));
                    set.insert((Time(time), id));
                }
                None => heap.remove(id),
            }
            prop_assert_eq!(heap.peek(), set.first().copied());
            if let Some(&(now, _)) = set.first().filter(|_| drain) {
                let (mut drained, mut expected) = (vec![], vec![]);
                heap.drain(now, &mut drained);
                while let Some(&(time, id)) = set.first().filter(|first| first.0 == now) {
                    set.remove(&(time, id));
                    expected.push(id);
                }
                prop_assert_eq!(drained, expected);
            }
        }
    }
}

#[test]
fn entries_pushed_for_the_instant_being_drained_come_in_a_further_round() {
    let mut timers = Timers::default();
    let mut out = vec![];
    timers.push(Time(5), 2);
    timers.push(Time(5), 1);
    timers.drain(Time(5), &mut out);
    timers.push(Time(5), 0);
    assert_eq!((out.as_slice(), timers.next_time()), (&[1, 2][..], Time(5)));
    timers.drain(Time(5), &mut out);
    assert_eq!((out.as_slice(), timers.next_time()), (&[1, 2, 0][..], Time::NEVER));
}

#[test]
fn looking_ahead_does_not_forbid_earlier_pushes() {
    let mut timers = Timers::default();
    timers.push(Time(1_000), 1);
    assert_eq!(timers.next_time(), Time(1_000));
    timers.push(Time(10), 2);
    assert_eq!(timers.next_time(), Time(10));
}

#[test]
fn never_is_not_kept() {
    let mut timers = Timers::default();
    timers.push(Time::NEVER, 1);
    let mut out = vec![];
    timers.drain(Time::NEVER, &mut out);
    assert_eq!((timers.next_time(), out.len()), (Time::NEVER, 0));

    let mut heap = FinishTree::default();
    heap.set(3, Time(7));
    heap.set(3, Time::NEVER);
    assert_eq!(heap.peek(), None);
}
