//! Where a kernel lies among measured ones: what makes two shapes run in the same kernel at the same speed.
//!
//! The logarithms of the dimensions, its kind (a layout, a pass), and traits that change a library's kernel or what of it is
//! of use though the dimensions hardly differ: how much the dimensions of a product fill whole tiles, and by which
//! power of two they divide, as wide loads need; how much of a power of two of threads a row of a softmax keeps at
//! work. How the steps compare with each other was chosen by leaving out one fitted row at a time.

use super::{KernelClass, StreamClass};

/// Dimensions that place a kernel among measured ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Which kind of kernel: a layout, a pass.
    pub kind: u8,
    /// Its dimensions, all positive.
    pub dimensions: Vec<u64>,
}

/// Coordinates of a shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    kind: u8,
    sizes: Vec<f64>,
    traits: Vec<f64>,
}

/// Sides of the tiles that products are cut into.
const TILES: [u64; 3] = [128, 64, 32];
/// Beyond 16 elements nothing is loaded faster.
const WIDEST: u32 = 4;
/// Distance between sizes that are odd and those that divide by 16.
const ALIGNED: f64 = 0.5;
/// Distance between rows of a softmax that warps hold in registers and those that blocks walk over (PyTorch's
/// `dispatch_softmax_forward`).
const BY_BLOCK: f64 = 1.0;
/// Bytes of the widest row that a warp holds: 1,024 numbers of fp32.
const ROW_OF_WARP: u64 = 4_096;
/// Bytes that a thread loads at once.
const LOAD: u64 = 16;
/// Threads of a block, at least and at most.
const THREADS: [u64; 2] = [32, 1_024];

impl Shape {
    /// Its place among the shapes of a class.
    pub fn place(&self, class: KernelClass) -> Place {
        let sizes = self.dimensions.iter().map(|&size| (size.max(1) as f64).ln()).collect();
        let traits = match (class, &*self.dimensions) {
            (KernelClass::Gemm(_) | KernelClass::Batched(_) | KernelClass::Grouped(_), &[_, m, n, k]) => {
                let filled = TILES.into_iter().flat_map(|tile| [m, n].map(|size| waste(size, tile)));
                filled.chain([m, n, k].map(alignment)).collect()
            }
            (KernelClass::Stream(StreamClass::Softmax), &[_, row]) => of_row(row).into(),
            _ => Vec::new(),
        };
        Place { kind: self.kind, sizes, traits }
    }
}

impl Place {
    /// Between kinds of kernels lies one step.
    pub(super) fn distance(&self, other: &Self, traits: f64) -> f64 {
        let squared = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
        let kinds = f64::from(u8::from(self.kind != other.kind));
        let beside = traits * traits * squared(&self.traits, &other.traits);
        (kinds + squared(&self.sizes, &other.sizes) + beside).sqrt()
    }
}

/// `ln` of what whole tiles hold over what is of use.
fn waste(size: u64, tile: u64) -> f64 {
    let size = size.max(1);
    (size.div_ceil(tile) as f64 * tile as f64 / size as f64).ln()
}

fn alignment(size: u64) -> f64 {
    ALIGNED * f64::from(size.max(1).trailing_zeros().min(WIDEST)) / f64::from(WIDEST)
}

/// Of a row of a softmax (bytes): by block, threads at work, whole loads.
fn of_row(row: u64) -> [f64; 3] {
    if row <= ROW_OF_WARP {
        return [0.0; 3];
    }
    let loads = row as f64 / LOAD as f64;
    let threads = row.div_ceil(LOAD).clamp(THREADS[0], THREADS[1]).next_power_of_two();
    let at_work = (loads / threads as f64).min(1.0);
    let whole = if row.is_multiple_of(LOAD) { ALIGNED } else { 0.0 };
    [BY_BLOCK, 2.0 * at_work.ln(), whole]
}
