//! Checks that span several settings, and settings that follow from others.

mod batches;
mod buildable;
mod calibration;
mod dimensions;
mod exchange;
mod layered;
mod machine;
mod on_machine;
mod profiled;
mod sharding;
mod storage;
mod transformer;

use std::collections::BTreeMap;

use hw_models::machine::Machine;

use super::named::Named;
use super::paths;
use crate::schema::{
    ActivationOffload, Coordination, Duration, Keep, Model, Outside, Scenario, Schedule, Sharding, Swap,
};
use crate::text::decode::Path;
use crate::text::node::{Layer, Node};
use crate::text::problem::Problem;

/// A problem, and whether a swept setting has a part in it: then it is a point's, not the file's.
pub(super) struct Finding {
    pub(super) problem: Problem,
    pub(super) swept: bool,
}

/// Settings that follow from others: path to the reason.
pub(super) type Derived = BTreeMap<&'static str, String>;

/// Checks `scenario`, typed from `tree`, and adds what follows from what is written and, where that depends on the model,
/// what holds where nothing is written. What was found at `examples` is not the user's and takes part in no check.
///
/// A scenario that could be `read` as it is written is also asked whether it can be built.
pub(super) fn check(
    scenario: &mut Scenario,
    tree: &Node,
    (examples, read): (&[Path], bool),
    named: &Named,
) -> (Derived, Vec<Finding>) {
    let (derived, findings, machine) = Default::default();
    let mut check = Check { tree, examples, named, derived, findings, machine };
    check.calibrated(scenario);
    match scenario.model {
        Model::ProfiledPipeline(_) => check.profiled(scenario),
        Model::Transformer(_) => check.transformer(scenario),
        Model::Layers(_) => check.layered(scenario),
    }
    check.techniques(scenario);
    check.noise(scenario);
    if read {
        check.buildable(scenario);
    }
    (check.derived, check.findings)
}

struct Check<'a> {
    tree: &'a Node,
    examples: &'a [Path],
    named: &'a Named,
    derived: Derived,
    findings: Vec<Finding>,
    /// The machine, where there is one without faults.
    machine: Option<Machine>,
}

const OFFLOAD: &str = "techniques.activation_offload";
const SWAP: &str = "techniques.swap";

