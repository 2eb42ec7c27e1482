//! Products and convolutions with elementwise members around them, in one kernel: a prologue, which
//! each thread block executes on the elements of the first operand that its tile loads, and an
//! epilogue on the sums of its tile before it stores them.
//!
//! Members add to the kernel, by resources alone, all but the pass that they make needless:
//!
//! ```text
//! HBM       bytes of the anchor, less its output where nobody reads it as such, less its first
//!           operand where a prologue makes it, and what members read and write
//! prologue  = instructions of tile rows x contraction elements: tiles side by side, and places of
//!             a filter, each do it again
//! epilogue  = max(instructions / issued a clock, special functions / special units,
//!                 read beside / share of HBM, elements of a warp x clocks of a chain)
//!                                                              of a tile on its SM
//! tile      = products + prologue                              one block: nothing runs beside
//!           = max(products, prologue)                          several
//! an SM     = n (tile + epilogue)                              one block
//!           = n max(tile, epilogue) + min(tile, epilogue)      several: one multiplies while
//!                                                              another ends; chains overlap
//! ```
//!
//! A chain is what one element takes where the compiler does not let elements overlap: a division
//! after IEEE calls a slow path, and threads wait for each other behind it. Few warps an SM, as
//! large tiles have, do not hide that; the many warps of a pass over memory do.

use crate::catalogue::WARP;

use super::{BlockResources, Convolution, Dtype, Gemm, KernelCost, KernelError, KernelModel, Occupancy};

/// A product or a convolution with members around it, or two of them in sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fused {
    /// Maker of the elements.
    pub anchor: FusedAnchor,
    /// Members around it, and traffic of all members of the kernel.
    pub attached: Attached,
    /// Anchor that takes what the first one makes.
    pub second: Option<Second>,
}

/// An anchor that finds its first operand in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Second {
    /// Maker of the elements.
    pub anchor: FusedAnchor,
    /// Instructions of members behind it, for an element.
    pub behind: Arithmetic,
}

/// The operator that a fused kernel is built around.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FusedAnchor {
    /// A matrix product.
    Gemm(Gemm),
    /// A convolution.
    Convolution(Convolution),
}

/// Members around an anchor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Attached {
    /// Instructions for an element of the first operand. `None`: it is read as it is.
    pub before: Option<Arithmetic>,
    /// Instructions for an element of the output.
    pub behind: Arithmetic,
    /// Read beside the operands of anchors (bytes).
    pub read: u64,
    /// Written by the kernel (bytes): the output of an anchor only where somebody reads it.
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

/// Members of a tile.
#[derive(Clone, Copy, Debug)]
pub(super) struct OfTile {
    /// Time of its prologue on an SM, for an element of the contraction (s).
    before: f64,
    /// Time of its epilogue on an SM (s).
    alone: f64,
    /// Its share of that time where all blocks of the SM are at theirs (s): chains of different
    /// blocks overlap.
    among: f64,
    /// Blocks that an SM runs at once.
    resident: u32,
}

/// Resources that a tile of a library's kernels holds of its SM.
pub(super) struct Held {
    pub(super) warps: u32,
    /// Blocks that an SM runs at once; 0: it does not fit.
    pub(super) resident: u32,
}

/// Speed at which an SM multiplies tiles of an anchor.
#[derive(Clone, Copy, Debug)]
pub(super) struct TileLaw {
    /// Rate of a full tile (FLOP/s).
    pub(super) rate: f64,
    /// Area of a full tile.
    pub(super) full: f64,
    /// Fall of the rate with the area of smaller ones.
    pub(super) exponent: f64,
    /// Filling and draining a tile's pipeline, in elements of the contraction.
    pub(super) prologue_k: f64,
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
    /// An anchor with its members, or two anchors.
    ///
    /// # Errors
    /// As [`Self::gemm`] and [`Self::convolution`]; of two anchors also when no tile of what is
    /// between fits into the shared memory of an SM.
    pub fn fused(&self, fused: &Fused) -> Result<KernelCost, KernelError> {
        match (&fused.second, &fused.anchor) {
            (Some(second), _) => self.sequence(fused, second),
            (None, FusedAnchor::Gemm(gemm)) => self.gemm_with(gemm, &fused.attached),
            (None, FusedAnchor::Convolution(convolution)) => {
                self.convolution_with(convolution, &fused.attached)
            }
        }
    }

