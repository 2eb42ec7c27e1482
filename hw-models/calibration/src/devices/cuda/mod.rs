//! A GPU of NVIDIA, through its driver, cuBLASLt, and kernels of our own that NVRTC compiles.
//!
//! Every probe of one GPU ran on an H100 with CUDA 13.0 (`measurements/devices`). Those of several GPUs
//! and of cuFile ran against libraries that were made up, which checked places, sizes and layouts.

mod allocations;
mod beside;
mod collectives;
mod copies;
mod errors;
mod gpu;
mod graphs;
mod grouped;
mod kernels;
mod launches;
mod libraries;
mod memory;
mod passes;
mod peers;
mod products;
mod rows;
#[cfg(target_os = "linux")]
mod storage;
mod sustained;
mod telemetry;
mod timer;

use std::path::Path;
use std::time::Instant;

use indexmap::IndexMap;

use crate::measure::{
    Capability, Conditions, Data, Device, DeviceError, Found, Identity, Suite, Task, cuda_suite,
};
use beside::Meeting;
use collectives::Communicators;
use copies::Copies;
use gpu::Gpu;
use graphs::Chain;
use grouped::Groups;
use launches::{Launches, Spinning, Spins};
use passes::Passes;
use peers::PeerCopies;
use products::Products;
use rows::Rows;
use sustained::Load;
use timer::{Enqueue, Graphs, Timer};

/// What is missing where other processes compute on the GPU.
const ALONE: &str = "a GPU of its own";
/// What is missing where there is no GPU to copy to.
const PEERS: &str = "other GPUs";

/// A task that was made ready.
trait Timed {
    /// Time of so many executions (s).
    fn time(&mut self, timer: &Timer, executions: u32) -> Result<f64, DeviceError>;
}

/// Work in the order of a stream.
struct Batches {
    work: Box<dyn Enqueue>,
    graphs: Option<Graphs>,
}

impl Timed for Batches {
    fn time(&mut self, timer: &Timer, executions: u32) -> Result<f64, DeviceError> {
        timer.time(&*self.work, &mut self.graphs, executions)
    }
}

/// A GPU of this machine. One that cannot be opened says why among its [capabilities](Device::capabilities), and times nothing.
pub struct Cuda {
    found: Vec<Capability>,
    /// Goes before the GPU that it runs on.
    ready: Option<Box<dyn Timed>>,
    communicators: Communicators,
    gpu: Option<Gpu>,
    #[cfg(target_os = "linux")]
    drive: storage::Drive,
    opened: Instant,
}

impl Cuda {
    /// The GPU of this number, in the order of CUDA, and the drive that `folder` is on.
    pub fn open(number: u32, folder: &Path) -> Self {
        let mut found = libraries::found();
        let ready = found.iter().all(|need| !need.required || matches!(need.found, Found::Present(_)));
        let gpu = ready.then(|| Gpu::open(number));
        if let Some(gpu) = &gpu {
            let found_gpu = match gpu {
                Ok(gpu) => Found::Present(gpu.words()),
                Err((why, remedy)) => Found::missing(why.clone(), remedy.clone()),
            };
            found.push(Capability { name: "gpu", purpose: "all probes", found: found_gpu, required: true });
            let more = |name, purpose, found| Capability { name, purpose, found, required: false };
            found.extend(gpu.iter().flat_map(|gpu| {
                [
                    more(ALONE, "times of nobody else's work", gpu.alone()),
                    more(PEERS, "copies between GPUs", gpu.peers.found(gpu.fabric)),
                ]
            }));
        }
        Self {
            found,
            ready: None,
            communicators: Communicators::default(),
            gpu: gpu.and_then(Result::ok),
            #[cfg(target_os = "linux")]
            drive: storage::Drive::of(folder),
            opened: Instant::now(),
        }
    }

    /// Versions of the libraries that are there.
    fn versions(&self) -> IndexMap<String, String> {
        let version = |need: &Capability| match &need.found {
            Found::Present(version) if !["gpu", ALONE, PEERS].contains(&need.name) => {
                Some((need.name.to_owned(), version.clone()))
            }
            _ => None,
        };
        self.found.iter().filter_map(version).collect()
    }
}

impl Device for Cuda {
    fn identity(&self) -> Identity {
        self.gpu.as_ref().map(|gpu| gpu.identity(self.versions())).unwrap_or_default()
    }

    fn capabilities(&self) -> Vec<Capability> {
        self.found.clone()
    }

    fn suite(&self, quick: bool) -> Suite {
        let none = || Suite { probes: Vec::new(), sentinels: Vec::new() };
        self.gpu.as_ref().map_or_else(none, |gpu| cuda_suite(&gpu.facts, quick))
    }

    fn prepare(&mut self, task: &Task) -> Result<(), DeviceError> {
        // Memory of the task before goes first.
        self.ready = None;
        let gpu = self.gpu.as_mut().ok_or_else(errors::unready)?;
        gpu.timer.bind()?;
        self.ready = Some(match task {
            #[cfg(target_os = "linux")]
            Task::Storage(task) => Box::new(self.drive.blocks(task)?),
            Task::PeerCopy(task) => Box::new(PeerCopies::of(gpu, task)?),
            Task::Collective(task) => Box::new(self.communicators.collective(gpu, task)?),
            Task::SendReceive(task) => Box::new(self.communicators.messages(gpu, task)?),
            task => ready(gpu, task)?,
        });
        gpu.timer.wait()
    }

    fn time(&mut self, executions: u32) -> Result<f64, DeviceError> {
        let (Some(gpu), Some(ready)) = (&self.gpu, &mut self.ready) else { return Err(errors::unready()) };
        ready.time(&gpu.timer, executions)
    }

    fn rest(&mut self) {
        self.ready = None;
        self.communicators = Communicators::default();
    }

    fn conditions(&mut self) -> Conditions {
        self.gpu.as_ref().map(Gpu::conditions).unwrap_or_default()
    }

    fn elapsed(&self) -> f64 {
        self.opened.elapsed().as_secs_f64()
    }
}

/// Makes ready what a task needs.
fn ready(gpu: &Gpu, task: &Task) -> Result<Box<dyn Timed>, DeviceError> {
    let batches = |work: Box<dyn Enqueue>| Box::new(Batches { work, graphs: None });
    Ok(match task {
        Task::Launch(task) => Box::new(Launches::of(gpu, task)?),
        Task::Spin(task) if task.graph => batches(Box::new(Spinning::of(gpu, task)?)),
        Task::Spin(task) => Box::new(Spins::of(gpu, task)?),
        Task::Graph(task) => Box::new(Chain::of(gpu, task)?),
        Task::Product(product) => batches(Box::new(Products::of(gpu, product, Data::Random)?)),
        Task::Grouped(groups) => Box::new(Groups::of(gpu, *groups)?),
        Task::Sustained(task) => Box::new(Load::of(gpu, task)?),
        Task::Pass(task) => batches(Box::new(Passes::of(gpu, task)?)),
        Task::Transfer(task) => Box::new(Copies::of(gpu, task)?),
        Task::ZeroCopy(task) => Box::new(Rows::of(gpu, task)?),
        Task::Allocation(task) => Box::new(*task),
        Task::Beside(task) => Box::new(Meeting::of(gpu, task)?),
        _ => {
            let why = "this is measured of a host, or of a framework".to_owned();
            return Err(DeviceError::unable("a GPU", why));
        }
    })
}
