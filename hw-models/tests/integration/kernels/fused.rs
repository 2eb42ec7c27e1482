//! Members behind products and convolutions: nothing for nothing, and what decides by hand.

use hw_models::kernels::{Arithmetic, Convolution, Dtype, Epilogue, Fused, FusedAnchor, Gemm, Layout};
use proptest::prelude::*;

use super::{model, three_by_three};

const RTX_3070: &str = "rtx-3070";

fn gemm(m: u64, n: u64, k: u64) -> Gemm {
    Gemm { batch: 1, m, n, k, dtype: Dtype::Fp16, layout: Layout::Forward, accumulate: None }
}

fn behind(gemm: Gemm, arithmetic: Arithmetic, read: u64) -> Fused {
    let written = 2 * gemm.m * gemm.n;
    Fused { anchor: FusedAnchor::Gemm(gemm), epilogue: Epilogue { arithmetic, read, written } }
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
    let with = |read| Fused {
        anchor: FusedAnchor::Convolution(convolution),
        epilogue: Epilogue { arithmetic: arithmetic(1, 0, 0), read, written: output },
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
