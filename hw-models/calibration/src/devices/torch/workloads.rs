//! Workloads that PyTorch runs: what `validate --on-device` compares predictions with.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::devices::python::{Greeting, Python};
use crate::measure::DeviceError;

/// The script: what all need of a device, each workload, and which is asked.
const SCRIPT: &str = concat!(
    include_str!("device.py"),
    include_str!("step.py"),
    include_str!("beside.py"),
    include_str!("swap.py"),
    include_str!("program.py"),
    include_str!("pipeline.py"),
    include_str!("loader.py"),
    include_str!("transfers.py"),
    include_str!("workloads.py"),
);
/// How long a workload may take: most of it is compiling one.
const LIMIT: Duration = Duration::from_secs(600);

/// PyTorch, ready to run workloads.
#[derive(Debug)]
pub struct Workloads(Python);

impl Workloads {
    /// In the Python that `program` is; what the greeting says of PyTorch and of GPUs decides what can be run.
    ///
    /// # Errors
    /// As [`Python::start`].
    pub fn start(program: &Path) -> Result<(Self, Greeting), DeviceError> {
        let (python, greeting) = Python::start(program, SCRIPT, LIMIT)?;
        Ok((Self(python), greeting))
    }

    /// Runs what is asked, and waits for what it says.
    ///
    /// # Errors
    /// As [`Python::ask`].
    pub fn run<A: DeserializeOwned>(&mut self, asks: &impl Serialize) -> Result<A, DeviceError> {
        self.0.ask(asks)
    }
}
