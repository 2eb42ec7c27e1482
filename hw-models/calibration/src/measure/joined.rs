//! A device and a framework on it, measured as one: into the same records, with the conditions and sentinels of the device.

use super::{Capability, Conditions, Device, DeviceError, Identity, Suite, Task};

/// A device, and what executes the tasks of a framework on it.
pub struct Joined {
    device: Box<dyn Device>,
    framework: Box<dyn Device>,
    /// The framework's is the task that was made ready.
    of_framework: bool,
}

impl Joined {
    /// Both as one.
    pub fn new(device: Box<dyn Device>, framework: Box<dyn Device>) -> Self {
        Self { device, framework, of_framework: false }
    }
}

impl Device for Joined {
    /// The device, with the facts of both.
    fn identity(&self) -> Identity {
        let mut identity = self.device.identity();
        identity.facts.extend(self.framework.identity().facts);
        identity
    }

    fn capabilities(&self) -> Vec<Capability> {
        [self.device.capabilities(), self.framework.capabilities()].concat()
    }

    /// That of the device, then that of the framework.
    fn suite(&self, quick: bool) -> Suite {
        let mut suite = self.device.suite(quick);
        suite.probes.extend(self.framework.suite(quick).probes);
        suite
    }

    fn prepare(&mut self, task: &Task) -> Result<(), DeviceError> {
        self.of_framework = task.is_of_framework();
        // They are two processes that share a GPU's memory.
        let (one, other) = match self.of_framework {
            true => (&mut self.framework, &mut self.device),
            false => (&mut self.device, &mut self.framework),
        };
        other.rest();
        one.prepare(task)
    }

    fn time(&mut self, executions: u32) -> Result<f64, DeviceError> {
        if self.of_framework { self.framework.time(executions) } else { self.device.time(executions) }
    }

    fn rest(&mut self) {
        self.device.rest();
        self.framework.rest();
    }

    fn conditions(&mut self) -> Conditions {
        self.device.conditions()
    }

    fn elapsed(&self) -> f64 {
        self.device.elapsed()
    }
}
