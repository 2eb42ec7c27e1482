//! Matrix products: tiles of the output, dealt to the SMs in waves.
//!
//! With a tile of `tm x tn`, the contraction cut in `s` parts and S SMs of P/S FLOP/s each
//!
//! ```text
//! blocks  = batch ceil(m/tm) ceil(n/tn) s          waves = ceil(blocks / S)
//! tile    = 2 tm tn (ceil(k/s/tk) tk + prologue) / (P/S e),     e = e_max layout min(1, tm tn / (256 128))^exponent
//! compute = max(waves tile, blocks 2 tm tn ceil(k/s/tk) tk / (P sustained layout))
//! memory  = bytes / (achieved fraction x HBM),     bytes = operands and output once, partial sums of a split apart
//! time    = start + max(compute, memory) + serial min(compute, memory)
//! ```
//!
//! `sustained` is what the board's power holds when all SMs multiply: a product that leaves SMs idle runs at higher
//! clocks, so that its tiles are faster. `serial` is the share of the shorter side that is not hidden behind the longer:
//! blocks load before they multiply and store after it. The library is assumed to choose, with all SMs in view, the tile
//! and the split that are fastest (the tile and wave quantisation of NVIDIA, "Matrix Multiplication Background User's
//! Guide", DU-09799; splitting k as in CUTLASS). A kernel that finds fewer SMs free keeps its tile: that is why a product
//! of 132 tiles beside a collective on 24 of 132 SMs takes two waves.
//!
//! A [persistent](super::KernelParameters::persistent) product launches one block for each SM, or for each tile if there are
//! fewer, and has dealt the tiles to them before it starts. Blocks that find no SM begin when others have ended: with U of
//! the SMs
//!
//! ```text
//! dealt = ceil(blocks / min(blocks, S))            waves = ceil(min(blocks, S) / U), each of so many tiles
//! ```
//!
//! so that a product of any size takes twice as long beside a collective, and a collective that finds one running waits for its
//! end.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::fused::TileLaw;
use super::rows::Blocks;
use super::sequence::Stage;
use super::{
    Attached, Dtype, GemmParameters, KernelClass, KernelCost, KernelError, KernelModel, KernelParameters,
    Shape, StreamClass,
};

/// `batch` products of `m x k` with `k x n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gemm {
    /// Independent products of the same shape.
    pub batch: u64,
    /// Rows of the output.
    pub m: u64,
    /// Columns of the output.
    pub n: u64,
    /// Contraction.
    pub k: u64,
    /// Type of both operands, and of the output unless it accumulates; products in 8 bits leave 16.
    pub dtype: Dtype,
    /// Which operand is transposed.
    pub layout: Layout,
    /// Type of the output that the product is added to (a fused accumulation of weight gradients); none: it is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accumulate: Option<Dtype>,
}

/// Which operand is transposed in memory: kernels of the three classes differ in speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// Activations times a weight stored (out, in), "TN".
    Forward,
    /// Output gradients times the weight, "NN".
    InputGradient,
    /// Output gradients, transposed, times activations, "NT".
    WeightGradient,
}

/// Factors on the rates of products of a kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Factors {
    /// On that of a tile.
    pub(super) tile: f64,
    /// On what power holds with all SMs at work. A layout whose tiles are slower leaves what is held
    /// of products without end: energy goes with operations.
    pub(super) held: f64,
}

/// Parts the contraction is cut into.
const SPLITS: [u64; 11] = [1, 2, 3, 4, 5, 6, 8, 12, 16, 32, 64];
/// Step of a tile along the contraction on the ordinary cores (elements), as the kernels `sgemm` of cuBLAS are made.
const ORDINARY_STEP: u32 = 8;
/// Area of the tile of full efficiency.
const FULL_TILE: f64 = 256.0 * 128.0;
/// Rows in memory start at multiples of 16 bytes, or tensor cores load them element by element.
pub(super) const ALIGNMENT: u64 = 16;

impl KernelModel {
    /// A matrix product.
    ///
    /// # Errors
    /// When the GPU has no rate or the catalogue no parameters for the type.
    pub fn gemm(&self, shape: &Gemm) -> Result<KernelCost, KernelError> {
        self.gemm_with(shape, &Attached::NONE)
    }

    /// A matrix product with members around it.
    ///
    /// # Errors
    /// As [`Self::gemm`].
    pub(super) fn gemm_with(&self, shape: &Gemm, attached: &Attached) -> Result<KernelCost, KernelError> {
        let parameters = self.parameters_of(shape)?;
        let factors = parameters.factors(shape.layout);
        let cost = self.product(shape, attached, parameters, factors, shape.class())?;
        let compute = shape.flops() / (self.peak(shape.dtype)? * parameters.most(factors.held));
        Ok(self.corrected(cost, compute, || shape.among_measured()))
    }

