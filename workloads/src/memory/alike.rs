//! Micro-batches that ask for the same, of which one is walked.
//!
//! Requests of a visit hang on its phase, its chunk and what earlier visits of its micro-batch
//! have left, not on others under way. Micro-batches that take the same course ask for the same,
//! but for numbers of micro-batch and tensors. The first visit of each phase and chunk may ask for
//! more, which stays: its micro-batch stands for itself.

use std::collections::{BTreeMap, BTreeSet};

use hw_models::allocator::Request;

use crate::graph::Phase;
use crate::order::Visit;

use super::step_list::{Begin, StepList};
use super::{Executed, RankList};

/// By micro-batch, the one that is walked for it.
pub(super) struct Alike(BTreeMap<u32, u32>);

/// A visit that is walked.
struct Part {
    begin: Begin,
    end: Begin,
    /// Its micro-batch, and how many visits of that are before it.
    of: (u32, usize),
}

impl Alike {
    pub(super) fn of(visits: &[Visit]) -> Self {
        let (mut begun, mut alone) = (BTreeSet::new(), BTreeSet::new());
        let mut courses: BTreeMap<u32, Vec<(Phase, u16)>> = BTreeMap::new();
        for &Visit { phase, chunk, micro_batch } in visits {
            courses.entry(micro_batch).or_default().push((phase, chunk));
            if begun.insert((phase, chunk)) {
                alone.insert(micro_batch);
            }
        }
        let mut known = BTreeMap::new();
        let walked = |(&micro_batch, course)| {
            let is_alone = alone.contains(&micro_batch);
            (micro_batch, if is_alone { micro_batch } else { *known.entry(course).or_insert(micro_batch) })
        };
        Self(courses.iter().map(walked).collect())
    }

    /// Tells whether a visit is walked.
    pub(super) fn walks(&self, visit: &Visit) -> bool {
        self.0[&visit.micro_batch] == visit.micro_batch
    }

    /// The step of all `visits`, by that of those that are walked; `None`: they are not alike.
    pub(super) fn repeat(&self, visits: &[Visit], walked: &StepList) -> Option<StepList> {
        let parts = self.parts(visits, walked);
        let owners: Vec<&Part> =
            parts.iter().flat_map(|part| (part.begin.tensors..part.end.tensors).map(move |_| part)).collect();
        let by_visit: BTreeMap<(u32, usize), &Part> = parts.iter().map(|part| (part.of, part)).collect();
        let StepList { list: source, .. } = walked;
        let mut list = RankList { names: source.names.clone(), ..RankList::default() };
        list.requests.reserve(source.requests.len() * visits.len() / parts.len().max(1));
        let (mut begun, mut stay) = (Vec::with_capacity(visits.len()), Vec::new());
        // By micro-batch, the first tensor of each of its visits.
        let mut firsts: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for &Visit { micro_batch, .. } in visits {
            let firsts = firsts.entry(micro_batch).or_default();
            let Part { begin, end, of } = by_visit[&(self.0[&micro_batch], firsts.len())];
            let now = Begin::of(&list);
            begun.push(now);
            firsts.push(now.tensors);
            for &request in &source.requests[begin.requests..end.requests] {
                list.requests.push(match request {
                    Request::Allocate { .. } => request,
                    Request::Free(tensor) => {
                        let owner = owners[tensor as usize];
                        let first = firsts.get(owner.of.1).filter(|_| owner.of.0 == of.0)?;
                        Request::Free(first + (tensor - owner.begin.tensors))
                    }
                    // A run tells of each micro-batch by itself.
                    Request::Lend(_) | Request::Done(_) => return None,
                });
            }
            list.made += end.tensors - begin.tensors;
            let operators = &source.operators[begin.operators..end.operators];
            list.operators.extend(operators.iter().map(|&(first, executed)| {
                (first - begin.requests + now.requests, Executed { micro_batch, ..executed })
            }));
            for &request in walked.stay.iter().filter(|at| (begin.requests..end.requests).contains(at)) {
                if self.stands_for_others(of.0) {
                    return None;
                }
                stay.push(request - begin.requests + now.requests);
            }
        }
        Some(StepList { list, visits: begun, stay })
    }

    /// The visits that are walked.
    fn parts(&self, visits: &[Visit], walked: &StepList) -> Vec<Part> {
        let begins = walked.visits.iter();
        let ends = begins.clone().skip(1).copied().chain([Begin::of(&walked.list)]);
        let mut before: BTreeMap<u32, usize> = BTreeMap::new();
        let parts = visits.iter().filter(|visit| self.walks(visit)).zip(begins.zip(ends));
        let part = |(&Visit { micro_batch, .. }, (&begin, end))| {
            let before = before.entry(micro_batch).or_default();
            *before += 1;
            Part { begin, end, of: (micro_batch, *before - 1) }
        };
        parts.map(part).collect()
    }

    fn stands_for_others(&self, walked: u32) -> bool {
        self.0.iter().any(|(&of, &by)| by == walked && of != walked)
    }
}
