//! Kernels from parts: a contraction in tiles, with elementwise members before and after it.
//!
//! A thread block computes a tile of the output in steps along the contraction. The cost of a step
//! follows from resources alone: multiply-adds, instructions, special functions, passes over
//! shared memory and bytes from the L2 cache are each a number of clocks on an SM, of which the
//! largest counts and the others are hidden but for a share. Registers and shared memory decide
//! how many blocks an SM holds, and so how much of the latency of loads is hidden:
//!
//! ```text
//! work    = largest + serial (sum - largest)                                  clocks of a step
//! wave(b) = steps x max(b work, latency + work alone) + first load + b last    of b blocks on an SM
//! time    = start + largest + serial (smaller), of waves / clock and DRAM bytes / achieved bandwidth
//! ```
//!
//! A fused kernel differs from an unfused one in its [`Members`] only. [`TileModel::bound`] is what
//! no implementation of a tile can beat.

mod bank_patterns;
mod bound;
mod demand;
mod estimate;
mod registers;

use serde::{Deserialize, Serialize};

use super::{Convolution, ConvolutionPass, Dtype, Gemm, KernelError, KernelModel, StreamClass};
use crate::catalogue::{Multiprocessor, WARP};
use crate::provenance::Provenance;

pub use estimate::{Resource, TileEstimate};

/// A kernel: a contraction, how it is cut into tiles, and its elementwise members.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TiledKernel {
    /// Contraction.
    pub anchor: Anchor,
    /// Implementation parameters.
    pub tile: Tile,
    /// Members applied to each element of the first operand as it is loaded; their bytes cross the
    /// bus to the L2 cache.
    pub before: Members,
    /// Members applied to each element of the output.
    pub after: Members,
}

/// A contraction: `m x k` with `k x n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// Rows of the output.
    pub m: u64,
    /// Columns of the output.
    pub n: u64,
    /// Extent that is summed over.
    pub k: u64,
    /// Type of the operands and of the output.
    pub dtype: Dtype,
    /// Sums are in fp16 too.
    pub fp16_sums: bool,
    /// Both operands once (bytes): windows of a convolution overlap, so its input is less than `m x k`.
    pub operand_bytes: u64,
}

/// Elementwise members: instructions of an element, and its bytes beside the anchor's.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Members {
    /// Ordinary instructions.
    pub ordinary: f64,
    /// Special functions: exp2, log2, reciprocal, sine.
    pub special: f64,
    /// Bytes read.
    pub read: f64,
    /// Bytes written.
    pub written: f64,
}

/// Implementation parameters of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// Rows of the output.
    pub m: u32,
    /// Columns of the output.
    pub n: u32,
    /// Elements of the contraction that a step covers.
    pub k: u32,
    /// Warps of a block.
    pub warps: u32,
    /// Parts of the contraction, each a block of its own.
    pub splits: u32,
    /// Units that multiply, and how operands reach them.
    pub units: Units,
}

/// Units that multiply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Units {
    /// Ordinary lanes: each thread has a part of the tile in registers.
    Lanes(Lanes),
    /// Tensor cores, with operands in shared memory.
    Tensor {
        /// Rows and columns of the tile that are multiplied from one reading of their operands.
        fragment: [u32; 2],
        /// Steps whose operands are in shared memory at a time.
        stages: u32,
    },
}

/// A tile on ordinary lanes; pairs are of the first and the second operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lanes {
    /// Threads along the rows of the tile.
    pub across: u32,
    /// Elements of the contraction that a thread loads before it multiplies them.
    pub unroll: u32,
    /// Elements of a load.
    pub vectors: [u32; 2],
    /// Threads along the tile that copy it to shared memory. `None`: threads read the operand from
    /// where it is, through the first-level cache.
    pub copies: [Option<u32>; 2],
}

/// Constants of a generation for kernels in tiles, fitted on measured ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TileParameters {
    /// Clock that is held, over that of the peak rates.
    pub clock: f64,
    /// Share of the work of other resources that the busiest one does not hide.
    pub serial: f64,
    /// Latency of a load on a busy SM, over that on an idle one.
    pub latency: f64,
    /// Times that a spilled register is stored and loaded in a step.
    pub spill: f64,
    /// Share of the bus to the L2 cache that is reached.
    pub l2: f64,
    /// Ramp-up and drain of the kernel (us).
    pub start_us: f64,
    /// Where they are from.
    pub provenance: Provenance,
}

/// Kernels in tiles of one type on one GPU: what estimates and bounds need, looked up once.
#[derive(Clone, Copy, Debug)]
pub struct TileModel<'a> {
    sm: &'a Multiprocessor,
    parameters: &'a TileParameters,
    sms: u32,
    /// Multiply-adds of an SM in a clock.
    multiplies: f64,
    clock_hz: f64,
    highest_clock_hz: f64,
    hbm_bytes_per_s: f64,
    achieved: f64,
    l2_bytes: f64,
}

