//! Checks that span several settings, and settings that follow from others.

mod batches;
mod buildable;
mod calibration;
mod campaign;
mod dimensions;
mod exchange;
mod features;
mod kinds;
mod layered;
mod machine;
mod measured_kernels;
mod movement_plan;
mod network;
mod on_machine;
mod profiled;
mod programmed;
mod recompute;
mod sharding;
mod stage_layers;
mod storage;
pub(super) mod trace;
mod transformer;

use std::borrow::Cow;
use std::collections::BTreeMap;

use hw_models::catalogue::nearest;
use hw_models::settings::{Dimension, Quantity};
use workloads::diagnostic::Diagnostic;
use workloads::passes::{Around, ModelKind, Refused};
use workloads::plan::Launch;

use super::named::Named;
use super::paths;
use crate::catalogue;
use crate::plans;
use crate::schema::{Model, Scenario, Schedule};
use crate::text::decode::Path;
use crate::text::node::{Layer, Node, shorten};
use crate::text::problem::Problem;

/// A problem, and whether a swept setting has a part in it: then it is a point's, not the file's.
pub(super) struct Finding {
    pub(super) problem: Problem,
    pub(super) swept: bool,
}

/// Settings that follow from others: path to the reason.
pub(super) type Derived = BTreeMap<Cow<'static, str>, String>;

/// Checks `scenario`, typed from `tree`, and adds what follows from what is written and, where
/// that depends on the model, what holds where nothing is written. What was found at `examples` is
/// not the user's and takes part in no check.
///
/// A scenario that could be `read` as it is written is also asked whether it can be built.
pub(super) fn check(
    scenario: &mut Scenario,
    tree: &Node,
    (examples, buildable): (&[Path], bool),
    named: &Named,
) -> (Derived, Vec<Finding>) {
    let (derived, findings) = Default::default();
    let of_program = matches!(scenario.model, Model::Program(_));
    let mut check = Check { tree, examples, named, of_program, gpus: None, derived, findings };
    check.calibrated(scenario);
    check.movement_plan(scenario);
    check.measured_kernels(scenario);
    match scenario.model {
        Model::ProfiledPipeline(_) => check.profiled(scenario),
        Model::Transformer(_) => check.transformer(scenario),
        Model::Layers(_) => check.layered(scenario),
        Model::Graph(_) => check.network(scenario),
        Model::Program(_) => check.programmed(scenario),
        Model::Trace(_) => check.trace(scenario),
    }
    if !matches!(scenario.model, Model::Program(_) | Model::Trace(_)) {
        check.without_program(scenario);
    }
    check.techniques(scenario);
    check.noise(scenario);
    check.stage_layers(scenario);
    if buildable {
        check.buildable(scenario);
    }
    (check.derived, check.findings)
}

struct Check<'a> {
    tree: &'a Node,
    examples: &'a [Path],
    named: &'a Named,
    /// The model is that of a program.
    of_program: bool,
    /// GPUs of the machine, once it is known.
    gpus: Option<u32>,
    derived: Derived,
    findings: Vec<Finding>,
}

