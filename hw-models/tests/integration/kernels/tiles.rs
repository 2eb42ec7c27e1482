//! Kernels in tiles: a bound by hand, bounds below estimates, members that cost what they are.

use hw_models::kernels::tile::{Anchor, Lanes, Members, Resource, Tile, TiledKernel, Units};
use hw_models::kernels::{Convolution, Dtype, Gemm, Limit};
use proptest::prelude::*;

use super::{model, square, three_by_three};

/// GPUs of each capability whose SM is known and whose generation has constants.
const GPUS: [&str; 7] =
    ["v100-sxm2-16gb", "rtx-2080-ti", "a100-sxm4-80gb", "rtx-3070", "l4", "h100-sxm5-80gb", "b200-sxm-180gb"];

fn product(extent: u64, dtype: Dtype) -> Anchor {
    Anchor::product(&Gemm { m: extent, n: extent, k: extent, ..square(1, dtype) })
}

/// 128 x 128 on tensor cores, of 8 warps and stages of 64.
fn on_tensor_cores(stages: u32, after: Members) -> TiledKernel {
    let units = Units::Tensor { fragment: [64, 128], stages };
    let tile = Tile { m: 128, n: 128, k: 64, warps: 8, splits: 1, units };
    TiledKernel { anchor: product(4_096, Dtype::Fp16), tile, before: Members::default(), after }
}

#[test]
fn a_bound_by_hand() {
    // A step of 64: 640 bytes read and 512 written an element of the contraction, at 128 a clock, are
    // 640 clocks; multiplying takes 512, the bus 512. Stages fill the shared memory, so that the
    // 1,024 blocks take 8 rounds, each of a first load (200 clocks), 64 steps and the output (512).
    let h100 = model("h100-sxm5-80gb");
    let bound = h100.tiles(Dtype::Fp16, false).unwrap().bound(&on_tensor_cores(4, Members::default()));
    let clocks = 8.0 * (200.0 + 64.0 * 640.0 + 512.0);
    assert!((bound * 1.98e9 / clocks - 1.0).abs() < 1e-9, "{} clocks", bound * 1.98e9);
}

#[test]
fn special_functions_bind_where_they_are_many() {
    let model = model("rtx-3070");
    let tiles = model.tiles(Dtype::Fp16, true).unwrap();
    // A short contraction leaves nothing to hide them behind.
    let seconds = |special: f64| {
        let kernel = on_tensor_cores(2, Members { special, ..Members::default() });
        let anchor = Anchor::product(&Gemm { m: 4_096, n: 4_096, k: 64, ..square(1, Dtype::Fp16) });
        tiles.bound(&TiledKernel { anchor: Anchor { fp16_sums: true, ..anchor }, ..kernel })
    };
    // 1,024 blocks on 46 SMs: some SM has 23, with 16,384 elements each on 16 lanes.
    let more = (seconds(32.0) - seconds(16.0)) * 2.1e9;
    assert!((more / (16.0 * 23.0 * 1_024.0) - 1.0).abs() < 1e-9, "{more} clocks");
    let binds = |special: f64| {
        let kernel = on_tensor_cores(2, Members { special, ..Members::default() });
        let anchor = Anchor { k: 64, fp16_sums: true, ..kernel.anchor };
        tiles.estimate(&TiledKernel { anchor: Anchor { operand_bytes: 1 << 20, ..anchor }, ..kernel }).binds
    };
    assert_eq!(binds(64.0), Resource::Special);
}

#[test]
fn sums_in_fp16_are_twice_as_fast_on_geforce_only() {
    let seconds = |device: &str, sums| {
        let (model, kernel) = (model(device), on_tensor_cores(2, Members::default()));
        let kernel = TiledKernel { anchor: Anchor { fp16_sums: sums, ..kernel.anchor }, ..kernel };
        model.tiles(Dtype::Fp16, sums).unwrap().bound(&kernel)
    };
    for (device, faster) in [("rtx-3070", 2.0), ("a100-sxm4-80gb", 1.0)] {
        let [singles, halves] = [false, true].map(|sums| seconds(device, sums));
        assert!((singles / halves / faster - 1.0).abs() < 0.01, "{device}: {singles} {halves}");
    }
}

#[test]
fn what_does_not_fit_an_sm_is_no_kernel() {
    let model = model("rtx-2080-ti");
    let tiles = model.tiles(Dtype::Fp16, false).unwrap();
    let kernel = on_tensor_cores(4, Members::default());
    // Four stages of 32 KiB in 64 KiB.
    let found = tiles.estimate(&kernel);
    assert_eq!((found.occupancy.blocks, found.occupancy.limit), (0, Limit::SharedMemory));
    assert!(found.seconds.is_infinite() && tiles.bound(&kernel).is_infinite());
    let two = TiledKernel {
        tile: Tile { units: Units::Tensor { fragment: [64, 64], stages: 2 }, ..kernel.tile },
        ..kernel
    };
    assert_eq!(tiles.estimate(&two).occupancy.blocks, 1);
}

