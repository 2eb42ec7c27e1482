//! A device that is made up: it obeys the laws with constants that are known, and scatters as real ones do. What fits of its
//! records find can be compared with the truth.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{
    Capability, Conditions, CudaFacts, Device, DeviceError, Found, Identity, Others, Suite, Task, cuda_suite,
    framework_suite, host_suite,
};
use crate::laws::{Law, law_of};
use crate::split;

/// A device that is made up.
#[derive(Clone, Debug)]
pub struct Synthetic {
    constants: fn(&Law) -> Vec<f64>,
    /// Standard deviation of the logarithm of a batch's time.
    noise: f64,
    /// Share of batches that take three times as long.
    outliers: f64,
    seed: u64,
    /// Of each task its own, so that what happens to one does not depend on what else is measured.
    random: ChaCha8Rng,
    task: Option<Task>,
    elapsed: f64,
}

/// Cores and cache (bytes) of a host that is made up.
const CORES: u32 = 8;
const CACHE: u64 = 32 << 20;
/// A GPU that is made up, on a link of the third generation, one of eight.
const GPU: CudaFacts = CudaFacts {
    sms: 108,
    cache: 40 << 20,
    memory: 40 << 30,
    capability: 80,
    link: Some((3, 16)),
    others: Some(Others { gpus: 8, peer: true, collectives: true }),
};
/// How much longer an outlier takes.
const OUTLIER: f64 = 3.0;

impl Synthetic {
    /// One whose laws have these constants, with log-normal noise and a share of outliers.
    pub fn new(constants: fn(&Law) -> Vec<f64>, noise: f64, outliers: f64, seed: u64) -> Self {
        let random = ChaCha8Rng::seed_from_u64(seed);
        Self { constants, noise, outliers, seed, random, task: None, elapsed: 0.0 }
    }

    /// A standard normal number, by Box and Muller.
    fn normal(&mut self) -> f64 {
        let [u, v]: [f64; 2] = [self.random.random(), self.random.random()];
        (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }
}

impl Device for Synthetic {
    fn identity(&self) -> Identity {
        Identity { name: "synthetic".to_owned(), driver: "none".to_owned(), ..Identity::default() }
    }

    fn capabilities(&self) -> Vec<Capability> {
        let found = Found::Present("made up".to_owned());
        vec![Capability { name: "device", purpose: "all probes", found, required: true }]
    }

    /// That of a host, of a GPU and of a framework on it, as far as there are laws.
    fn suite(&self, quick: bool) -> Suite {
        let mut suite = host_suite(CORES, CACHE, quick);
        suite.probes.extend(cuda_suite(&GPU, quick).probes);
        suite.probes.extend(framework_suite(Some(&GPU), quick).probes);
        suite.probes.iter_mut().for_each(|probe| probe.tasks.retain(|task| law_of(task).is_some()));
        suite.probes.retain(|probe| !probe.tasks.is_empty());
        suite
    }

    fn prepare(&mut self, task: &Task) -> Result<(), DeviceError> {
        self.task = Some(*task);
        self.random = ChaCha8Rng::seed_from_u64(self.seed ^ split::hash(&[task.to_string()]));
        Ok(())
    }

    fn time(&mut self, executions: u32) -> Result<f64, DeviceError> {
        let unable = |why: &str| DeviceError::unable("synthetic", why);
        let task = self.task.ok_or_else(|| unable("nothing was made ready"))?;
        let law = law_of(&task).ok_or_else(|| unable("no law tells how long it takes"))?;
        let one = (law.seconds)(&(self.constants)(law), &task).unwrap_or(0.0);
        let noise = (self.noise * self.normal()).exp();
        let outlier = if self.random.random_bool(self.outliers) { OUTLIER } else { 1.0 };
        let seconds = one * f64::from(executions) * noise * outlier;
        self.elapsed += seconds;
        Ok(seconds)
    }

    fn conditions(&mut self) -> Conditions {
        Conditions::default()
    }

    fn elapsed(&self) -> f64 {
        self.elapsed
    }
}
