//! Products and convolutions with elementwise members behind them, in one kernel: an epilogue,
//! which each thread block executes on the sums of its tile before it stores them.
//!
//! An epilogue adds to the kernel, by resources alone, all but the pass that it makes needless:
//!
//! ```text
//! HBM       bytes of the anchor, less its output where nobody reads it as such, and what members
//!           read and write
//! epilogue  = max(instructions / issued a clock, special functions / special units,
//!                 read beside / share of HBM, elements of a warp x clocks of a chain)
//!                                                              of a tile on its SM
//! an SM     = n (tile + epilogue)                              one block: nothing runs beside
//!           = n max(tile, epilogue) + min(tile, epilogue)      several: one multiplies while
//!                                                              another ends; chains overlap
//! ```
//!
//! A chain is what one element takes where the compiler does not let elements overlap: a division
//! after IEEE calls a slow path, and threads wait for each other behind it. Few warps an SM, as
//! large tiles have, do not hide that; the many warps of a pass over memory do.

use crate::catalogue::WARP;

use super::{BlockResources, Convolution, Dtype, Gemm, KernelCost, KernelError, KernelModel, Occupancy};

/// A product or a convolution with members behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fused {
    /// Maker of the elements.
    pub anchor: FusedAnchor,
    /// Functions of each of them.
    pub epilogue: Epilogue,
}

/// The operator that a fused kernel is built around.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FusedAnchor {
    /// A matrix product.
    Gemm(Gemm),
    /// A convolution.
    Convolution(Convolution),
}

/// Members behind an anchor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Epilogue {
    /// Instructions for an element.
    pub arithmetic: Arithmetic,
    /// Read beside the operands of the anchor (bytes).
    pub read: u64,
    /// Written by the kernel (bytes): the output of the anchor only where somebody reads it.
    pub written: u64,
}

/// Arithmetic on an element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Arithmetic {
    /// Instructions of the ordinary units.
    pub ordinary: u32,
    /// Instructions of the special-function units: exponentials, reciprocals.
    pub special: u32,
    /// Clocks of an element where none overlap; 0 where they do.
    pub chain: u32,
}

/// The epilogue of a tile.
#[derive(Clone, Copy, Debug)]
pub(super) struct Behind {
    /// Its time on an SM (s).
    alone: f64,
    /// Its share of that time where all blocks of the SM are at theirs (s): chains of different
    /// blocks overlap.
    among: f64,
    /// Blocks that an SM runs at once.
    resident: u32,
}

/// Resources that a tile of a library's kernels holds of its SM.
struct Held {
    warps: u32,
    /// Blocks that an SM runs at once.
    resident: u32,
}

/// Elements of a row of both operands that a library's kernel loads at a time, as bytes.
const STEP_BYTES: u32 = 64;
/// Buffers of such steps: two, and with asynchronous copies (of compute capability 8.0 and later,
/// whose SMs have more than 96 KiB of shared memory) four, the middle of the three to five that
/// CUTLASS is generated with for tiles 128 x 128 (`gen_conv2d.py` of apache/tvm).
const BUFFERS: [u32; 2] = [2, 4];
/// Registers of a thread beside its sums: fragments of both operands, addresses, counters.
const OTHER_REGISTERS: u32 = 48;
/// Elements of the largest tile that four warps share, 64 x 64 each; larger ones have eight
/// (`warpsize2x2x1` and `warpsize4x2x1` in names of cuDNN's kernels).
const TILE_OF_FOUR: u32 = 128 * 128;

impl KernelModel {
    /// An anchor with its members.
    ///
    /// # Errors
    /// As [`Self::gemm`] and [`Self::convolution`].
    pub fn fused(&self, fused: &Fused) -> Result<KernelCost, KernelError> {
        match &fused.anchor {
            FusedAnchor::Gemm(gemm) => self.gemm_with(gemm, &fused.epilogue),
            FusedAnchor::Convolution(convolution) => self.convolution_with(convolution, &fused.epilogue),
        }
    }

    /// Time below which no kernel can move `bytes` of HBM and multiply so much in a type (s).
    pub fn least_seconds(&self, bytes: u64, (flops, dtype): (f64, Option<Dtype>)) -> f64 {
        let peak = dtype.and_then(|dtype| self.facts.peak_flops.get(&dtype));
        let multiplying = peak.map_or(0.0, |peak| flops / peak);
        multiplying.max(bytes as f64 / self.facts.hbm_bytes_per_s)
    }

