//! What came out of the scenarios of an experiment: a run is a pure function of its scenario, so each is simulated once,
//! be it for a point of the sweep or as a remedy for another.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use reports::summary::RunSummary;

use super::one::{self, Drawn};
use crate::schema::Scenario;

/// The outcomes of one experiment, by resolved scenario.
pub(super) struct Outcomes {
    seed: u64,
    drawn: Drawn,
    known: Mutex<BTreeMap<[u64; 2], Arc<OnceLock<Outcome>>>>,
}

/// What a run found, or a mistake in foretrain, in words.
type Outcome = Result<Arc<RunSummary>, String>;

impl Outcomes {
    pub(super) fn new(seed: u64, drawn: Drawn) -> Self {
        Self { seed, drawn, known: Mutex::default() }
    }

    /// The outcome of a run of the experiment.
    ///
    /// # Errors
    /// A mistake in foretrain, in words.
    pub(super) fn of(&self, scenario: &Scenario) -> Outcome {
        self.look_up(scenario, self.drawn)
    }

    /// The outcome of a scenario that is only tried: without pictures, unless it was run before.
    ///
    /// # Errors
    /// A mistake in foretrain, in words.
    pub(super) fn tried(&self, scenario: &Scenario) -> Outcome {
        self.look_up(scenario, Drawn::No)
    }

    /// Of threads that ask for one scenario at a time the first simulates it, the others wait.
    fn look_up(&self, scenario: &Scenario, drawn: Drawn) -> Outcome {
        let place = {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(known.entry(fingerprint(scenario)).or_default())
        };
        place.get_or_init(|| one::outcome(scenario, self.seed, drawn).map(Arc::new)).clone()
    }
}

/// 128 bits that tell resolved scenarios apart. What the hardware files say is not in them: an experiment has one list.
fn fingerprint(scenario: &Scenario) -> [u64; 2] {
    let text = serde_json::to_string(scenario).expect("settings can be written as JSON");
    // Keys of `DefaultHasher::new` are fixed.
    [0_u8, 1].map(|which| {
        let mut hasher = DefaultHasher::new();
        (which, &text).hash(&mut hasher);
        hasher.finish()
    })
}
