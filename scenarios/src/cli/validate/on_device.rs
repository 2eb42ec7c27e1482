//! Workloads that run on this machine's GPU.

use std::path::Path;

use calibration::devices::{Greeting, Workloads};
use calibration::measure::{DeviceError, Found, Identity};
use hw_models::catalogue::in_catalogue;
use scenarios::validation::on_device::{Asks, Heading, Measurement, OnMachine, Question, Reply, questions};
use serde::Serialize;
use serde_json::json;

use super::Arguments;
use super::recorded::{calibrations, mistake, replay};
use crate::cli::calibrate::today;
use crate::cli::files::cannot_write;
use crate::cli::lines::{Lines, Names};
use crate::cli::printer::Printer;
use crate::cli::trouble::Trouble;
use crate::cli::{Exit, VERSION};
use crate::cli::{interrupt, progress};

/// How records of workloads are called, in the folder of results.
const RECORD: Names = Names { partial: "on-device.partial.jsonl", whole: "on-device.jsonl" };
/// Samples that are taken, and steps before them.
const SAMPLES: u32 = 20;
const WARM_UP: u32 = 5;
/// Fewest steps of a training that are timed, and for how long they are (s): power is counted
/// meanwhile, which a board averages over a second.
const STEPS: u32 = 7;
const STRETCH_S: f64 = 1.5;

/// What PyTorch is asked.
#[derive(Serialize)]
struct Asked<'a> {
    device: &'static str,
    samples: u32,
    steps: u32,
    stretch_s: f64,
    warm_up: u32,
    #[serde(flatten)]
    asks: &'a Asks,
}

/// Runs the workloads, keeps what they did, and judges it.
pub(super) fn measure(arguments: &Arguments, printer: &Printer) -> Result<Exit, Trouble> {
    let (mut python, greeting) = ready(&arguments.python)
        .map_err(|missing| Trouble::NoDevice(format!("workloads cannot run without {missing}")))?;
    let name = greeting.gpus.first().map_or("", |gpu| &gpu.name);
    let gpu = arguments.gpu.clone().or_else(|| in_catalogue(name).map(str::to_owned));
    let gpu = gpu.ok_or_else(|| {
        let remedy = "name the one that stands for it with `--gpu` (`foretrain list gpus`)";
        Trouble::Mistake(format!("the catalogue has no GPU that its driver calls `{name}`: {remedy}"))
    })?;
    let machine = OnMachine { gpu, calibrations: calibrations(&arguments.calibration)? };
    let questions =
        questions(&arguments.names, &machine, arguments.quick).map_err(|wrong| mistake(&wrong))?;
    let heading = Heading {
        foretrain: VERSION.to_owned(),
        device: identity(&mut python, &greeting)?,
        gpu: machine.gpu.clone(),
        date: today(),
        calibrations: machine.calibrations.iter().map(|(name, _)| name.clone()).collect(),
    };
    let mut record = Lines::begin::<Measurement>(&arguments.out, RECORD, &heading, &[])?;
    let bar = progress::line(arguments.quiet, "rows", questions.len() as u64);
    for question in &questions {
        if interrupt::interrupted() {
            bar.finish_and_clear();
            let kept = arguments.out.join(RECORD.partial);
            let remedy = "`foretrain validate --recorded` judges it";
            printer.complain(&format!("interrupted; what was measured is in `{}`: {remedy}", kept.display()));
            return Ok(Exit::Interrupted);
        }
        bar.set_message(format!("{}: {}", question.workload, question.name()));
        let asked = Asked {
            device: "cuda",
            samples: SAMPLES,
            steps: STEPS,
            stretch_s: STRETCH_S,
            warm_up: WARM_UP,
            asks: &question.asks,
        };
        let reply = python.run(&asked).or_else(|error| failed(&error, arguments, &mut python));
        let Question { workload, row, .. } = question.clone();
        let row = Measurement { workload, row, reply: reply? };
        record.append(&row).map_err(|error| cannot_write(&arguments.out, &error))?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    let kept = record.complete()?;
    replay(&kept, arguments, printer)
}

/// PyTorch with a GPU, or what is missing and how to get it.
fn ready(program: &Path) -> Result<(Workloads, Greeting), String> {
    let (python, greeting) = Workloads::start(program).map_err(|error| match error {
        DeviceError::Missing { what, remedy } => format!("{what}: {remedy}"),
        error => format!("Python: {error}"),
    })?;
    for (what, found) in [("PyTorch", &greeting.torch), ("a GPU for PyTorch", &greeting.cuda)] {
        if let Found::Missing { why, remedy } = found {
            return Err(format!("{what}: {why}: {remedy}"));
        }
    }
    Ok((python, greeting))
}

/// The GPU with its driver and the versions of what ran on it.
fn identity(python: &mut Workloads, greeting: &Greeting) -> Result<Identity, Trouble> {
    let told: Result<Identity, DeviceError> = python.run(&json!({ "workload": "identity" }));
    let mut identity = told.map_err(|error| Trouble::Mistake(error.to_string()))?;
    identity.facts.insert("python".to_owned(), greeting.python.clone());
    for (name, found) in [("torch", &greeting.torch), ("cuda", &greeting.cuda)] {
        if let Found::Present(version) = found {
            identity.facts.insert(name.to_owned(), version.clone());
        }
    }
    Ok(identity)
}

/// What is kept of a row that failed. What is used up is given back by PyTorch; a process or a GPU that failed is begun anew.
fn failed(error: &DeviceError, arguments: &Arguments, python: &mut Workloads) -> Result<Reply, Trouble> {
    if matches!(error, DeviceError::Failed { .. }) {
        *python = ready(&arguments.python).map_err(Trouble::Mistake)?.0;
    }
    Ok(Reply { failed: Some(error.to_string()), ..Reply::default() })
}
