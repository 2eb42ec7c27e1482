//! How long a GPU kernel takes alone, and how that depends on the SMs it has.
//!
//! Seven shapes cover what a training step runs: a matrix product ([`Gemm`]), a grouped one
//! ([`GroupedGemm`]), a convolution ([`Convolution`]), flash attention ([`Attention`]), a pass over
//! memory ([`Stream`]), and of graphs typed products ([`Segments`]) and walks over edges
//! ([`Traversal`]). Attention with materialised scores is two batched products and the streams
//! between them. All follow the roofline (Williams, Waterman and Patterson, CACM 2009) with a
//! compute side that is quantised in tiles and waves:
//!
//! ```text
//! time(SMs) = start + max(compute(SMs), bytes / (achieved fraction x HBM bandwidth))
//! ```
//!
//! Near shapes that were measured, [`Corrections`] add what the formula does not know. A [`KernelCost`] states the time in the terms of the engine: a fixed latency, then `bytes` of HBM traffic at a speed that a
//! few [`SpeedRow`]s give over the SMs held. Who else uses HBM or holds SMs is the engine's business.

mod attention;
mod cache;
mod convolution;
mod corrections;
mod depthwise;
mod described;
mod draws;
mod fused;
mod gemm;
mod grouped;
mod libraries;
mod occupancy;
mod parameters;
mod place;
mod rows;
mod segments;
mod sequence;
mod spread;
mod stream;
pub mod tile;
mod traversal;
mod words;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sim_core::fixed::Rate;
use sim_core::program::{CapRow, CapTable};
use sim_core::time::Time;

use crate::catalogue::{Gpu, Multiprocessor};
use crate::provenance::Provenance;

pub use attention::{Attention, Pass};
pub use convolution::{Convolution, ConvolutionAlgorithm, ConvolutionPass};
pub use corrections::{Anchor, CORRECTIONS, CORRECTIONS_HEADER, Correct, Corrections};
pub use fused::{Arithmetic, Attached, Fused, FusedAnchor, Second};
pub use gemm::{Gemm, Layout};
pub use grouped::GroupedGemm;
pub use libraries::{Flash, Libraries, Speedup};
pub use occupancy::{BlockResources, Limit, Occupancy};
pub use parameters::{
    AlgorithmParameters, AttentionParameters, CacheParameters, ConvolutionParameters, DeviceKernels,
    GemmParameters, GraphParameters, GroupedParameters, KernelCatalogue, KernelParameters, PassParameters,
    StreamParameters,
};
pub use place::{Place, Shape};
pub use rows::SpeedRow;
pub use segments::Segments;
pub use spread::{SPREADS, SPREADS_HEADER, Spread, Spreads};
pub use stream::{Stream, StreamClass};
pub use traversal::{Traversal, Walk};

/// The catalogue of kernel parameters, `hw-models/catalogue/kernels.yaml`.
pub const KERNELS: &str = include_str!("../../catalogue/kernels.yaml");

/// The kernels of one GPU.
#[derive(Clone, Debug)]
pub struct KernelModel {
    /// The GPU.
    pub facts: GpuFacts,
    /// What was fitted or assumed for it.
    pub parameters: KernelParameters,
    /// How far measured shapes correct the formulas.
    pub correct: Correct,
}

/// What the kernel model needs to know of a GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct GpuFacts {
    /// Streaming multiprocessors.
    pub sms: u32,
    /// Peak of dense matrix products by type (FLOP/s).
    pub peak_flops: BTreeMap<Dtype, f64>,
    /// Peak of products in fp16 that are also summed in fp16 (FLOP/s). `None`: no products in fp16.
    pub fp16_sums_flops: Option<f64>,
    /// Limits and rates of an SM. `None`: unknown.
    pub multiprocessor: Option<Multiprocessor>,
    /// Nominal memory bandwidth (bytes/s).
    pub hbm_bytes_per_s: f64,
    /// Second-level cache (bytes).
    pub l2_bytes: f64,
    /// Clock of its SMs at its peak rates (Hz).
    pub clock_hz: f64,
    /// Clock that its SMs never exceed (Hz).
    pub highest_clock_hz: f64,
}

/// Type of the operands of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dtype {
    /// IEEE single precision on the ordinary cores.
    Fp32,
    /// Single precision in memory, 10 bits of mantissa in the tensor cores.
    Tf32,
    /// IEEE half precision, accumulated in fp32.
    Fp16,
    /// bfloat16, accumulated in fp32.
    Bf16,
    /// 8-bit floating point, accumulated in fp32.
    Fp8,
}

/// What a kernel costs, see the [module](self).
#[derive(Clone, Debug, PartialEq)]
pub struct KernelCost {
    /// From the moment it may start to the moment its blocks run: ramp-up and drain.
    pub fixed: Time,
    /// HBM traffic, read and written: the work of its activity.
    pub bytes: u64,
    /// Floating-point operations of its formula (not those of padded tiles).
    pub flops: f64,
    /// The most SMs it can use.
    pub sms_wanted: u32,
    /// Speed over the SMs held, ascending, never empty.
    pub rows: Vec<SpeedRow>,
    /// Which parameters it rests on; [`KernelModel::provenance`] tells where they are from.
    pub class: KernelClass,
}

