//! PyTorch, on a GPU or on the host: a script executes tasks as often as it is told and says how long that took.
//!
//! No GPU was at hand when this was written: on the host every task ran, with PyTorch 1.13 and 2.7; streams, events and graphs
//! were made-up ones.

mod workloads;

use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::python::{Greeting, Python};
use crate::measure::{
    Capability, Conditions, CudaFacts, Device, DeviceError, Found, Identity, Suite, Task, framework_suite,
};

pub use workloads::Workloads;

/// What it asks the process to do is in the script.
const SCRIPT: &str = include_str!("probe.py");
/// Longest that a task may take: what a communicator or a first kernel loads may come from a slow drive.
const LIMIT: Duration = Duration::from_secs(120);
/// Second-level cache of a GPU that PyTorch does not tell it of (bytes): more than any has.
const CACHE: u64 = 192 << 20;

/// PyTorch in a process of its own. One that is not there says why among its [capabilities](Device::capabilities), and times
/// nothing.
pub struct Torch {
    found: Vec<Capability>,
    ready: Option<Ready>,
    opened: Instant,
}

/// A process that can measure.
struct Ready {
    process: Python,
    greeting: Greeting,
    gpu: Option<CudaFacts>,
}

/// What the script is asked.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
enum Question<'t> {
    /// To measure on the GPU of this number, or on the host.
    Open { gpu: Option<u32>, cache: u64 },
    /// To make a task ready, of which one execution touches so many bytes.
    Prepare { task: &'t Task, bytes: u64 },
    /// To execute it so many times: it answers with the time (s).
    Time(u32),
    /// To give its memory back.
    Rest,
}

impl Torch {
    /// PyTorch of the interpreter `program`, on the GPU of this number in the order of CUDA, or on the host.
    pub fn open(program: &Path, gpu: Option<u32>) -> Self {
        let opened = Instant::now();
        let capability = |name, purpose, found| Capability { name, purpose, found, required: true };
        let framework = "costs of the framework";
        let missing = |error: DeviceError| {
            let (why, remedy) = match error {
                DeviceError::Missing { what, remedy } => (format!("{what} is missing"), remedy),
                other => (other.to_string(), "name another Python with `--python`".to_owned()),
            };
            Found::missing(why, remedy)
        };
        let (mut process, greeting) = match Python::start(program, SCRIPT, LIMIT) {
            Ok(started) => started,
            Err(error) => {
                let found = vec![capability("python", framework, missing(error))];
                return Self { found, ready: None, opened };
            }
        };
        let mut found = vec![
            capability("python", framework, Found::Present(greeting.python.clone())),
            capability("pytorch", framework, greeting.torch.clone()),
        ];
        if gpu.is_some() {
            found.push(capability("pytorch-cuda", "PyTorch on the GPU", greeting.cuda.clone()));
        }
        let facts = gpu.and_then(|number| facts(&greeting, number));
        let mut there = found.iter().all(|need| matches!(need.found, Found::Present(_)));
        if there {
            let cache = facts.map_or(0, |facts| facts.cache);
            if let Err(error) = process.ask::<_, ()>(&Question::Open { gpu, cache }) {
                found.push(capability("pytorch-device", framework, missing(error)));
                there = false;
            }
        }
        let ready = there.then_some(Ready { process, greeting, gpu: facts });
        Self { found, ready, opened }
    }

    fn ask<A: serde::de::DeserializeOwned>(&mut self, question: &Question<'_>) -> Result<A, DeviceError> {
        let unready = || DeviceError::failed("asking PyTorch", "it is not there");
        self.ready.as_mut().ok_or_else(unready)?.process.ask(question)
    }
}

/// What a suite depends on of the GPU of a number.
fn facts(greeting: &Greeting, number: u32) -> Option<CudaFacts> {
    let gpu = greeting.gpus.get(number as usize)?;
    let cache = if gpu.cache == 0 { CACHE } else { gpu.cache };
    Some(CudaFacts {
        sms: gpu.sms,
        cache,
        memory: gpu.memory,
        capability: gpu.capability,
        link: None,
        others: None,
    })
}

impl Device for Torch {
    /// Versions: the device that it measures has a name of its own.
    fn identity(&self) -> Identity {
        let mut identity = Identity { name: "PyTorch".to_owned(), ..Identity::default() };
        if let Some(Ready { greeting, gpu, .. }) = &self.ready {
            let on = if gpu.is_some() { "on the GPU" } else { "on the host" };
            let present = |found: &Found| match found {
                Found::Present(version) => version.clone(),
                Found::Missing { .. } => "none".to_owned(),
            };
            let told = [
                ("python", greeting.python.clone()),
                ("pytorch", format!("{} {on}", present(&greeting.torch))),
                ("pytorch-cuda", present(&greeting.cuda)),
            ];
            identity.facts.extend(told.map(|(name, value)| (name.to_owned(), value)));
        }
        identity
    }

    fn capabilities(&self) -> Vec<Capability> {
        self.found.clone()
    }

    fn suite(&self, quick: bool) -> Suite {
        let none = || Suite { probes: Vec::new(), sentinels: Vec::new() };
        self.ready.as_ref().map_or_else(none, |ready| framework_suite(ready.gpu.as_ref(), quick))
    }

    fn prepare(&mut self, task: &Task) -> Result<(), DeviceError> {
        self.ask(&Question::Prepare { task, bytes: task.bytes() })
    }

    fn time(&mut self, executions: u32) -> Result<f64, DeviceError> {
        self.ask(&Question::Time(executions))
    }

    fn rest(&mut self) {
        // A process that has ended holds nothing, and says so when it is asked for something else.
        let _ = self.ask::<()>(&Question::Rest);
    }

    fn conditions(&mut self) -> Conditions {
        Conditions::default()
    }

    fn elapsed(&self) -> f64 {
        self.opened.elapsed().as_secs_f64()
    }
}