#[test]
fn registers_beyond_the_most_are_spilled() {
    let model = model("h100-sxm5-80gb");
    let tiles = model.tiles(Dtype::Fp16, false).unwrap();
    let of_warps = |warps| {
        let kernel = on_tensor_cores(4, Members::default());
        let tile =
            Tile { n: 256, warps, units: Units::Tensor { fragment: [64, 256], stages: 3 }, ..kernel.tile };
        tiles.estimate(&TiledKernel { tile, ..kernel })
    };
    let (few, many) = (of_warps(4), of_warps(8));
    assert!(few.registers == 255 && few.spilled > 50.0 && many.spilled == 0.0, "{few:?} {many:?}");
    // Measured: 1,395 us and 193 us.
    assert!(few.seconds > 3.0 * many.seconds && few.binds == Resource::Shared, "{few:?} {many:?}");
}

#[test]
fn limits_that_are_unknown_are_said() {
    let error = model("mi300x").tiles(Dtype::Fp16, false).unwrap_err().to_string();
    assert!(error.contains("limits of an SM") && error.contains("list gpus"), "{error}");
    let error = model("titan-xp").tiles(Dtype::Fp32, false).unwrap_err().to_string();
    assert!(error.contains("turing") && error.contains("hopper"), "{error}");
    assert!(model("v100-sxm2-16gb").tiles(Dtype::Bf16, false).is_err());
}

#[test]
fn windows_of_a_convolution_are_read_once() {
    let convolution =
        Convolution { in_channels: 64, out_channels: 64, dtype: Dtype::Fp16, ..three_by_three(8, 56) };
    let anchor = Anchor::convolution(&convolution).unwrap();
    assert_eq!((anchor.m, anchor.n, anchor.k), (8 * 56 * 56, 64, 576));
    // The input and the filters, not the nine-fold input of the product.
    assert_eq!(anchor.operand_bytes, 2 * (8 * 64 * 56 * 56 + 9 * 64 * 64));
    assert_eq!(Anchor::convolution(&Convolution { groups: 2, ..convolution }), None);
}

prop_compose! {
    fn kernels()(
        exponents in (0u32..4, 0u32..4, 0u32..3),
        (m, n, k) in (1u64..9_000, 1u64..9_000, 1u64..9_000),
        (warps, splits, stages) in (0u32..4, 1u32..4, 1u32..6),
        lanes in proptest::option::of((3u32..6, 1u32..4, 0u32..4, 0u32..4, any::<[bool; 2]>())),
        (ordinary, special, read) in (0.0f64..40.0, 0.0f64..8.0, 0.0f64..8.0),
    ) -> TiledKernel {
        let [rows, columns] = [exponents.0, exponents.1].map(|exponent| 32 << exponent);
        let (dtype, units) = match lanes {
            None => (Dtype::Fp16, Units::Tensor { fragment: [64.min(rows), columns], stages }),
            Some((across, unroll, wide, other, [first, second])) => {
                let copies = [first.then_some(16), second.then_some(8)];
                let vectors = [1 << wide, 1 << other];
                (Dtype::Fp32, Units::Lanes(Lanes { across: 1 << across, unroll, vectors, copies }))
            }
        };
        let tile = Tile { m: rows, n: columns, k: 16 << exponents.2, warps: 1 << warps, splits, units };
        let anchor = Anchor::product(&Gemm { m, n, k, ..square(1, dtype) });
        let after = Members { ordinary, special, read, written: 0.0 };
        TiledKernel { anchor, tile, before: Members::default(), after }
    }
}

proptest! {
    #[test]
    fn bounds_are_below_estimates(kernel in kernels(), gpu in 0..GPUS.len()) {
        let model = model(GPUS[gpu]);
        let tiles = model.tiles(kernel.anchor.dtype, false).unwrap();
        let (bound, estimate) = (tiles.bound(&kernel), tiles.estimate(&kernel));
        prop_assert!(bound > 0.0 && bound <= estimate.seconds, "{bound} {estimate:?}");
        // No members: no more bytes, no more time, and never less than the anchor's own bytes.
        let bare = TiledKernel { after: Members::default(), ..kernel };
        prop_assert!(bare.compulsory_bytes() <= kernel.compulsory_bytes());
        prop_assert!(bare.compulsory_bytes() >= kernel.anchor.operand_bytes as f64);
        prop_assert!(tiles.bound(&bare) <= bound && tiles.estimate(&bare).seconds <= estimate.seconds);
    }
}
