//! The part of a step that repeats: what is found by executing a step once, faults of a schedule or what an allocator
//! needs, is the same with fewer repeats.

use std::collections::BTreeMap;

use super::{Order, Shape, Visit};
use crate::graph::Phase;

/// Rounds of micro-batches under way that stay, at least: in the first the step's beginning ends, in the last its end begins.
const ROUNDS: u32 = 1;

/// Consecutive visits of a stage that recur with later micro-batches.
struct Repeats {
    /// The first visit.
    from: usize,
    /// Visits after which it recurs.
    period: usize,
    /// By how many micro-batches later.
    later: u32,
    /// How often the first `period` visits recur.
    times: u32,
}

impl Order {
    /// The order of fewer micro-batches with the same beginning, end and repeats between them; `None`: nothing of it would
    /// be left out.
    pub fn shortened(&self) -> Option<Self> {
        let repeats: Vec<Repeats> =
            self.stages.iter().map(|visits| Repeats::of(visits)).collect::<Option<_>>()?;
        let most = self.stages.iter().map(|visits| under_way(visits)).max()?;
        let spare = |repeats: &Repeats| repeats.spare(most.div_ceil(self.shape.chain.chunks));
        let together = repeats.iter().map(|repeats| repeats.later).fold(1, lcm);
        let less = repeats.iter().map(spare).min()? / together * together;
        let shape = Shape { micro_batches: self.shape.micro_batches - less, ..self.shape };
        let without =
            |(visits, repeats): (&Vec<_>, &Repeats)| repeats.without(visits, less, shape.micro_batches);
        let stages = self.stages.iter().zip(&repeats).map(without).collect::<Option<_>>()?;
        (less > 0).then_some(Self { shape, stages })
    }

    /// Visits of a stage with fewer repeats of its own, however many the other stages need: requests
    /// for memory hang on nothing that they do. `None`: nothing would be left out.
    pub fn shortened_stage(&self, stage: u32) -> Option<Vec<Visit>> {
        let visits = self.stages.get(stage as usize)?;
        let repeats = Repeats::of(visits)?;
        let spare = repeats.spare(under_way(visits).div_ceil(self.shape.chain.chunks));
        let less = spare / repeats.later * repeats.later;
        let without = || repeats.without(visits, less, self.shape.micro_batches - less);
        (less > 0).then(without).flatten()
    }
}

impl Repeats {
    /// Micro-batches that repeat beyond [`ROUNDS`] of those under way.
    fn spare(&self, under_way: u32) -> u32 {
        (self.later * self.times).saturating_sub(ROUNDS * under_way)
    }

    /// Those of most visits; `None`: less than half of them recur.
    fn of(visits: &[Visit]) -> Option<Self> {
        let middle = visits.len() / 2;
        (1..=visits.len() / 4).find_map(|period| {
            let recurs = |at: usize| later(visits[at], *visits.get(at + period)?);
            let later = recurs(middle)?;
            let as_in_the_middle = |&at: &usize| recurs(at) == Some(later);
            let before = (0..middle).rev().take_while(as_in_the_middle).count();
            let after = (middle..visits.len()).take_while(as_in_the_middle).count();
            let times = ((before + after) / period) as u32;
            (2 * (before + after) >= visits.len()).then_some(Self {
                from: middle - before,
                period,
                later,
                times,
            })
        })
    }

    /// The visits with `less` micro-batches less, of which `left` are left. `None`: one that is not
    /// left would be executed still, as the end of a step has visits of its beginning.
    fn without(&self, visits: &[Visit], less: u32, left: u32) -> Option<Vec<Visit>> {
        let (begin, rest) = visits.split_at(self.from);
        let left_out = (less / self.later) as usize * self.period;
        let earlier = |visit: &Visit| {
            let micro_batch = visit.micro_batch.checked_sub(less)?;
            Some(Visit { micro_batch, ..*visit })
        };
        let end = rest[left_out..].iter().map(earlier);
        let visits: Vec<Visit> = begin.iter().copied().map(Some).chain(end).collect::<Option<_>>()?;
        is_complete(&visits, left).then_some(visits)
    }
}

/// Tells if a stage executes every micro-batch once in every phase of every chunk, in order.
fn is_complete(visits: &[Visit], micro_batches: u32) -> bool {
    let mut next: BTreeMap<(u16, Phase), u32> = BTreeMap::new();
    let in_order = visits.iter().all(|visit| {
        let next = next.entry((visit.chunk, visit.phase)).or_default();
        *next += 1;
        *next == visit.micro_batch + 1
    });
    in_order && next.values().all(|&count| count == micro_batches)
}

/// By how many micro-batches a visit is later than another of the same chunk and phase.
fn later(visit: Visit, other: Visit) -> Option<u32> {
    let is_alike = (visit.phase, visit.chunk) == (other.phase, other.chunk);
    other.micro_batch.checked_sub(visit.micro_batch).filter(|&later| is_alike && later > 0)
}

/// Most micro-batches of chunks of a stage that have begun and not ended.
fn under_way(visits: &[Visit]) -> u32 {
    let ended = |phase: Phase| [Phase::Backward, Phase::BackwardInput].contains(&phase);
    let (mut under_way, mut most) = (0_u32, 0);
    for visit in visits {
        if visit.phase == Phase::Forward {
            under_way += 1;
        } else if ended(visit.phase) {
            under_way = under_way.saturating_sub(1);
        }
        most = most.max(under_way);
    }
    most
}

fn lcm(a: u32, b: u32) -> u32 {
    let (mut divisor, mut rest) = (a, b);
    while rest > 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    a / divisor * b
}
