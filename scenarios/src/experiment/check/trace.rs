//! Checks of recorded steps: the file, and settings that would be ignored.

use workloads::trace::Fault;

use super::Check;
use crate::catalogue;
use crate::experiment::paths;
use crate::schema::{Model, Scenario};

const FILE: &str = "model.trace.file";

/// Settings that are about what a trace has recorded.
const FOREIGN: [(&str, &str); 14] = [
    ("machine", "its devices are recorded; remove it, or say what changes: `model.trace.what_if`"),
    ("storage", "its devices are recorded; remove it"),
    ("calibration", "its times are recorded; remove it"),
    ("training", "its steps are recorded; remove it"),
    ("parallelism", "one process is recorded, with its waits for others; remove it"),
    ("memory", "its allocations are not recorded; remove it"),
    ("software", "its kernels and its host are recorded; say what changes: `model.trace.what_if`"),
    ("techniques", "its operators are recorded; say what changes: `model.trace.what_if`"),
    ("campaign", "its parameters are not recorded, so nobody knows a checkpoint; remove it"),
    ("run.steps", "all recorded steps are replayed; remove it"),
    ("run.seeds", "recorded times vary as they were recorded; remove it"),
    ("run.noise", "recorded times vary as they were recorded; remove it"),
    ("run.fold", "it has one process; remove it"),
    ("run.segments", "each of its lanes is simulated; remove it"),
];

/// Paths of settings that mean nothing for a scenario and have defaults all the same.
pub(in crate::experiment) fn meaningless(scenario: &Scenario) -> impl Iterator<Item = &'static str> {
    let foreign = if scenario.model.trace().is_some() { &FOREIGN[..] } else { &[] };
    foreign.iter().map(|(path, _)| *path)
}

impl Check<'_> {
    pub(super) fn trace(&mut self, scenario: &mut Scenario) {
        self.foreign(&FOREIGN, "a trace");
        let Model::Trace(trace) = &mut scenario.model else { return };
        let mark = self.tree.nearest_mark(&paths::keys(FILE));
        match self.named.traces.get(mark, &trace.file) {
            Ok(recorded) => {
                for Fault { field, message, help } in
                    trace.what_if.faults(&recorded.traced, catalogue::hardware())
                {
                    let path = format!("model.trace.what_if.{field}");
                    self.report(&[(&path, String::new())], message, help);
                }
                trace.recorded = Some(recorded);
            }
            Err(reason) => {
                let help = "name a file that PyTorch's profiler has exported (`export_chrome_trace`), or a Chakra graph (`.et`), relative to this file";
                self.report(&[(FILE, String::new())], reason, help);
            }
        }
    }
}