    fn parameters_of(&self, shape: &Gemm) -> Result<&GemmParameters, KernelError> {
        match shape.class() {
            KernelClass::Batched(dtype) => self.parameters.batched(dtype),
            _ => self.parameters.gemm(shape.dtype),
        }
    }

    /// A product as one of two in a kernel.
    pub(super) fn stage_of_product(&self, shape: &Gemm) -> Result<Stage, KernelError> {
        let (parameters, peak) = (self.parameters_of(shape)?, self.peak(shape.dtype)?);
        let (factors, alignment) = (parameters.factors(shape.layout), parameters.alignment(shape));
        Ok(Stage {
            law: self.tile_law_of_products(peak, parameters, factors.tile * alignment),
            columns: shape.n,
            depth: shape.depth(1, self.parameters.step(shape.dtype)),
            sustained: peak * parameters.sustained * factors.held * alignment,
            serial: parameters.serial,
            start_us: parameters.start_us,
            class: shape.class(),
        })
    }

    /// A product by formula, with factors on the rates of the parameters.
    pub(super) fn product(
        &self,
        shape: &Gemm,
        attached: &Attached,
        parameters: &GemmParameters,
        factors: Factors,
        class: KernelClass,
    ) -> Result<KernelCost, KernelError> {
        let achieved = self.parameters.stream(StreamClass::Elementwise)?.achieved;
        let peak = self.peak(shape.dtype)?;
        let alignment = parameters.alignment(shape);
        let law = self.tile_law_of_products(peak, parameters, factors.tile * alignment);
        let sustained = peak * parameters.sustained * factors.held * alignment;
        let persistent = self.parameters.persistent && shape.dtype != Dtype::Fp32;
        let step = self.parameters.step(shape.dtype);
        let blocks = |tile: [u32; 2], split: u64| {
            let depth = shape.depth(split, step);
            let area = f64::from(tile[0]) * f64::from(tile[1]);
            let tiles = shape.tiles(tile).saturating_mul(split);
            let at_full_power = tiles as f64 * 2.0 * area * depth / sustained;
            let count = if persistent { tiles.min(u64::from(self.facts.sms.max(1))) } else { tiles };
            let dealt = tiles.div_ceil(count.max(1)) as f64;
            let outputs = shape.batch as f64 * shape.m as f64 * shape.n as f64;
            let members = self.of_tile(attached, tile, outputs, achieved);
            let seconds = members.begun(law.seconds(tile, depth), depth);
            Blocks {
                count,
                resident: 1,
                bytes: attached.traffic(shape.traffic(split), [shape.operand_bytes(), shape.output_bytes()]),
                achieved,
                serial: parameters.serial,
                seconds: move |sms: u32| {
                    let on_each = count.div_ceil(u64::from(sms)) as f64 * dealt;
                    members.of_tiles(on_each, seconds).max(at_full_power)
                },
            }
        };
        let tiles = if parameters.tiles.is_empty() { &self.parameters.tiles } else { &parameters.tiles };
        let candidates = tiles
            .iter()
            .flat_map(|&tile| self.splits(shape, tile, parameters).map(move |split| (tile, split)));
        let best = Blocks::fastest(self, candidates.map(|(tile, split)| blocks(tile, split)))
            .unwrap_or_else(|| blocks([128, 128], 1));
        Ok(best.cost(self, parameters.start_us, shape.flops(), class))
    }

    /// Speed of tiles, with a factor on the rates of the parameters.
    fn tile_law_of_products(&self, peak: f64, parameters: &GemmParameters, factor: f64) -> TileLaw {
        let rate = peak / f64::from(self.facts.sms.max(1)) * parameters.e_max * factor;
        let &GemmParameters { exponent, prologue_k, .. } = parameters;
        TileLaw { rate, full: FULL_TILE, exponent, prologue_k }
    }

    /// Splits that make sense: at least 256 of the contraction is left to each part.
    fn splits(&self, shape: &Gemm, tile: [u32; 2], parameters: &GemmParameters) -> impl Iterator<Item = u64> {
        let idle = shape.tiles(tile) < u64::from(self.facts.sms);
        let most = if idle || !parameters.whole_when_full { (shape.k / 256).max(1) } else { 1 };
        SPLITS.into_iter().take_while(move |&split| split <= most)
    }
}

