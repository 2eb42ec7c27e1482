//! The machine this runs on: its memory, its cores, the drive below a folder.

mod blocks;
mod disk;
mod facts;
mod laid;
mod memory;
mod uring;

use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::measure::{Capability, Conditions, Device, DeviceError, Found, Identity, Suite, Task, host_suite};
use disk::Drive;
use facts::Facts;
pub(super) use laid::Laid;
use memory::{Rows, Streams};

/// The machine this runs on.
pub struct Host {
    facts: Facts,
    folder: PathBuf,
    drive: Option<Drive>,
    ready: Option<Ready>,
    opened: Instant,
}

/// What was made ready.
enum Ready {
    Streams(Streams),
    Rows(Rows),
    /// Blocks of the drive's file.
    Blocks(Task),
}

impl Host {
    /// The machine, and the drive that `folder` is on.
    pub fn open(folder: &Path) -> Self {
        Self {
            facts: Facts::read(),
            folder: folder.to_owned(),
            drive: None,
            ready: None,
            opened: Instant::now(),
        }
    }

    fn drive(&mut self) -> Result<&mut Drive, DeviceError> {
        if self.drive.is_none() {
            self.drive = Some(Drive::lay(&self.folder)?);
        }
        self.drive.as_mut().ok_or_else(|| unready("the drive"))
    }
}

impl Device for Host {
    fn identity(&self) -> Identity {
        self.facts.identity(&self.folder)
    }

    fn capabilities(&self) -> Vec<Capability> {
        let there = |name, purpose, found| Capability { name, purpose, found, required: false };
        vec![
            there("memory", "probes memory and gather", Found::Present(self.facts.memory())),
            there("folder", "probe disk", laid::writable(&self.folder)),
            there("io_uring", "probe disk with many blocks in flight", uring::found()),
        ]
    }

    fn suite(&self, quick: bool) -> Suite {
        host_suite(self.facts.cores, self.facts.cache, quick)
    }

    fn prepare(&mut self, task: &Task) -> Result<(), DeviceError> {
        // Memory of the task before goes first.
        self.ready = None;
        self.ready = Some(match task {
            Task::HostMemory(streams) => Ready::Streams(Streams::touched(streams, &self.facts)?),
            Task::Gather(gather) => Ready::Rows(Rows::touched(gather, &self.facts)?),
            Task::Disk(_) | Task::Flush { .. } => {
                self.drive()?.prepare(task)?;
                Ready::Blocks(*task)
            }
            _ => {
                return Err(DeviceError::unable("host", "this needs a GPU"));
            }
        });
        Ok(())
    }

    fn time(&mut self, executions: u32) -> Result<f64, DeviceError> {
        match &mut self.ready {
            Some(Ready::Streams(streams)) => Ok(streams.time(executions)),
            Some(Ready::Rows(rows)) => Ok(rows.time(executions)),
            Some(Ready::Blocks(task)) => {
                let task = *task;
                self.drive()?.time(&task, executions)
            }
            None => Err(unready("a task")),
        }
    }

    fn conditions(&mut self) -> Conditions {
        Conditions { clock_mhz: facts::clock_mhz(), ..Conditions::default() }
    }

    fn elapsed(&self) -> f64 {
        self.opened.elapsed().as_secs_f64()
    }
}

fn unready(what: &str) -> DeviceError {
    DeviceError::failed(format!("using {what}"), "it was not made ready")
}