impl Check<'_> {
    /// Reports a problem about settings, each with what is to be seen there; the first is the place to look at.
    fn report(&mut self, about: &[(&str, String)], message: impl Into<String>, help: impl Into<String>) {
        let involved = |path: &str| {
            let keys = paths::keys(path);
            self.examples.iter().any(|example| example.iter().zip(&keys).all(|(a, b)| a == b))
        };
        if about.iter().any(|(path, _)| involved(path)) {
            return;
        }
        let nodes: Vec<(&Node, &String)> =
            about.iter().map(|(path, label)| (self.tree.nearest(&paths::keys(path)), label)).collect();
        let mut problem = Problem::new(nodes[0].0.mark, message).label(nodes[0].1).help(help);
        for (node, label) in &nodes[1..] {
            problem = problem.note(node.mark, *label);
        }
        let swept = nodes.iter().any(|(node, _)| node.layer == Layer::Sweep);
        self.findings.push(Finding { problem, swept });
    }

    /// Reports a problem about one setting and, if they are written, others that have a part in it.
    fn report_with(
        &mut self,
        path: &str,
        parts: &[&str],
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        let written = parts.iter().filter(|part| self.tree.at(&paths::keys(part)).is_some());
        let about: Vec<(&str, String)> =
            [path].into_iter().chain(written.copied()).map(|path| (path, String::new())).collect();
        self.report(&about, message, help);
    }

    /// Reports settings, each with a remedy, that mean nothing for `model`.
    fn foreign(&mut self, settings: &[(&str, &str)], model: &str) {
        for (path, remedy) in settings {
            if self.tree.at(&paths::keys(path)).is_some() {
                let message = format!("`{path}` has no meaning for {model}");
                self.report(&[(path, String::new())], message, *remedy);
            }
        }
    }

    /// The interleaved schedule goes round the stages in groups. `many` and `stages` are the settings to change.
    fn interleaving(&mut self, scenario: &Scenario, many_path: &str, stages_path: &str) {
        let (stages, many) = (scenario.stages() as u64, scenario.training.micro_batches());
        if matches!(scenario.parallelism.schedule, Schedule::Interleaved(_)) && many % stages != 0 {
            let about = [
                (many_path, format!("{many} micro-batches")),
                (stages_path, format!("{stages} stages")),
                ("parallelism.schedule.interleaved", "goes round the stages in groups".to_owned()),
            ];
            let message =
                format!("the interleaved schedule needs a multiple of {stages} micro-batches, not {many}");
            self.report(&about, message, format!("use {} micro-batches", many.next_multiple_of(stages)));
        }
    }

    fn techniques(&mut self, scenario: &Scenario) {
        if scenario.techniques.bpipe.is_some() && scenario.parallelism.schedule != Schedule::OneFOneB {
            let about = [
                ("techniques.bpipe", String::new()),
                ("parallelism.schedule", "holds equally much on all stages, or moves its peaks".to_owned()),
            ];
            self.report(
                &about,
                "BPipe balances the 1F1B schedule and no other",
                "use `schedule: 1f1b`, or remove `bpipe`",
            );
        }
        let splits = scenario.parallelism.schedule.splits_backward();
        let offload = scenario.techniques.activation_offload.is_some().then_some(OFFLOAD);
        let swap = scenario.techniques.swap.is_some().then_some(SWAP);
        for technique in offload.into_iter().chain(swap) {
            let with = |path: &'static str, note: &str| [(technique, String::new()), (path, note.to_owned())];
            if splits {
                self.report(
                    &with(
                        "parallelism.schedule",
                        "needs tensors for the gradients of inputs, and later for those of weights",
                    ),
                    "activations are away until one backward pass, not for two",
                    format!("use `1f1b`, `gpipe` or `interleaved`, or remove `{technique}`"),
                );
            }
            if scenario.techniques.bpipe.is_some() {
                self.report(
                    &with("techniques.bpipe", "lends them to another stage"),
                    "two techniques decide where activations are",
                    "remove one of the two",
                );
            }
        }
        let adaptive = |offload: &ActivationOffload| offload.keep == Keep::Adaptive;
        if scenario.techniques.activation_offload.as_ref().is_some_and(adaptive)
            && matches!(scenario.parallelism.schedule, Schedule::Interleaved(_))
        {
            let about = [
                ("techniques.activation_offload.keep", String::new()),
                (
                    "parallelism.schedule",
                    "has several forward passes of a stage for each micro-batch".to_owned(),
                ),
            ];
            self.report(
                &about,
                "what stays adaptively is from one forward pass of a stage",
                "use `1f1b` or `gpipe`, or say how many layers stay: `keep: { layers: 1 }`",
            );
        }
        if offload.and(swap).is_some() {
            self.report(
                &[(SWAP, String::new()), (OFFLOAD, "moves all that is large enough".to_owned())],
                "two techniques decide where activations are",
                "remove one of the two",
            );
        }
        self.phases(scenario);
        self.footprint(scenario);
        self.buffers(scenario);
    }

    /// Copies that are a pass behind others meet them between passes.
    fn phases(&mut self, scenario: &Scenario) {
        let both_ways = |swap: &Swap| swap.coordination == Coordination::Bidirectional;
        if !scenario.techniques.swap.as_ref().is_some_and(both_ways) {
            return;
        }
        let coordination = "techniques.swap.coordination";
        if scenario.parallelism.pipeline.is_some_and(|stages| stages.get() > 1) {
            let about = [
                (coordination, "lets copies of the model be a pass behind others".to_owned()),
                ("parallelism.pipeline", "lets stages be passes behind others".to_owned()),
            ];
            let message = "copies of a pipeline are in forward and backward passes at the same time already";
            self.report(&about, message, "use `oblivious` or `disjoint`, or 1 stage");
        }
        if scenario.parallelism.sharding == Some(Sharding::Parameters) {
            let about = [
                (coordination, "lets copies of the model be a pass behind others".to_owned()),
                ("parallelism.sharding", "gathers parameters of all copies in every pass".to_owned()),
            ];
            let message = "copies that gather parameters together cannot be a pass behind each other";
            self.report(&about, message, "use `oblivious` or `disjoint`, or share no parameters");
        }
    }

    /// What goes to drives passes no buffer of its host that stays.
    fn buffers(&mut self, scenario: &Scenario) {
        let Some(offload) = scenario.techniques.activation_offload.as_ref() else { return };
        let settings = [
            ("memory.pinned", scenario.memory.pinned.is_some()),
            ("techniques.activation_offload.pinned", !offload.pinned),
        ];
        for (setting, _) in settings.into_iter().filter(|&(_, said)| said && offload.to == Outside::Drives) {
            let drives = "techniques.activation_offload.to";
            let about = [(setting, String::new()), (drives, "keeps them elsewhere".to_owned())];
            let message = "activations on drives need no page-locked memory";
            self.report(&about, message, "remove one of the two");
        }
    }

    /// A GPU's memory is limited in one way.
    fn footprint(&mut self, scenario: &Scenario) {
        const RATIO: &str = "memory.footprint_ratio";
        let Some(ratio) = scenario.memory.footprint_ratio else { return };
        if ratio.as_f64() < 1.0 {
            let message = format!("a GPU with room to spare has no footprint ratio of {ratio}");
            self.report(&[(RATIO, String::new())], message, "write 1 or more, or remove it");
        }
        if scenario.memory.limit.is_some() {
            let about = [(RATIO, String::new()), ("memory.limit", "says it in bytes".to_owned())];
            self.report(&about, "the memory of a GPU is limited twice", "remove one of the two");
        }
    }

    fn noise(&mut self, scenario: &Scenario) {
        let Some(noise) = &scenario.run.noise else { return };
        for (path, share) in [("run.noise.device", noise.device), ("run.noise.operation", noise.operation)] {
            if let Some(share) = share.filter(|share| share.as_f64() > 1.0) {
                let message = format!("`{path}` is more than 100 %: {share}");
                self.report(
                    &[(path, String::new())],
                    message,
                    "a standard deviation of some per cent is usual",
                );
            }
        }
        if noise.pause.as_ref().is_some_and(|pause| Duration::is_zero(pause.every)) {
            let path = "run.noise.pause.every";
            self.report(
                &[(path, String::new())],
                format!("`{path}` must be longer than zero"),
                "write for example `10 s`",
            );
        }
    }
}
