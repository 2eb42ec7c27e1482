//! Kernels among which a search of groups chooses, as a file for `techniques.fusion.measured`.

use serde::Serialize;
use workloads::passes::fusion::Candidate;
use workloads::plan::PlanError;

use crate::plans::{self, machine};
use crate::schema::Scenario;

/// A kernel, as a row of the file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KernelRow {
    /// Its shape in words.
    pub kernel: String,
    /// Name of the GPU.
    pub gpu: String,
    /// Time to be filled in (us).
    pub measured_us: Option<f64>,
    /// Operators of the first group that it is the kernel of, joined by ` + `.
    pub members: String,
    /// Groups of the model that it is the kernel of.
    pub groups: u64,
    /// Bytes that it reads and writes.
    pub bytes: u64,
    /// Floating-point operations of its products.
    pub flops: f64,
    /// Below which its time cannot be (us).
    pub bound_us: f64,
    /// Time without a measurement (us).
    pub estimate_us: f64,
}

/// Kernels of a scenario that searches groups.
///
/// # Errors
/// Why there are none, in words.
pub fn kernels(scenario: &Scenario) -> Result<Vec<KernelRow>, String> {
    let mut estimated = scenario.clone();
    if let Some(fusion) = &mut estimated.techniques.fusion {
        fusion.kernels = Default::default();
    }
    let told = |error: PlanError| error.to_string();
    let candidates = plans::candidates(&estimated).map_err(told)?;
    if candidates.is_empty() {
        let remedy = "write `techniques: { fusion: { policy: searched } }`";
        return Err(format!("no kernels are compared by their times: {remedy}"));
    }
    let machine = machine::of(scenario).map_err(told)?;
    let gpu = machine.gpu_kinds().first().map_or_else(String::new, |(name, _)| name.clone());
    let measured = scenario.techniques.fusion.iter().flat_map(|fusion| fusion.kernels.iter());
    let micro = |seconds: f64| (seconds * 1e9).round() / 1e3;
    let row = |candidate: Candidate| {
        let Candidate { kernel, members, groups, bytes, flops, bound, time } = candidate;
        let known = measured.clone().find(|it| it.kernel == kernel && it.gpu == gpu);
        KernelRow {
            measured_us: known.map(|it| micro(it.time.as_secs())),
            gpu: gpu.clone(),
            members: members.join(" + "),
            groups,
            bytes,
            flops,
            bound_us: micro(bound),
            estimate_us: micro(time),
            kernel,
        }
    };
    Ok(candidates.into_iter().map(row).collect())
}
