//! Products that Triton made, as a probe recorded them: tiles, stages, and what was compiled.

use hw_models::kernels::Dtype;
use hw_models::kernels::tile::{Members, Tile, TiledKernel, Units};
use serde::Deserialize;

use super::{TileSample, product};
use crate::split;

/// A line of a probe.
#[derive(Deserialize)]
pub(super) struct Probe {
    /// Kind of kernels.
    pub(super) section: String,
    /// Which of them.
    pub(super) of: serde_json::Value,
    /// Times (us).
    pub(super) us: Option<Vec<f64>>,
}

/// A product that Triton made, with sums in fp32.
#[derive(Deserialize)]
struct Triton {
    m: u64,
    n: u64,
    k: u64,
    bm: u32,
    bn: u32,
    bk: u32,
    warps: u32,
    stages: u32,
    activation: String,
    registers: u32,
    spills: u32,
}

/// Instructions of an activation of an element, ordinary and special: of SiLU an exponential and a
/// reciprocal, of GeLU the polynomials of CUDA's `erff`.
fn activation(name: &str) -> Members {
    let (ordinary, special) = match name {
        "relu" => (1.0, 0.0),
        "silu" => (4.0, 2.0),
        "gelu" => (30.0, 1.0),
        _ => (0.0, 0.0),
    };
    Members { ordinary, special, ..Members::default() }
}

/// Triton's products among the lines of a probe.
///
/// # Errors
/// Lines that are none.
pub fn triton(probe: &str) -> Result<Vec<TileSample>, serde_json::Error> {
    let mut samples = Vec::new();
    for (line, text) in (1..).zip(probe.lines()).skip(1) {
        let probe: Probe = serde_json::from_str(text)?;
        let (true, Some(us)) = (probe.section == "tile", probe.us) else { continue };
        let of: Triton = serde_json::from_value(probe.of)?;
        let tile = Tile {
            m: of.bm,
            n: of.bn,
            k: of.bk,
            warps: of.warps,
            splits: 1,
            // A warpgroup of Hopper multiplies 64 rows at once.
            units: Units::Tensor { fragment: [64, of.bn], stages: of.stages },
        };
        let numbers = [
            ("m", of.m),
            ("n", of.n),
            ("k", of.k),
            ("bm", of.bm.into()),
            ("bn", of.bn.into()),
            ("bk", of.bk.into()),
            ("warps", of.warps.into()),
            ("stages", of.stages.into()),
        ];
        let mut inputs: Vec<_> =
            numbers.into_iter().map(|(name, of)| (name.to_owned(), of.to_string())).collect();
        inputs.push(("activation".to_owned(), of.activation.clone()));
        samples.push(TileSample {
            kernel: TiledKernel {
                anchor: product([of.m, of.n, of.k], Dtype::Fp16),
                tile,
                before: Members::default(),
                after: activation(&of.activation),
            },
            compiled: Some([of.registers, of.spills]),
            seconds: median(us) * 1e-6,
            hash: split::hash(&inputs.iter().map(|(_, value)| value).collect::<Vec<_>>()),
            line,
            inputs,
        });
    }
    Ok(samples)
}

pub(super) fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of.get(of.len() / 2).copied().unwrap_or(f64::NAN)
}
