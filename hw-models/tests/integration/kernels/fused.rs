//! Members behind products and convolutions: nothing for nothing, and what decides by hand.

use hw_models::kernels::{
    Arithmetic, Attached, Convolution, Dtype, Fused, FusedAnchor, Gemm, Layout, Second,
};
use proptest::prelude::*;

use super::{model, three_by_three};

const RTX_3070: &str = "rtx-3070";

fn gemm(m: u64, n: u64, k: u64) -> Gemm {
    Gemm { batch: 1, m, n, k, dtype: Dtype::Fp16, layout: Layout::Forward, accumulate: None }
}

fn behind(gemm: Gemm, arithmetic: Arithmetic, read: u64) -> Fused {
    let written = 2 * gemm.m * gemm.n;
    let attached = Attached { behind: arithmetic, read, written, ..Attached::NONE };
    Fused::one(FusedAnchor::Gemm(gemm), attached)
}

fn arithmetic(ordinary: u32, special: u32, chain: u32) -> Arithmetic {
    Arithmetic { ordinary, special, chain }
}

proptest! {
    /// An epilogue that does nothing changes nothing, more work never makes a kernel faster, and no
    /// kernel is below its bound.
    #[test]
    fn more_members_never_take_less(
        (m, n, k) in (1_u64..8_192, 1_u64..4_096, 1_u64..4_096),
        (ordinary, special, chain) in (0_u32..60, 0_u32..6, 0_u32..300),
        read in 0_u64..100_000_000,
    ) {
        for gpu in ["a100-sxm4-80gb", RTX_3070, "v100-sxm2-16gb", "h100-sxm5-80gb"] {
            let model = model(gpu);
            let seconds = |fused: &Fused| model.fused(fused).unwrap().alone();
            let shape = gemm(m, n, k);
            let nothing = behind(shape, arithmetic(0, 0, 0), 0);
            prop_assert_eq!(seconds(&nothing), model.gemm(&shape).unwrap().alone());
            let some = behind(shape, arithmetic(ordinary, special, chain), read);
            prop_assert!(seconds(&some) >= seconds(&nothing));
            let more = behind(shape, arithmetic(2 * ordinary, special + 1, chain + 10), read + 1);
            prop_assert!(seconds(&more) >= seconds(&some));
            let least = model.least_seconds(some.bytes(), (shape.flops(), Some(Dtype::Fp16)));
            prop_assert!(least <= seconds(&some).as_secs(), "{} above {}", least, seconds(&some).as_secs());
        }
    }
}

/// The epilogue of a convolution writes its output once: with 4 bytes an element less, a
/// convolution and its pass that take both the time of their bytes differ by that of the bytes
/// alone.
#[test]
fn what_is_fused_is_not_written_in_between() {
    let convolution = Convolution {
        in_channels: 64,
        filter: [1, 1],
        padding: [0, 0],
        dtype: Dtype::Fp16,
        ..three_by_three(8, 56)
    };
    let (input, output, weights) = (2 * 8 * 56 * 56 * 64, 2 * 8 * 56 * 56 * 256, 2 * 64 * 256);
    let with = |read| {
        let attached = Attached { behind: arithmetic(1, 0, 0), read, written: output, ..Attached::NONE };
        Fused::one(FusedAnchor::Convolution(convolution), attached)
    };
    assert_eq!(with(0).bytes(), input + output + weights);
    assert_eq!(with(output).bytes(), input + 2 * output + weights);
}

/// A chain that four warps of a tile do not hide: 128 x 128 elements, of which a lane has 128, 200
/// clocks each. Tensor cores of RTX 3070 take some 20 us for the tile over a contraction of 1,024;
/// 15 us of chain come on top, as no other block fits into the 100 KiB beside the tile's 64 KiB.
#[test]
fn a_chain_stands_behind_the_only_block_of_an_sm() {
    let model = model(RTX_3070);
    let clock = model.facts.clock_hz;
    // A tile for each of the 46 SMs, whatever tile is fastest.
    let shape = gemm(128, 128 * 46, 4_096);
    let seconds = |chain| {
        let fused = behind(shape, arithmetic(1, 0, chain), 0);
        model.fused(&fused).unwrap().alone().as_secs()
    };
    let chained = seconds(200) - seconds(0);
    assert!(chained <= 128.0 * 200.0 / clock * 1.001, "{chained}");
    assert!(chained >= 32.0 * 200.0 / clock, "{chained}");
}

