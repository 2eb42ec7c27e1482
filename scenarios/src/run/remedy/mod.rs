//! Remedies: settings with which a run that does not fit would, tried one by one, then two at a
//! time, then on more GPUs.
//!
//! Only runs that a report explains get them. What the file says stays in force: a change is laid
//! over it as `--set` would be, passes the same checks, and does the same work in a step.

mod change;
mod features;
mod words;

use std::collections::BTreeSet;

use rayon::prelude::*;
use reports::quantity;
use reports::summary::{AllocatorPeak, FailureKind, Remedy};

use super::one::Ended;
use super::outcomes::Outcomes;
use super::{Progress, plan};
use crate::experiment::Experiment;
use crate::plans;
use crate::schema::{Bytes, Model, Run, Scenario, Steps};

use change::{Change, Family};

/// Remedies of a run.
const SHOWN_MAX: usize = 3;
/// Seconds of one core that trying single changes may take, roughly; two at a time, and more GPUs,
/// as much again.
const TRYING_MAX_S: f64 = 8.0;
/// Times as many GPUs that are tried, one after the other.
const MORE_GPUS: [u64; 6] = [2, 4, 8, 16, 32, 64];

/// Remedies of the runs that a report explains, by their places.
pub(super) fn find(
    experiment: &Experiment,
    runs: &[Ended],
    outcomes: &Outcomes<'_>,
    progress: &dyn Progress,
) -> Vec<(usize, Vec<Remedy>)> {
    let explained =
        reports::explained(runs.iter().map(|run| (run.variant.as_str(), run.outcome.failure.is_none())));
    let of = |place: usize| {
        let search = Search { experiment, run: &runs[place], outcomes };
        let found = if progress.stop() { Vec::new() } else { search.remedies() };
        progress.done();
        (place, found)
    };
    progress.begin(explained.len() as u64);
    explained.into_par_iter().map(of).collect()
}

/// A search for what a run would need.
struct Search<'a> {
    experiment: &'a Experiment,
    run: &'a Ended,
    outcomes: &'a Outcomes<'a>,
}

