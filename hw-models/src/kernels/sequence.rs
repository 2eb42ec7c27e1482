//! Two products, or two convolutions, in one kernel: a thread block makes a part of what is between
//! them, leaves it in shared memory, and multiplies it there. What is between never crosses HBM
//! unless somebody else reads it.
//!
//! ```text
//! part      = rows of the second output that a block makes, with all its columns; of a convolution
//!             a patch of h x w places
//! between   = rows of the first output that these take, with all its columns; of a convolution
//!             ((h - 1) stride + (filter - 1) dilation + 1) x the same of w, at most the image
//! shared    = operands in flight + between x element                    or no block fits an SM
//! block     = tiles of (between, columns) over the contraction of the first
//!             + tiles of (part, columns) over that of the second, as fast as tiles of each alone
//! ```
//!
//! Patches overlap by their halo, which is made again in each of them: with 8 x 8 places and a
//! filter of 3 x 3, 10 x 10 / (8 x 8) - 1 = 56 % of the first convolution. Parts of products do
//! not. Of the rows of a product all columns are there, so that a softmax between two is a member
//! as any other.

use super::fused::{Held, TileLaw};
use super::rows::Blocks;
use super::{
    Convolution, Fused, FusedAnchor, Gemm, KernelClass, KernelCost, KernelError, KernelModel, Second,
    StreamClass,
};

/// One of the anchors, as a block works on it.
pub(super) struct Stage {
    pub(super) law: TileLaw,
    /// Columns of its output.
    pub(super) columns: u64,
    /// Its contraction, in whole steps.
    pub(super) depth: f64,
    /// Rate of all SMs together that the board's power holds (FLOP/s).
    pub(super) sustained: f64,
    /// Share of the shorter of compute and memory that the longer does not hide.
    pub(super) serial: f64,
    pub(super) start_us: f64,
    pub(super) class: KernelClass,
}

/// A way to deal the second output out to blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Parts {
    blocks: u64,
    /// Rows of the second output in a block.
    rows: u64,
    /// Rows of the first one that these take.
    between: u64,
}

/// Rows of a product that a block makes.
const ROWS: [u64; 4] = [16, 32, 64, 128];
/// Sides of a patch: of tiles of places, and of the images of networks for 224 x 224.
const SIDES: [u64; 6] = [4, 7, 8, 14, 16, 28];
/// Tiles of the products within a block.
const TILES: [[u32; 2]; 6] = [[128, 128], [128, 64], [64, 128], [64, 64], [32, 128], [128, 32]];

impl KernelModel {
    /// Two anchors with members before, between and behind them.
    pub(super) fn sequence(&self, fused: &Fused, second: &Second) -> Result<KernelCost, KernelError> {
        let stages = [self.stage(&fused.anchor)?, self.stage(&second.anchor)?];
        let achieved = self.parameters.stream(StreamClass::Elementwise)?.achieved;
        let bytes = fused.bytes();
        let blocks = |(parts, tile): (Parts, [u32; 2])| {
            let held = self.fits(fused, (&parts, &stages), tile)?;
            let of_stage = |stage: &Stage, rows: u64| {
                let tiles = rows.div_ceil(tile[0].into()) * stage.columns.div_ceil(tile[1].into());
                tiles as f64 * stage.law.seconds(tile, stage.depth)
            };
            let [first, last] = &stages;
            let multiplying = of_stage(first, parts.between) + of_stage(last, parts.rows);
            // Tiles side by side load, and so prepare, the same rows of the operand.
            let loads = first.columns.div_ceil(tile[1].into()) as f64 * first.depth;
            let members = [
                (fused.attached.before.unwrap_or_default(), parts.between as f64 * loads),
                (fused.attached.behind, (parts.between * first.columns) as f64),
                (second.behind, (parts.rows * last.columns) as f64),
            ];
            let bandwidth = achieved * self.facts.hbm_bytes_per_s / f64::from(self.facts.sms.max(1));
            let reading = fused.attached.read as f64 / parts.blocks as f64 / bandwidth;
            let members = self.members(&members, &held).reading(reading);
            let made = |stage: &Stage, rows: u64| {
                2.0 * (parts.blocks * rows) as f64 * stage.columns as f64 * stage.depth / stage.sustained
            };
            let at_full_power = made(first, parts.between) + made(last, parts.rows);
            Some(Blocks {
                count: parts.blocks,
                resident: 1,
                bytes,
                achieved,
                serial: first.serial.max(last.serial),
                seconds: move |sms: u32| {
                    let on_each = parts.blocks.div_ceil(u64::from(sms)) as f64;
                    members.of_tiles(on_each, multiplying).max(at_full_power)
                },
            })
        };
        let ways = parts(&second.anchor).into_iter().flat_map(|parts| TILES.map(|tile| (parts, tile)));
        let best = Blocks::fastest(self, ways.filter_map(blocks)).ok_or_else(|| {
            KernelError::new(
                "nothing of what is between the two fits into the shared memory of an SM: keep them apart",
            )
        })?;
        let flops = fused.anchors().map(|anchor| anchor.flops()).sum();
        let [first, last] = &stages;
        Ok(best.cost(self, first.start_us.max(last.start_us), flops, last.class))
    }

