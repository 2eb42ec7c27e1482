//! The best plans of a search so far: the first few by one objective, or the front of several.

use std::sync::Arc;

use reports::summary::RunSummary;

use super::goal::Figures;
use super::group::Place;

/// A plan that fits and keeps all limits.
pub(super) struct Found {
    pub(super) figures: Figures,
    pub(super) place: Place,
    /// `None`: it was simulated for another question, and is not at hand.
    pub(super) run: Option<Arc<RunSummary>>,
}

/// The best plans, the best first.
pub(super) struct Best {
    gap: f64,
    /// Plans that are kept by one objective. `None`: all that no other beats in all objectives.
    keep: Option<usize>,
    /// Most of the first objective that limits allow.
    most: f64,
    pub(super) found: Vec<Found>,
}

impl Best {
    pub(super) fn new(gap: f64, keep: Option<usize>, most: f64) -> Self {
        Self { gap, keep, most, found: Vec::new() }
    }

    /// True if no plan of this bound is better by more than the gap than one that was found, or none
    /// keeps the limits.
    pub(super) fn proves(&self, bound: &Figures) -> bool {
        let within = |found: &Found| {
            found.figures.iter().zip(bound).all(|(found, bound)| bound * (1.0 + self.gap) >= *found)
        };
        bound[0] > self.most || self.found.iter().any(within)
    }

    /// True if what is proven of a bound is so of all larger ones, in the order of bounds.
    pub(super) fn proves_all_above(&self) -> bool {
        self.keep.is_some()
    }

    /// Gap within which plans of this bound are no better than one that was found.
    pub(super) fn gap_to(&self, bound: &Figures) -> f64 {
        let beyond = |(found, bound): (&f64, &f64)| if found <= bound { 0.0 } else { found / bound - 1.0 };
        let gap = |found: &Found| found.figures.iter().zip(bound).map(beyond).fold(0.0, f64::max);
        self.found.iter().map(gap).reduce(f64::min).unwrap_or(f64::INFINITY)
    }

    pub(super) fn add(&mut self, new: Found) {
        match self.keep {
            Some(_) => {}
            None if self.found.iter().any(|found| no_worse(&found.figures, &new.figures)) => return,
            None => self.found.retain(|found| !no_worse(&new.figures, &found.figures)),
        }
        let before = |found: &Found| (found.figures, found.place) < (new.figures, new.place);
        self.found.insert(self.found.partition_point(before), new);
        self.found.truncate(self.keep.unwrap_or(usize::MAX));
    }
}

/// True if no figure is above that of the other.
fn no_worse(one: &Figures, other: &Figures) -> bool {
    one.iter().zip(other).all(|(one, other)| one <= other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(figures: [f64; 2], member: usize) -> Found {
        Found { figures: [figures[0], figures[1], 0.0, 0.0], place: (0, member), run: None }
    }

    fn members(best: &Best) -> Vec<usize> {
        best.found.iter().map(|found| found.place.1).collect()
    }

    #[test]
    fn a_front_has_what_no_other_plan_beats_in_all() {
        let mut best = Best::new(0.0, None, f64::INFINITY);
        let plans = [[2.0, 2.0], [1.0, 3.0], [3.0, 1.0], [2.0, 3.0], [1.5, 2.0], [3.0, 1.0]];
        plans.into_iter().enumerate().for_each(|(member, plan)| best.add(found(plan, member)));
        assert_eq!(members(&best), [1, 4, 2]);
        assert!(best.proves(&[1.5, 2.5, 0.0, 0.0]) && !best.proves(&[1.4, 2.5, 0.0, 0.0]));
        assert_eq!(best.gap_to(&[1.0, 2.0, 0.0, 0.0]), 0.5);
        assert_eq!(best.gap_to(&[9.0, 0.5, 0.0, 0.0]), 1.0);
    }

    #[test]
    fn by_one_objective_the_first_few_are_kept() {
        let mut best = Best::new(0.1, Some(2), 3.5);
        for (member, time) in [3.0, 1.0, 2.0, 1.0].into_iter().enumerate() {
            best.add(found([time, 0.0], member));
        }
        assert_eq!(members(&best), [1, 3]);
        assert!(best.proves(&[0.95, 0.0, 0.0, 0.0]) && !best.proves(&[0.9, 0.0, 0.0, 0.0]));
        let none = Best::new(0.1, Some(2), 3.5);
        assert!(none.proves(&[3.6, 0.0, 0.0, 0.0]) && !none.proves(&[3.5, 0.0, 0.0, 0.0]));
    }
}