    /// Time below which no kernel can move `bytes` of HBM and multiply so much in a type (s).
    pub fn least_seconds(&self, bytes: u64, (flops, dtype): (f64, Option<Dtype>)) -> f64 {
        let peak = dtype.and_then(|dtype| self.facts.peak_flops.get(&dtype));
        let multiplying = peak.map_or(0.0, |peak| flops / peak);
        multiplying.max(bytes as f64 / self.facts.hbm_bytes_per_s)
    }

    /// Members of a tile, with the number of its elements in all.
    pub(super) fn of_tile(
        &self,
        attached: &Attached,
        tile: [u32; 2],
        elements: f64,
        achieved: f64,
    ) -> OfTile {
        if attached.is_none() {
            return OfTile { before: 0.0, alone: 0.0, among: 0.0, resident: 1 };
        }
        let area = f64::from(tile[0]) * f64::from(tile[1]);
        let held = self.held(tile, 0);
        let held = Held { resident: held.resident.max(1), ..held };
        let rows = f64::from(tile[0]);
        let before = attached.before.map_or(0.0, |before| self.members(&[(before, rows)], &held).alone);
        let read = attached.read as f64 * area / elements.max(1.0);
        let bandwidth = achieved * self.facts.hbm_bytes_per_s / f64::from(self.facts.sms.max(1));
        OfTile { before, ..self.members(&[(attached.behind, area)], &held).reading(read / bandwidth) }
    }

    /// Members of a block, each with its elements.
    pub(super) fn members(&self, all: &[(Arithmetic, f64)], held: &Held) -> OfTile {
        let issued: f64 = all.iter().map(|&(each, elements)| self.issue_seconds(each, elements, 1)).sum();
        let clocks: f64 = all.iter().map(|&(each, elements)| elements * f64::from(each.chain)).sum();
        let chained = clocks / f64::from(WARP * held.warps) / self.facts.clock_hz;
        let resident = held.resident.max(1);
        let among = issued.max(chained / f64::from(resident));
        OfTile { before: 0.0, alone: issued.max(chained), among, resident }
    }

    /// Time of so many SMs to issue the instructions of elements (s).
    pub(super) fn issue_seconds(&self, each: Arithmetic, elements: f64, sms: u32) -> f64 {
        let Arithmetic { ordinary, special, .. } = each;
        let (issued, special_lanes) = self
            .facts
            .multiprocessor
            .as_ref()
            .map_or((1.0, 1.0), |sm| (f64::from(sm.schedulers * WARP), f64::from(sm.special_lanes)));
        let clocks = (f64::from(ordinary) / issued).max(f64::from(special) / special_lanes);
        elements * clocks / (self.facts.clock_hz * f64::from(sms))
    }

    /// Resources of a tile on an SM, with bytes of shared memory for more than its operands; alone
    /// on it where its limits are not known.
    pub(super) fn held(&self, tile: [u32; 2], more_bytes: u32) -> Held {
        let warps = if tile[0] * tile[1] > TILE_OF_FOUR { 8 } else { 4 };
        let Some(sm) = &self.facts.multiprocessor else { return Held { warps, resident: 1 } };
        let threads = warps * WARP;
        let buffers = BUFFERS[usize::from(sm.shared_bytes > 96 << 10)];
        let block = BlockResources {
            threads,
            registers: (tile[0] * tile[1] / threads + OTHER_REGISTERS).min(sm.registers_per_thread),
            shared_bytes: (buffers * (tile[0] + tile[1]) * STEP_BYTES).saturating_add(more_bytes),
        };
        Held { warps, resident: Occupancy::of(sm, &block).blocks }
    }
}

