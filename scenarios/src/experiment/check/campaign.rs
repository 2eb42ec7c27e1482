//! Checks of a campaign: one length, a place for its checkpoints, and prices that add up.

use hw_models::machine::Machine;
use hw_models::storage::{ArrayError, DriveSet, arrays_of_node};
use workloads::diagnostic::split;

use super::Check;
use crate::plans;
use crate::schema::{Campaign, CheckpointStore, Checkpoints, Failures, Interval, Prices, Scenario, Step};

const CAMPAIGN: &str = "campaign";
const TO: &str = "campaign.checkpoints.to";
const EVERY: &str = "campaign.checkpoints.every";

impl Check<'_> {
    pub(super) fn campaign(&mut self, scenario: &Scenario, machine: &Machine) {
        let Some(campaign) = scenario.campaign.as_ref().filter(|_| !self.of_program) else { return };
        if plans::transformer::step(scenario) != Step::Whole {
            let about = [(CAMPAIGN, String::new()), ("training.step", "leaves the update out".to_owned())];
            self.report(
                &about,
                "a campaign trains, which a part of a step does not",
                "remove one of the two",
            );
        }
        self.length(campaign, scenario);
        if let Some(checkpoints) = &campaign.checkpoints {
            self.checkpoints(checkpoints, campaign.failures.is_some());
            self.checkpoint_store(checkpoints, scenario, machine);
        }
        if let Some(failures) = &campaign.failures {
            self.failures(failures);
        }
        if let Some(prices) = &campaign.prices {
            self.prices(prices);
        }
    }

    /// One length is given, and the samples of the model have what it counts.
    fn length(&mut self, campaign: &Campaign, scenario: &Scenario) {
        let lengths: Vec<_> = campaign.lengths().collect();
        let paths: Vec<String> = lengths.iter().map(|(name, _)| format!("{CAMPAIGN}.{name}")).collect();
        match &paths[..] {
            [] => {
                let help = "add `tokens: 15 T`, `samples: 300 M` or `steps: 500 K`";
                self.report(&[(CAMPAIGN, String::new())], "`campaign` does not say how long it is", help);
            }
            [_] => {}
            [first, others @ ..] => {
                let others = others.iter().map(|path| (path.as_str(), "says it, too".to_owned()));
                let about: Vec<_> = [(first.as_str(), String::new())].into_iter().chain(others).collect();
                self.report(&about, "the length of the campaign is given more than once", "keep one of them");
            }
        }
        for ((name, length), path) in lengths.into_iter().zip(&paths) {
            if length.is_zero() {
                let help = format!("write for example `{name}: 500 K`");
                self.report(&[(path, String::new())], format!("`{path}` must be above 0"), help);
            }
        }
        let of_layers = scenario.model.layers();
        let has_none = of_layers.is_some_and(|model| plans::layered::tokens(scenario, model).is_none());
        if campaign.tokens.is_some() && has_none {
            let message = "samples of this model have no tokens to count";
            self.report(&[("campaign.tokens", String::new())], message, "write `samples` or `steps`");
        }
    }

    fn checkpoints(&mut self, checkpoints: &Checkpoints, fails: bool) {
        match checkpoints.every {
            Interval::Every(period) => self.longer_than_zero(EVERY, period, "30 min"),
            Interval::Best if !fails => {
                let message = "without failures no interval between checkpoints is best: the longest is";
                let help = "add `campaign: { failures: ... }`, or write an interval: `every: 30 min`";
                self.report(&[(EVERY, String::new())], message, help);
            }
            Interval::Best => {}
        }
        if checkpoints.background && checkpoints.to == CheckpointStore::Host {
            let about = [
                ("campaign.checkpoints.background", String::new()),
                (TO, "is where the copy ends that training waits for".to_owned()),
            ];
            let message = "a checkpoint in host memory has no write in the background";
            self.report(&about, message, "remove it, or write to `drives` or to `{ storage: 40 GB/s }`");
        }
    }

    /// The place of checkpoints is there.
    fn checkpoint_store(&mut self, checkpoints: &Checkpoints, scenario: &Scenario, machine: &Machine) {
        match checkpoints.to {
            CheckpointStore::Host => {}
            CheckpointStore::Storage(rate) if rate.is_zero() => {
                let help = "write for example `storage: 40 GB/s`";
                let path = "campaign.checkpoints.to.storage";
                self.report(&[(path, String::new())], format!("`{path}` must be above 0 GB/s"), help);
            }
            CheckpointStore::Storage(_) => {}
            // Arrays that are named have been checked where they are.
            CheckpointStore::Drives if !scenario.storage.is_empty() => {}
            CheckpointStore::Drives => {
                let all: [(&str, Option<&DriveSet>); 1] = [("drives", None)];
                let errors = arrays_of_node(machine, 0, all).err().unwrap_or_default();
                for text in errors.iter().map(ArrayError::to_string) {
                    let (message, help) = split(&text);
                    self.report_with(TO, &["machine"], message, help);
                }
            }
        }
    }

    fn failures(&mut self, failures: &Failures) {
        let (name, time) = failures.mean_time_between.given();
        let path = format!("campaign.failures.mean_time_between.{name}");
        self.longer_than_zero(&path, time, "50000 h");
    }

    fn prices(&mut self, prices: &Prices) {
        let path = |name: &str, field: &str| format!("campaign.prices.{name}.{field}");
        let Some((first, of_first)) = prices.given().next() else {
            let help =
                "add `gpu_hour: { price: 2.49 USD, source: ..., date: 2026-11-01 }`, or remove `prices`";
            self.report(&[("campaign.prices", String::new())], "`campaign.prices` has no price", help);
            return;
        };
        for (name, price) in prices.given() {
            if price.source.trim().is_empty() {
                let here = path(name, "source");
                let help = "name the document, contract or offer that says so";
                self.report(&[(&here, String::new())], format!("`{here}` is empty"), help);
            }
            if price.price.currency() != of_first.price.currency() {
                let (here, there) = (path(name, "price"), path(first, "price"));
                let about = [(here.as_str(), String::new()), (&there, "is in another".to_owned())];
                let message =
                    format!("prices are in {} and {}", of_first.price.currency(), price.price.currency());
                self.report(&about, message, "write all in one currency: none is converted");
            }
        }
    }
}
