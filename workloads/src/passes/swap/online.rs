//! Online swapping: a store gives nothing away before an allocation fails; then the fewest tensors that are not in use make room
//! for it, and of as few the smallest. Who had to leave is remembered, and leaves after its last use from the next step on
//! (PyTorch with Large Model Support: reclaims from the list of inactive tensors, speculative page-outs).

use super::plan::SwapPlan;
use super::timeline::Timeline;

/// An allocation for which nothing can make room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoRoom {
    /// The step that allocates.
    pub(crate) step: usize,
    /// Bytes that are there and cannot leave.
    pub(crate) needed: u64,
}

/// What is away in the steps after the first. Of the candidates those of the lowest `group` leave first; the ones in `learned`
/// leave in any case.
///
/// # Errors
/// Where that is not enough.
pub(crate) fn learn(
    timeline: &Timeline,
    capacity: u64,
    mut learned: Vec<bool>,
    group: impl Fn(usize) -> usize,
) -> Result<SwapPlan, NoRoom> {
    let mut there = SwapPlan::on_demand(timeline, &learned).there(timeline);
    for step in 0..there.len() {
        while there[step] > capacity {
            let short = there[step] - capacity;
            let idle = |&number: &usize| {
                let absences = &timeline.candidates[number].absences;
                !learned[number]
                    && absences.iter().any(|absence| absence.left < step && step < absence.needed)
            };
            let idle: Vec<usize> = (0..timeline.candidates.len()).filter(idle).collect();
            let chosen = evicted(timeline, &idle, short, &group);
            let chosen = chosen.ok_or(NoRoom { step, needed: there[step] })?;
            learned[chosen] = true;
            let candidate = &timeline.candidates[chosen];
            for absence in &candidate.absences {
                there[absence.left + 1..absence.needed]
                    .iter_mut()
                    .for_each(|bytes| *bytes -= candidate.bytes);
            }
        }
    }
    Ok(SwapPlan::on_demand(timeline, &learned))
}

/// Who leaves: the smallest that is enough by itself, or the largest; of equal ones that which has been idle longest, which the
/// backward pass needs last.
fn evicted(timeline: &Timeline, idle: &[usize], short: u64, group: impl Fn(usize) -> usize) -> Option<usize> {
    let first = idle.iter().map(|&number| group(number)).min()?;
    let of_group = || idle.iter().copied().filter(|&number| group(number) == first);
    let bytes = |number: &usize| timeline.candidates[*number].bytes;
    let enough = of_group().filter(|number| bytes(number) >= short);
    enough.rev().min_by_key(bytes).or_else(|| of_group().max_by_key(bytes))
}
