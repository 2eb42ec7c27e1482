//! Tensors of micro-batches that stay with another stage for a while (BPipe): they are freed when the copy out has ended,
//! beside the visit after the one that it follows, and allocated anew when the copy back begins.
//!
//! The other stage has a buffer for each micro-batch that is with it at a time.

use std::collections::BTreeMap;

use crate::graph::Phase;
use crate::names::kind;
use crate::transfer::{Listed, Transfer, Trip, Trips};

use super::walk::{Slots, TensorIndex, Walk};
use super::{Executed, Requester};

/// What a stage lends to others, and keeps for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lending<'a> {
    /// Trips of its own micro-batches.
    pub(super) trips: &'a [Trip],
    /// Most micro-batches that it has at a time, where it lends some.
    pub(super) bound: u32,
    /// How many micro-batches of another stage it has at a time, and the bytes of each.
    pub(super) kept: (u32, u64),
}

impl<'a> Lending<'a> {
    pub(super) fn of(moves: &'a [(Transfer, u64)], stage: u32) -> Self {
        let listed = |(moved, bytes): &'a (Transfer, u64)| match &moved.trips {
            Trips::Listed(listed) => Some((moved, listed, *bytes)),
            Trips::Every(_) => None,
        };
        let mut lending = Self::default();
        for (moved, Listed { trips, bound, away }, bytes) in moves.iter().filter_map(listed) {
            if moved.from.owner == stage {
                (lending.trips, lending.bound) = (trips, *bound);
            }
            if moved.to.owner == stage {
                lending.kept = (*away, bytes);
            }
        }
        lending
    }
}

/// A tensor that was away: what it was before and is after, if it has come back, and the step at which it left.
pub(super) struct Away {
    pub(super) before: TensorIndex,
    pub(super) after: Option<TensorIndex>,
    pub(super) left: usize,
}

impl Walk {
    /// Lets micro-batches leave after a visit, then return: a copy back waits for room, which a backward pass makes.
    pub(super) fn travel(&mut self, trips: &[Trip], bound: usize, visit: u32) {
        for trip in trips.iter().filter(|trip| trip.copied_after + 1 == visit) {
            self.leave_home(executed("copy to the partner", Phase::Forward, trip));
        }
        for trip in trips.iter().filter(|trip| (trip.asked_after..trip.needed_by).contains(&visit)) {
            let has_room = self.made.len() - self.away.len() < bound || visit + 1 == trip.needed_by;
            if has_room && self.away.contains_key(&trip.micro_batch) {
                self.come_home(executed("copy from the partner", Phase::Backward, trip));
            }
        }
    }

    fn leave_home(&mut self, execution: Executed) {
        let left = self.steps.len();
        self.step(execution, 0, &[], &[]);
        let made = self.made.get(&(0, execution.micro_batch));
        let mut leaving: Vec<TensorIndex> = made.into_iter().flat_map(Slots::iter).collect();
        leaving.sort_unstable();
        leaving.dedup();
        let away = leaving.into_iter().map(|before| Away { before, after: None, left }).collect();
        self.away.insert(execution.micro_batch, away);
    }

    fn come_home(&mut self, execution: Executed) {
        let Some(mut away) = self.away.remove(&execution.micro_batch) else { return };
        let bytes: Vec<u64> = away.iter().map(|away| self.tensors[away.before].bytes).collect();
        let back = self.step(execution, 0, &[], &bytes);
        let mut after: BTreeMap<TensorIndex, TensorIndex> = BTreeMap::new();
        for (away, back) in away.iter_mut().zip(back) {
            away.after = Some(back);
            after.insert(away.before, back);
        }
        let made = self.made.get_mut(&(0, execution.micro_batch));
        for tensor in made.into_iter().flat_map(Slots::iter_mut) {
            *tensor = after.get(tensor).copied().unwrap_or(*tensor);
        }
        self.returned.extend(away);
    }

    /// Only what is read again has travelled.
    pub(super) fn arrive_home(&mut self) {
        for Away { before, after, left } in std::mem::take(&mut self.returned) {
            let Some(after) = after else { continue };
            if self.tensors[after].last_step == self.tensors[after].first_step {
                self.tensors[after].bytes = 0;
                continue;
            }
            self.tensors[before].last_step = left;
            for tensor in [before, after] {
                self.tensors[tensor].kind = Some(kind::ACTIVATIONS);
            }
        }
    }
}

fn executed(operator: &'static str, phase: Phase, trip: &Trip) -> Executed {
    Executed {
        operator: Requester::Framework(operator),
        phase,
        chunk: 0,
        block: 0,
        micro_batch: trip.micro_batch,
    }
}
