//! A device that was measured before: it gives the samples that were recorded, again and again in their order.

use super::{
    Capability, Conditions, Device, DeviceError, Found, Heading, Identity, Probe, Record, Suite, Task,
};

/// Records in the place of a device.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    heading: Heading,
    records: Vec<Record>,
    /// The record that is replayed, and which of its samples comes next.
    at: Option<(usize, usize)>,
    elapsed: f64,
}

impl Recorded {
    /// The device of some records.
    pub const fn new(heading: Heading, records: Vec<Record>) -> Self {
        Self { heading, records, at: None, elapsed: 0.0 }
    }

    fn unable(&self, why: &str) -> DeviceError {
        DeviceError::unable(format!("the record of {}", self.heading.device.name), why)
    }
}

impl Device for Recorded {
    fn identity(&self) -> Identity {
        self.heading.device.clone()
    }

    fn measured_on(&self) -> Option<&str> {
        Some(&self.heading.date)
    }

    fn capabilities(&self) -> Vec<Capability> {
        let found = Found::Present(format!("{} of {}", self.records.len(), self.heading.date));
        vec![Capability { name: "records", purpose: "all probes", found, required: true }]
    }

    /// What was measured, all of it.
    fn suite(&self, _: bool) -> Suite {
        let mut probes: Vec<Probe> = Vec::new();
        for record in &self.records {
            match probes.iter_mut().find(|probe| probe.name == record.probe) {
                Some(probe) => probe.tasks.push(record.of),
                None => probes.push(Probe {
                    name: record.probe.clone(),
                    tells: "what was recorded".to_owned(),
                    tasks: vec![record.of],
                }),
            }
        }
        Suite { probes, sentinels: Vec::new() }
    }

    fn prepare(&mut self, task: &Task) -> Result<(), DeviceError> {
        let at = self.records.iter().position(|record| record.of == *task && !record.samples_ns.is_empty());
        self.at = at.map(|at| (at, 0));
        self.at.map(|_| ()).ok_or_else(|| self.unable("it was not measured"))
    }

    fn time(&mut self, executions: u32) -> Result<f64, DeviceError> {
        let Some((at, next)) = self.at else { return Err(self.unable("nothing was made ready")) };
        let samples = &self.records[at].samples_ns;
        let seconds = samples[next % samples.len()] * 1e-9 * f64::from(executions);
        self.at = Some((at, next + 1));
        self.elapsed += seconds;
        Ok(seconds)
    }

    fn conditions(&mut self) -> Conditions {
        let Some((at, next)) = self.at else { return Conditions::default() };
        let record = &self.records[at];
        if next == 0 { record.before.clone() } else { record.after.clone() }
    }

    fn elapsed(&self) -> f64 {
        self.elapsed
    }
}
