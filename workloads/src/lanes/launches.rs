//! Launches of lanes: how each activity of a device knows that it has been launched.

use std::collections::{BTreeMap, BTreeSet};

use sim_core::id::{CellId, CounterId};
use sim_core::program::Program;
use sim_core::time::Time;

use super::{ActivityRef, HostItem, Lanes, SectionRef};

/// Launches by activity and thread.
#[derive(Debug, Default)]
pub(super) struct Launches {
    /// By activity, then by thread: several may take part in one.
    all: Vec<Launch>,
    /// By stream and number, the first launch of an activity in [`all`](Self::all); one more at the
    /// end.
    firsts: Vec<Vec<u32>>,
    /// By stream and number, how many of its activities up to there are launched.
    ranks: Vec<Vec<u32>>,
    /// Counters of launches of sections that are stopped.
    stopped: BTreeMap<SectionRef, Vec<Arrivals>>,
}

/// The launch of an activity by a thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Launch {
    /// The activity.
    activity: ActivityRef,
    /// The thread that launches it.
    thread: u32,
    /// Counts launches that have taken effect.
    pub(super) counter: CounterId,
    /// The count at which this one has.
    pub(super) count: i32,
    /// Set when it has been made, if it may be that it never is.
    pub(super) made: Option<CellId>,
    /// Launches of its stream up to it.
    pub(super) rank: u32,
}

/// Launches of a section to a stream with a latency.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrivals {
    pub(super) counter: CounterId,
    pub(super) latency: Time,
    pub(super) count: u32,
}

impl Launches {
    pub(super) fn of(lanes: &Lanes, program: &mut Program) -> Self {
        let stops = lanes.threads.iter().flat_map(|thread| &thread.items).filter_map(|item| match *item {
            HostItem::Stop(section) => Some(section),
            _ => None,
        });
        let stops: BTreeSet<SectionRef> = stops.collect();
        let mut launches = Self { ranks: ranks(lanes), ..Self::default() };
        for (thread, lane) in (0..).zip(&lanes.threads) {
            // A launch that arrives later counts later, whatever its stream: latencies stay apart.
            let mut usual: BTreeMap<(u32, Time), Arrivals> = BTreeMap::new();
            let mut own = BTreeMap::new();
            let mut at = SectionRef { thread, section: 0 };
            for item in &lane.items {
                match *item {
                    HostItem::Section => {
                        let arrivals = std::mem::take(&mut own).into_values().collect();
                        launches.stopped.insert(at, arrivals);
                        at.section += 1;
                    }
                    HostItem::Launch(activity) => {
                        let is_stopped = stops.contains(&at);
                        let arrivals = if is_stopped { &mut own } else { &mut usual };
                        launches.add(lanes, (activity, thread), arrivals, is_stopped, program);
                    }
                    _ => {}
                }
            }
            launches.stopped.insert(at, own.into_values().collect());
        }
        launches.stopped.retain(|section, _| stops.contains(section));
        launches.sort(lanes);
        launches
    }

    /// Brings launches into the order in which they are found. What a thread launches twice it
    /// launches the second time.
    fn sort(&mut self, lanes: &Lanes) {
        let of = |launch: &Launch| (launch.activity, launch.thread);
        self.all.sort_by_key(of);
        self.all.dedup_by(|later, first| {
            let is_again = of(later) == of(first);
            if is_again {
                *first = *later;
            }
            is_again
        });
        let mut rest = self.all.iter().map(|launch| launch.activity).zip(0..).peekable();
        let mut first = 0;
        for (stream, lane) in (0..).zip(&lanes.streams) {
            let mut firsts = Vec::with_capacity(lane.items.len() + 1);
            for number in 0..=lane.items.len() as u32 {
                let at = ActivityRef { stream, number };
                while let Some((_, launch)) = rest.next_if(|(activity, _)| *activity < at) {
                    first = launch + 1;
                }
                firsts.push(first);
            }
            self.firsts.push(firsts);
        }
    }

    fn add(
        &mut self,
        lanes: &Lanes,
        (activity, thread): (ActivityRef, u32),
        arrivals: &mut BTreeMap<(u32, Time), Arrivals>,
        may_never: bool,
        program: &mut Program,
    ) {
        let (stream, number) = (activity.stream as usize, activity.number as usize);
        let latency = lanes.streams[stream].items[number].latency;
        let arrivals = arrivals.entry((activity.stream, latency));
        let arrivals = arrivals.or_insert_with(|| Arrivals { counter: program.counter(), latency, count: 0 });
        arrivals.count += 1;
        let &mut Arrivals { counter, count, .. } = arrivals;
        let made = may_never.then(|| program.cells(1));
        let rank = self.ranks[stream][number];
        self.all.push(Launch { activity, thread, counter, count: count as i32, made, rank });
    }

    /// The launch of an activity by a thread.
    pub(super) fn get(&self, activity: ActivityRef, thread: u32) -> Option<Launch> {
        self.of_activity(activity).iter().find(|launch| launch.thread == thread).copied()
    }

    /// Launches of an activity, one by each thread that takes part; it begins after all of them.
    pub(super) fn of_activity(&self, activity: ActivityRef) -> &[Launch] {
        let (firsts, number) = (&self.firsts[activity.stream as usize], activity.number as usize);
        &self.all[firsts[number] as usize..firsts[number + 1] as usize]
    }

    /// Launches to a stream in all.
    pub(super) fn all_of(&self, stream: usize) -> u32 {
        self.ranks[stream].last().copied().unwrap_or(0)
    }

    /// Launches of a section that is stopped.
    pub(super) fn stopped(&self, section: SectionRef) -> &[Arrivals] {
        self.stopped.get(&section).map_or(&[], Vec::as_slice)
    }
}

fn ranks(lanes: &Lanes) -> Vec<Vec<u32>> {
    let mut ranks: Vec<Vec<u32>> = lanes.streams.iter().map(|stream| vec![0; stream.items.len()]).collect();
    for item in lanes.threads.iter().flat_map(|thread| &thread.items) {
        if let HostItem::Launch(activity) = item {
            ranks[activity.stream as usize][activity.number as usize] = 1;
        }
    }
    for stream in &mut ranks {
        let mut launched = 0;
        for rank in stream {
            launched += *rank;
            *rank = launched;
        }
    }
    ranks
}