/// The parameters a kernel time rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KernelClass {
    /// Matrix product of a type.
    Gemm(Dtype),
    /// Batch of matrix products of a type.
    Batched(Dtype),
    /// Grouped matrix product of a type.
    Grouped(Dtype),
    /// Convolution of a type.
    Convolution(Dtype),
    /// A pass of flash attention.
    Attention(Pass),
    /// Pass over memory.
    Stream(StreamClass),
    /// Products of rows with one weight for each segment, of a type.
    Segments(Dtype),
    /// Walk over edges of a graph.
    Traversal,
}

/// A kernel, or a row of constants, that has no time, in a sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct KernelError(String);

impl KernelError {
    fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// No parameters of something, but of what is known.
    fn no_parameters(what: &str, known: impl Iterator<Item = String>) -> Self {
        let known = known.collect::<Vec<_>>().join(", ");
        Self(format!("no kernel parameters for {what}; `kernels` of the catalogue has them for {known}"))
    }
}

impl GpuFacts {
    /// Those of a GPU of the catalogue at a clock relative to that of its peak rates: products slow down with it, memory
    /// does not.
    pub fn of(gpu: &Gpu, clock: f64) -> Self {
        let peak = &gpu.peak_tflops;
        let peaks = [
            (Dtype::Fp32, Some(peak.fp32)),
            (Dtype::Tf32, peak.tf32),
            (Dtype::Fp16, peak.fp16),
            (Dtype::Bf16, peak.bf16),
            (Dtype::Fp8, peak.fp8),
        ];
        let known = peaks.into_iter().filter_map(|(dtype, peak)| Some((dtype, peak? * 1e12 * clock)));
        Self {
            sms: gpu.sms,
            peak_flops: known.collect(),
            fp16_sums_flops: peak.fp16_accumulating_fp16.or(peak.fp16).map(|peak| peak * 1e12 * clock),
            multiprocessor: gpu.multiprocessor.clone(),
            hbm_bytes_per_s: gpu.bandwidth_gb_per_s * 1e9,
            l2_bytes: gpu.l2_mib * f64::from(1 << 20),
            clock_hz: gpu.clock_mhz * 1e6 * clock,
            highest_clock_hz: gpu.highest_clock_mhz.unwrap_or(gpu.clock_mhz) * 1e6 * clock,
        }
    }
}

impl KernelModel {
    /// The kernels of a GPU with `facts`, corrected as far as it was measured.
    pub fn new(facts: GpuFacts, parameters: KernelParameters) -> Self {
        Self { facts, parameters, correct: Correct::default() }
    }

    /// The same kernels, corrected by measured shapes as `correct` says.
    #[must_use]
    pub fn correcting(self, correct: Correct) -> Self {
        Self { correct, ..self }
    }

    /// Where the parameters of a class are from.
    ///
    /// # Errors
    /// When there are none for the class.
    pub fn provenance(&self, class: KernelClass) -> Result<&Provenance, KernelError> {
        Ok(match class {
            KernelClass::Gemm(dtype) => &self.parameters.gemm(dtype)?.provenance,
            KernelClass::Batched(dtype) => &self.parameters.batched(dtype)?.provenance,
            KernelClass::Grouped(Dtype::Fp8) => {
                self.parameters.grouped(Dtype::Fp8)?;
                &grouped::IN_8_BITS
            }
            KernelClass::Grouped(dtype) => &self.parameters.grouped(dtype)?.provenance,
            KernelClass::Convolution(dtype) => &self.parameters.convolution(dtype)?.provenance,
            KernelClass::Attention(_) => &self.parameters.attention.provenance,
            KernelClass::Stream(class) => &self.parameters.stream(class)?.provenance,
            KernelClass::Segments(_) | KernelClass::Traversal => &self.parameters.graph.provenance,
        })
    }

    /// Peak for a type (FLOP/s).
    pub fn peak(&self, dtype: Dtype) -> Result<f64, KernelError> {
        let peaks = &self.facts.peak_flops;
        peaks.get(&dtype).copied().filter(|&peak| peak > 0.0).ok_or_else(|| {
            let known = peaks.keys().map(Dtype::to_string).collect::<Vec<_>>().join(", ");
            KernelError(format!(
                "the GPU has no {dtype} matrix rate; it has {known}: choose one of these or give `peak` for {dtype}"
            ))
        })
    }

