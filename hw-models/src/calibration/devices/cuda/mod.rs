//! A GPU of NVIDIA, through its driver, cuBLASLt, and kernels of our own that NVRTC compiles.

mod errors;
mod gpu;
mod libraries;
mod names;
mod telemetry;

use std::time::Instant;

use indexmap::IndexMap;

use crate::calibration::measure::{
    Capability, Conditions, Device, DeviceError, Found, Identity, Suite, Task,
};
use gpu::Gpu;

/// A GPU of this machine. One that cannot be opened says why among its [capabilities](Device::capabilities), and times nothing.
pub struct Cuda {
    found: Vec<Capability>,
    gpu: Option<Gpu>,
    opened: Instant,
}

impl Cuda {
    /// The GPU of this number, in the order of CUDA.
    pub fn open(number: u32) -> Self {
        let mut found = libraries::found();
        let ready = found.iter().all(|need| !need.required || matches!(need.found, Found::Present(_)));
        let gpu = ready.then(|| Gpu::open(number));
        if let Some(gpu) = &gpu {
            let found_gpu = match gpu {
                Ok(gpu) => Found::Present(gpu.words()),
                Err(error) => {
                    let (why, remedy) = errors::unopened(number, *error);
                    Found::Missing { why, remedy }
                }
            };
            found.push(Capability { name: "gpu", purpose: "all probes", found: found_gpu, required: true });
        }
        Self { found, gpu: gpu.and_then(Result::ok), opened: Instant::now() }
    }

    /// Versions of the libraries that are there.
    fn versions(&self) -> IndexMap<String, String> {
        let version = |need: &Capability| match &need.found {
            Found::Present(version) if need.name != "gpu" => Some((need.name.to_owned(), version.clone())),
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

    fn suite(&self, _: bool) -> Suite {
        Suite { probes: Vec::new(), sentinels: Vec::new() }
    }

    fn prepare(&mut self, _: &Task) -> Result<(), DeviceError> {
        Err(errors::unready())
    }

    fn time(&mut self, _: u32) -> Result<f64, DeviceError> {
        Err(errors::unready())
    }

    fn conditions(&mut self) -> Conditions {
        self.gpu.as_ref().map(Gpu::conditions).unwrap_or_default()
    }

    fn elapsed(&self) -> f64 {
        self.opened.elapsed().as_secs_f64()
    }
}
