//! Constants of kernels in tiles from spaces of implementations that were measured as a whole.

mod clblast;
mod image;
mod library;
mod space;
mod triton;

use hw_models::errors::huber;
use hw_models::kernels::tile::{Anchor, TileParameters, TiledKernel};
use hw_models::kernels::{Dtype, KernelError, KernelModel};
use hw_models::search::minimise;

use super::hardware::rounded;

pub use clblast::clblast;
pub use image::{ImageSample, image_convolutions};
pub use library::{EpilogueSample, epilogues};
pub use space::{SpaceFigures, space_figures};
pub use triton::triton;

/// Constants that a fit starts from.
const START: [f64; 6] = [1.0, 0.2, 3.0, 6.0, 0.7, 2.0];
/// Least and most that each may be: a busy SM is no faster than an idle one, and reads from the L2
/// cache reach a third of the bus or more (github.com/te42kyfo/gpu-benches, gpu-cache).
const LIMITS: [[f64; 2]; 6] = [[0.5, 1.35], [0.01, 1.0], [1.0, 20.0], [1.0, 100.0], [0.3, 1.0], [0.5, 10.0]];
/// Fitted rows of a small space.
const FITTED: usize = 200;
/// Most rows that a fit goes by, evenly of all.
const ROWS: usize = 1_000;
/// Edges of the simplices of one search after the other.
const EDGES: [f64; 3] = [0.5, -0.3, 0.2];

/// A measured kernel in tiles.
#[derive(Clone, Debug, PartialEq)]
pub struct TileSample {
    /// The kernel.
    pub kernel: TiledKernel,
    /// Registers of a thread and how many of them spilled, as compiled, where that is known.
    pub compiled: Option<[u32; 2]>,
    /// Time (s).
    pub seconds: f64,
    /// Hash of its inputs, see [`split`](crate::split).
    pub hash: u64,
    /// Its line.
    pub line: u64,
    /// Its inputs, by name.
    pub inputs: Vec<(String, String)>,
}

/// The constants with which a model times samples best; the search starts from those that it has.
///
/// # Errors
/// When the model cannot time operands of their type.
pub fn fit_tiles(model: &KernelModel, samples: &[TileSample]) -> Result<TileParameters, KernelError> {
    let dtype = samples.first().map_or(Dtype::Fp32, |sample| sample.kernel.anchor.dtype);
    let TileParameters { provenance, .. } = model.tiles(dtype, false)?.parameters().clone();
    let fastest = rounded(model.facts.highest_clock_hz / model.facts.clock_hz);
    let constants = |x: &[f64]| {
        let at = |i: usize| rounded(x[i].exp().clamp(LIMITS[i][0], LIMITS[i][1]));
        let (clock, serial, latency) = (at(0).min(fastest), at(1), at(2));
        let (spill, l2, start_us) = (at(3), at(4), at(5));
        TileParameters { clock, serial, latency, spill, l2, start_us, provenance: provenance.clone() }
    };
    let loss = |x: &[f64]| {
        let mut model = model.clone();
        model.parameters.tile = Some(constants(x));
        let Ok(tiles) = model.tiles(dtype, false) else { return f64::INFINITY };
        let error = |sample: &TileSample| (tiles.estimate(&sample.kernel).seconds / sample.seconds).ln();
        let evenly = samples.iter().step_by(samples.len().div_ceil(ROWS).max(1));
        evenly.map(|sample| huber(error(sample))).sum()
    };
    // A simplex that has collapsed onto a ridge starts anew from where it is.
    let best = EDGES.iter().fold(START.map(f64::ln).to_vec(), |from, &edge| minimise(&from, edge, &loss));
    Ok(constants(&best))
}

/// Rows to fit and rows to judge: the halves by the hash of their inputs; of a space too small for
/// that, 200 rows with the lowest hashes are fitted.
pub fn divide(mut samples: Vec<TileSample>) -> [Vec<TileSample>; 2] {
    if samples.len() < 2 * FITTED {
        samples.sort_by_key(|sample| sample.hash);
        let judged = samples.split_off(FITTED.min(samples.len()));
        return [samples, judged];
    }
    let (fitted, judged) = samples.into_iter().partition(|sample| sample.hash.is_multiple_of(2));
    [fitted, judged]
}

/// A product whose operands are read once.
const fn product([m, n, k]: [u64; 3], dtype: Dtype) -> Anchor {
    let operand_bytes = (m + n) * k * dtype.bytes();
    Anchor { m, n, k, dtype, fp16_sums: false, operand_bytes }
}
