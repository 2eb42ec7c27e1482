//! The best plan of a space, proven: bounds first, simulation last.
//!
//! ```text
//! group  plans with the same work of a micro-batch   bound: 0, until one of them is priced
//! rough  a plan of such a group                      bound: by its work, stages and micro-batches
//! fine   a plan whose operators are priced           bound: its floor (workloads::plan::Floor)
//! ```
//!
//! Open plans are taken in the order of their bounds and told more finely, at last by a simulation.
//! The search ends when no bound is below the best plan by more than the gap: then nothing that is
//! left can be. Nothing hangs on how many threads there are: a round takes a fixed number of plans.

mod group;
mod tally;

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use rayon::prelude::*;
use reports::summary::{RunSummary, SearchProof};

use super::journal::Simulations;
use super::one;
use super::outcomes::fingerprint;
use super::{Done, Options, Progress, Refusal, Shard, failure};
use crate::campaign;
use crate::experiment::{Experiment, Objective, Search, Variant};
use crate::plans;
use crate::schema::Scenario;

use group::{Group, groups};
use tally::Tally;

/// Plans of a round.
const ROUND: usize = 16;
/// Limit of plans that have a cost.
const ENDS: &str = "training ends";

/// The best plans of a space, the best first, and the proof. Where none fits, the one that lacks
/// least.
///
/// # Errors
/// A mistake in foretrain.
pub(super) fn best(
    experiment: &Experiment,
    search: &Search,
    variants: &[&str],
    options: &Options,
    simulations: &Simulations<'_>,
    progress: &dyn Progress,
) -> Result<(Vec<RunSummary>, SearchProof), Refusal> {
    let space = Space::new(experiment, search, variants, simulations);
    let groups = groups(experiment, variants.len());
    searched(&space, &groups, options, progress)?.end(&space, &groups)
}

/// Searches the groups of a shard to the end, for the outcomes of their simulations.
///
/// # Errors
/// A mistake in foretrain.
pub(super) fn work(
    experiment: &Experiment,
    search: &Search,
    variants: &[&str],
    (options, shard): (&Options, Shard),
    simulations: &Simulations<'_>,
    progress: &dyn Progress,
) -> Result<Done, Refusal> {
    let space = Space::new(experiment, search, variants, simulations);
    let groups: Vec<Group> = shard.of(groups(experiment, variants.len()).into_iter()).collect();
    let state = searched(&space, &groups, options, progress)?;
    let of = groups.iter().map(|group| group.members.len() as u64).sum();
    Ok(Done { done: of - state.left(&groups), of })
}

/// Tells plans until no open one can be better than the best, or until it is stopped.
fn searched(
    space: &Space<'_>,
    groups: &[Group],
    options: &Options,
    progress: &dyn Progress,
) -> Result<State, Refusal> {
    progress.begin(groups.iter().map(|group| group.members.len() as u64).sum());
    let mut state = State::new(groups, space.search);
    while let Some(round) = state.round(groups) {
        if progress.stop() {
            break;
        }
        let told: Vec<Told> = super::in_parallel(options.jobs, || {
            round.par_iter().map(|open| space.told(groups, open)).collect()
        });
        for (open, told) in round.iter().zip(told) {
            state.take(open, told, (space, groups), progress)?;
        }
    }
    Ok(state)
}

/// Plans that are not known well enough yet.
#[derive(Clone, Debug, PartialEq)]
struct Open {
    bound: f64,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// A plan whose operators are priced.
    Fine { group: usize, member: usize },
    /// A plan.
    Rough { group: usize, member: usize },
    /// Plans from this one on, none of which is priced.
    Group { group: usize, member: usize },
}

impl Eq for Open {}

impl Ord for Open {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        // What is known best goes first: it may end the search.
        self.bound.total_cmp(&other.bound).then(self.what.cmp(&other.what))
    }
}