/// A prologue takes the place of the pass that made the operand: its input is read instead, once,
/// and its instructions are done again for each tile of columns.
#[test]
fn a_prologue_is_done_again_for_each_tile_of_columns() {
    let model = model(RTX_3070);
    let (rows, depth) = (8_192, 1_024);
    let operand = 2 * rows * depth;
    let with = |columns, before: Option<Arithmetic>| {
        let shape = gemm(rows, columns, depth);
        let attached = Attached {
            before,
            read: if before.is_some() { operand } else { 0 },
            written: 2 * rows * columns,
            ..Attached::NONE
        };
        Fused::one(FusedAnchor::Gemm(shape), attached)
    };
    let function = Some(arithmetic(200, 0, 0));
    assert_eq!(with(512, function).bytes(), gemm(rows, 512, depth).bytes());
    let seconds = |columns, before| model.fused(&with(columns, before)).unwrap().alone().as_secs();
    let added = |columns| seconds(columns, function) - seconds(columns, None);
    assert!(added(512) > 0.0);
    // Twice the columns are twice the tiles that load the same rows.
    let times = added(1_024) / added(512);
    assert!((1.6..2.4).contains(&times), "{times}");
}

/// Two products whose middle has 64 columns: 8,192 x 64 halves never cross HBM. Bytes, bound and
/// launches by hand; the kernel is faster than both alone as it moves a third of their bytes.
#[test]
fn two_narrow_products_are_one_kernel() {
    let model = model("a100-sxm4-80gb");
    let (rows, narrow, wide) = (65_536, 64, 64);
    let (first, last) = (gemm(rows, narrow, wide), gemm(rows, wide, narrow));
    let attached = Attached { written: 2 * rows * wide, ..Attached::NONE };
    let second = Some(Second { anchor: FusedAnchor::Gemm(last), behind: Arithmetic::default() });
    let both = Fused { second, ..Fused::one(FusedAnchor::Gemm(first), attached) };
    let hand = 2 * (rows * wide + wide * narrow + narrow * wide + rows * wide);
    assert_eq!(both.bytes(), hand);
    assert_eq!(first.bytes() + last.bytes() - hand, 2 * 2 * rows * narrow);
    let cost = model.fused(&both).unwrap();
    assert_eq!((cost.bytes, cost.flops), (hand, first.flops() + last.flops()));
    let bound = model.least_seconds(hand, (cost.flops, Some(Dtype::Fp16)));
    let apart: f64 = [first, last].iter().map(|it| model.gemm(it).unwrap().alone().as_secs()).sum();
    let together = cost.alone().as_secs();
    assert!(bound <= together && together < 0.7 * apart, "{bound} {together} {apart}");
}

/// 64 rows of 16,384 halves are 2 MiB: no SM holds them, and 16 rows are half a megabyte.
#[test]
fn a_middle_that_no_sm_holds_is_no_kernel() {
    let model = model("a100-sxm4-80gb");
    let (first, last) = (gemm(4_096, 16_384, 512), gemm(4_096, 512, 16_384));
    let attached = Attached { written: 2 * 4_096 * 512, ..Attached::NONE };
    let second = Some(Second { anchor: FusedAnchor::Gemm(last), behind: Arithmetic::default() });
    let both = Fused { second, ..Fused::one(FusedAnchor::Gemm(first), attached) };
    let refused = model.fused(&both).unwrap_err().to_string();
    assert!(refused.contains("shared memory"), "{refused}");
}

/// Two convolutions of 3 x 3: the halo of every patch is made again, so that the kernel multiplies
/// more than both, and still moves less: what is between is 8 x 56 x 56 x 32 halves, twice.
#[test]
fn two_convolutions_pay_for_the_halo_with_arithmetic() {
    let model = model("a100-sxm4-80gb");
    let convolution =
        Convolution { in_channels: 32, out_channels: 32, dtype: Dtype::Fp16, ..three_by_three(8, 56) };
    let image = 2 * 8 * 56 * 56 * 32;
    let weights = 2 * 32 * 32 * 9;
    let anchor = FusedAnchor::Convolution(convolution);
    let second = Some(Second { anchor, behind: Arithmetic::default() });
    let both = Fused { second, ..Fused::one(anchor, Attached { written: image, ..Attached::NONE }) };
    assert_eq!(both.bytes(), 2 * image + 2 * weights);
    let cost = model.fused(&both).unwrap();
    assert_eq!(cost.bytes, 2 * convolution.bytes() - 2 * image);
    let bound = model.least_seconds(cost.bytes, (cost.flops, Some(Dtype::Fp16)));
    assert!(bound <= cost.alone().as_secs());
}
