//! The hunt for the best plans: open plans are told more finely in the order of their bounds.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::sync::Arc;

use rayon::prelude::*;
use reports::summary::{RunSummary, SearchProof};

use super::super::{Options, Progress, Refusal, in_parallel};
use super::best::{Best, Found};
use super::goal::Figures;
use super::group::{Place, Work};
use super::open::{Open, What};
use super::space::{Priced, Space, Told};
use super::tally::Tally;

/// Plans of a round.
const ROUND: usize = 16;
/// Plans that lack memory, before any fits, from which on half a round is of plans whose memory is
/// known: bounds are lowest where micro-batches are largest and activations leave, and such plans are
/// many.
const LACKING: u64 = 16;
/// Limit of plans that have a figure of each objective.
const HAS_FIGURES: &str = "the objective is known";

/// Knowledge of a space so far.
pub(super) struct Hunt<'s> {
    pub(super) space: &'s Space<'s>,
    pub(super) best: Best,
    pub(super) options: &'s Options,
    progress: &'s dyn Progress,
    open: BinaryHeap<Reverse<Open>>,
    /// Open plans that are not looked for.
    aside: Vec<Open>,
    tally: Tally,
    /// All plans that fit and keep the limits.
    fit: Vec<(Figures, Place)>,
    seen: BTreeSet<[u64; 2]>,
    /// Groups whose activations leave.
    moving: BTreeSet<usize>,
    /// True once many plans lacked memory before any fit.
    lacks_memory: bool,
    /// Plans of known memory that are being told.
    half: BTreeSet<Place>,
    /// Plans that lack the fewest bytes before a simulation, ascending.
    short: Vec<(u64, Place)>,
    /// The plan that lacks the fewest of those that were simulated.
    least_short: Option<(u64, Place)>,
    /// The plan of the lowest bound by its operators, of those that fit: what a search without
    /// simulations takes.
    least_bound: Option<(f64, Place)>,
    /// Some plans of the space, while the best of these alone is looked for.
    part: Option<Part<'s>>,
    /// True if any plan that fits ends it.
    any: bool,
}

/// Plans that lack memory before a simulation and are asked what they lack after it.
const CLOSE: usize = 8;

/// Bytes that a plan which does not fit lacks; as many as there are where that is not known.
fn short_bytes(run: &RunSummary) -> u64 {
    run.failure.as_ref().and_then(|failure| failure.short_bytes).unwrap_or(u64::MAX)
}

struct Part<'s> {
    holds: Box<dyn Fn(Place) -> bool + 's>,
    best: Best,
}

impl<'s> Hunt<'s> {
    pub(super) fn new(space: &'s Space<'s>, options: &'s Options, progress: &'s dyn Progress) -> Self {
        let settings = &space.search.settings;
        let keep = (!settings.minimise.is_front()).then(|| settings.keep.get() as usize);
        let open = |group| Reverse(Open { bound: Figures::default(), what: What::Group((group, 0)) });
        Self {
            space,
            best: Best::new(settings.gap.as_f64(), keep, space.search.most_objective()),
            options,
            progress,
            open: (0..space.groups.len()).map(open).collect(),
            aside: Vec::new(),
            tally: Tally::default(),
            fit: Vec::new(),
            seen: BTreeSet::new(),
            moving: BTreeSet::new(),
            lacks_memory: false,
            half: BTreeSet::new(),
            short: Vec::new(),
            least_short: None,
            least_bound: None,
            part: None,
            any: false,
        }
    }

    /// Finds a plan that fits and keeps the limits, unless it is stopped before.
    ///
    /// # Errors
    /// A mistake in foretrain.
    pub(super) fn any(&mut self) -> Result<(), Refusal> {
        self.any = true;
        self.whole()
    }

    /// Finds the best plans of the space, unless it is stopped before.
    ///
    /// # Errors
    /// A mistake in foretrain.
    pub(super) fn whole(&mut self) -> Result<(), Refusal> {
        self.progress.begin(self.space.plans());
        self.go().map(|_| ())
    }

    /// Finds the best of the plans that `holds`; none where none of them fits. `None`: it was stopped
    /// before.
    ///
    /// # Errors
    /// A mistake in foretrain.
    pub(super) fn part(
        &mut self,
        holds: Box<dyn Fn(Place) -> bool + 's>,
    ) -> Result<Option<Option<Found>>, Refusal> {
        let search = self.space.search;
        let mut best = Best::new(search.settings.gap.as_f64(), Some(1), search.most_objective());
        let fit = self.fit.iter().filter(|(_, place)| holds(*place));
        fit.for_each(|&(figures, place)| best.add(Found { figures, place, run: None }));
        self.part = Some(Part { holds, best });
        for Reverse(open) in std::mem::take(&mut self.open) {
            self.push(open);
        }
        let ended = self.go()?;
        let best = self.part.take().and_then(|mut part| part.best.found.pop());
        Ok(ended.then_some(best))
    }