impl PartialOrd for Open {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// A space of plans.
struct Space<'e> {
    experiment: &'e Experiment,
    search: &'e Search,
    variants: &'e [&'e str],
    merged: Vec<Variant<'e>>,
    simulations: &'e Simulations<'e>,
}

/// One more thing that is known of a plan.
enum Told {
    Impossible(Vec<String>),
    /// Bytes that it lacks on a GPU.
    Short(u64),
    Priced(Priced),
    Simulated {
        gpus: u64,
        /// Seconds of a step are divided by this in the objective.
        unit: f64,
        run: Result<Option<Box<RunSummary>>, String>,
    },
}

/// A plan whose operators are priced.
struct Priced {
    /// Digits of its scenario.
    fingerprint: [u64; 2],
    /// Its bound, by the objective.
    bound: f64,
    /// Work of its group; none where it is not known.
    work: Option<group::Work>,
}

impl<'e> Space<'e> {
    fn new(
        experiment: &'e Experiment,
        search: &'e Search,
        variants: &'e [&'e str],
        simulations: &'e Simulations<'e>,
    ) -> Self {
        let merged = variants.iter().map(|name| experiment.variant(name)).collect();
        Self { experiment, search, variants, merged, simulations }
    }

    fn told(&self, groups: &[Group], open: &Open) -> Told {
        match open.what {
            What::Group { group, member } | What::Rough { group, member } => {
                self.priced(&groups[group], member)
            }
            What::Fine { group, member } => self.simulated(&groups[group], member),
        }
    }

    fn scenario(&self, group: &Group, member: usize) -> Result<Scenario, Vec<String>> {
        let point = self.experiment.point(group.members[member]);
        let resolved = self.merged[group.variant].unbuilt_at(&point);
        resolved.map(|resolved| resolved.scenario).map_err(|infeasible| infeasible.reasons)
    }

    fn priced(&self, group: &Group, member: usize) -> Told {
        let scenario = match self.scenario(group, member) {
            Ok(scenario) => scenario,
            Err(reasons) => return Told::Impossible(reasons),
        };
        let (unit, fingerprint) = (self.unit(&scenario), fingerprint(&scenario));
        match plans::floor(&scenario) {
            Err(error) => Told::Impossible(vec![error.to_string()]),
            Ok(None) => match plans::check(&scenario) {
                Err(error) => Told::Impossible(vec![error.to_string()]),
                Ok(()) => Told::Priced(Priced { fingerprint, bound: 0.0, work: None }),
            },
            Ok(Some(floor)) => {
                let lacking = floor.memory.iter().map(|memory| memory.held.saturating_sub(memory.capacity));
                match lacking.max().unwrap_or(0) {
                    0 => Told::Priced(Priced {
                        fingerprint,
                        bound: floor.step.as_secs() / unit,
                        work: self.work(&scenario, floor.micro_batch.as_secs(), unit),
                    }),
                    short => Told::Short(short),
                }
            }
        }
    }

    fn simulated(&self, group: &Group, member: usize) -> Told {
        let scenario = match self.scenario(group, member) {
            Ok(scenario) => scenario,
            Err(reasons) => return Told::Impossible(reasons),
        };
        let run = self.simulations.tried(&scenario).map(|run| {
            let mut run = run.map(Box::new);
            run.iter_mut().for_each(|run| campaign::add(&scenario, self.simulations.seed(), run));
            run
        });
        Told::Simulated { gpus: plans::ranks(&scenario), unit: self.unit(&scenario), run }
    }

    /// Work that bounds the other plans of a group. `None` for a cost, whose unit hangs on the GPUs of
    /// each.
    fn work(&self, scenario: &Scenario, micro_batch_s: f64, unit: f64) -> Option<group::Work> {
        match self.search.settings.minimise {
            Objective::StepTime | Objective::TimePerSample => group::Work::of(scenario, micro_batch_s, unit),
            Objective::Cost => None,
        }
    }

    /// Seconds of a step are divided by this in the objective.
    fn unit(&self, scenario: &Scenario) -> f64 {
        match self.search.settings.minimise {
            Objective::StepTime => 1.0,
            Objective::TimePerSample => {
                scenario.training.global_batch.map_or(1.0, |batch| batch.get() as f64)
            }
            // No plan costs less than one that always makes progress; without a price none is bound.
            Objective::Cost => campaign::least_cost_per_second(scenario).map_or(f64::INFINITY, f64::recip),
        }
    }
}

