//! A search that is stopped prices and simulates nothing more, and is told again from what it knew.

use std::collections::BTreeMap;
use std::sync::Mutex;

use reports::summary::{Outcome, SearchProof, Summary};
use scenarios::run::{Journal, Key, Knowledge, Progress, resume};

use crate::support::{options, read};

/// Plans of three kinds of machines.
const SPACE: &str = "
name: machines
machine: { cluster: { node: dgx-a100-40g, count: 2 } }
model: { transformer: { layers: 8, hidden: 2048, heads: 16, vocabulary: 32000, max_positions: 1024 } }
training: { micro_batch: 2, global_batch: 32, sequence: 1024, precision: fp16-mixed }
parallelism: { idle: allow }
search:
  over:
    machine.cluster.node: [dgx-a100-40g, dgx-a100-80g, dgx-1v-32g]
    parallelism.tensor: [1, 2, 4, 8]
    parallelism.pipeline: [1, 2, 4]
    training.micro_batch: [1, 2, 4]
  alternatives: false
";

/// Everything that a search has asked for, in its order.
#[derive(Default)]
struct Counted {
    outcomes: Mutex<BTreeMap<String, Outcome>>,
    plans: Mutex<BTreeMap<Key, Knowledge>>,
    closed: bool,
}

impl Counted {
    fn prices(&self) -> usize {
        self.plans.lock().expect("no panic").len()
    }

    fn simulations(&self) -> usize {
        self.outcomes.lock().expect("no panic").len()
    }
}

impl Journal for Counted {
    fn known(&self, key: Key) -> Option<Outcome> {
        self.outcomes.lock().expect("no panic").get(&key.to_string()).cloned()
    }

    fn keep(&self, key: Key, outcome: Outcome) {
        self.outcomes.lock().expect("no panic").insert(key.to_string(), outcome);
    }

    fn told(&self, plan: Key) -> Option<Knowledge> {
        self.plans.lock().expect("no panic").get(&plan).cloned()
    }

    fn tell(&self, plan: Key, knowledge: Knowledge) {
        self.plans.lock().expect("no panic").insert(plan, knowledge);
    }

    fn is_closed(&self) -> bool {
        self.closed
    }
}

/// An interrupt after so many prices or simulations.
struct After<'a>(&'a Counted, [usize; 2]);

impl Progress for After<'_> {
    fn begin(&self, _: u64) {}
    fn done(&self) {}
    fn stop(&self) -> bool {
        self.0.prices() >= self.1[0] || self.0.simulations() >= self.1[1]
    }
}

fn searched(journal: &Counted, limits: [usize; 2]) -> (Summary, SearchProof) {
    let experiment = read(SPACE, &[]).unwrap_or_else(|failure| panic!("{failure}"));
    let summary = resume(&experiment, &options(), &After(journal, limits), Some(journal));
    let summary = summary.unwrap_or_else(|refusal| panic!("{refusal}"));
    let proof = summary.search.clone().expect("it is a search");
    (summary, proof)
}

#[test]
fn an_interrupt_is_the_end_of_pricing_and_simulating() {
    let whole = Counted::default();
    let (_, proof) = searched(&whole, [usize::MAX; 2]);
    let (prices, simulations) = (whole.prices(), whole.simulations());
    assert_eq!(proof.left, 0);
    assert!(prices > 40 && simulations >= 4, "{prices} prices, {simulations} simulations");
    for number in [0, 1, 7, 20, prices / 2] {
        let stopped = Counted::default();
        let (_, proof) = searched(&stopped, [number, usize::MAX]);
        assert_eq!(stopped.prices(), number, "of {prices}");
        assert!(proof.left > 0, "{proof:?}");
    }
    for number in 1..4 {
        let stopped = Counted::default();
        searched(&stopped, [usize::MAX, number]);
        // With its reason, where none fits.
        assert!(stopped.simulations() <= number + 1, "{} of {simulations}", stopped.simulations());
    }
}

/// Where a simulation takes too long to be waited for, nothing is priced again.
#[test]
fn a_stopped_search_is_told_again_without_a_price() {
    for limits in [[20, usize::MAX], [usize::MAX, 2], [usize::MAX, 4]] {
        let open = Counted::default();
        let (before, proof) = searched(&open, limits);
        let known = (open.prices(), open.simulations());
        let closed = Counted { closed: true, ..open };
        let (after, told) = searched(&closed, [0; 2]);
        assert_eq!((closed.prices(), closed.simulations()), known);
        let counts = |proof: &SearchProof| [proof.left, proof.fit, proof.impossible, proof.short_of_memory];
        assert_eq!(counts(&told), counts(&proof));
        let fitting = |summary: &Summary| {
            let runs = summary.variants.iter().filter(|run| run.step_time().is_some());
            runs.map(|run| (run.point.clone(), run.step_time())).collect::<Vec<_>>()
        };
        assert_eq!(fitting(&after), fitting(&before));
    }
}