    /// The plan that fits with the lowest bound, with its figures.
    pub(super) fn of_least_bound(&self) -> Option<Found> {
        let (_, place) = self.least_bound?;
        let &(figures, place) = self.fit.iter().find(|(_, fits)| *fits == place)?;
        Some(Found { figures, place, run: None })
    }

    /// True if it is to come to an end.
    pub(super) fn is_stopped(&self) -> bool {
        self.progress.stop()
    }

    /// The place and the run of the best plan so far.
    pub(super) fn best_run(&self) -> Option<(Place, Arc<RunSummary>)> {
        let Found { place, run, .. } = self.best.found.first()?;
        run.clone().map(|run| (*place, run))
    }

    /// Tells open plans more finely until the best one, of a part where it is one, is proven. False:
    /// it was stopped before.
    fn go(&mut self) -> Result<bool, Refusal> {
        let ended = loop {
            if self.progress.stop() && !self.space.is_closed() {
                break false;
            }
            let found = self.any && !self.best.found.is_empty();
            let round = if found { Vec::new() } else { self.round() };
            if round.is_empty() {
                break true;
            }
            let (space, progress) = (self.space, self.progress);
            let tell = |open: &Open| space.told(open, || progress.stop());
            let told: Vec<Told> = in_parallel(self.options.jobs, || round.par_iter().map(tell).collect());
            let is_cut = told.iter().any(|told| matches!(told, Told::Nothing));
            for (open, told) in round.iter().zip(told) {
                self.take(open, told)?;
            }
            if is_cut {
                break false;
            }
        };
        self.open.extend(self.aside.drain(..).map(Reverse));
        Ok(ended)
    }

    /// Plans to tell next: those with the lowest bounds that are not proven to be no better.
    fn round(&mut self) -> Vec<Open> {
        let mut round = if self.lacks_memory { self.of_known_memory() } else { Vec::new() };
        let best = self.part.as_ref().map_or(&self.best, |part| &part.best);
        while round.len() < ROUND
            && let Some(Reverse(open)) = self.open.pop()
        {
            if !best.proves(&open.bound) {
                round.push(open);
                continue;
            }
            self.aside.push(open);
            if best.proves_all_above() {
                break;
            }
        }
        round
    }

    /// Half a round of plans whose activations stay and that are not proven to be no better: evenly
    /// from the highest bound down, as slow plans tend to need little memory. A plan stays in it until
    /// it is simulated.
    fn of_known_memory(&mut self) -> Vec<Open> {
        let best = self.part.as_ref().map_or(&self.best, |part| &part.best);
        let is_known = |open: &Open| {
            let is_plan = !matches!(open.what, What::Group(_));
            is_plan && !self.moving.contains(&open.what.place().0) && !best.proves(&open.bound)
        };
        let (mut known, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.open).into_iter().partition(|Reverse(open)| is_known(open));
        known.sort_by_key(|Reverse(open)| !self.half.contains(&open.what.place()));
        let begun = known.iter().filter(|Reverse(open)| self.half.contains(&open.what.place())).count();
        let mut fresh = known.split_off(begun.min(ROUND / 2));
        fresh.sort();
        let more = ROUND / 2 - known.len();
        let step = fresh.len().div_ceil(more.max(1)).max(1);
        let (mut chosen, mut left) = (known, others);
        for (number, open) in fresh.into_iter().enumerate() {
            if number % step == 0 && chosen.len() < ROUND / 2 { chosen.push(open) } else { left.push(open) }
        }
        self.open = left.into();
        self.half = chosen.iter().map(|Reverse(open)| open.what.place()).collect();
        chosen.into_iter().map(|Reverse(open)| open).collect()
    }

    fn push(&mut self, open: Open) {
        match &self.part {
            Some(part) if !open.places(&self.space.groups).any(|place| (part.holds)(place)) => {
                self.aside.push(open);
            }
            _ => self.open.push(Reverse(open)),
        }
    }

    fn take(&mut self, open: &Open, told: Told) -> Result<(), Refusal> {
        let place = open.what.place();
        match told {
            Told::Nothing => {
                self.push(open.clone());
                return Ok(());
            }
            Told::Impossible(reasons) => self.tally.impossible(&reasons),
            Told::Short(bytes) => {
                self.tally.short_of_memory += 1;
                let at = self.short.partition_point(|(fewer, _)| *fewer <= bytes);
                self.short.insert(at, (bytes, place));
                self.short.truncate(CLOSE);
            }
            Told::Priced(Priced { fingerprint, .. }) if !self.seen.insert(fingerprint) => {
                self.tally.equal += 1;
            }
            Told::Priced(Priced { mut bound, .. }) => {
                bound.iter_mut().zip(open.bound).for_each(|(bound, rough)| *bound = bound.max(rough));
                self.push(Open { bound, what: What::Fine(place) });
                return Ok(());
            }
            Told::Sketched { work, moves } => {
                self.moving.extend(moves.then_some(place.0));
                self.spread(work.as_ref(), place);
                return Ok(());
            }
            Told::Simulated { gpus, figures, run } => {
                let run = run.map_err(|reason| self.space.broken(place, reason))?;
                self.simulated(open, (gpus, figures), run);
            }
        }
        self.progress.done();
        let (group, next) = (place.0, place.1 + 1);
        if let What::Group(_) = open.what
            && next < self.space.groups[group].members.len()
        {
            self.push(Open { bound: Figures::default(), what: What::Group((group, next)) });
        }
        Ok(())
    }

