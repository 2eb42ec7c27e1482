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
/// Most pairs of a state and a group that are tried at an operator of shorter ones: a dozen and
/// more operators that do not depend on each other have as many states as subsets.
const PAIRS_MAX: usize = 1 << 28;

/// A group that can be taken, with its cost; of equal ones the second decides.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Priced {
    pub(super) members: Vec<usize>,
    pub(super) cost: [f64; 2],
}

/// Operators that are covered, a bit for each from the front on.
type Covered = u128;

#[derive(Clone, Copy)]
struct State {
    cost: [f64; 2],
    /// Number of the group that was taken last, among all that were.
    taken: Option<usize>,
}

/// A group that a state took, and the one before.
struct Taken {
    group: usize,
    before: Option<usize>,
}

/// The cheapest cover of `count` operators by groups, indices of `groups` in the order of their
/// first members; every operator must be a group by itself, and none reaches beyond 128 of them.
pub(super) fn cheapest(count: usize, groups: &[Priced]) -> Vec<usize> {
    let mut from: Vec<Vec<(usize, Covered)>> = vec![Vec::new(); count];
    for (n, Priced { members, .. }) in groups.iter().enumerate() {
        let bits = members.iter().fold(0, |bits, member| bits | 1 << (member - members[0]));
        from[members[0]].push((n, bits));
    }
    let mut taken: Vec<Taken> = Vec::new();
    let mut states: BTreeMap<Covered, State> = BTreeMap::from([(0, State { cost: [0.0; 2], taken: None })]);
    for from_front in &from {
        let most = if count > EXACT { BEAM } else { (PAIRS_MAX / from_front.len().max(1)).max(BEAM) };
        if states.len() > most {
            let mut all: Vec<_> = states.into_iter().collect();
            all.sort_by(|(_, a), (_, b)| a.cost.partial_cmp(&b.cost).unwrap_or(std::cmp::Ordering::Equal));
            all.truncate(most);
            states = all.into_iter().collect();
        }
        // By what is covered then, the cost and the group that covers the front, if it was not.
        let mut next: BTreeMap<Covered, (State, Option<usize>)> = BTreeMap::new();
        let mut offer = |covered: Covered, state: State, group: Option<usize>| {
            let known = next.entry(covered >> 1).or_insert((state, group));
            if state.cost < known.0.cost {
                *known = (state, group);
            }
        };
        for (covered, state) in states {
            if covered & 1 == 1 {
                offer(covered, state, None);
                continue;
            }
            for &(n, bits) in from_front.iter().filter(|(_, bits)| bits & covered == 0) {
                let cost = [0, 1].map(|place| state.cost[place] + groups[n].cost[place]);
                offer(covered | bits, State { cost, ..state }, Some(n));
            }
        }
        let mut take = |(covered, (state, group)): (Covered, (State, Option<usize>))| {
            let Some(group) = group else { return (covered, state) };
            taken.push(Taken { group, before: state.taken });
            (covered, State { taken: Some(taken.len() - 1), ..state })
        };
        states = next.into_iter().map(&mut take).collect();
    }
    let last = states.into_values().next().and_then(|state| state.taken);
    let way = std::iter::successors(last, |&at| taken[at].before).map(|at| taken[at].group);
    let mut way: Vec<usize> = way.collect();
    way.reverse();
    way
}
