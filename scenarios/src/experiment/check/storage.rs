//! Whether the machine has the drives that techniques use.

use hw_models::machine::Machine;

use super::Check;
use crate::catalogue;
use crate::schema::{Count, KeptStates, Scenario};

const DRIVES: &str = "storage.drives";
const PATH: &str = "storage.path";
const STATES: &str = "techniques.zero_infinity.states";

impl Check<'_> {
    /// Checks drives, and the path to them.
    pub(super) fn storage(&mut self, scenario: &Scenario, machine: &Machine) {
        let there = machine.drives_of_node(0).count() as u64;
        let uses = scenario.techniques.zero_infinity.as_ref().map(|hosts| hosts.states);
        if uses == Some(KeptStates::Drives) && there == 0 {
            let help = "write `states: host`, or give its nodes some: `set: { ssd: { model: samsung-pm9a3-u2-3840gb, count: 4 } }`";
            self.report_with(STATES, &["machine"], "the machine has no drives for states", help);
        }
        let Some(settings) = &scenario.storage else { return };
        if let Some(drives) = settings.drives.map(Count::get).filter(|&drives| drives > there) {
            let message = format!("a node has {there} drives, not {drives}");
            self.report_with(DRIVES, &["machine"], message, "ask for fewer, or give it more");
        }
        let paths = catalogue::storage_paths();
        if !paths.contains_key(&settings.path) {
            let names = paths.keys().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            let message = format!("there is no path `{}` to drives", settings.path);
            self.report_with(PATH, &[], message, format!("the paths are {names}"));
        }
    }
}
