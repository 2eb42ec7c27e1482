//! What came out of the scenarios of an experiment: a run is a pure function of its scenario, so each is simulated once,
//! be it for a point of the sweep or as a remedy for another.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use hw_models::digest::digest;
use reports::summary::RunSummary;

use super::journal::Simulations;
use super::one::Drawn;
use crate::campaign;
use crate::schema::Scenario;

/// The outcomes of one experiment, by resolved scenario.
pub(super) struct Outcomes<'a> {
    simulations: Simulations<'a>,
    drawn: Drawn,
    known: Mutex<BTreeMap<[u64; 2], Arc<Known>>>,
}

/// The outcome of a scenario as a run and as a remedy. Of threads that ask for one at a time the
/// first simulates it, the others wait.
#[derive(Default)]
struct Known {
    run: OnceLock<Outcome>,
    /// `None`: it does not fit, and nobody has asked why.
    tried: OnceLock<Option<Outcome>>,
}

/// What a run found, or a mistake in foretrain, in words.
type Outcome = Result<Arc<RunSummary>, String>;

impl<'a> Outcomes<'a> {
    pub(super) fn new(simulations: Simulations<'a>, drawn: Drawn) -> Self {
        Self { simulations, drawn, known: Mutex::default() }
    }

    /// The outcome of a run of the experiment.
    ///
    /// # Errors
    /// A mistake in foretrain, in words.
    pub(super) fn of(&self, scenario: &Scenario) -> Outcome {
        let simulated = |scenario: &Scenario| {
            let known = self.known(scenario);
            let tried = || known.tried.get()?.clone();
            let run = || self.simulations.run(scenario, self.drawn).map(Arc::new);
            known.run.get_or_init(|| tried().unwrap_or_else(run)).clone()
        };
        if scenario.campaign.is_none() {
            return simulated(scenario);
        }
        let mut run = RunSummary::clone(&*simulated(&of_step(scenario))?);
        campaign::add(scenario, self.simulations.seed(), &mut run);
        Ok(Arc::new(run))
    }

    /// The outcome of a scenario that is only tried, unless it is known not to fit; without pictures,
    /// unless it was run before.
    pub(super) fn tried(&self, scenario: &Scenario) -> Option<Arc<RunSummary>> {
        let known = self.known(scenario);
        let tried = || self.simulations.tried(scenario).map(|run| run.map(Arc::new)).transpose();
        let outcome = known.run.get().cloned().or_else(|| known.tried.get_or_init(tried).clone());
        outcome?.ok()
    }

    /// True if the outcome of a run need not be simulated.
    pub(super) fn knows(&self, scenario: &Scenario) -> bool {
        self.known(&of_step(scenario)).run.get().is_some() || self.simulations.knows(scenario)
    }

    fn known(&self, scenario: &Scenario) -> Arc<Known> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(known.entry(fingerprint(scenario)).or_default())
    }
}

/// A scenario without its campaign: campaigns of a step share its simulation.
pub(super) fn of_step(scenario: &Scenario) -> Cow<'_, Scenario> {
    match &scenario.campaign {
        Some(_) => Cow::Owned(Scenario { campaign: None, ..scenario.clone() }),
        None => Cow::Borrowed(scenario),
    }
}

/// 128 bits that tell resolved scenarios apart. What the hardware files say is not in them: an experiment has one list.
pub(super) fn fingerprint(scenario: &Scenario) -> [u64; 2] {
    let text = serde_json::to_string(scenario).expect("settings can be written as JSON");
    // One name may mean two traces, where files in two folders give it.
    let trace = scenario.model.trace().and_then(|trace| Some(&trace.recorded.as_ref()?.path));
    digest(&(text, trace))
}
