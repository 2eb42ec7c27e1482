//! Rules for a program and its model.

use hw_models::catalogue::nearest;
use workloads::program::check::{Fault, check};

use super::Check;
use crate::catalogue;
use crate::plans;
use crate::schema::{Count, Idle, Model, ProgramBase, Scenario, Software};
use crate::text::node::Value;

const FRAMEWORK: &str = "software.framework";
const ACCUMULATE: &str = "training.accumulate";

/// Settings that mean nothing for a program on one GPU.
const FOREIGN: [(&str, &str); 10] = [
    ("storage", "nothing leaves the GPU of a program; remove it"),
    ("parallelism", "a program runs on one GPU; remove it"),
    ("campaign", "a program has iterations, of which none is a step of training alone; remove it"),
    ("techniques", "a program executes its operators as they are; remove it"),
    ("software.launch", "`software.execution` says it: write `execution: cuda-graphs` for graphs"),
    ("software.compile", "`software.execution` says it: write `execution: compiled`"),
    ("run.steps", "`run.iterations` says how many there are; remove it"),
    ("run.noise", "iterations differ by what is drawn for them; remove it"),
    ("run.fold", "there is one GPU; remove it"),
    ("run.segments", "each lane is simulated; remove it"),
];

/// Settings that only a program has.
const OF_PROGRAMS: [(&str, &str); 1] =
    [("run.iterations", "write the model as the `base` of a `program`, or use `run.steps`")];

impl Check<'_> {
    pub(super) fn programmed(&mut self, scenario: &mut Scenario) {
        self.foreign(&FOREIGN, "a program");
        // One GPU, whatever the machine has.
        scenario.parallelism.data = Count::new(1);
        scenario.parallelism.idle = Some(Idle::Allow);
        if !self.published(scenario) {
            return;
        }
        let Model::Program(program) = &scenario.model else { return };
        match program.base {
            Some(ProgramBase::Transformer(_)) => self.transformer(scenario),
            Some(ProgramBase::Layers(_)) => self.layered(scenario),
            None => {
                let help = "add `base: { layers: { preset: resnet-50 } }`, or a `preset`: `foretrain list models` has the names";
                self.report(&[("model.program", String::new())], "`model.program` lacks a `base`", help);
                return;
            }
        }
        self.framework(scenario);
        if let Some(accumulate) = scenario.training.accumulate.filter(|count| count.get() > 1) {
            let message = format!("an iteration of a program is one micro-batch, not {}", accumulate.get());
            let help = "make `global_batch` as large as `micro_batch`; a `loop` repeats statements";
            self.report_with(ACCUMULATE, &["training.global_batch"], message, help);
        }
        self.statements(scenario);
    }

    /// Takes what is not written from the preset, if there is one; tells whether it is known.
    fn published(&mut self, scenario: &mut Scenario) -> bool {
        const PRESET: &str = "model.program.preset";
        let Model::Program(program) = &mut scenario.model else { return false };
        let Some(name) = program.preset.clone() else { return true };
        let Some(preset) = catalogue::programs().get(&name) else {
            let known = catalogue::programs().keys().map(String::as_str);
            self.no_preset(PRESET, ("program", &name), known);
            return false;
        };
        program.fill(preset);
        scenario.training.micro_batch.get_or_insert(preset.micro_batch);
        scenario.training.sequence = scenario.training.sequence.or(preset.sequence);
        true
    }

    /// Reports statements that mean nothing, or that the mode cannot express, each at its place.
    fn statements(&mut self, scenario: &Scenario) {
        if !self.findings.is_empty() {
            return;
        }
        // What keeps the model from being built is told with everything that does.
        let (Some(program), Ok(Some(base))) = (scenario.model.program(), plans::base(scenario)) else {
            return;
        };
        let mode = scenario.software.as_ref().map(Software::mode).unwrap_or_default();
        for Fault { path, message, remedy } in
            check(program.program(), mode, base.library.blocks.len() as u32)
        {
            let mut here = format!("model.program.{}", path.replace('[', ".").replace(']', ""));
            // A statement is found by its name.
            let node = self.tree.at(&self.keys(&here)).map(|node| &node.value);
            if let Some(Value::Map(map)) = node
                && let Some((name, _)) = map.first()
            {
                here = format!("{here}.{name}");
            }
            self.report(&[(&here, String::new())], format!("`model.program.{path}`: {message}"), remedy);
        }
    }

    fn framework(&mut self, scenario: &Scenario) {
        let named = scenario.software.as_ref().and_then(|software| software.framework.as_ref());
        let Some(name) = named.filter(|name| !catalogue::frameworks().contains_key(*name)) else { return };
        let known = catalogue::frameworks().keys().map(String::as_str);
        let names = || known.clone().collect::<Vec<_>>().join(", ");
        let help = nearest::closest(name, known.clone())
            .map_or_else(|| format!("write one of {}", names()), |near| format!("did you mean `{near}`?"));
        self.report(&[(FRAMEWORK, String::new())], format!("there is no framework `{name}`"), help);
    }

    /// Refuses what only programs have, and modes that need one.
    pub(super) fn without_program(&mut self, scenario: &Scenario) {
        const EXECUTION: &str = "software.execution";
        self.foreign(&OF_PROGRAMS, "a model without a program");
        self.framework(scenario);
        let Some(execution) = scenario.software.as_ref().and_then(|software| software.execution) else {
            return;
        };
        for path in ["software.launch", "software.compile"] {
            if self.tree.at(&self.keys(path)).is_some() {
                let about = [(EXECUTION, String::new()), (path, "says it, too".to_owned())];
                self.report(&about, "how the model is executed is said twice", "remove one of the two");
            }
        }
        if !execution.suits_a_plan() {
            let help = "write `eager`, `cuda-graphs`, `compiled` or `compiled-graphs`, or a `model.program`";
            let message = format!("`{}` with these choices needs a program", execution.mode.name());
            self.report(&[(EXECUTION, String::new())], message, help);
        }
    }
}
