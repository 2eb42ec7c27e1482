//! A space of plans, and more that is known of each: why it is impossible, its bound, its run.

use std::borrow::Cow;
use std::sync::Arc;

use indexmap::IndexMap;
use reports::summary::RunSummary;

use super::super::journal::Simulations;
use super::super::outcomes::fingerprint;
use super::super::{Refusal, Shard, failure, one};
use super::goal::{Figures, Goals};
use super::group::{Group, Place, Work, groups};
use super::open::{Open, What};
use crate::campaign;
use crate::experiment::sweep::digits;
use crate::experiment::{Experiment, Search, Variant};
use crate::plans;
use crate::schema::{Count, Scenario};

/// Plans of an experiment, in groups.
pub(super) struct Space<'e> {
    pub(super) experiment: &'e Experiment,
    pub(super) search: &'e Search,
    pub(super) groups: Vec<Group>,
    pub(super) variants: &'e [&'e str],
    merged: Vec<Variant<'e>>,
    simulations: &'e Simulations<'e>,
}

/// One more thing that is known of a plan.
#[derive(Clone, Debug)]
pub(in super::super) enum Told {
    /// Nothing: the search is to end before it.
    Nothing,
    Impossible(Vec<String>),
    /// Bytes that it lacks on a GPU or a host.
    Short(u64),
    Sketched {
        /// Work of its group; none where it is not known.
        work: Option<Work>,
        /// True if activations leave: nobody knows the memory of its group before a simulation.
        moves: bool,
    },
    Priced(Priced),
    Simulated {
        gpus: u64,
        /// None where it does not fit, or has no figure of an objective.
        figures: Option<Figures>,
        run: Result<Option<Arc<RunSummary>>, String>,
    },
}

/// A plan whose operators are priced.
#[derive(Clone, Debug)]
pub(in super::super) struct Priced {
    /// Digits of its scenario, the same for plans that do the same.
    pub(super) fingerprint: [u64; 2],
    /// Its bound, by objective.
    pub(super) bound: Figures,
}

