//! Which groups a list of operators is cut into: each operator in one, at the least cost.
//!
//! The operators are covered from the front. A state is what is covered behind the first that is
//! not; the group that covers that one begins with it. Of states that cover the same the cheapest
//! is kept, so that lists in which nothing is dropped are solved exactly; of longer ones the
//! cheapest [`BEAM`] go on.

use std::collections::BTreeMap;

use super::groups::EXACT;

/// States that are kept at an operator of lists longer than [`EXACT`].
const BEAM: usize = 64;

/// A group that can be taken, with its cost; of equal ones the second decides.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Priced {
    pub(super) members: Vec<usize>,
    pub(super) cost: [f64; 2],
}

#[derive(Clone)]
struct State {
    cost: [f64; 2],
    groups: Vec<usize>,
}

/// The cheapest cover of `count` operators by groups, indices of `groups` in the order of their
/// first members; every operator must be a group by itself.
pub(super) fn cheapest(count: usize, groups: &[Priced]) -> Vec<usize> {
    let mut from: Vec<Vec<usize>> = vec![Vec::new(); count];
    for (n, group) in groups.iter().enumerate() {
        from[group.members[0]].push(n);
    }
    // By what is covered behind the front, the operators in order.
    let mut states = BTreeMap::from([(Vec::new(), State { cost: [0.0; 2], groups: Vec::new() })]);
    for (front, from_front) in from.iter().enumerate() {
        let mut next: BTreeMap<Vec<usize>, State> = BTreeMap::new();
        let mut offer = |covered: Vec<usize>, state: State| {
            let cheaper = next.get(&covered).is_none_or(|known| state.cost < known.cost);
            if cheaper {
                next.insert(covered, state);
            }
        };
        for (covered, state) in states {
            if covered.first() == Some(&front) {
                offer(covered[1..].to_vec(), state);
                continue;
            }
            for &n in from_front {
                let group = &groups[n];
                if group.members.iter().any(|member| covered.contains(member)) {
                    continue;
                }
                let mut behind: Vec<usize> = covered.iter().chain(&group.members[1..]).copied().collect();
                behind.sort_unstable();
                let cost = [0, 1].map(|place| state.cost[place] + group.cost[place]);
                offer(behind, State { cost, groups: state.groups.iter().copied().chain([n]).collect() });
            }
        }
        states = next;
        if count > EXACT && states.len() > BEAM {
            let mut all: Vec<_> = states.into_iter().collect();
            all.sort_by(|(_, a), (_, b)| a.cost.partial_cmp(&b.cost).unwrap_or(std::cmp::Ordering::Equal));
            all.truncate(BEAM);
            states = all.into_iter().collect();
        }
    }
    states.into_values().next().map_or_else(Vec::new, |state| state.groups)
}