impl KernelModel {
    /// Kernels in tiles with operands of a type, and sums in fp16 where that is said.
    ///
    /// # Errors
    /// When the GPU's multiprocessor is unknown, it has no rate for the type, or its generation no
    /// constants of tiles.
    pub fn tiles(&self, dtype: Dtype, fp16_sums: bool) -> Result<TileModel<'_>, KernelError> {
        let facts = &self.facts;
        let sm = facts.multiprocessor.as_ref().ok_or_else(|| {
            KernelError::new("the limits of an SM of the GPU are unknown: take one that `foretrain list gpus` shows with a compute capability")
        })?;
        let parameters = self.parameters.tile.as_ref().ok_or_else(|| {
            KernelError::no_parameters(
                "tiles of the GPU's generation",
                ["turing", "hopper"].map(String::from).into_iter(),
            )
        })?;
        let peak = match (dtype, fp16_sums) {
            (Dtype::Fp16, true) => facts.fp16_sums_flops.map_or_else(|| self.peak(dtype), Ok)?,
            _ => self.peak(dtype)?,
        };
        Ok(TileModel {
            sm,
            parameters,
            sms: facts.sms.max(1),
            multiplies: peak / (2.0 * f64::from(facts.sms.max(1)) * facts.clock_hz),
            clock_hz: facts.clock_hz,
            highest_clock_hz: facts.highest_clock_hz,
            hbm_bytes_per_s: facts.hbm_bytes_per_s,
            achieved: self.parameters.stream(StreamClass::Elementwise)?.achieved,
            l2_bytes: facts.l2_bytes,
        })
    }
}

impl TileModel<'_> {
    /// The constants of the generation.
    pub const fn parameters(&self) -> &TileParameters {
        self.parameters
    }
}

impl TiledKernel {
    /// Blocks of the kernel.
    pub fn blocks(&self) -> u64 {
        let Tile { m, n, splits, .. } = self.tile;
        let rows = self.anchor.m.div_ceil(m.max(1).into());
        let columns = self.anchor.n.div_ceil(n.max(1).into());
        rows.saturating_mul(columns).saturating_mul(splits.max(1).into())
    }

    /// Steps of a block.
    fn steps(&self) -> u64 {
        self.anchor.k.div_ceil(self.tile.splits.max(1).into()).div_ceil(self.tile.k.max(1).into())
    }

    /// Bytes that no implementation can do without: operands, output and what members touch, once.
    pub fn compulsory_bytes(&self) -> f64 {
        let Anchor { m, n, dtype, operand_bytes, .. } = self.anchor;
        let outputs = m as f64 * n as f64;
        let beside = self.after.read + self.after.written;
        operand_bytes as f64 + outputs * (dtype.bytes() as f64 + beside)
    }
}

impl Anchor {
    /// One product.
    pub const fn product(gemm: &Gemm) -> Self {
        let Gemm { m, n, k, dtype, .. } = *gemm;
        let operands = m.saturating_mul(k).saturating_add(n.saturating_mul(k));
        Self { m, n, k, dtype, fp16_sums: false, operand_bytes: operands.saturating_mul(dtype.bytes()) }
    }

    /// The implicit product of a convolution's forward pass. `None`: a gradient, or channels in groups.
    pub fn convolution(convolution: &Convolution) -> Option<Self> {
        let of = convolution;
        if of.pass != ConvolutionPass::Forward || of.groups > 1 {
            return None;
        }
        let [height, width] = of.output();
        let window = of.filter[0].saturating_mul(of.filter[1]);
        let inputs = [of.batch, of.in_channels, of.input[0], of.input[1]];
        let inputs = inputs.into_iter().fold(1, u64::saturating_mul);
        Some(Self {
            m: of.batch.saturating_mul(height).saturating_mul(width),
            n: of.out_channels,
            k: of.in_channels.saturating_mul(window),
            dtype: of.dtype,
            fp16_sums: false,
            operand_bytes: inputs.saturating_add(of.weights()).saturating_mul(of.dtype.bytes()),
        })
    }
}

impl Tile {
    /// Threads of a block.
    pub const fn threads(&self) -> u32 {
        self.warps.saturating_mul(WARP)
    }

    /// Shared memory of a block (bytes).
    pub fn shared_bytes(&self, dtype: Dtype) -> u32 {
        let element = dtype.bytes() as u32;
        let of_step = |extent: u32| extent.saturating_mul(self.k).saturating_mul(element);
        match self.units {
            Units::Tensor { stages, .. } => of_step(self.m.saturating_add(self.n)).saturating_mul(stages),
            Units::Lanes(Lanes { copies, .. }) => {
                let held = |at: usize, extent: u32| if copies[at].is_some() { extent } else { 0 };
                of_step(held(0, self.m).saturating_add(held(1, self.n)))
            }
        }
    }
}