impl<'e> Space<'e> {
    pub(super) fn new(
        experiment: &'e Experiment,
        search: &'e Search,
        variants: &'e [&'e str],
        (simulations, shard): (&'e Simulations<'e>, Shard),
    ) -> Self {
        let whole = Self::among(experiment, search, variants, simulations, experiment.indices());
        Self { groups: shard.of(whole.groups.into_iter()).collect(), ..whole }
    }

    /// Plans of an experiment at points of these indices.
    pub(super) fn among(
        experiment: &'e Experiment,
        search: &'e Search,
        variants: &'e [&'e str],
        simulations: &'e Simulations<'e>,
        indices: impl Iterator<Item = u64>,
    ) -> Self {
        Self {
            experiment,
            search,
            groups: groups(experiment, indices, variants.len()),
            variants,
            merged: variants.iter().map(|name| experiment.variant(name)).collect(),
            simulations,
        }
    }

    /// True if plans are only told again as far as outcomes of them are known.
    pub(super) fn is_closed(&self) -> bool {
        self.simulations.is_closed()
    }

    /// Number of plans.
    pub(super) fn plans(&self) -> u64 {
        self.groups.iter().map(|group| group.members.len() as u64).sum()
    }

    pub(super) fn goals(&self) -> Goals<'e> {
        Goals(self.search.settings.minimise.all())
    }

    /// Tells an open plan more finely. Once the search is to end it prices and simulates no plan.
    pub(super) fn told(&self, open: &Open, ends: impl Fn() -> bool) -> Told {
        let (group, member) = open.what.place();
        let scenario = || self.scenario((group, member)).map_err(Told::Impossible);
        if let What::Fine(_) = open.what {
            return match scenario() {
                Ok(scenario) if ends() && !self.simulations.knows_tried(&scenario) => Told::Nothing,
                Ok(scenario) => self.simulated(&scenario),
                Err(impossible) => impossible,
            };
        }
        let is_group = matches!(open.what, What::Group(_));
        let plan = (is_group, self.variant((group, member)), self.groups[group].members[member]);
        let made = || match scenario() {
            Ok(scenario) if is_group => self.sketched(&scenario),
            Ok(scenario) => self.priced(&scenario),
            Err(impossible) => impossible,
        };
        self.simulations.told(plan, ends, made).unwrap_or(Told::Nothing)
    }

    /// Numbers of the values of a plan on each axis.
    pub(super) fn digits(&self, (group, member): Place) -> Vec<u64> {
        digits(self.experiment.axes(), self.groups[group].members[member])
    }

    /// Values of a plan by path.
    pub(super) fn values(&self, (group, member): Place) -> IndexMap<String, String> {
        self.experiment.point(self.groups[group].members[member]).values()
    }

    /// The scenario of a plan.
    ///
    /// # Errors
    /// Settings that do not go together.
    pub(super) fn scenario(&self, (group, member): Place) -> Result<Scenario, Vec<String>> {
        let Group { variant, members, .. } = &self.groups[group];
        let resolved = self.merged[*variant].unbuilt_at(&self.experiment.point(members[member]));
        resolved.map(|resolved| resolved.scenario).map_err(|infeasible| infeasible.reasons)
    }

    fn sketched(&self, scenario: &Scenario) -> Told {
        match plans::sketch(scenario) {
            Err(error) => Told::Impossible(vec![error.to_string()]),
            Ok(None) => Told::Sketched { work: None, moves: moves_activations(scenario) },
            Ok(Some(floor)) => match floor.lacking() {
                0 => Told::Sketched {
                    work: Work::of(scenario, floor.micro_batch.as_secs(), self.goals()),
                    moves: moves_activations(scenario),
                },
                short => Told::Short(short),
            },
        }
    }

    fn priced(&self, scenario: &Scenario) -> Told {
        let fingerprint = fingerprint(&plainest(scenario));
        match plans::floor(scenario) {
            Err(error) => Told::Impossible(vec![error.to_string()]),
            Ok(None) => match plans::check(scenario) {
                Err(error) => Told::Impossible(vec![error.to_string()]),
                Ok(()) => Told::Priced(Priced { fingerprint, bound: Figures::default() }),
            },
            Ok(Some(floor)) => {
                let held = floor.memory.iter().map(|memory| memory.held).max().unwrap_or(0);
                match floor.lacking() {
                    0 => Told::Priced(Priced {
                        fingerprint,
                        bound: self.goals().at_least(scenario, floor.step.as_secs(), held),
                    }),
                    short => Told::Short(short),
                }
            }
        }
    }

    fn simulated(&self, scenario: &Scenario) -> Told {
        let run = self.run(scenario);
        let figures = run.as_ref().ok().and_then(|run| self.goals().of_run(scenario, run.as_deref()?));
        Told::Simulated { gpus: plans::ranks(scenario), figures, run }
    }

    /// The run of a scenario. `None`: it does not fit.
    ///
    /// # Errors
    /// A mistake in foretrain, in words.
    pub(super) fn run(&self, scenario: &Scenario) -> Result<Option<Arc<RunSummary>>, String> {
        let mut run = self.simulations.tried(scenario)?;
        run.iter_mut().for_each(|run| campaign::add(scenario, self.simulations.seed(), run));
        Ok(run.map(Arc::new))
    }

    /// A run of a plan under the names of its variant and its point.
    pub(super) fn named(&self, place: Place, run: RunSummary) -> RunSummary {
        RunSummary { variant: self.variant(place).to_owned(), point: self.values(place), ..run }
    }

    /// The variant of a plan.
    pub(super) fn variant(&self, (group, _): Place) -> &'e str {
        self.variants[self.groups[group].variant]
    }

    pub(super) fn broken(&self, place: Place, reason: String) -> Refusal {
        Refusal::Broken { variant: self.variant(place).to_owned(), point: self.values(place), reason }
    }

    /// A run that does not fit, with its reason.
    pub(super) fn failed(&self, place: Place) -> Result<RunSummary, Refusal> {
        match self.scenario(place) {
            Ok(scenario) => one::outcome(&scenario, self.simulations.seed(), one::Drawn::No)
                .map_err(|reason| self.broken(place, reason)),
            Err(reasons) => Ok(failure::infeasible(reasons.join("; "))),
        }
    }
}

/// True if a technique moves activations, of which a floor then counts none.
fn moves_activations(scenario: &Scenario) -> bool {
    let stages = u32::try_from(scenario.stages()).unwrap_or(u32::MAX);
    scenario.techniques.all().any(|technique| technique.facts(stages).activations.is_some())
}

/// A scenario that does the same and leaves out what does nothing: ranks that hold all of a model
/// share it with nobody.
fn plainest(scenario: &Scenario) -> Cow<'_, Scenario> {
    let of_a_copy = scenario.parallelism.tensor.map_or(1, Count::get) * scenario.stages() as u64;
    if plans::ranks(scenario) > of_a_copy {
        return Cow::Borrowed(scenario);
    }
    let mut plain = scenario.clone();
    (plain.parallelism.sharding, plain.parallelism.distributed_optimizer) = (None, None);
    Cow::Owned(plain)
}