impl KernelParameters {
    /// Step of a tile along the contraction (elements).
    fn step(&self, dtype: Dtype) -> u32 {
        if dtype == Dtype::Fp32 { ORDINARY_STEP } else { self.k_step }
    }
}

impl GemmParameters {
    fn factors(&self, layout: Layout) -> Factors {
        let tile = self.layout(layout);
        Factors { tile, held: self.held.map_or(tile, |_| tile.max(1.0)) }
    }

    /// Factor on the rate of a product by the places of its rows in memory.
    fn alignment(&self, shape: &Gemm) -> f64 {
        if shape.aligned() { 1.0 } else { self.misaligned }
    }
}

impl Gemm {
    /// Multiplications and additions, `2 batch m n k`.
    pub fn flops(&self) -> f64 {
        2.0 * self.batch as f64 * self.m as f64 * self.n as f64 * self.k as f64
    }

    /// Tiles of this size, as few as cover the output, in every product of the batch.
    pub fn tiles(&self, tile: [u32; 2]) -> u64 {
        let along = |size: u64, tile: u32| size.div_ceil(u64::from(tile.max(1)));
        self.batch.saturating_mul(along(self.m, tile[0])).saturating_mul(along(self.n, tile[1]))
    }

    /// Contraction of one part, in whole steps.
    fn depth(&self, split: u64, step: u32) -> f64 {
        let step = u64::from(step).max(1);
        self.k.div_ceil(split).div_ceil(step).saturating_mul(step) as f64
    }

    /// Operands and output, each once (bytes).
    pub fn bytes(&self) -> u64 {
        self.traffic(1)
    }

    /// HBM traffic: each operand and the output once; partial sums of a split are written and read in fp32.
    fn traffic(&self, split: u64) -> u64 {
        let output = self.m.saturating_mul(self.n);
        let operands = self.m.saturating_mul(self.k).saturating_add(self.k.saturating_mul(self.n));
        let each = self.bytes_of_output();
        let partial = if split > 1 { (split + 1) * Dtype::Fp32.bytes() } else { 0 };
        let once =
            operands.saturating_mul(self.dtype.bytes()).saturating_add(output.saturating_mul(each + partial));
        self.batch.saturating_mul(once).max(1)
    }

    /// Bytes of its first operand.
    pub(super) fn operand_bytes(&self) -> u64 {
        [self.m, self.k, self.dtype.bytes()].into_iter().fold(self.batch, u64::saturating_mul)
    }

    /// Bytes of its output, with those that it is added to.
    pub(super) fn output_bytes(&self) -> u64 {
        [self.m, self.n, self.bytes_of_output()].into_iter().fold(self.batch, u64::saturating_mul)
    }

    /// Bytes of one element of it.
    const fn bytes_of_output(&self) -> u64 {
        match (self.accumulate, self.dtype) {
            (Some(sums), _) => 2 * sums.bytes(),
            (None, Dtype::Fp8) => Dtype::Bf16.bytes(),
            (None, dtype) => dtype.bytes(),
        }
    }

    /// On the ordinary cores batches run in kernels of their own; on tensor cores in those of single products.
    pub const fn class(&self) -> KernelClass {
        match self.dtype {
            Dtype::Fp32 if self.batch > 1 => KernelClass::Batched(self.dtype),
            dtype => KernelClass::Gemm(dtype),
        }
    }

    /// Its place among measured products.
    pub fn among_measured(&self) -> Shape {
        let kind = match self.layout {
            Layout::Forward => 0,
            Layout::InputGradient => 1,
            Layout::WeightGradient => 2,
        };
        Shape { kind, dimensions: vec![self.batch, self.m, self.n, self.k] }
    }

    /// Operands and output lie in memory in rows that start at multiples of 16 bytes. Rows of the output are `n` long; those of
    /// the operands are along the contraction, or across it where both were stored by token.
    pub fn aligned(&self) -> bool {
        let across = match self.layout {
            Layout::Forward | Layout::InputGradient => self.k,
            Layout::WeightGradient => self.m,
        };
        [self.n, across].iter().all(|size| size % (ALIGNMENT / self.dtype.bytes()) == 0)
    }
}

impl fmt::Display for Gemm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { batch, m, n, k, dtype, .. } = self;
        let layout = match self.layout {
            Layout::Forward => "TN",
            Layout::InputGradient => "NN",
            Layout::WeightGradient => "NT",
        };
        write!(f, "{batch} products of {m} x {n} x {k}, {dtype} {layout}")?;
        self.accumulate.map_or(Ok(()), |sums| write!(f, ", added to {sums}"))
    }
}
