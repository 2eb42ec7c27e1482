//! Workloads that PyTorch runs on a GPU, beside what the simulator says of the same scenarios.
//!
//! ```text
//! validation/on-device/NAME.yaml   rows: what each sets in a scenario; what is judged; the error to reach
//!    |  questions                  what PyTorch builds, from the resolved scenario of each row
//! workloads.py                     runs it: samples, clocks
//!    |  Recorded                   a heading and a line for each row
//! judge                            the scenario of each row is run as any other, and compared
//! ```

mod build;
mod emulation;
mod judged;
mod record;
#[cfg(test)]
mod tests;
mod workload;

use std::collections::BTreeMap;

use hw_models::catalogue::nearest;
use indexmap::IndexMap;
use reports::summary::{RunSummary, SCHEMA_VERSION};
use reports::validation::Validation;
use serde::Serialize;

use super::set::{Measurements, Set};
use super::{Options, chosen, embedded, result};
use crate::catalogue;
use crate::experiment::{Experiment, load};
use crate::run::{self, Progress, in_parallel};
use crate::schema::Scenario;
use workload::Kind;

pub use build::{Build, build};
pub use emulation::{Emulation, Pass, emulation};
pub(super) use judged::judged;
pub use record::{Heading, Measurement, Recorded, Reply};
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
    /// What the device is asked, for `workloads.py`.
    pub asks: Asks,
    experiment: Experiment,
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
    /// A pipeline of kernels that spin.
    Pipeline {
        /// What is emulated.
        pipeline: Emulation,
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
        let files = files(&set, machine);
        let cases = if quick { workloads.quick() } else { workloads.cases() };
        for case in cases {
            let (experiment, scenario) = scenario(&files, &case.settings).map_err(|wrong| vec![wrong])?;
            let built = match workloads.workload {
                Kind::Step => build(&scenario).map(|model| Asks::Step { model }),
                Kind::Pipeline => emulation(&scenario).map(|pipeline| Asks::Pipeline { pipeline }),
            };
            let asks = built.map_err(|wrong| vec![format!("{name}, {}: {wrong}", case.name())])?;
            questions.push(Question { workload: name.to_owned(), row: case.inputs, asks, experiment });
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

    /// What the simulator says of its scenario.
    ///
    /// # Errors
    /// Why it was not run.
    pub fn predicted(&self) -> Result<RunSummary, String> {
        simulated(&self.experiment)
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
    questions(names, machine, true)?;
    let mut sets = sets(names)?;
    sets.retain(|(name, _)| recorded.of(name).next().is_some());
    progress.begin(sets.iter().map(|(name, _)| recorded.of(name).count() as u64).sum());
    let one = |(name, set): &(&str, Set)| {
        let judged = judged(name, set, recorded, machine, progress)?;
        Some(result(name, set, vec![recorded.source()], judged))
    };
    let found = in_parallel(options.jobs, || sets.iter().map(one).collect::<Option<Vec<_>>>());
    Ok(found.map(|sets| Validation {
        schema_version: SCHEMA_VERSION,
        version: options.version.clone(),
        reproduce: options.reproduce.clone(),
        sets,
    }))
}

/// The root of all randomness; sets have none.
const SEED: u64 = 1;
/// The name under which the common scenario is read.
const FILE: &str = "scenario.yaml";

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

/// The scenario that all rows change, and the hardware files that it names.
fn files(set: &Set, machine: &OnMachine) -> BTreeMap<String, Vec<u8>> {
    let text = |value: &str| serde_yaml::Value::from(value);
    let mut scenario = of(set).scenario.clone();
    scenario.insert(text("name"), text(&set.title));
    // The times of a profile are no matter of a machine.
    if of(set).workload != Kind::Pipeline {
        let parts = format!("{{ parts: {{ gpus: {{ gpu: {} }} }} }}", machine.gpu);
        scenario
            .insert(text("machine"), serde_yaml::from_str(&parts).expect("names of GPUs are plain words"));
        let named: Vec<serde_yaml::Value> = machine.calibrations.iter().map(|(name, _)| text(name)).collect();
        scenario.insert(text("calibration"), named.into());
    }
    let yaml = serde_yaml::to_string(&scenario).expect("what was read from YAML can be written as YAML");
    machine.calibrations.iter().cloned().chain([(FILE.to_owned(), yaml.into_bytes())]).collect()
}

/// The scenario of a row.
fn scenario(
    files: &BTreeMap<String, Vec<u8>>,
    settings: &[String],
) -> Result<(Experiment, Scenario), String> {
    let experiment = load(files, FILE, settings).map_err(|failure| {
        failure.problems.iter().map(|problem| problem.message.clone()).collect::<Vec<_>>().join("; ")
    })?;
    let (variant, point) = (experiment.variants().next().map(str::to_owned), experiment.points().next());
    let (Some(variant), Some(point)) = (variant, point) else {
        return Err("the scenario has no variant".to_owned());
    };
    let resolved = experiment.resolve(&variant, &point).map_err(|infeasible| infeasible.reason)?;
    Ok((experiment, resolved.scenario))
}

fn simulated(experiment: &Experiment) -> Result<RunSummary, String> {
    run::alone(experiment, SEED).map_err(|refusal| refusal.to_string())
}
