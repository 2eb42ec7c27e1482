//! Copies of a model that do the same: where techniques decide otherwise for some of them, each cohort has a schedule of its own.

use crate::schedule::Schedule;

/// The schedules of a job, and who executes which.
#[derive(Clone, Debug)]
pub(crate) struct Cohorts<'a> {
    /// One per cohort.
    pub(super) schedules: &'a [Schedule],
    /// By cohort, its replicas.
    pub(super) members: Vec<Vec<u32>>,
    /// By replica, its cohort.
    cohorts: Vec<u32>,
    /// By replica, the counter of its first signal, and how far the next ones are apart: those of a cohort lie signal by signal.
    counters: Vec<(u32, u32)>,
    /// Counters of all signals of all replicas.
    pub(super) count: u32,
}

impl<'a> Cohorts<'a> {
    /// One of `schedules` for each cohort. `of_replica` gives the cohorts of replicas.
    pub(crate) fn new(schedules: &'a [Schedule], of_replica: impl Fn(u32) -> u32, replicas: u32) -> Self {
        let cohorts: Vec<u32> = (0..replicas).map(of_replica).collect();
        let of_cohort =
            |cohort: u32| (0..replicas).filter(|&replica| cohorts[replica as usize] == cohort).collect();
        let members: Vec<Vec<u32>> = (0..schedules.len() as u32).map(of_cohort).collect();
        let (mut counters, mut count) = (vec![(0, 0); replicas as usize], 0);
        for (members, schedule) in members.iter().zip(schedules) {
            for (at, &replica) in (0..).zip(members) {
                counters[replica as usize] = (count + at, members.len() as u32);
            }
            count += (members.len() * schedule.signals.len()) as u32;
        }
        Self { schedules, members, cohorts, counters, count }
    }

    /// What a replica executes.
    pub(super) fn schedule(&self, replica: u32) -> &'a Schedule {
        &self.schedules[self.cohorts[replica as usize] as usize]
    }

    /// The counter of a signal of a replica.
    pub(super) fn counter(&self, signal: u32, replica: u32) -> u32 {
        let (first, apart) = self.counters[replica as usize];
        first + signal * apart
    }
}
