//! Outcomes of simulations that are known before a run: of a run that was stopped, or of shards.
//!
//! A simulation is a pure function of its scenario, the files that this names, the seed and the
//! version of foretrain. A key digests all but the version, as a journal is of one version.

use std::fmt;
use std::hash::Hash;

use hw_models::digest::digest;
use reports::summary::{JournaledRun, Outcome, RunSummary};

use super::one::{self, Drawn};
use super::outcomes::{fingerprint, of_step};
use super::search::Told;
use crate::experiment::Experiment;
use crate::schema::Scenario;

/// A store of outcomes.
pub trait Journal: Sync {
    /// The outcome under a key. `None`: unknown.
    fn known(&self, key: Key) -> Option<Outcome>;
    /// Keeps an outcome, as soon as its simulation has ended.
    fn keep(&self, key: Key, outcome: Outcome);
    /// Knowledge of a plan of a search that took no simulation. `None`: there is none yet.
    fn told(&self, _plan: Key) -> Option<Knowledge> {
        None
    }
    /// Keeps that for as long as the program runs: pricing a plan again takes less than reading it.
    fn tell(&self, _plan: Key, _knowledge: Knowledge) {}
    /// True if nothing is priced or simulated any more that it does not know.
    fn is_closed(&self) -> bool {
        false
    }
}

/// Digits of a simulation that are equal only where its outcome is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key([u64; 2]);

/// Knowledge of a plan of a search before any simulation: why it is impossible, or its bounds.
#[derive(Clone, Debug)]
pub struct Knowledge(pub(super) Told);

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}{:016x}", self.0[0], self.0[1])
    }
}

/// Simulations of an experiment, each looked up before it is run.
pub(super) struct Simulations<'a> {
    seed: u64,
    /// Digest of every text of the experiment, files that scenarios name among them.
    texts: String,
    /// `None`: nothing is known, and nothing kept.
    journal: Option<&'a dyn Journal>,
}

/// Questions that a scenario is simulated for.
#[derive(Hash)]
enum Question {
    Run,
    Try,
}

impl<'a> Simulations<'a> {
    pub(super) fn new(experiment: &Experiment, seed: u64, journal: Option<&'a dyn Journal>) -> Self {
        Self { seed, texts: experiment.digest(), journal }
    }

    pub(super) fn seed(&self) -> u64 {
        self.seed
    }

    /// The run of a scenario, undrawn where it was known.
    ///
    /// # Errors
    /// A mistake in foretrain, in words.
    pub(super) fn run(&self, scenario: &Scenario, drawn: Drawn) -> Result<RunSummary, String> {
        let run = || one::outcome(scenario, self.seed, drawn);
        let Some(journal) = self.journal else { return run() };
        let key = self.key(&Question::Run, scenario);
        if let Some(Outcome::Run(known)) = journal.known(key) {
            return Ok(RunSummary::from(*known));
        }
        let run = run()?;
        journal.keep(key, Outcome::Run(Box::new(JournaledRun::of(&run))));
        Ok(run)
    }

    /// The run of a scenario that is only tried; `None`: it does not fit.
    ///
    /// # Errors
    /// A mistake in foretrain, in words.
    pub(super) fn tried(&self, scenario: &Scenario) -> Result<Option<RunSummary>, String> {
        let run = || one::tried(scenario, self.seed);
        let Some(journal) = self.journal else { return run() };
        let key = self.key(&Question::Try, scenario);
        match journal.known(key) {
            Some(Outcome::Run(known)) => return Ok(Some(RunSummary::from(*known))),
            Some(Outcome::DoesNotFit) => return Ok(None),
            None => {}
        }
        let run = run()?;
        let outcome = |run| Outcome::Run(Box::new(JournaledRun::of(run)));
        journal.keep(key, run.as_ref().map_or(Outcome::DoesNotFit, outcome));
        Ok(run)
    }

    /// True if the run of a scenario is known.
    pub(super) fn knows(&self, scenario: &Scenario) -> bool {
        let key = self.key(&Question::Run, scenario);
        self.journal.is_some_and(|journal| journal.known(key).is_some())
    }

    /// True if the run of a scenario that is only tried is known.
    pub(super) fn knows_tried(&self, scenario: &Scenario) -> bool {
        let key = self.key(&Question::Try, scenario);
        self.journal.is_some_and(|journal| journal.known(key).is_some())
    }

    /// Knowledge of a plan of a search, which is `made` where there is none yet. `None`: there is
    /// none, and `ends` says that no more is made.
    pub(super) fn told(
        &self,
        plan: impl Hash,
        ends: impl Fn() -> bool,
        made: impl FnOnce() -> Told,
    ) -> Option<Told> {
        let key = Key(digest(&(plan, self.seed, &self.texts)));
        let known = self.journal.and_then(|journal| journal.told(key));
        if known.is_some() || ends() {
            return known.map(|Knowledge(told)| told);
        }
        let told = made();
        if let Some(journal) = self.journal {
            journal.tell(key, Knowledge(told.clone()));
        }
        Some(told)
    }

    /// True if nothing is priced or simulated that is not known.
    pub(super) fn is_closed(&self) -> bool {
        self.journal.is_some_and(Journal::is_closed)
    }

    fn key(&self, question: &Question, scenario: &Scenario) -> Key {
        Key(digest(&(question, self.seed, &self.texts, fingerprint(&of_step(scenario)))))
    }
}