impl Check<'_> {
    /// The keys of a setting. Those of the model of a program stand below it.
    fn keys<'p>(&self, path: &'p str) -> Vec<&'p str> {
        let mut keys = paths::keys(path);
        if self.of_program && matches!(keys[..], ["model", "transformer" | "layers", ..]) {
            keys.splice(1..1, ["program", "base"]);
        }
        keys
    }

    /// Reports a model that is told in part.
    fn incomplete(&mut self, path: &str, missing: &str) {
        let help = "add them, or a `preset`: `foretrain list models` has the names";
        self.report(&[(path, String::new())], format!("`{path}` lacks {missing}"), help);
    }

    /// Reports the name of a preset that is not there.
    fn no_preset<'n>(
        &mut self,
        path: &str,
        (what, name): (&str, &str),
        known: impl Iterator<Item = &'n str>,
    ) {
        let help = nearest::closest(name, known).map_or_else(
            || "`foretrain list models` has the names".to_owned(),
            |near| format!("did you mean `{near}`?"),
        );
        self.report(&[(path, String::new())], format!("there is no {what} `{}`", shorten(name)), help);
    }

    /// Reports a problem about settings, each with what is to be seen there; the first is the
    /// place to look at.
    fn report(&mut self, about: &[(&str, String)], message: impl Into<String>, help: impl Into<String>) {
        let involved = |path: &str| {
            let keys = self.keys(path);
            self.examples.iter().any(|example| example.iter().zip(&keys).all(|(a, b)| a == b))
        };
        if about.iter().any(|(path, _)| involved(path)) {
            return;
        }
        let nodes: Vec<(&Node, &String)> =
            about.iter().map(|(path, label)| (self.tree.nearest(&self.keys(path)), label)).collect();
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
        let written = parts.iter().filter(|part| self.tree.at(&self.keys(part)).is_some());
        let about: Vec<(&str, String)> =
            [path].into_iter().chain(written.copied()).map(|path| (path, String::new())).collect();
        self.report(&about, message, help);
    }

    /// Reports settings, each with a remedy, that mean nothing for `model`.
    fn foreign(&mut self, settings: &[(&str, &str)], model: &str) {
        for (path, remedy) in settings {
            if self.tree.at(&self.keys(path)).is_some() {
                let message = format!("`{path}` has no meaning for {model}");
                self.report(&[(path, String::new())], message, *remedy);
            }
        }
    }

    /// Reports what a plan has to say about settings; those that are written show their part in it.
    fn diagnostic(&mut self, Diagnostic { path, note, message, remedy, involved }: Diagnostic) {
        let written = involved.into_iter().filter(|(path, _)| self.tree.at(&self.keys(path)).is_some());
        let about: Vec<_> = [(path, note)].into_iter().chain(written).collect();
        self.report(&about, message, remedy);
    }

    /// Reports all that a rule of the workloads has to say.
    fn diagnostics(&mut self, rule: impl FnOnce(&mut dyn FnMut(Diagnostic))) {
        let mut found = Vec::new();
        rule(&mut |diagnostic| found.push(diagnostic));
        found.into_iter().for_each(|diagnostic| self.diagnostic(diagnostic));
    }

    /// The interleaved schedule goes round several stages in groups: on one, chunks only follow each
    /// other. `many` and `stages` are the settings to change.
    fn interleaving(&mut self, scenario: &Scenario, many: &'static str, stages: &'static str) {
        const SCHEDULE: &str = "parallelism.schedule.interleaved";
        let is_interleaved = matches!(scenario.parallelism.schedule, Schedule::Interleaved(_));
        if is_interleaved && scenario.stages() == 1 {
            let message = "the interleaved schedule needs at least two stages";
            let alone = Diagnostic::new(stages, message, "use more stages, or the schedule `1f1b`");
            self.diagnostic(alone.noting("1 stage").with(SCHEDULE, "goes round the stages"));
        }
        let counts = [(many, scenario.training.micro_batches() as u32), (stages, scenario.stages() as u32)];
        let found = scenario.parallelism.schedule.check(counts);
        found.into_iter().for_each(|diagnostic| self.diagnostic(diagnostic));
    }

    fn techniques(&mut self, scenario: &Scenario) {
        let around = Around {
            model: match scenario.model {
                Model::ProfiledPipeline(_) => ModelKind::Profile,
                Model::Transformer(_) => ModelKind::Transformer,
                Model::Layers(_) | Model::Graph(_) => ModelKind::Layers,
                // They take no technique, which has been said.
                Model::Program(_) | Model::Trace(_) => return,
            },
            schedule: scenario.parallelism.schedule,
            stages: scenario.stages() as u32,
            data: &plans::transformer::data_parallel(scenario),
            step: plans::transformer::step(scenario),
        };
        self.diagnostics(|wrong| scenario.techniques.check(&around, wrong));
        self.refused(scenario);
        self.footprint(scenario);
        self.buffers(scenario);
    }

    /// What systems refuse beside settings that are named after them.
    fn refused(&mut self, scenario: &Scenario) {
        const RECOMPUTE: &str = "techniques.recompute";
        let graphs = scenario.software.as_ref().is_some_and(|it| it.launched() == Launch::Graph);
        let recomputes = scenario.techniques.all().any(|it| it.facts(1).path == RECOMPUTE);
        for name in &scenario.techniques.presets {
            let Some(preset) = catalogue::technique_presets().get(name) else { continue };
            for refused in &preset.without {
                let (there, path, what) = match refused {
                    Refused::Pipeline => (scenario.stages() > 1, "parallelism.pipeline", "several stages"),
                    Refused::Recompute => (recomputes, RECOMPUTE, "recomputation"),
                    Refused::Graphs => (graphs, "software.launch", "captured graphs"),
                };
                if there {
                    let about = [("techniques.presets", String::new()), (path, format!("asks for {what}"))];
                    let message = format!("the system of `{name}` refuses {what}");
                    let help =
                        "remove one of the two, or write the settings that you mean without the preset";
                    self.report(&about, message, help);
                }
            }
        }
    }

    /// What goes to drives passes no buffer of its host that stays.
    fn buffers(&mut self, scenario: &Scenario) {
        let tensors = scenario.techniques.all().filter_map(|technique| technique.facts(1).drives);
        let pinned = scenario.memory.pinned.is_some();
        for of in tensors.filter(|of| pinned && of.there && of.from_gpus) {
            let about = [("memory.pinned", String::new()), (of.kept, "keeps them elsewhere".to_owned())];
            let message = format!("{} on drives need no page-locked memory", of.what);
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
        if let Some(pause) = &noise.pause {
            self.longer_than_zero("run.noise.pause.every", pause.every, "10 s");
        }
    }

    /// Reports a time of zero, with an `example` of another.
    fn longer_than_zero<D: Dimension>(&mut self, path: &str, time: Quantity<D>, example: &str) {
        if time.is_zero() {
            let message = format!("`{path}` must be longer than zero");
            self.report(&[(path, String::new())], message, format!("write for example `{example}`"));
        }
    }
}