impl TileLaw {
    /// Time of an SM for a tile and so much of the contraction (s).
    pub(super) fn seconds(&self, tile: [u32; 2], depth: f64) -> f64 {
        let area = f64::from(tile[0]) * f64::from(tile[1]);
        let rate = self.rate * (area / self.full).min(1.0).powf(self.exponent);
        2.0 * area * (depth + self.prologue_k) / rate
    }
}

impl Fused {
    /// An anchor with members around it.
    pub const fn one(anchor: FusedAnchor, attached: Attached) -> Self {
        Self { anchor, attached, second: None }
    }

    /// Its anchors, in their order.
    pub fn anchors(&self) -> impl Iterator<Item = FusedAnchor> {
        [self.anchor].into_iter().chain(self.second.map(|second| second.anchor))
    }

    /// Bytes that it reads and writes, each once.
    pub fn bytes(&self) -> u64 {
        let Self { anchor, attached, second } = self;
        // The second one finds its operand where the first has left it, and the first leaves it
        // there.
        let more = second.map_or(0, |Second { anchor, .. }| {
            anchor.bytes().saturating_sub(anchor.operand_bytes()).saturating_sub(anchor.output_bytes())
        });
        let whole = anchor.bytes().saturating_add(more);
        attached.traffic(whole, [anchor.operand_bytes(), anchor.output_bytes()])
    }
}

impl FusedAnchor {
    /// Operands and output, each once (bytes).
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Gemm(gemm) => gemm.bytes(),
            Self::Convolution(convolution) => convolution.bytes(),
        }
    }

    /// First operand, which a prologue is applied to (bytes).
    pub fn operand_bytes(&self) -> u64 {
        match self {
            Self::Gemm(gemm) => gemm.operand_bytes(),
            Self::Convolution(convolution) => convolution.input_bytes(),
        }
    }

    /// Output (bytes).
    pub fn output_bytes(&self) -> u64 {
        match self {
            Self::Gemm(gemm) => gemm.output_bytes(),
            Self::Convolution(convolution) => convolution.output_bytes(),
        }
    }

    /// Multiplications and additions.
    pub fn flops(&self) -> f64 {
        match self {
            Self::Gemm(gemm) => gemm.flops(),
            Self::Convolution(convolution) => convolution.flops(),
        }
    }
}

impl OfTile {
    /// Members of a tile of an SM that also reads, for some time (s).
    pub(super) fn reading(self, seconds: f64) -> Self {
        Self { alone: self.alone.max(seconds), among: self.among.max(seconds), ..self }
    }

    /// A tile with its prologue over so much of the contraction (s).
    pub(super) fn begun(self, seconds: f64, depth: f64) -> f64 {
        let before = self.before * depth;
        if self.resident < 2 { seconds + before } else { seconds.max(before) }
    }

    /// An SM with `count` tiles that take `seconds` each without it (s).
    pub(super) fn of_tiles(self, count: f64, seconds: f64) -> f64 {
        if self.resident < 2 {
            count * (seconds + self.alone)
        } else {
            count * seconds.max(self.among) + seconds.min(self.alone)
        }
    }
}

impl Attached {
    /// No members.
    pub const NONE: Self =
        Self { before: None, behind: Arithmetic { ordinary: 0, special: 0, chain: 0 }, read: 0, written: 0 };

    /// True of an anchor by itself.
    pub fn is_none(&self) -> bool {
        *self == Self::NONE
    }

    /// HBM traffic of a kernel that moves `whole` bytes without members, of these an operand and an
    /// output for what members take and leave (bytes).
    pub(super) fn traffic(&self, whole: u64, [operand, output]: [u64; 2]) -> u64 {
        if self.is_none() {
            return whole;
        }
        let made = if self.before.is_some() { operand } else { 0 };
        let left = whole.saturating_sub(output).saturating_sub(made);
        left.saturating_add(self.read).saturating_add(self.written).max(1)
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