/// A plan that fits, with its place in the space.
struct Found {
    objective: f64,
    place: (usize, usize),
    run: RunSummary,
}

/// How far a search is.
struct State {
    open: BinaryHeap<Reverse<Open>>,
    tally: Tally,
    /// The best plans, the best first.
    best: Vec<Found>,
    keep: usize,
    gap: f64,
    seen: BTreeSet<[u64; 2]>,
    /// The plan that lacks the fewest bytes.
    least_short: Option<(u64, (usize, usize))>,
    /// Bounds of what was told to be slower.
    lowest: f64,
}

impl State {
    fn new(groups: &[Group], search: &Search) -> Self {
        let open = |group| Reverse(Open { bound: 0.0, what: What::Group { group, member: 0 } });
        Self {
            open: (0..groups.len()).map(open).collect(),
            tally: Tally::default(),
            best: Vec::new(),
            keep: search.settings.keep.get() as usize,
            gap: search.settings.gap.as_f64(),
            seen: BTreeSet::new(),
            least_short: None,
            lowest: f64::INFINITY,
        }
    }

    /// Plans to tell next: those with the lowest bounds, unless these prove the best.
    fn round(&mut self, groups: &[Group]) -> Option<Vec<Open>> {
        let mut round = Vec::new();
        while round.len() < ROUND
            && let Some(Reverse(open)) = self.open.pop()
        {
            if self.is_proven(open.bound) {
                // So is all that follows.
                self.lowest = self.lowest.min(open.bound);
                self.tally.slower += open.count(groups);
                let rest = std::mem::take(&mut self.open);
                self.tally.slower += rest.iter().map(|Reverse(open)| open.count(groups)).sum::<u64>();
            } else {
                round.push(open);
            }
        }
        (!round.is_empty()).then_some(round)
    }

    fn is_proven(&self, bound: f64) -> bool {
        self.best.first().is_some_and(|best| bound * (1.0 + self.gap) >= best.objective)
    }

