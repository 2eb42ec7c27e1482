//! Offline swapping without a solver: what is idle longest leaves, until the rest fits; then each that is away stays in turn,
//! where others can leave for it and the step is expected to be shorter.

use super::estimate;
use super::online::{NoRoom, learn};
use super::plan::SwapPlan;
use super::timeline::Timeline;
use crate::cost::HostLinks;

/// Plans that the search looks at, at most.
const PLANS_MAX: usize = 256;

/// What is idle longest leaves; of the candidates those of the lowest `group` first.
///
/// # Errors
/// Where all of them are not enough.
pub(crate) fn longest_idle(
    timeline: &Timeline,
    capacity: u64,
    group: impl Fn(usize) -> usize,
) -> Result<SwapPlan, NoRoom> {
    let count = timeline.candidates.len();
    let idle = |number: &usize| {
        let absences = timeline.candidates[*number].absences.iter();
        absences.map(|absence| absence.needed - absence.left).min().unwrap_or(0)
    };
    let mut by_idleness: Vec<usize> = (0..count).collect();
    by_idleness.sort_by_key(|number| (group(*number), std::cmp::Reverse(idle(number))));
    let mut rank = vec![0; count];
    for (at, &number) in by_idleness.iter().enumerate() {
        rank[number] = at;
    }
    let mut away = learn(timeline, capacity, vec![false; count], |number| rank[number])?.away();
    // What came last may have made enough room for those before.
    for &number in by_idleness.iter().rev().filter(|&&number| group(number) == group(by_idleness[0])) {
        if std::mem::replace(&mut away[number], false)
            && SwapPlan::on_demand(timeline, &away).overflow(timeline, capacity).is_some()
        {
            away[number] = true;
        }
    }
    Ok(SwapPlan::on_demand(timeline, &away))
}

/// The best of the plans that are found from one by letting tensors stay, each of them in turn.
pub(crate) fn improved(
    plan: SwapPlan,
    timeline: &Timeline,
    (capacity, prefetch): (u64, usize),
    links: HostLinks,
    group: impl Fn(usize) -> usize,
) -> SwapPlan {
    let ahead = |plan: SwapPlan| plan.asked_ahead(timeline, capacity, prefetch);
    let cost = |plan: &SwapPlan| estimate::seconds(plan, timeline, capacity, links);
    let mut best = ahead(plan);
    let mut least = cost(&best);
    let away: Vec<usize> = (0..best.asked.len()).filter(|&number| best.asked[number].is_some()).collect();
    for &stays in away.iter().step_by(away.len().div_ceil(PLANS_MAX).max(1)) {
        let mut without = best.away();
        without[stays] = false;
        let others = |number: usize| if number == stays { usize::MAX } else { group(number) };
        let Ok(other) = learn(timeline, capacity, without, others) else { continue };
        let other = ahead(other);
        let seconds = cost(&other);
        if seconds < least {
            (best, least) = (other, seconds);
        }
    }
    best
}