    /// Time of the matrix products of a kernel at the peak rate of their type; none for passes.
    /// Attention multiplies in half precision.
    ///
    /// # Errors
    /// GPUs without a rate for the type.
    pub fn at_peak(&self, cost: &KernelCost) -> Result<Time, KernelError> {
        let peak = match cost.class {
            KernelClass::Gemm(dtype)
            | KernelClass::Batched(dtype)
            | KernelClass::Grouped(dtype)
            | KernelClass::Segments(dtype)
            | KernelClass::Convolution(dtype) => self.peak(dtype)?,
            KernelClass::Attention(_) => self.peak(Dtype::Bf16).or_else(|_| self.peak(Dtype::Fp16))?,
            KernelClass::Stream(_) | KernelClass::Traversal => return Ok(Time::ZERO),
        };
        Ok(picoseconds(cost.flops / peak))
    }

    /// Time in which a number of SMs adds elements by atomics (s).
    fn atomic_seconds(&self, elements: u64, sms: u32) -> f64 {
        let of_sm = self.parameters.graph.atomics_per_clock * self.facts.clock_hz;
        elements as f64 / (of_sm * f64::from(sms))
    }

    /// What a streaming kernel of a class reaches with `sms` SMs (bytes/s): fewer than
    /// [`KernelParameters::saturating_sms`] of all cannot keep enough requests in flight to saturate HBM.
    fn bandwidth(&self, achieved: f64, sms: u32) -> f64 {
        let saturating = self.parameters.saturating_sms * f64::from(self.facts.sms.max(1));
        achieved * self.facts.hbm_bytes_per_s * (f64::from(sms) / saturating).min(1.0)
    }
}

impl KernelCost {
    /// Its time with all the SMs it wants and HBM for itself.
    pub fn alone(&self) -> Time {
        self.fixed.saturating_add(picoseconds(self.of_blocks()))
    }

    /// Its time with at most so many SMs, and HBM for itself; it needs one at least.
    pub fn on(&self, sms: u32) -> Time {
        let row = self.rows.iter().rev().find(|row| row.sms <= sms).or(self.rows.first());
        let blocks = row.map_or(0.0, |row| self.bytes as f64 / row.bytes_per_s);
        self.fixed.saturating_add(picoseconds(blocks))
    }

    /// Costs of a kernel that was found to take `time` alone beside a memory of `hbm` (bytes/s):
    /// bytes that it could not bring in that time come out of a cache.
    #[must_use]
    pub fn taking(self, time: Time, hbm: f64) -> Self {
        let times = time.as_secs() / self.alone().as_secs();
        let fixed = picoseconds(self.fixed.as_secs() * times);
        let most = hbm * time.saturating_sub(fixed).as_secs();
        let bytes = self.bytes.min(most as u64).max(1);
        let speed = bytes as f64 / self.bytes as f64 / times;
        let at_speed = |row: SpeedRow| SpeedRow { bytes_per_s: row.bytes_per_s * speed, ..row };
        Self { fixed, bytes, rows: self.rows.into_iter().map(at_speed).collect(), ..self }
    }

    /// Its speeds as the engine takes them, of an activity that moves `bytes` in the same time, where the memory gives all kernels
    /// together at most `hbm`.
    pub fn speeds(&self, bytes: u64, hbm: Rate) -> CapTable {
        let row = |row: &SpeedRow| CapRow {
            units: row.sms,
            cap: Rate::per_second(row.bytes_per_s * bytes as f64 / self.bytes as f64).min(hbm),
            waves: row.waves,
        };
        CapTable { rows: self.rows.iter().map(row).collect() }
    }

    /// The same without its start (s).
    pub fn of_blocks(&self) -> f64 {
        self.bytes as f64 / self.rows.last().map_or(f64::INFINITY, |row| row.bytes_per_s)
    }
}

impl Dtype {
    /// All types.
    pub const ALL: [Self; 5] = [Self::Fp32, Self::Tf32, Self::Fp16, Self::Bf16, Self::Fp8];

    /// Bytes of one element in memory.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Fp32 | Self::Tf32 => 4,
            Self::Fp16 | Self::Bf16 => 2,
            Self::Fp8 => 1,
        }
    }
}

impl std::fmt::Display for Dtype {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.serialize(f)
    }
}

impl std::fmt::Display for KernelClass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Gemm(dtype) => write!(f, "gemm-{dtype}"),
            Self::Batched(dtype) => write!(f, "batched-{dtype}"),
            Self::Grouped(dtype) => write!(f, "grouped-{dtype}"),
            Self::Convolution(dtype) => write!(f, "convolution-{dtype}"),
            Self::Attention(pass) => write!(f, "attention-{pass}"),
            Self::Stream(class) => class.fmt(f),
            Self::Segments(dtype) => write!(f, "segments-{dtype}"),
            Self::Traversal => f.write_str("traversal"),
        }
    }
}

/// Seconds as whole picoseconds; what does not fit is [`Time::NEVER`].
pub(crate) fn picoseconds(seconds: f64) -> Time {
    // `as` saturates, and takes NaN to 0.
    Time((seconds.max(0.0) * 1e12).round() as u64)
}