    fn take(
        &mut self,
        open: &Open,
        told: Told,
        (space, groups): (&Space<'_>, &[Group]),
        progress: &dyn Progress,
    ) -> Result<(), Refusal> {
        let (group, member) = open.what.place();
        match told {
            Told::Impossible(reasons) => self.tally.impossible(&reasons),
            Told::Short(bytes) => {
                self.tally.short_of_memory += 1;
                let least = self.least_short.is_none_or(|(least, _)| bytes < least);
                self.least_short = if least { Some((bytes, (group, member))) } else { self.least_short };
            }
            Told::Priced(Priced { fingerprint, .. }) if !self.seen.insert(fingerprint) => {
                self.tally.equal += 1;
            }
            Told::Priced(Priced { bound, work, .. }) => {
                let bound = bound.max(open.bound);
                self.open.push(Reverse(Open { bound, what: What::Fine { group, member } }));
                if let What::Group { .. } = open.what {
                    self.spread(work.as_ref(), &groups[group], (group, member));
                }
                return Ok(());
            }
            Told::Simulated { gpus, unit, run } => {
                let run = run.map_err(|reason| space.broken(&groups[group], reason))?;
                self.simulated((group, member), (gpus, unit), run, space.search);
            }
        }
        progress.done();
        if let What::Group { .. } = open.what
            && member + 1 < groups[group].members.len()
        {
            self.open.push(Reverse(Open { bound: 0.0, what: What::Group { group, member: member + 1 } }));
        }
        Ok(())
    }

    /// Bounds of the members of a group behind one that is priced.
    fn spread(&mut self, work: Option<&group::Work>, group: &Group, (number, member): (usize, usize)) {
        for later in member + 1..group.members.len() {
            let bound = work.map_or(0.0, |work| work.bound(&group.splits[later]));
            self.open.push(Reverse(Open { bound, what: What::Rough { group: number, member: later } }));
        }
    }

    fn simulated(
        &mut self,
        place: (usize, usize),
        (gpus, unit): (u64, f64),
        run: Option<Box<RunSummary>>,
        search: &Search,
    ) {
        let Some((time, run)) = run.and_then(|run| Some((run.step_time()?, run))) else {
            self.tally.did_not_fit += 1;
            self.least_short.get_or_insert((0, place));
            return;
        };
        self.tally.fit += 1;
        let broken: Vec<&str> = search
            .limits
            .iter()
            .filter(|limit| !limit.holds(&run, gpus))
            .map(|limit| limit.text.as_str())
            .collect();
        if !broken.is_empty() {
            self.tally.broken(&broken);
            return;
        }
        let objective = match search.settings.minimise {
            Objective::StepTime | Objective::TimePerSample => Some(time / unit),
            Objective::Cost => run.campaign.as_ref().and_then(|it| it.cost.as_ref()?.per_unit()),
        };
        let Some(objective) = objective else {
            self.tally.broken(&[ENDS]);
            return;
        };
        let at = self.best.partition_point(|found| (found.objective, found.place) < (objective, place));
        self.best.insert(at, Found { objective, place, run: *run });
        self.best.truncate(self.keep);
    }

    /// Plans that nobody came to.
    fn left(&self, groups: &[Group]) -> u64 {
        self.open.iter().map(|Reverse(open)| open.count(groups)).sum()
    }

    fn end(mut self, space: &Space<'_>, groups: &[Group]) -> Result<(Vec<RunSummary>, SearchProof), Refusal> {
        self.tally.left = self.left(groups);
        let open = self.open.iter().map(|Reverse(open)| open.bound).fold(self.lowest, f64::min);
        let gap = self.best.first().map(|best| (best.objective / open.min(best.objective) - 1.0).max(0.0));
        let proof = self.tally.proof(space.search.settings.minimise, gap);
        let named = |(group, member): (usize, usize), run: RunSummary| {
            let Group { variant, members, .. } = &groups[group];
            let point = space.experiment.point(members[member]).values();
            RunSummary { variant: space.variants[*variant].to_owned(), point, ..run }
        };
        if self.best.is_empty() {
            let Some((_, place)) = self.least_short else { return Ok((Vec::new(), proof)) };
            return Ok((vec![named(place, space.failed(&groups[place.0], place.1)?)], proof));
        }
        Ok((self.best.into_iter().map(|Found { place, run, .. }| named(place, run)).collect(), proof))
    }
}

impl Space<'_> {
    fn broken(&self, group: &Group, reason: String) -> Refusal {
        Refusal::Broken { variant: self.variants[group.variant].to_owned(), reason }
    }

    /// A run that does not fit, with its reason.
    fn failed(&self, group: &Group, member: usize) -> Result<RunSummary, Refusal> {
        match self.scenario(group, member) {
            Ok(scenario) => one::outcome(&scenario, self.simulations.seed(), one::Drawn::No)
                .map_err(|reason| self.broken(group, reason)),
            Err(reasons) => Ok(failure::infeasible(reasons.join("; "))),
        }
    }
}

impl Open {
    /// Plans that it stands for.
    fn count(&self, groups: &[Group]) -> u64 {
        match self.what {
            What::Group { group, member } => (groups[group].members.len() - member) as u64,
            What::Rough { .. } | What::Fine { .. } => 1,
        }
    }
}

impl What {
    const fn place(self) -> (usize, usize) {
        match self {
            Self::Group { group, member } | Self::Rough { group, member } | Self::Fine { group, member } => {
                (group, member)
            }
        }
    }
}
