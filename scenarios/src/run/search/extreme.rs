//! The largest or the fewest of a quantity with which any plan fits: each value that is tried is a
//! search of its own, which ends with the first plan that fits.
//!
//! ```text
//! any plan that fits the first value      a search of all plans
//! the last value that this plan fits      a few simulations (boundary)
//! any plan that fits the value behind     a search of all plans; where there is one, on from there
//! ```
//!
//! So whatever plans fit in between, the value behind the last one is proven not to fit with any.

use std::collections::BTreeMap;
use std::sync::Arc;

use indexmap::IndexMap;
use reports::summary::{AlternativePlan, Extreme, ExtremeWithout, RunSummary, SearchProof, TriedValue};

use super::super::journal::Simulations;
use super::super::{Options, Progress, Refusal};
use super::alternatives::{is_plain, used};
use super::boundary::{Answer, Boundary, boundary};
use super::hunt::Hunt;
use super::space::Space;
use crate::experiment::search;
use crate::experiment::sweep::digits;
use crate::experiment::{Experiment, Search};
use crate::plans;
use crate::schema::Scenario;
use workloads::passes::Techniques;

/// Values in a row that no plan goes together with after which no other is looked at.
const ROW_MAX: usize = 64;
/// Plans that are asked before all others of the first value, about.
const SAMPLE: u64 = 256;
/// The axis of the quantity.
const QUANTITY: usize = 0;

/// Looks for the last value of the quantity that a search asks for.
pub(super) struct Quest<'e> {
    experiment: &'e Experiment,
    search: &'e Search,
    /// The same search for any plan that fits.
    any: Search,
    variants: &'e [&'e str],
    options: &'e Options,
    simulations: &'e Simulations<'e>,
    progress: &'e dyn Progress,
}

/// True of plans that are looked at, by the digits of axes.
type Holds<'a> = &'a dyn Fn(&[u64]) -> bool;

/// Values that were tried, by their place in the order in which plans fit ever less.
type Tried = BTreeMap<u64, TriedValue>;

impl<'e> Quest<'e> {
    pub(super) fn new(
        experiment: &'e Experiment,
        search: &'e Search,
        variants: &'e [&'e str],
        options: &'e Options,
        (simulations, progress): (&'e Simulations<'e>, &'e dyn Progress),
    ) -> Self {
        Self { experiment, search, any: search.for_any(), variants, options, simulations, progress }
    }

    /// The best plans with the last value that fits, the best first, and the proof. Where no value
    /// fits, the plan that lacks least with the first.
    ///
    /// # Errors
    /// A mistake in foretrain.
    pub(super) fn last(&self, wanted: &str) -> Result<(Vec<RunSummary>, SearchProof), Refusal> {
        let axis = &self.experiment.axes()[QUANTITY];
        let mut tried = Tried::new();
        let Boundary { fits, stopped } = self.boundary(axis.len(), &|_| true, &mut tried)?;
        let place = fits.or(tried.keys().next().copied()).unwrap_or(0);
        let space = self.space(self.search, self.indices(place, &|_| true));
        let mut hunt = Hunt::new(&space, self.options, self.progress);
        hunt.whole()?;
        let (mut runs, proof) = hunt.end()?;
        if stopped && runs.iter().all(|run| run.step_time().is_none()) {
            runs.extend(tried.get(&place).map(|value| self.known(value)).transpose()?.flatten());
            runs.sort_by_key(|run| run.step_time().is_none());
        }
        let best_run = runs.first().filter(|run| run.step_time().is_some());
        if let (Some(run), Some(value)) = (best_run, tried.get_mut(&place)) {
            self.tell_plan(value, run);
        }
        let mut extreme = Extreme {
            wanted: wanted.to_owned(),
            of: axis.paths.clone(),
            value: fits.map(|place| self.value(place)),
            stopped,
            ..Extreme::default()
        };
        if let (Some(run), Some(fits)) = (best_run, fits)
            && self.search.settings.alternatives
        {
            extreme.without = self.without(run, fits)?;
        }
        if tried.values().any(|value| !value.fits) {
            extreme.not_searched = self.not_searched(&space);
        }
        extreme.tried = self.in_order(tried);
        Ok((runs, SearchProof { extreme: Some(extreme), ..proof }))
    }

