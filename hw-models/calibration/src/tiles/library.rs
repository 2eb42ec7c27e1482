//! Products of a library with and without an epilogue, as a probe recorded them.
//!
//! Which tile ran is not known: the one that is estimated fastest stands for it, with and without
//! the epilogue, so that their ratio is what the epilogue costs.

use hw_models::kernels::Dtype;
use hw_models::kernels::tile::{Anchor, Members, Tile, TileModel, TiledKernel, Units};
use serde::Deserialize;

use super::product;
use super::triton::{Probe, median};

/// Tiles of Hopper's products in cuBLAS: rows, columns and warps.
const TILES: [[u32; 3]; 6] =
    [[128, 256, 8], [256, 128, 8], [128, 128, 4], [64, 256, 4], [64, 128, 4], [64, 64, 4]];
/// Step of a tile, and stages of it.
const STEP: u32 = 64;
const STAGES: u32 = 4;

/// A product of the library with an epilogue, over the same product without.
#[derive(Clone, Debug, PartialEq)]
pub struct EpilogueSample {
    /// Contraction.
    anchor: Anchor,
    /// Members of the epilogue.
    members: Members,
    /// Measured time over that of the product alone.
    pub measured: f64,
    /// Its line.
    pub line: u64,
    /// Its inputs, by name.
    pub inputs: Vec<(String, String)>,
}

#[derive(Deserialize)]
struct Library {
    what: String,
    m: u64,
    n: u64,
    k: u64,
}

/// Products with epilogues among the lines of a probe.
///
/// # Errors
/// Lines that are none.
pub fn epilogues(probe: &str) -> Result<Vec<EpilogueSample>, serde_json::Error> {
    let mut alone: Vec<(Anchor, f64)> = Vec::new();
    let mut samples = Vec::new();
    for (line, text) in (1..).zip(probe.lines()).skip(1) {
        let probe: Probe = serde_json::from_str(text)?;
        let (true, Some(us)) = (probe.section == "product", probe.us) else { continue };
        let of: Library = serde_json::from_value(probe.of)?;
        let (anchor, us) = (product([of.m, of.n, of.k], Dtype::Bf16), median(us));
        let Some(epilogue) = of.what.strip_prefix("product") else { continue };
        // The line of the product itself comes before those with epilogues.
        let Some((_, bare)) = alone.iter().find(|(known, _)| *known == anchor) else {
            alone.push((anchor, us));
            continue;
        };
        let members = members(epilogue);
        let numbers = [("m", of.m), ("n", of.n), ("k", of.k)];
        let mut inputs: Vec<_> =
            numbers.into_iter().map(|(name, of)| (name.to_owned(), of.to_string())).collect();
        inputs.push(("epilogue".to_owned(), epilogue.trim().to_owned()));
        samples.push(EpilogueSample { anchor, members, measured: us / bare, line, inputs });
    }
    Ok(samples)
}

/// Instructions of an epilogue: an addition, and of GeLU, which cuBLASLt approximates by `tanh`,
/// its polynomial and one function.
fn members(epilogue: &str) -> Members {
    let (ordinary, special) = match epilogue.trim() {
        "bias gelu" => (8.0, 1.0),
        "bias relu" => (2.0, 0.0),
        _ => (1.0, 0.0),
    };
    Members { ordinary, special, ..Members::default() }
}

impl EpilogueSample {
    /// Estimated time over that of the product alone.
    pub fn estimated(&self, model: &TileModel<'_>) -> f64 {
        let fastest = |after: Members| {
            let seconds = |[m, n, warps]: [u32; 3]| {
                let units = Units::Tensor { fragment: [64, n], stages: STAGES };
                let tile = Tile { m, n, k: STEP, warps, splits: 1, units };
                let before = Members::default();
                model.estimate(&TiledKernel { anchor: self.anchor, tile, before, after }).seconds
            };
            TILES.into_iter().map(seconds).fold(f64::INFINITY, f64::min)
        };
        fastest(self.members) / fastest(Members::default())
    }
}