    /// The epilogue of a tile, of so many elements in all.
    pub(super) fn behind(&self, epilogue: &Epilogue, tile: [u32; 2], elements: f64, achieved: f64) -> Behind {
        if epilogue.is_none() {
            return Behind { alone: 0.0, among: 0.0, resident: 1 };
        }
        let area = f64::from(tile[0]) * f64::from(tile[1]);
        let Held { warps, resident } = self.held(tile);
        let chained =
            area / f64::from(WARP * warps) * f64::from(epilogue.arithmetic.chain) / self.facts.clock_hz;
        let read = epilogue.read as f64 * area / elements.max(1.0);
        let bandwidth = achieved * self.facts.hbm_bytes_per_s / f64::from(self.facts.sms.max(1));
        let issued = self.issue_seconds(epilogue, area, 1);
        let busy = issued.max(read / bandwidth);
        Behind { alone: busy.max(chained), among: busy.max(chained / f64::from(resident)), resident }
    }

    /// Time of so many SMs to issue the instructions of elements (s).
    pub(super) fn issue_seconds(&self, epilogue: &Epilogue, elements: f64, sms: u32) -> f64 {
        let Arithmetic { ordinary, special, .. } = epilogue.arithmetic;
        let (issued, special_lanes) = self
            .facts
            .multiprocessor
            .as_ref()
            .map_or((1.0, 1.0), |sm| (f64::from(sm.schedulers * WARP), f64::from(sm.special_lanes)));
        let clocks = (f64::from(ordinary) / issued).max(f64::from(special) / special_lanes);
        elements * clocks / (self.facts.clock_hz * f64::from(sms))
    }

    /// Resources of a tile on an SM; alone on it where its limits are not known.
    fn held(&self, tile: [u32; 2]) -> Held {
        let warps = if tile[0] * tile[1] > TILE_OF_FOUR { 8 } else { 4 };
        let Some(sm) = &self.facts.multiprocessor else { return Held { warps, resident: 1 } };
        let threads = warps * WARP;
        let buffers = BUFFERS[usize::from(sm.shared_bytes > 96 << 10)];
        let block = BlockResources {
            threads,
            registers: (tile[0] * tile[1] / threads + OTHER_REGISTERS).min(sm.registers_per_thread),
            shared_bytes: buffers * (tile[0] + tile[1]) * STEP_BYTES,
        };
        Held { warps, resident: Occupancy::of(sm, &block).blocks.max(1) }
    }
}

impl Fused {
    /// Bytes that it reads and writes, each once.
    pub fn bytes(&self) -> u64 {
        let (whole, output) = match &self.anchor {
            FusedAnchor::Gemm(gemm) => (gemm.bytes(), gemm.output_bytes()),
            FusedAnchor::Convolution(convolution) => (convolution.bytes(), convolution.output_bytes()),
        };
        self.epilogue.traffic(whole, output)
    }
}

impl Behind {
    /// An SM with `count` tiles that take `seconds` each without it (s).
    pub(super) fn of_tiles(self, count: f64, seconds: f64) -> f64 {
        if self.resident < 2 {
            count * (seconds + self.alone)
        } else {
            count * seconds.max(self.among) + seconds.min(self.alone)
        }
    }
}

impl Epilogue {
    /// No members.
    pub const NONE: Self =
        Self { arithmetic: Arithmetic { ordinary: 0, special: 0, chain: 0 }, read: 0, written: 0 };

    /// True of an anchor by itself.
    pub fn is_none(&self) -> bool {
        *self == Self::NONE
    }

    /// HBM traffic of a kernel that moves `whole` bytes without members, `output` of these for what
    /// they take (bytes).
    pub(super) fn traffic(&self, whole: u64, output: u64) -> u64 {
        if self.is_none() {
            return whole;
        }
        whole.saturating_sub(output).saturating_add(self.read).saturating_add(self.written).max(1)
    }
}

impl std::ops::Add for Arithmetic {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            ordinary: self.ordinary + other.ordinary,
            special: self.special + other.special,
            chain: self.chain + other.chain,
        }
    }
}