impl Search<'_> {
    /// The fastest remedies; none where it is not memory that the run lacks.
    fn remedies(&self) -> Vec<Remedy> {
        let failure = self.run.outcome.failure.as_ref();
        let Some(failure) = failure.filter(|failure| failure.kind == FailureKind::OutOfMemory) else {
            return Vec::new();
        };
        let Some(scenario) = self.changed(&[]) else { return Vec::new() };
        let singles = change::singles(&scenario);
        let shared = change::shared(&scenario);
        // Where fragments are all that is too much, segments that grow are enough.
        let fragmented =
            failure.unfragmented_bytes.is_some_and(|bytes| Some(bytes) <= failure.capacity_bytes);
        let growing = change::growing_segments(&scenario).filter(|_| fragmented).map(Family::one);
        let mut families: Vec<Family> =
            growing.into_iter().chain(singles.iter().chain(&shared).cloned()).collect();
        // Where sharing is not enough, it is what others begin with.
        if self.fitting(&scenario, &shared).is_empty() {
            let with =
                |sharing: &Family| singles.iter().map(|single| single.and(sharing)).collect::<Vec<_>>();
            families.extend(shared.iter().flat_map(with));
        }
        let all = [&singles[..], &shared].concat();
        let attempts: [&dyn Fn() -> Vec<Remedy>; 3] =
            [&|| self.fitting(&scenario, &families), &|| self.two_together(&scenario, &all), &|| {
                self.more_gpus(&scenario)
            }];
        let found = attempts.iter().map(|attempt| attempt()).find(|found| !found.is_empty());
        found.into_iter().flatten().chain(self.enough_memory(&scenario)).collect()
    }

    /// Two changes at once, where none is enough.
    fn two_together(&self, scenario: &Scenario, singles: &[Family]) -> Vec<Remedy> {
        let mut places: Vec<[usize; 2]> =
            (0..singles.len()).flat_map(|b| (0..b).map(move |a| [a, b])).collect();
        // Those that are tried first stand first in the list.
        places.sort_by_key(|[a, b]| a + b);
        let both = |[a, b]: [usize; 2]| singles[a].last().and(&singles[b].last());
        let found = self.fitting(scenario, &places.into_iter().map(both).collect::<Vec<_>>());
        found.into_iter().map(|it| saying(it, "no single change is enough")).collect()
    }

    /// The fewest times as many GPUs with which a change of layout is enough.
    fn more_gpus(&self, scenario: &Scenario) -> Vec<Remedy> {
        let gpus = plans::ranks(scenario);
        let on = |times: &u64| {
            let found = self.fitting(scenario, &change::layouts_on_more(scenario, *times));
            let said = |it| saying(it, &format!("no change that was tried fits on {gpus} GPUs"));
            Some(found.into_iter().map(said).collect::<Vec<_>>()).filter(|found| !found.is_empty())
        };
        let transformer = matches!(scenario.model, Model::Transformer(_));
        MORE_GPUS.iter().filter(|_| transformer).find_map(on).unwrap_or_default()
    }

    /// Fitting changes, one of each family, the fastest first. Families for whose trials there is
    /// no time are left out.
    fn fitting(&self, scenario: &Scenario, families: &[Family]) -> Vec<Remedy> {
        let each = plan::seconds(scenario, plans::activities(scenario));
        let mut spent = 0.0;
        let affordable = families.iter().take_while(|family| {
            spent += each * f64::from(family.trials());
            spent <= TRYING_MAX_S
        });
        let affordable: Vec<&Family> = affordable.collect();
        let tried = affordable.par_iter().map(|family| self.least(scenario, family));
        let mut found: Vec<(f64, Remedy)> = tried.collect::<Vec<_>>().into_iter().flatten().collect();
        found.sort_by(|a, b| a.0.total_cmp(&b.0));
        // What copies must share for a technique may also be tried before it.
        let mut known: BTreeSet<String> = BTreeSet::new();
        found.retain(|(_, remedy)| known.insert(remedy.action.clone()));
        found.into_iter().map(|(_, remedy)| remedy).take(SHOWN_MAX).collect()
    }

    /// The first step of a family that fits: a later one takes less memory than those before it.
    /// Where the last does not fit either, it may with segments that grow: what moves leaves gaps.
    fn least(&self, scenario: &Scenario, family: &Family) -> Option<(f64, Remedy)> {
        let (last, earlier) = family.steps.split_last()?;
        let Some(mut best) = self.tried(scenario, last) else {
            return self.tried(scenario, &last.and(&change::growing_segments(scenario)?));
        };
        let mut open = 0..earlier.len();
        while !open.is_empty() {
            let middle = open.start + open.len() / 2;
            match self.tried(scenario, &earlier[middle]) {
                Some(found) => (best, open.end) = (found, middle),
                None => open.start = middle + 1,
            }
        }
        Some(best)
    }

    /// The step with a change, where it can be made and fits.
    fn tried(&self, scenario: &Scenario, change: &Change) -> Option<(f64, Remedy)> {
        let resolved = |settings: &&change::Settings| {
            let changed = self.changed(settings)?;
            let same_work = changed.training.global_batch == scenario.training.global_batch;
            (same_work && plans::ranks(&changed) == change.ranks).then_some(changed)
        };
        let (settings, mut changed) =
            change.ways.iter().find_map(|settings| Some((settings, resolved(&settings)?)))?;
        // One seed tells whether it fits, and one step unless batches are on their way.
        let drawn = changed.model.graph().is_some_and(|graph| graph.sampling.is_some());
        let steps = if drawn { changed.run.steps } else { Steps::default() };
        changed.run = Run { steps, ..Run::default() };
        let run = self.outcomes.tried(&changed)?;
        let step_time_s = run.step_time()?;
        let allocated = run.fullest_allocator().map(AllocatorPeak::needed_bytes);
        let remedy = Remedy {
            action: format!("use {}", words::yaml(settings)),
            effect: Some(change.effects.join("; ")),
            step_time_s: Some(step_time_s),
            peak_bytes: allocated.or(run.worst_device().map(|device| device.peak_bytes)),
        };
        Some((step_time_s, remedy))
    }

    /// The scenario with other settings, and with the same memory where that was a part of its
    /// footprint.
    fn changed(&self, settings: &[(String, String)]) -> Option<Scenario> {
        let Ended { variant, point, outcome } = self.run;
        let mut changed = self.experiment.changed(variant, point, settings).ok()?;
        if changed.memory.footprint_ratio.take().is_some() {
            changed.memory.limit = Some(Bytes::new_bytes(outcome.failure.as_ref()?.capacity_bytes?));
        }
        Some(changed)
    }

    /// The memory with which a profile fits as it is; a GPU has what it has.
    fn enough_memory(&self, scenario: &Scenario) -> Option<Remedy> {
        let mut unlimited = scenario.clone();
        let Model::ProfiledPipeline(pipeline) = &mut unlimited.model else { return None };
        pipeline.device = None;
        unlimited.memory.limit = None;
        unlimited.run = Default::default();
        let run = self.outcomes.tried(&unlimited)?;
        let peak = run.worst_device()?.peak_bytes;
        Some(Remedy::untried(format!("give every stage {} of memory", quantity::bytes(peak))))
    }
}

/// A remedy with a reason before its effect.
fn saying(remedy: Remedy, reason: &str) -> Remedy {
    let effect = remedy.effect.map_or(reason.to_owned(), |effect| format!("{reason}; {effect}"));
    Remedy { effect: Some(effect), ..remedy }
}
