//! What a program and its model must satisfy.

use hw_models::catalogue::nearest;

use super::Check;
use crate::catalogue;
use crate::schema::{Count, Idle, Model, ProgramBase, Scenario};

const FRAMEWORK: &str = "software.framework";
const ACCUMULATE: &str = "training.accumulate";

/// Settings that mean nothing for a program on one GPU.
const FOREIGN: [(&str, &str); 9] = [
    ("storage", "nothing leaves the GPU of a program; remove it"),
    ("parallelism", "a program runs on one GPU; remove it"),
    ("techniques", "a program executes its operators as they are; remove it"),
    ("software.launch", "`software.execution` says it: write `execution: cuda-graphs` for graphs"),
    ("software.compile", "`software.execution` says it: write `execution: compiled`"),
    ("run.steps", "`run.iterations` says how many there are; remove it"),
    ("run.noise", "iterations differ by what is drawn for them; remove it"),
    ("run.fold", "there is one GPU; remove it"),
    ("run.segments", "each lane is simulated; remove it"),
];

/// Settings that only a program has.
const OF_PROGRAMS: [(&str, &str); 3] = [
    (FRAMEWORK, "write the model as the `base` of a `program`, or remove it"),
    ("software.launch_queue", "write the model as the `base` of a `program`, or remove it"),
    ("run.iterations", "write the model as the `base` of a `program`, or use `run.steps`"),
];

impl Check<'_> {
    pub(super) fn programmed(&mut self, scenario: &mut Scenario) {
        self.foreign(&FOREIGN, "a program");
        // One GPU, whatever the machine has.
        scenario.parallelism.data = Count::new(1);
        scenario.parallelism.idle = Some(Idle::Allow);
        let Model::Program(program) = &scenario.model else { return };
        match program.base {
            ProgramBase::Transformer(_) => self.transformer(scenario),
            ProgramBase::Layers(_) => self.layered(scenario),
        }
        self.framework(scenario);
        if let Some(accumulate) = scenario.training.accumulate.filter(|count| count.get() > 1) {
            let message = format!("an iteration of a program is one micro-batch, not {}", accumulate.get());
            let help = "make `global_batch` as large as `micro_batch`; a `loop` repeats statements";
            self.report_with(ACCUMULATE, &["training.global_batch"], message, help);
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
