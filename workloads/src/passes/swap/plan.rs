//! A swap plan: what is away, and when each is asked for again. It fits if at no operator more is there than room for, all that
//! has been asked for counted as being there: then whoever waits for room waits for copies out alone, and these for nobody.

use std::ops::Range;

use super::timeline::{Absence, Timeline};

/// Which candidates of a timeline are away, and when they are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SwapPlan {
    /// By candidate, how many operators of the backward pass come before that before which it is asked for; none: it stays.
    pub(crate) asked: Vec<Option<usize>>,
}

impl SwapPlan {
    /// Nothing is away.
    pub(crate) fn keeping_all(timeline: &Timeline) -> Self {
        Self { asked: vec![None; timeline.candidates.len()] }
    }

    /// The chosen ones are away until they are needed.
    pub(crate) fn on_demand(timeline: &Timeline, away: &[bool]) -> Self {
        let asked = timeline.candidates.iter().zip(away);
        Self { asked: asked.map(|(candidate, &away)| away.then(|| candidate.before_needed())).collect() }
    }

    /// The same ones are away, each asked for so many of them ahead, but no earlier than there is room for it until it is
    /// needed; those needed first come first.
    pub(crate) fn asked_ahead(mut self, timeline: &Timeline, capacity: u64, prefetch: usize) -> Self {
        let mut there = self.there(timeline);
        let mut needs: Vec<usize> = Vec::new();
        for (number, candidate) in timeline.candidates.iter().enumerate() {
            let Some(asked) = &mut self.asked[number] else { continue };
            let ahead = needs.len().checked_sub(prefetch).and_then(|at| needs.get(at));
            let earliest = if prefetch == 0 { *asked } else { ahead.map_or(0, |&need| need) };
            needs.push(*asked);
            let fits = |asked: usize, there: &[u64]| {
                candidate.absences.iter().all(|&Absence { left, returns, .. }| {
                    returns + asked > left + 1 && there[returns + asked] + candidate.bytes <= capacity
                })
            };
            while *asked > earliest && fits(*asked - 1, &there) {
                *asked -= 1;
                for absence in &candidate.absences {
                    there[absence.returns + *asked] += candidate.bytes;
                }
            }
        }
        self
    }

    /// Bytes at every step.
    pub(crate) fn there(&self, timeline: &Timeline) -> Vec<u64> {
        let mut there = timeline.alive.clone();
        for (candidate, asked) in timeline.candidates.iter().zip(&self.asked) {
            let Some(asked) = asked else { continue };
            for absence in &candidate.absences {
                there[away(absence, *asked)].iter_mut().for_each(|bytes| *bytes -= candidate.bytes);
            }
        }
        there
    }

    /// The first step with more than there is room for.
    pub(crate) fn overflow(&self, timeline: &Timeline, capacity: u64) -> Option<usize> {
        self.there(timeline).iter().position(|&bytes| bytes > capacity)
    }

    /// Bytes that leave in a step, and come back.
    pub(crate) fn moved(&self, timeline: &Timeline) -> u64 {
        let away = timeline.candidates.iter().zip(&self.asked).filter(|(_, asked)| asked.is_some());
        away.map(|(candidate, _)| candidate.bytes * candidate.absences.len() as u64).sum()
    }

    /// By candidate, whether it is away.
    pub(crate) fn away(&self) -> Vec<bool> {
        self.asked.iter().map(Option::is_some).collect()
    }
}

/// The steps in which a storage is not there that is asked for so many operators into the backward pass.
fn away(&Absence { left, returns, .. }: &Absence, asked: usize) -> Range<usize> {
    left + 1..(returns + asked).max(left + 1)
}
