//! Offline swapping as a mixed-integer program over tensors and time, in the manner of plans that a profile makes possible
//! (Huang et al., SwapAdvisor, ASPLOS 2020, which searches; Lee, Seoul National University 2021, by integer programs).
//!
//! Time is cut into slots t of d_t seconds of operators, each of which is stretched by e_t. Tensors of one size that follow each
//! other leave together or not (x_b), as identical layers do:
//!
//! ```text
//! minimise   Σ e_t
//! out:       O_t = o_1 + ... + o_t,  o_t <= C_out (d_t + e_t),  O_t <= Σ bytes of x_b that may be copied by t,  O_T = all
//! gone:      F_t <= O_t,  F_t <= Σ bytes of x_b used for the last time by t
//! back:      I_t = i_1 + ... + i_t,  i_t <= C_in (d_t + e_t),   I_t >= Σ bytes of x_b needed by t,  I_t <= O_t
//! room:      alive_t - F_t + I_(t-1) <= capacity
//! ```
//!
//! Every plan obeys this, so that the optimum bounds all plans from below, as does that with parts of tensors; what it chooses is
//! completed and judged operator by operator.

use good_lp::{Expression, ProblemVariables, SolverModel, Variable, constraint, variable};

use super::solver::{Limits, Optimum, optimum, solver};
use super::timeline::Timeline;
use crate::cost::HostLinks;

/// Slots of time in a program.
pub const SLOTS: usize = 32;
/// Binary variables at most.
const BINARIES_MAX: usize = 96;
/// A solution is good enough when no other can be better by this part.
pub(super) const GAP: f64 = 1e-3;
/// Nodes of the solver's tree at most, 5 to 8 s of a core at 0.3 ms each. Programs of the library are solved within 93, those of
/// GPT-2 XL on eight A100 within 8,307.
const NODES_MAX: u32 = 20_000;

/// A solution.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Solved {
    /// By candidate, whether it is away.
    pub(crate) away: Vec<bool>,
    /// Whether the program's optimum was proven, within [`GAP`].
    pub(crate) proven: bool,
}

/// Solves the program over the candidates that are `allowed` to leave. None where there is no solution, or none was found in time.
pub(crate) fn solve(
    timeline: &Timeline,
    capacity: u64,
    links: HostLinks,
    allowed: impl Fn(usize) -> bool,
) -> Option<Solved> {
    let bundles = bundles(timeline, allowed);
    let slots = Slots::of(timeline);
    let (_, chosen, proven) = program(timeline, &bundles, &slots, capacity, links, true)?;
    let mut away = vec![false; timeline.candidates.len()];
    for (bundle, _) in bundles.iter().zip(chosen).filter(|(_, chosen)| *chosen) {
        bundle.iter().for_each(|&number| away[number] = true);
    }
    Some(Solved { away, proven })
}

/// Seconds by which every plan makes the step longer, at least: the optimum if parts of tensors could leave.
pub(crate) fn bound(timeline: &Timeline, capacity: u64, links: HostLinks) -> Option<f64> {
    let bundles = bundles(timeline, |_| true);
    let (bound, ..) = program(timeline, &bundles, &Slots::of(timeline), capacity, links, false)?;
    Some(bound)
}

/// Candidates of one size that follow each other, as few together as the number of variables allows.
fn bundles(timeline: &Timeline, allowed: impl Fn(usize) -> bool) -> Vec<Vec<usize>> {
    let candidates = || (0..timeline.candidates.len()).filter(|&number| allowed(number));
    let mut sizes: Vec<u64> = candidates().map(|number| timeline.candidates[number].bytes).collect();
    sizes.sort_unstable_by_key(|&bytes| std::cmp::Reverse(bytes));
    sizes.dedup();
    let of_size = |bytes: u64| -> Vec<usize> {
        candidates().filter(|&number| timeline.candidates[number].bytes == bytes).collect()
    };
    let classes: Vec<Vec<usize>> = sizes.into_iter().map(of_size).collect();
    let together = (1..).find(|together| {
        classes.iter().map(|class| class.len().div_ceil(*together)).sum::<usize>()
            <= BINARIES_MAX.max(classes.len())
    });
    let chunks = classes.iter().flat_map(|class| class.chunks(together.unwrap_or(1)).map(<[usize]>::to_vec));
    chunks.collect()
}

