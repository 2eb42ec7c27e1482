//! Requests of a rank in a step, by its walk.

use std::collections::BTreeMap;

use hw_models::allocator::Request;

use crate::graph::Phase;
use crate::names::kind;

use super::lent::Lending;
use super::walk::{Tensor, Walk};
use super::{RankList, Recorded};

/// Requests of a rank in its first step, with tensors numbered from the step on.
#[derive(Default)]
pub(super) struct StepList {
    pub(super) list: RankList,
    /// Where each visit begins.
    pub(super) visits: Vec<Begin>,
    /// Requests for tensors that stay for good, ascending.
    pub(super) stay: Vec<usize>,
}

/// How much of a list is before a visit.
#[derive(Clone, Copy)]
pub(super) struct Begin {
    pub(super) requests: usize,
    pub(super) operators: usize,
    pub(super) tensors: u32,
}

impl StepList {
    /// Lists the requests of a walk.
    pub(super) fn of(walk: &Walk, recorded: &Recorded) -> Self {
        let Walk { names, steps, tensors, by_end, begun, .. } = walk;
        let mut list = RankList { names: names.clone(), ..RankList::default() };
        list.requests.reserve(2 * tensors.len());
        list.operators.reserve(steps.len());
        let (mut visits, mut begun) = (Vec::with_capacity(begun.len()), begun.iter().peekable());
        let (mut stay, mut lending) = (Vec::new(), Lending::new(recorded));
        let (mut ending, mut numbers) =
            (by_end.iter().copied().peekable(), Vec::with_capacity(tensors.len()));
        // By step, what copies have read by then.
        let mut copied: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
        for (n, step) in steps.iter().enumerate() {
            while begun.next_if(|&&begun| begun == n).is_some() {
                visits.push(Begin::of(&list));
            }
            let first = list.requests.len();
            while let Some(tensor) = tensors.get(numbers.len()).filter(|tensor| tensor.first_step == n) {
                if tensor.is_lent {
                    list.requests.extend(lending.done(tensor.stream));
                }
                if tensor.last_step == usize::MAX {
                    stay.push(list.requests.len());
                }
                numbers.push(list.allocate_on(tensor.stream, tensor.bytes, tensor.kind()));
                if tensor.is_lent {
                    list.requests.push(Request::Lend(list.made - 1));
                }
            }
            if step.workspace > 0 {
                let workspace = list.allocate(step.workspace, kind::WORKSPACE);
                list.free(workspace);
            }
            while let Some(tensor) = ending.next_if(|&tensor| tensors[tensor].last_step == n) {
                let (number, Tensor { stream, is_lent, copied_by, .. }) = (numbers[tensor], tensors[tensor]);
                if let Some(copied_by) = copied_by.filter(|&copied_by| copied_by > n) {
                    list.requests.push(Request::Lend(number));
                    copied.entry(copied_by).or_default().push(number);
                }
                list.free(number);
                if is_lent {
                    lending.free(stream, number);
                }
            }
            list.requests.extend(copied.remove(&n).into_iter().flatten().map(Request::Done));
            if list.requests.len() > first {
                list.operators.push((first, step.execution));
            }
        }
        visits.extend(begun.map(|_| Begin::of(&list)));
        list.requests.extend(lending.end());
        Self { list, visits, stay }
    }
}

impl Begin {
    pub(super) fn of(list: &RankList) -> Self {
        Self { requests: list.requests.len(), operators: list.operators.len(), tensors: list.made }
    }
}

impl Tensor {
    /// The kind that its bytes count as.
    fn kind(&self) -> &'static str {
        let follows = match (self.first_visit == self.last_visit, self.filled_in, self.last_read_in) {
            (true, Phase::Recompute, _) => kind::RECOMPUTED,
            (true, ..) => kind::WORKSPACE,
            (false, _, Phase::BackwardWeight) => kind::FOR_WEIGHT_GRADIENTS,
            (false, ..) => kind::ACTIVATIONS,
        };
        self.kind.unwrap_or(follows)
    }
}
