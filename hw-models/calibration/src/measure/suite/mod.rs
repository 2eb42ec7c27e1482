//! Which tasks tell what a device does.

mod cuda;
mod framework;
mod gpus;
mod host;
mod products;

pub use cuda::{CudaFacts, cuda_suite};
pub use framework::framework_suite;
pub use gpus::Others;
pub use host::host_suite;

use super::Task;

/// Tasks that tell one thing about a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Its name.
    pub name: String,
    /// What is learned from it.
    pub tells: String,
    /// What is timed.
    pub tasks: Vec<Task>,
}

/// The probes of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suite {
    /// In the order they are measured: what matters most first.
    pub probes: Vec<Probe>,
    /// Timed again and again meanwhile, to notice a device that changes.
    pub sentinels: Vec<Task>,
}

impl Suite {
    /// Only the probes of these names.
    ///
    /// # Errors
    /// The first name that is none of its probes.
    pub fn only(mut self, names: &[String]) -> Result<Self, String> {
        if let Some(unknown) = names.iter().find(|name| self.probes.iter().all(|probe| probe.name != **name))
        {
            return Err(unknown.clone());
        }
        self.probes.retain(|probe| names.contains(&probe.name));
        Ok(self)
    }

    /// How many tasks it has.
    pub fn tasks(&self) -> usize {
        self.probes.iter().map(|probe| probe.tasks.len()).sum()
    }
}

fn probe(name: &str, tells: &str, tasks: Vec<Task>) -> Probe {
    Probe { name: name.to_owned(), tells: tells.to_owned(), tasks }
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
