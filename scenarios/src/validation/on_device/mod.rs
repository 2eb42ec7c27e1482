//! Workloads that PyTorch runs on a GPU, beside what the simulator says of the same scenarios.
//!
//! ```text
//! validation/on-device/NAME.yaml   rows: what each sets in a scenario; what is judged; the error to reach
//!    |  questions                  what PyTorch builds, from the resolved scenario of each row
//! torch/*.py                       runs it: samples, clocks
//!    |  Recorded                   a heading and a line for each row
//! judge                            the scenario of each row is run as any other, and compared
//! ```

mod background;
mod build;
mod emulation;
mod judged;
mod loader;
mod program;
mod recompute;
mod record;
mod simulation;
mod swap;
#[cfg(test)]
mod tests;
mod transfers;
mod workload;

use hw_models::catalogue::nearest;
use indexmap::IndexMap;
use reports::summary::RunSummary;
use reports::validation::Validation;
use serde::Serialize;

use super::set::{Measurements, Set};
use super::{Options, chosen, embedded, result, validation};
use crate::catalogue;
use crate::run::Progress;
use simulation::{Simulation, files};

pub use background::Background;
pub use build::{Build, build};
pub use emulation::{Emulation, Pass, emulation};
pub(super) use judged::{judged, regret};
pub use loader::Loading;
pub use program::{Scripted, scripted};
pub use record::{Heading, Measurement, Recorded, Reply};
pub use swap::{Swapping, swapping};
pub use transfers::Moving;
pub(super) use workload::Workloads;

/// The machine that workloads are predicted for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnMachine {
    /// Its GPU, by the name in the catalogue.
    pub gpu: String,
    /// Hardware files that are laid over it: name and text.
    pub calibrations: Vec<(String, Vec<u8>)>,
}

/// A row that a device is asked to run.
#[derive(Clone, Debug)]
pub struct Question {
    /// The set.
    pub workload: String,
    /// The row's values of the set's axes.
    pub row: IndexMap<String, String>,
    /// What the device is asked, for the script.
    pub asks: Asks,
    simulation: Simulation,
}

/// What a device is asked.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "workload")]
pub enum Asks {
    /// Training steps of a transformer.
    Step {
        /// What is built.
        model: Build,
    },
    /// The same alone and beside other work of the GPU, in turns.
    Beside {
        /// What is built.
        model: Build,
        /// What goes on beside it.
        beside: Background,
    },
    /// The same with a forward pass that sends what it saves to host memory.
    Swap(Swapping),
    /// Training steps of a transformer in a program, in an execution mode.
    Program(Scripted),
    /// A pipeline of kernels that spin.
    Pipeline {
        /// What is emulated.
        pipeline: Emulation,
    },
    /// A copy between the GPU and its host, or a file.
    Transfer {
        /// What moves.
        transfer: Moving,
    },
    /// Steps that wait for batches which threads of the host prepare.
    Loader {
        /// What is prepared, and by how many.
        loader: Loading,
    },
}

/// The names of the sets.
pub fn names() -> impl Iterator<Item = &'static str> {
    embedded::workloads()
}

/// What a set measures, in a sentence; none if there is no set of that name.
pub fn title(name: &str) -> Option<String> {
    Some(embedded::workload(name)?.title)
}

/// What a device is asked for the sets of these names, all if there are none, or for their quickest rows.
///
/// # Errors
/// Names that no set has, a GPU that the catalogue has not, and hardware files that are wrong or of another GPU.
pub fn questions(names: &[String], machine: &OnMachine, quick: bool) -> Result<Vec<Question>, Vec<String>> {
    machine.check().map_err(|wrong| vec![wrong])?;
    let mut questions = Vec::new();
    for (name, set) in sets(names)? {
        let workloads = of(&set);
        let files = files(&set.title, workloads, machine);
        let cases = if quick { workloads.quick() } else { workloads.cases() };
        for case in cases {
            let simulation =
                Simulation::of(workloads, &files, &case.settings).map_err(|wrong| vec![wrong])?;
            let asks = simulation.asks();
            let asks = asks.map_err(|wrong| vec![format!("{name}, {}: {wrong}", case.name())])?;
            questions.push(Question { workload: name.to_owned(), row: case.inputs, asks, simulation });
        }
    }
    Ok(questions)
}

impl OnMachine {
    /// Whether its GPU is one of the catalogue.
    fn check(&self) -> Result<(), String> {
        let known: Vec<&str> = catalogue::devices().gpus.keys().map(String::as_str).collect();
        let remedy = || nearest::remedy(&self.gpu, &known, "GPU");
        let unknown = || format!("the catalogue has no GPU `{}`: {}", self.gpu, remedy());
        if known.contains(&&*self.gpu) { Ok(()) } else { Err(unknown()) }
    }
}

impl Question {
    /// Its row in words.
    pub fn name(&self) -> String {
        self.row.values().map(String::as_str).collect::<Vec<_>>().join("; ")
    }

    /// What the simulator says of it.
    ///
    /// # Errors
    /// Why it was not run.
    pub fn predicted(&self) -> Result<RunSummary, String> {
        self.simulation.run()
    }
}

/// Judges what a device did. None if `progress` stopped it.
///
/// # Errors
/// Names that no set has, lines of rows that are in no set, and hardware files that are wrong or of another GPU.
pub fn judge(
    names: &[String],
    recorded: &Recorded,
    machine: &OnMachine,
    options: &Options,
    progress: &dyn Progress,
) -> Result<Option<Validation>, Vec<String>> {
    recorded.check()?;
    machine.check().map_err(|wrong| vec![wrong])?;
    let mut sets = sets(names)?;
    for (_, set) in &sets {
        // What is wrong with hardware files is so for every row.
        let first = of(set).cases().into_iter().next().expect("axes have values");
        let files = files(&set.title, of(set), machine);
        Simulation::of(of(set), &files, &first.settings).map_err(|wrong| vec![wrong])?;
    }
    sets.retain(|(name, _)| recorded.of(name).next().is_some());
    progress.begin(sets.iter().map(|(name, _)| recorded.of(name).count() as u64).sum());
    let one = |name: &str, set: &Set| {
        let judged = judged(name, set, recorded, machine, progress)?;
        let regret = super::regret(set, &judged);
        Some(result(name, set, (vec![recorded.source()], regret), judged))
    };
    Ok(validation(&sets, options, one))
}

fn sets(names: &[String]) -> Result<Vec<(&'static str, Set)>, Vec<String>> {
    let known: Vec<&str> = self::names().collect();
    let wanted = chosen(names, &known, "workload")?;
    Ok(wanted.into_iter().filter_map(|name| Some((name, embedded::workload(name)?))).collect())
}

/// The workloads of a set.
///
/// # Panics
/// If it has none, which a test would find.
fn of(set: &Set) -> &Workloads {
    match &set.measurements {
        Measurements::OnDevice(workloads) => workloads,
        _ => panic!("`{}` has no workloads", set.title),
    }
}