    /// The last of so many values with which a plan fits, of those that `holds`, by the digits of
    /// axes; what is found of values is added to `tried`.
    fn boundary(&self, values: u64, holds: Holds<'_>, tried: &mut Tried) -> Result<Boundary, Refusal> {
        let mut last = Boundary::default();
        let mut from = 0;
        loop {
            let plan = match self.first_possible(from, values, holds, tried)? {
                Some((place, Answer::Fits, plan)) => {
                    (last.fits, from) = (Some(place), place + 1);
                    plan
                }
                other => {
                    last.stopped = matches!(other, Some((_, Answer::Stopped, _)));
                    return Ok(last);
                }
            };
            let alone = boundary(values - from, |further| {
                let place = from + further;
                let (answer, value, _) = self.found(place, plan.map(|plan| self.begin(place) + plan))?;
                tried.insert(place, value);
                Ok(answer)
            })?;
            if let Some(further) = alone.fits {
                (last.fits, from) = (Some(from + further), from + further + 1);
            }
            if alone.stopped {
                return Ok(Boundary { stopped: true, ..last });
            }
        }
    }

    /// The first value from a place on that any plan goes together with, what is known of it, and a
    /// plan that fits. Of the very first a sample of plans is asked before all are.
    fn first_possible(
        &self,
        from: u64,
        values: u64,
        holds: Holds<'_>,
        tried: &mut Tried,
    ) -> Result<Option<(u64, Answer, Option<u64>)>, Refusal> {
        for place in (from..values).take(ROW_MAX) {
            let sample = (self.experiment.size_of_value() / SAMPLE).max(1) as usize;
            let some = self.indices(place, holds).step_by(sample);
            let mut found = if from == 0 { Some(self.found(place, some)?) } else { None };
            found = found.filter(|(answer, ..)| *answer == Answer::Fits);
            let all = || self.found(place, self.indices(place, holds));
            let (answer, value, plan) = found.map_or_else(all, Ok)?;
            tried.insert(place, value);
            if answer != Answer::Impossible {
                return Ok(Some((place, answer, plan)));
            }
        }
        Ok(None)
    }

    /// Looks for any plan with a value, of points of these indices.
    fn found(
        &self,
        place: u64,
        indices: impl IntoIterator<Item = u64>,
    ) -> Result<(Answer, TriedValue, Option<u64>), Refusal> {
        let space = self.space(&self.any, indices.into_iter());
        let mut hunt = Hunt::new(&space, self.options, self.progress);
        hunt.any()?;
        let plan = hunt.best_run().map(|((group, member), _)| space.groups[group].members[member]);
        let stopped = plan.is_none() && hunt.is_stopped();
        let (runs, proof) = hunt.end()?;
        let answer = match (&plan, proof.impossible == proof.plans) {
            (Some(_), _) => Answer::Fits,
            _ if stopped => Answer::Stopped,
            (None, true) => Answer::Impossible,
            (None, false) => Answer::DoesNotFit,
        };
        let value = self.tell(&space, place, runs.first(), &proof);
        Ok((answer, value, plan.map(|index| index % self.experiment.size_of_value())))
    }

    /// The run of the plan that a value is known to fit with.
    fn known(&self, value: &TriedValue) -> Result<Option<RunSummary>, Refusal> {
        let Some(plan) = &value.plan else { return Ok(None) };
        let point = value.value.iter().chain(&plan.point);
        let point = point.map(|(path, value)| (path.clone(), value.clone())).collect();
        let space = self.space(&self.any, self.experiment.index_of(&point).into_iter());
        let mut places = (0..space.groups.len()).map(|group| (group, 0));
        let Some(place) = places.find(|place| space.variant(*place) == plan.variant) else { return Ok(None) };
        let Ok(scenario) = space.scenario(place) else { return Ok(None) };
        let run = space.run(&scenario).map_err(|reason| space.broken(place, reason))?;
        Ok(run.map(|run| space.named(place, Arc::unwrap_or_clone(run))))
    }

    /// Tells of a value, whose closest or best plan has a run.
    fn tell(
        &self,
        space: &Space<'_>,
        place: u64,
        run: Option<&RunSummary>,
        proof: &SearchProof,
    ) -> TriedValue {
        let scenario = (0..space.groups.len()).find_map(|group| space.scenario((group, 0)).ok());
        let mut value = TriedValue {
            value: self.value(place),
            parameters: scenario.as_ref().and_then(plans::parameters),
            plans: proof.plans,
            impossible: proof.impossible,
            short_of_memory: proof.short_of_memory,
            simulated: proof.fit + proof.did_not_fit,
            ..TriedValue::default()
        };
        match run {
            Some(run) if run.step_time().is_some() => self.tell_plan(&mut value, run),
            Some(RunSummary { failure: Some(failure), .. }) => {
                value.store.clone_from(&failure.store);
                value.short_bytes = failure.short_bytes;
                value.reason = failure.short_bytes.is_none().then(|| failure.message.clone());
            }
            _ => {}
        }
        if !value.fits && value.short_bytes.is_none() {
            let rule = proof.broken.first().or(proof.reasons.first());
            value.reason = value.reason.or_else(|| rule.map(|broken| broken.rule.clone()));
        }
        value
    }