    /// Bounds of the members of a group from one on whose work is known.
    fn spread(&mut self, work: Option<&Work>, (number, member): Place) {
        let group = &self.space.groups[number];
        for later in member..group.members.len() {
            let bound = work.map_or(Figures::default(), |work| work.bound(&group.splits[later]));
            self.push(Open { bound, what: What::Rough((number, later)) });
        }
    }

    fn simulated(
        &mut self,
        open: &Open,
        (gpus, figures): (u64, Option<Figures>),
        run: Option<Arc<RunSummary>>,
    ) {
        let place = open.what.place();
        let short = run.as_ref().map_or(u64::MAX, |run| short_bytes(run));
        let Some(run) = run.filter(|run| run.step_time().is_some()) else {
            self.tally.did_not_fit += 1;
            self.lacks_memory |= self.tally.fit == 0 && self.tally.did_not_fit >= LACKING;
            let least = self.least_short.is_none_or(|(least, _)| short < least);
            self.least_short = if least { Some((short, place)) } else { self.least_short };
            return;
        };
        self.tally.fit += 1;
        let limits = self.space.search.limits.iter().filter(|limit| !limit.holds(&run, gpus));
        let mut broken: Vec<&str> = limits.map(|limit| limit.text.as_str()).collect();
        let Some(figures) = figures.filter(|_| broken.is_empty()) else {
            broken.extend(figures.is_none().then_some(HAS_FIGURES));
            self.tally.broken(&broken);
            return;
        };
        self.fit.push((figures, place));
        // Plans without a bound have none to be taken by.
        if open.bound[0] > 0.0 && self.least_bound.is_none_or(|(least, _)| open.bound[0] < least) {
            self.least_bound = Some((open.bound[0], place));
        }
        if let Some(part) = self.part.as_mut().filter(|part| (part.holds)(place)) {
            part.best.add(Found { figures, place, run: Some(Arc::clone(&run)) });
        }
        self.best.add(Found { figures, place, run: Some(run) });
    }

    /// Plans that nobody came to, and that are not proven to be no better.
    pub(super) fn left(&self) -> u64 {
        let open = self.open.iter().filter(|Reverse(open)| !self.best.proves(&open.bound));
        open.map(|Reverse(open)| self.plans(open)).sum()
    }

    /// Plans that an open one stands for.
    fn plans(&self, open: &Open) -> u64 {
        open.places(&self.space.groups).count() as u64
    }

    /// The best plans, the best first, and the proof. Where none fits, the one that lacks least.
    ///
    /// # Errors
    /// A mistake in foretrain.
    pub(super) fn end(mut self) -> Result<(Vec<RunSummary>, SearchProof), Refusal> {
        let gap = self.open.iter().map(|Reverse(open)| self.best.gap_to(&open.bound)).fold(0.0, f64::max);
        let open: u64 = self.open.iter().map(|Reverse(open)| self.plans(open)).sum();
        self.tally.left = self.left();
        self.tally.slower = open - self.tally.left;
        // It is infinite where a plan has no bound yet, or none fits.
        let gap = (gap.is_finite() && !self.best.found.is_empty()).then_some(gap);
        let closest = if self.best.found.is_empty() { self.closest()? } else { None };
        let proof = self.tally.proof(self.space.search.settings.minimise.all(), gap);
        if self.best.found.is_empty() {
            return Ok((closest.into_iter().collect(), proof));
        }
        let run = |Found { place, run, .. }| Some(self.space.named(place, Arc::unwrap_or_clone(run?)));
        Ok((self.best.found.into_iter().filter_map(run).collect(), proof))
    }

    /// The plan that lacks the fewest bytes, where none fits; one that lacks more before a simulation
    /// than another after it is not asked.
    fn closest(&self) -> Result<Option<RunSummary>, Refusal> {
        // A reason takes a simulation.
        if self.space.is_closed() {
            return Ok(None);
        }
        let told = |place| Ok(self.space.named(place, self.space.failed(place)?));
        let mut closest = self.least_short.map(|(_, place)| told(place)).transpose()?;
        for &(at_least, place) in &self.short {
            if closest.as_ref().is_some_and(|run| short_bytes(run) <= at_least) {
                break;
            }
            let run = told(place)?;
            closest = match closest {
                Some(before) if short_bytes(&before) <= short_bytes(&run) => Some(before),
                _ => Some(run),
            };
        }
        Ok(closest)
    }
}
