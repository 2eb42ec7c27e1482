//! What the simulator says of a row, and what a device is asked that it may do the same.

use std::collections::BTreeMap;

use reports::summary::RunSummary;

use super::background::Background;
use super::loader::Loader;
use super::program::scripted;
use super::swap::swapping;
use super::transfers::Transfer;
use super::workload::{Kind, Workloads};
use super::{Asks, OnMachine, build, emulation};
use crate::catalogue;
use crate::experiment::Experiment;
use crate::run;
use crate::schema::Scenario;
use crate::validation::steps;

pub(super) use crate::validation::steps::FILE;

/// What is simulated of a row.
#[derive(Clone, Debug)]
pub(super) enum Simulation {
    /// Something that runs alone, and what a device is asked for it: a step of a transformer, also
    /// with activations that leave the GPU or in a program, or a pipeline with the times of its stages.
    Alone(Box<Checked>, fn(&Scenario) -> Result<Asks, String>),
    /// A step, while other work goes on at its GPU.
    Beside(Box<Checked>, Background),
    /// What moves between the GPU and its host, or a drive.
    Transfer(Box<Checked>, Transfer),
    /// A loop that waits for batches.
    Loader(Loader),
}

/// A scenario without mistakes.
#[derive(Clone, Debug)]
pub(super) struct Checked {
    experiment: Experiment,
    pub(super) scenario: Scenario,
}

/// The root of all randomness; sets have none.
const SEED: u64 = 1;

impl Simulation {
    /// Of a row with these settings; `files` are those of [`files`].
    ///
    /// # Errors
    /// What is wrong with them.
    pub(super) fn of(
        workloads: &Workloads,
        files: &BTreeMap<String, Vec<u8>>,
        settings: &[String],
    ) -> Result<Self, String> {
        let checked = |settings: &[String]| Checked::read(files, settings).map(Box::new);
        let alone = |asks| Ok(Self::Alone(checked(settings)?, asks));
        match workloads.workload {
            Kind::Step => alone(trained),
            Kind::Beside => {
                let (background, settings) = Background::taken(settings)?;
                Ok(Self::Beside(checked(&settings)?, background))
            }
            Kind::Pipeline => alone(|scenario| Ok(Asks::Pipeline { pipeline: emulation(scenario)? })),
            Kind::Program => alone(|scenario| scripted(scenario).map(Asks::Program)),
            Kind::Transfer => {
                let (transfer, settings) = Transfer::of(settings)?;
                Ok(Self::Transfer(checked(&settings)?, transfer))
            }
            Kind::Loader => Loader::read(&workloads.scenario, settings).map(Self::Loader),
        }
    }

    /// What a device is asked.
    ///
    /// # Errors
    /// What of it no device does.
    pub(super) fn asks(&self) -> Result<Asks, String> {
        Ok(match self {
            Self::Alone(checked, asks) => asks(&checked.scenario)?,
            Self::Beside(checked, background) => {
                Asks::Beside { model: build(&checked.scenario)?, beside: *background }
            }
            Self::Transfer(_, transfer) => Asks::Transfer { transfer: transfer.moving() },
            Self::Loader(loader) => Asks::Loader { loader: loader.loading() },
        })
    }

    /// What the simulator says.
    ///
    /// # Errors
    /// Why it was not run.
    pub(super) fn run(&self) -> Result<RunSummary, String> {
        match self {
            Self::Alone(checked, _) => {
                run::alone(&checked.experiment, SEED).map_err(|refusal| refusal.to_string())
            }
            Self::Beside(checked, background) => {
                let shared = background.of(&checked.scenario)?;
                let mut prepared = match run::prepare(&checked.scenario) {
                    Ok(prepared) => prepared,
                    Err(unbuilt) => return unbuilt.told(),
                };
                shared.join(&mut prepared.built.lowered);
                prepared.simulated(&checked.scenario, SEED)
            }
            Self::Transfer(checked, transfer) => transfer.simulated(&checked.scenario),
            Self::Loader(loader) => Ok(loader.simulated()),
        }
    }
}

impl Checked {
    pub(super) fn read(files: &BTreeMap<String, Vec<u8>>, settings: &[String]) -> Result<Self, String> {
        let experiment = steps::read(files, settings)?;
        let (variant, point) = (experiment.variants().next().map(str::to_owned), experiment.points().next());
        let (Some(variant), Some(point)) = (variant, point) else {
            return Err("the scenario has no variant".to_owned());
        };
        let resolved = experiment.resolve(&variant, &point).map_err(|infeasible| infeasible.reason)?;
        Ok(Self { experiment, scenario: resolved.scenario })
    }
}

/// Questions to a device about training steps.
fn trained(scenario: &Scenario) -> Result<Asks, String> {
    if scenario.techniques.activation_offload.is_some() {
        swapping(scenario).map(Asks::Swap)
    } else {
        Ok(Asks::Step { model: build(scenario)? })
    }
}

/// The scenario that all rows change, and the hardware files that it names.
pub(super) fn files(title: &str, workloads: &Workloads, machine: &OnMachine) -> BTreeMap<String, Vec<u8>> {
    let text = |value: &str| serde_yaml::Value::from(value);
    let mut scenario = workloads.scenario.clone();
    scenario.insert(text("name"), text(title));
    // Times that are given are no matter of a machine.
    let parts = match workloads.workload {
        Kind::Beside => Some(format!("gpus: {{ gpu: {} }}", machine.gpu)),
        // What a program reads comes to its host, and what leaves the GPU.
        Kind::Step | Kind::Program => Some(with_host(&machine.gpu, "", "")),
        Kind::Transfer => Some(with_host(&machine.gpu, DRIVE, DRIVE_LINK)),
        Kind::Pipeline | Kind::Loader => None,
    };
    if let Some(parts) = parts {
        let parts = serde_yaml::from_str(&format!("{{ parts: {{ {parts} }} }}"));
        scenario.insert(text("machine"), parts.expect("names of GPUs and links are plain words"));
        let named: Vec<serde_yaml::Value> = machine.calibrations.iter().map(|(name, _)| text(name)).collect();
        scenario.insert(text("calibration"), named.into());
    }
    let yaml = serde_yaml::to_string(&scenario).expect("what was read from YAML can be written as YAML");
    machine.calibrations.iter().cloned().chain([(FILE.to_owned(), yaml.into_bytes())]).collect()
}

/// A drive below the host: what was measured of this machine's is laid over it.
const DRIVE: &str = "ssds: { drive: samsung-pm9a3-u2-3840gb },";
const DRIVE_LINK: &str = "{ between: [drive, host], class: pcie4, lanes: 4 },";

/// A GPU of the catalogue below a host, whose memory is larger and faster than what leaves the GPU and its link.
fn with_host(gpu: &str, parts: &str, links: &str) -> String {
    let link = &catalogue::devices().gpus[gpu].pcie;
    format!(
        "gpus: {{ gpu: {gpu} }}, sockets: [host], \
         memories: {{ memory: {{ socket: host, memory: 1 TiB, rate: 200 GB/s }} }}, \
         {parts} links: [{links} {{ between: [gpu, host], class: {}, lanes: {} }}]",
        link.class, link.lanes
    )
}