    /// Notes a plan with which a value fits.
    fn tell_plan(&self, value: &mut TriedValue, run: &RunSummary) {
        let mut point = run.point.clone();
        point.retain(|path, _| !value.value.contains_key(path));
        value.fits = true;
        value.gpus = self.scenario(run).as_ref().map(plans::ranks);
        value.plan = Some(AlternativePlan {
            variant: run.variant.clone(),
            point,
            step_time_s: run.step_time().unwrap_or_default(),
            objective: run.step_time().unwrap_or_default(),
            relative_to_best: None,
        });
    }

    /// The last values without each technique that a plan uses, whose own last value is at a place.
    fn without(&self, run: &RunSummary, fits: u64) -> Result<Vec<ExtremeWithout>, Refusal> {
        let Some(index) = self.experiment.index_of(&run.point) else { return Ok(Vec::new()) };
        let axes = self.experiment.axes();
        let mut all = Vec::new();
        for (axis, technique) in used(axes, &digits(axes, index)) {
            let plain = |digits: &[u64]| is_plain(&axes[axis], digits[axis]);
            let mut tried = Tried::new();
            let found = self.boundary(fits + 1, &plain, &mut tried)?;
            if found.stopped {
                break;
            }
            let value = found.fits.and_then(|place| tried.remove(&place));
            let (value, parameters) = value.map(|it| (it.value, it.parameters)).unzip();
            all.push(ExtremeWithout { technique, value, parameters: parameters.flatten() });
        }
        Ok(all)
    }

    /// Techniques that save memory and are neither searched over nor used.
    fn not_searched(&self, space: &Space<'_>) -> Vec<String> {
        let axes = self.experiment.axes();
        let is_searched =
            |name: &str| axes.iter().any(|axis| axis.paths.iter().any(|path| path.ends_with(name)));
        let used = (0..space.groups.len()).find_map(|group| space.scenario((group, 0)).ok());
        let is_used = |name: &str| {
            used.as_ref()
                .is_some_and(|scenario| scenario.techniques.all().any(|it| it.facts(1).path.ends_with(name)))
        };
        let mut names: Vec<String> = Vec::new();
        for saving in Techniques::savings(1) {
            let name = saving.technique.to_owned();
            if !is_searched(&name) && !is_used(&name) && !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    fn scenario(&self, run: &RunSummary) -> Option<Scenario> {
        let point = self.experiment.point_of(&run.point)?;
        self.experiment.resolve(&run.variant, &point).ok().map(|resolved| resolved.scenario)
    }

    fn space(&self, search: &'e Search, indices: impl Iterator<Item = u64>) -> Space<'e> {
        Space::among(self.experiment, search, self.variants, self.simulations, indices)
    }

    /// Indices of the points of a value that `holds` by their digits.
    fn indices(&self, place: u64, holds: Holds<'_>) -> impl Iterator<Item = u64> {
        let plans = self.experiment.size_of_value();
        let begin = self.begin(place);
        let axes = self.experiment.axes();
        let all = self.experiment.indices_in(begin..begin.saturating_add(plans));
        all.filter(move |&index| holds(&digits(axes, index)))
    }

    /// Index of the first point of a value.
    fn begin(&self, place: u64) -> u64 {
        self.digit(place) * self.experiment.size_of_value()
    }

    /// Number of a value on its axis, of its place in the order in which plans fit ever less.
    fn digit(&self, place: u64) -> u64 {
        match self.search.extreme.as_ref().is_some_and(search::Extreme::is_fewest) {
            true => self.experiment.axes()[QUANTITY].len() - 1 - place,
            false => place,
        }
    }

    fn value(&self, place: u64) -> IndexMap<String, String> {
        let axis = &self.experiment.axes()[QUANTITY];
        let values = axis.value(self.digit(place)).into_iter().map(|node| node.value.plain());
        axis.paths.iter().cloned().zip(values).collect()
    }

    /// Values in the order of their axis; of those that are impossible the first one behind all others.
    fn in_order(&self, tried: Tried) -> Vec<TriedValue> {
        let possible = |value: &TriedValue| value.impossible < value.plans;
        let last = tried.iter().rev().find(|(_, value)| possible(value)).map(|(place, _)| *place);
        let behind = tried.keys().find(|place| last.is_none_or(|last| **place > last)).copied();
        let told = |(place, value): &(u64, TriedValue)| possible(value) || Some(*place) == behind;
        let mut told: Vec<(u64, TriedValue)> = tried.into_iter().filter(told).collect();
        told.sort_by_key(|(place, _)| self.digit(*place));
        told.into_iter().map(|(_, value)| value).collect()
    }
}