    fn stage(&self, anchor: &FusedAnchor) -> Result<Stage, KernelError> {
        match anchor {
            FusedAnchor::Gemm(gemm) => self.stage_of_product(gemm),
            FusedAnchor::Convolution(convolution) => self.stage_of_convolution(convolution),
        }
    }

    /// Resources of a block with what is between in its shared memory. `None`: it does not fit.
    fn fits(&self, fused: &Fused, (parts, stages): (&Parts, &[Stage; 2]), tile: [u32; 2]) -> Option<Held> {
        let element = match &fused.anchor {
            FusedAnchor::Gemm(gemm) => gemm.dtype.bytes(),
            FusedAnchor::Convolution(convolution) => convolution.dtype.bytes(),
        };
        let between = parts.between.saturating_mul(stages[0].columns).saturating_mul(element);
        let held = self.held(tile, u32::try_from(between).ok()?);
        (self.facts.multiprocessor.is_some() && held.resident > 0).then_some(held)
    }
}

/// Ways to deal the output of the second anchor out to blocks.
fn parts(second: &FusedAnchor) -> Vec<Parts> {
    match second {
        FusedAnchor::Gemm(gemm) => ROWS.map(|rows| of_product(gemm, rows)).to_vec(),
        FusedAnchor::Convolution(convolution) => {
            let patches = SIDES.into_iter().flat_map(|height| SIDES.map(|width| [height, width]));
            patches.map(|patch| of_convolution(convolution, patch)).collect()
        }
    }
}

fn of_product(gemm: &Gemm, rows: u64) -> Parts {
    let rows = rows.min(gemm.m).max(1);
    Parts { blocks: gemm.batch.saturating_mul(gemm.m.div_ceil(rows)), rows, between: rows }
}

fn of_convolution(convolution: &Convolution, patch: [u64; 2]) -> Parts {
    let output = convolution.output();
    let side = |n: usize| patch[n].min(output[n]).max(1);
    let reach = |n: usize| {
        let behind = (convolution.filter[n].max(1) - 1) * convolution.dilation[n];
        ((side(n) - 1) * convolution.stride[n] + behind + 1).min(convolution.input[n])
    };
    let of_image = output[0].div_ceil(side(0)) * output[1].div_ceil(side(1));
    Parts {
        blocks: convolution.batch.saturating_mul(of_image),
        rows: side(0) * side(1),
        between: reach(0) * reach(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{ConvolutionPass, Dtype};

    fn convolution(filter: u64, stride: u64, dilation: u64) -> Convolution {
        Convolution {
            pass: ConvolutionPass::Forward,
            batch: 2,
            in_channels: 64,
            out_channels: 64,
            input: [56, 56],
            filter: [filter; 2],
            padding: [filter / 2 * dilation; 2],
            stride: [stride; 2],
            dilation: [dilation; 2],
            groups: 1,
            dtype: Dtype::Fp16,
            algorithm: None,
        }
    }

    /// 56 x 56 places in patches of 8 x 8 are 49 an image. A filter of 3 takes one more place on
    /// each side, two with a dilation of 2; with a stride of 2 the 28 x 28 outputs are 16 patches,
    /// the last ones cut, which take 17 x 17 places each; a filter of 1 takes what it makes.
    #[test]
    fn halos_are_what_a_hand_counts() {
        let part = |filter, stride, dilation| of_convolution(&convolution(filter, stride, dilation), [8, 8]);
        assert_eq!(part(1, 1, 1), Parts { blocks: 2 * 49, rows: 64, between: 64 });
        assert_eq!(part(3, 1, 1), Parts { blocks: 2 * 49, rows: 64, between: 100 });
        assert_eq!(part(3, 1, 2), Parts { blocks: 2 * 49, rows: 64, between: 144 });
        assert_eq!(part(3, 2, 1), Parts { blocks: 2 * 16, rows: 64, between: 289 });
        // A patch of the whole image takes the image, and nothing twice.
        let whole = of_convolution(&Convolution { input: [14, 14], ..convolution(3, 1, 1) }, [14, 14]);
        assert_eq!(whole, Parts { blocks: 2, rows: 196, between: 196 });
    }

    /// Rows of a product are nobody else's.
    #[test]
    fn parts_of_products_have_no_halo() {
        let gemm = Gemm {
            batch: 3,
            m: 1_000,
            n: 64,
            k: 256,
            dtype: Dtype::Fp16,
            layout: crate::kernels::Layout::Forward,
            accumulate: None,
        };
        assert_eq!(of_product(&gemm, 128), Parts { blocks: 3 * 8, rows: 128, between: 128 });
    }
}
