//! From a scenario to a program around training steps: what Python does in an iteration, and how that
//! is executed.

use serde::Serialize;
use workloads::program::execution::{Execution, Kernels, LaunchedBy, Mode};
use workloads::program::statement::{Branch, Runnable, Statement};

use super::build::{Build, build};
use crate::schema::Scenario;

/// A transformer, and the program that trains it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scripted {
    model: Build,
    program: Script,
}

/// A program, as `program.py` takes it.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Script {
    execution: &'static str,
    /// Statements of an iteration, in order.
    does: Vec<Does>,
}

/// A statement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Does {
    /// Blocks of the forward pass: from, and to but not including.
    Forward(u32, u32),
    Backward,
    Update,
    /// Calls a library that no compiler sees into, for a time (s).
    Library(f64),
    /// Reads the loss.
    Fetch,
    /// Reads the loss, and goes on if it is a number.
    Decide,
}

/// Programs and executions that the script knows, in the words of scenarios.
const PROGRAMS: &str = "programs run the whole forward pass, in parts if need be, `backward` and `update`, with `third_party` \
                        between them; behind the forward pass they `fetch` the loss, or have a `branch` by it that is always taken";
const EXECUTIONS: &str = "`software.execution` is `eager`, `cuda-graphs`, `compiled` or \
                          `co-execution: { launch: graph, kernels: library }`";

/// Asks PyTorch for the model and the program of a checked scenario.
///
/// # Errors
/// Settings that the script has no part for.
pub fn scripted(scenario: &Scenario) -> Result<Scripted, String> {
    let (Some(program), Some(software)) = (scenario.model.program(), &scenario.software) else {
        return Err("PyTorch runs programs here: `model.program`".to_owned());
    };
    let execution = executed(software.mode())?;
    let mut model = scenario.clone();
    if let Some(software) = &mut model.software {
        // How the program is executed is no matter of what is built.
        software.execution = None;
    }
    let model = build(&model)?;
    if program.loader.is_some() {
        return Err("batches are in the memory of the GPU: remove `model.program.loader`".to_owned());
    }
    if scenario.training.micro_batches() != 1 {
        return Err("a step of a program is of one micro-batch (`training.accumulate: 1`)".to_owned());
    }
    let mut script = Draft { blocks: model.blocks(), ..Draft::default() };
    script.all(&program.iteration)?;
    let does = script.does;
    let trains = script.forward == script.blocks && does.contains(&Does::Backward);
    if trains {
        Ok(Scripted { model, program: Script { execution, does } })
    } else {
        Err(PROGRAMS.to_owned())
    }
}

/// The execution mode, as the script calls it.
fn executed(execution: Execution) -> Result<&'static str, String> {
    let beside = Execution {
        launch: LaunchedBy::Graph,
        kernels: Kernels::Library,
        ..Execution::of(Mode::CoExecution)
    };
    let known =
        [Mode::Eager, Mode::CudaGraphs, Mode::Compiled].map(Execution::of).into_iter().chain([beside]);
    let known = known.into_iter().find(|known| *known == execution);
    known.map(|known| known.mode.name()).ok_or_else(|| EXECUTIONS.to_owned())
}

/// A script as far as statements have been read.
#[derive(Default)]
struct Draft {
    /// Blocks of the model, and those that have run forward.
    blocks: u32,
    forward: u32,
    does: Vec<Does>,
}

impl Draft {
    fn all(&mut self, statements: &[Statement]) -> Result<(), String> {
        statements.iter().try_for_each(|statement| self.one(statement))
    }

    fn one(&mut self, statement: &Statement) -> Result<(), String> {
        match statement {
            Statement::Run(runs) => runs.0.iter().try_for_each(|run| self.run(run)),
            Statement::ThirdParty(call) => {
                self.does.push(Does::Library(call.time.picoseconds() as f64 * 1e-12));
                Ok(())
            }
            Statement::Fetch(fetch) if fetch.when.every == 1 => self.read(&fetch.tensor, Does::Fetch),
            Statement::Branch(branch) if branch.may_take() == [true, false] => {
                let Branch { by, then, .. } = branch;
                self.read(by, Does::Decide)?;
                self.all(then)
            }
            _ => Err(PROGRAMS.to_owned()),
        }
    }

    fn run(&mut self, run: &Runnable) -> Result<(), String> {
        let is_through = self.forward == self.blocks;
        let does = match *run {
            Runnable::Forward(part) => {
                let (from, to) = part.unwrap_or((0, self.blocks));
                if from != self.forward || to > self.blocks {
                    return Err(PROGRAMS.to_owned());
                }
                self.forward = to;
                Does::Forward(from, to)
            }
            Runnable::Backward if is_through => Does::Backward,
            Runnable::Update if self.does.contains(&Does::Backward) => Does::Update,
            _ => return Err(PROGRAMS.to_owned()),
        };
        self.does.push(does);
        Ok(())
    }

    fn read(&mut self, tensor: &str, does: Does) -> Result<(), String> {
        let is_read = tensor == "loss" && self.forward == self.blocks;
        self.does.push(does);
        if is_read { Ok(()) } else { Err(PROGRAMS.to_owned()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn does(iteration: &str) -> Result<Vec<Does>, String> {
        let yaml = serde_yaml::Deserializer::from_str(iteration);
        let statements: Vec<Statement> =
            serde_yaml::with::singleton_map_recursive::deserialize(yaml).unwrap();
        let mut draft = Draft { blocks: 4, ..Draft::default() };
        draft.all(&statements).map(|()| draft.does)
    }

    #[test]
    fn statements_become_steps_of_the_script_in_order() {
        let found = does(
            "[{ run: forward 0..1 }, { third_party: { time: 1 us } }, { run: forward 1..4 }, \
             { branch: { name: finite, by: loss, probability: 100 %, then: [{ run: [backward, update] }] } }, \
             { fetch: { tensor: loss } }]",
        );
        let expected = [
            Does::Forward(0, 1),
            Does::Library(1e-6),
            Does::Forward(1, 4),
            Does::Decide,
            Does::Backward,
            Does::Update,
            Does::Fetch,
        ];
        assert_eq!(found, Ok(expected.to_vec()));
    }

    #[test]
    fn what_the_script_cannot_do_is_refused() {
        for iteration in [
            "[{ run: [forward, forward] }]",
            "[{ run: forward 1..4 }]",
            "[{ run: [forward 0..3, backward] }]",
            "[{ run: [forward, update] }]",
            "[{ run: forward 0..3 }, { fetch: { tensor: loss } }]",
            "[{ run: [forward, backward] }, { fetch: { tensor: gradients } }]",
            "[{ run: forward }, { fetch: { tensor: loss, when: every 2 } }]",
            "[{ run: forward }, { branch: { name: odd, by: loss, probability: 50 %, then: [] } }]",
            "[{ run: forward }, { branch: { name: odd, probability: 100 %, then: [] } }]",
            "[{ run: dropblock }]",
            "[{ mutate: counter }]",
        ] {
            assert_eq!(does(iteration), Err(PROGRAMS.to_owned()), "{iteration}");
        }
    }
}