/// Time, cut.
struct Slots {
    /// By step, its slot.
    of_step: Vec<usize>,
    seconds: Vec<f64>,
    alive: Vec<u64>,
}

impl Slots {
    fn of(timeline: &Timeline) -> Self {
        let whole = timeline.seconds().max(f64::MIN_POSITIVE);
        let mut slots = Self { of_step: Vec::new(), seconds: vec![0.0; SLOTS], alive: vec![0; SLOTS] };
        let mut passed = 0.0;
        for (step, &alive) in timeline.steps.iter().zip(&timeline.alive) {
            let slot = ((passed / whole * SLOTS as f64) as usize).min(SLOTS - 1);
            slots.of_step.push(slot);
            slots.seconds[slot] += step.seconds;
            slots.alive[slot] = slots.alive[slot].max(alive);
            passed += step.seconds;
        }
        slots
    }
}

const GB: f64 = 1e9;

/// Seconds beyond those of operators, which bundles are away, and whether that is optimal; with `whole` bundles, or parts of them.
fn program(
    timeline: &Timeline,
    bundles: &[Vec<usize>],
    slots: &Slots,
    capacity: u64,
    links: HostLinks,
    whole: bool,
) -> Option<(f64, Vec<bool>, bool)> {
    let mut variables = ProblemVariables::new();
    let away: Vec<Variable> = bundles
        .iter()
        .map(|_| variables.add(if whole { variable().binary() } else { variable().clamp(0.0, 1.0) }))
        .collect();
    let mut per_slot =
        || -> Vec<Variable> { (0..SLOTS).map(|_| variables.add(variable().min(0.0))).collect() };
    let (out, back, longer) = (per_slot(), per_slot(), per_slot());
    // What is copied after its last use is gone with that.
    let mut absences = timeline.candidates.iter().flat_map(|candidate| &candidate.absences);
    let early = absences.any(|absence| absence.copied < absence.left);
    let gone = early.then(per_slot);
    // GB that each bundle lets go by the end of a slot, and needs back by then.
    let gb = |bundle: &[usize], by: &dyn Fn(&super::timeline::Absence) -> bool| -> f64 {
        let absences = |&number: &usize| {
            let candidate = &timeline.candidates[number];
            candidate.absences.iter().filter(|absence| by(absence)).count() as f64 * candidate.bytes as f64
                / GB
        };
        bundle.iter().map(absences).sum()
    };
    let total = |by: &dyn Fn(&super::timeline::Absence) -> bool| -> Expression {
        bundles.iter().zip(&away).map(|(bundle, &away)| gb(bundle, by) * away).sum()
    };
    let exposed: Expression = longer.iter().copied().sum();
    // Of equally good plans the one that moves less: what that is worth is less than the gap.
    let slowest = links.rate[0].min(links.rate[1]) / GB;
    let moved: Expression = total(&|_| true);
    let ties = if whole { 1e-4 / slowest * moved } else { Expression::from(0.0) };
    let mut model = variables.minimise(exposed + ties).using(solver);
    let (mut left, mut returned) = (Expression::from(0.0), Expression::from(0.0));
    for slot in 0..SLOTS {
        let room = (capacity as f64 - slots.alive[slot] as f64) / GB;
        let before = returned.clone();
        left += out[slot];
        returned += back[slot];
        for (way, copied) in [(0, out[slot]), (1, back[slot])] {
            let rate = links.rate[way] / GB;
            model.add_constraint(constraint!(copied <= rate * slots.seconds[slot] + rate * longer[slot]));
        }
        model.add_constraint(constraint!(
            left.clone() <= total(&|absence| slots.of_step[absence.copied] <= slot)
        ));
        let freed = gone.as_ref().map_or_else(|| left.clone(), |gone| gone[slot].into());
        if early {
            model.add_constraint(constraint!(freed.clone() <= left.clone()));
            model.add_constraint(constraint!(
                freed.clone() <= total(&|absence| slots.of_step[absence.left] <= slot)
            ));
        }
        model.add_constraint(constraint!(
            returned.clone() >= total(&|absence| slots.of_step[absence.needed] <= slot)
        ));
        model.add_constraint(constraint!(returned.clone() <= left.clone()));
        model.add_constraint(constraint!(before - freed <= room));
    }
    model.add_constraint(constraint!(left >= total(&|_| true)));
    let all: Vec<Variable> =
        [&away, &out, &back, &longer].into_iter().chain(&gone).flatten().copied().collect();
    let Optimum { values, proven } = optimum(model, &all, Limits { gap: GAP, nodes: NODES_MAX })?;
    let (away, slots) = values.split_at(bundles.len());
    let longer = &slots[2 * SLOTS..3 * SLOTS];
    Some((longer.iter().sum(), away.iter().map(|&away| away > 0.5).collect(), proven))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{OpId, StorageId};
    use crate::passes::swap::plan::SwapPlan;
    use crate::passes::swap::timeline::{Absence, Candidate, Step};
    use crate::passes::swap::{estimate, greedy};

    /// Layers that each save a tensor of as many units (of 1 GB) as listed, and take a second forward and two backward.
    fn layers(sizes: &[u64]) -> Timeline {
        let count = sizes.len();
        let mut alive = Vec::new();
        for at in 0..2 * count {
            let saved = if at < count { at + 1 } else { 2 * count - at };
            alive.push(sizes[..saved].iter().sum::<u64>() * 1_000_000_000);
        }
        let step = |at: usize| Step { op: OpId(at as u32), seconds: if at < count { 1.0 } else { 2.0 } };
        let candidate = |layer: usize| Candidate {
            storage: StorageId(layer as u32),
            bytes: sizes[layer] * 1_000_000_000,
            copied_after: OpId(layer as u32),
            leaves_after: OpId(layer as u32),
            absences: vec![Absence {
                copied: layer,
                left: layer,
                returns: count,
                needed: 2 * count - 1 - layer,
            }],
        };
        let candidates = (0..count - 1).rev().map(candidate).collect();
        Timeline { steps: (0..2 * count).map(step).collect(), alive, candidates }
    }

    /// Every choice of tensors, against what the program says no choice is better than.
    #[test]
    fn no_choice_is_better_than_the_bound() {
        for (sizes, capacity, gb_per_s) in [
            (vec![3, 1, 2, 2, 1, 3, 1, 2], 9_000_000_000, 0.7),
            (vec![2; 8], 10_000_000_000, 1.5),
            (vec![1, 4, 1, 4, 1, 4, 1, 4], 12_000_000_000, 4.0),
        ] {
            let timeline = layers(&sizes);
            let rate = [gb_per_s * GB; 2];
            let links = HostLinks { latency: [0.0; 2], rate, at_once: rate };
            let cost = |away: &[bool]| {
                let plan = SwapPlan::on_demand(&timeline, away);
                let fits = plan.overflow(&timeline, capacity).is_none();
                fits.then(|| {
                    estimate::seconds(&plan.asked_ahead(&timeline, capacity, 64), &timeline, capacity, links)
                })
            };
            let count = timeline.candidates.len();
            let choices =
                (0..1_usize << count).map(|bits| (0..count).map(|at| bits >> at & 1 == 1).collect());
            let best = choices.filter_map(|away: Vec<bool>| cost(&away)).fold(f64::INFINITY, f64::min);
            let solved = solve(&timeline, capacity, links, |_| true).expect("it has a solution");
            let bound = bound(&timeline, capacity, links).expect("it has a solution") + timeline.seconds();
            assert!(solved.proven && bound <= best + 1e-6, "{sizes:?}: {solved:?}, {bound}, {best}");
            let improved = |away: &[bool]| {
                let plan = SwapPlan::on_demand(&timeline, away);
                let better = greedy::improved(plan, &timeline, (capacity, 64), links, |_| 0);
                estimate::seconds(&better, &timeline, capacity, links)
            };
            let found = improved(&solved.away);
            assert!(found <= 1.05 * best, "{sizes:?}: {found}, best {best}");
        }
    }
}
