//! Measured times of kernels: a search takes them instead of estimates, as DeepCuts lets a device
//! choose among what its bound leaves, and so does the step.

use std::collections::BTreeMap;

use sim_core::time::Time;

use crate::graph::operator::{Stream, Work};

/// A kernel that was timed on a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeasuredKernel {
    /// The kernel, as `foretrain show FILE --kernels` writes it.
    pub kernel: String,
    /// Name of the GPU.
    pub gpu: String,
    /// Time from its first to its last thread block.
    pub time: Time,
}

impl MeasuredKernel {
    /// Names of its columns.
    pub const COLUMNS: [&str; 3] = ["kernel", "gpu", "measured_us"];

    /// A row of the texts of its columns. `None`: nobody has timed it.
    ///
    /// # Errors
    /// Fault and remedy.
    pub fn of([kernel, gpu, us]: [&str; 3]) -> Result<Option<Self>, [String; 2]> {
        if us.is_empty() {
            return Ok(None);
        }
        let known = us.parse::<f64>().ok().filter(|us| (MIN_US..=MAX_US).contains(us));
        let Some(us) = known else {
            let fault = format!("`measured_us` is `{us}`");
            return Err([fault, format!("write microseconds from {MIN_US} to {MAX_US}")]);
        };
        let (kernel, gpu) = (kernel.to_owned(), gpu.to_owned());
        Ok(Some(Self { kernel, gpu, time: Time((us * PS_PER_US).round() as u64) }))
    }
}

/// Limits of a time (us).
const MIN_US: f64 = 0.001;
const MAX_US: f64 = 1e9;
const PS_PER_US: f64 = 1e6;

/// Times of the kernels of a GPU, by name.
pub(crate) type OfGpu = BTreeMap<String, Time>;

/// The times of those that are of a GPU.
pub(crate) fn of_gpu(kernels: &[MeasuredKernel], gpu: &str) -> OfGpu {
    let own = kernels.iter().filter(|kernel| kernel.gpu == gpu);
    own.map(|kernel| (kernel.kernel.clone(), kernel.time)).collect()
}

/// The shape of a kernel in words, wherever it runs and whatever it finds in a cache.
pub(crate) fn name_of(work: &Work) -> String {
    match *work {
        Work::Stream(stream) => format!("{:?}", Stream { bytes_cached: 0, ..stream }),
        _ => format!("{work:?}"),
    }
}
