//! What a board's power leaves when kernels follow each other without end, as published.

use hw_models::kernels::{Attention, Dtype, Gemm, KernelModel, Layout, Libraries, Pass};

use super::{causal, model, square};

/// FlashAttention-2 forward, 128 wide, not causal, in loops on H100 (TFLOP/s): tokens; at a limit of 500 W
/// (github.com/pytorch/benchmark, pull request 2296); at 700 W (FlashAttention-3, 2024, figure 5).
const ATTENTION: [(u64, f64, f64); 4] =
    [(1024, 287.457, 350.0), (2048, 293.208, 362.0), (4096, 298.428, 368.0), (8192, 287.696, 370.0)];

#[test]
fn attention_at_500_w_has_the_share_that_was_timed() {
    let held = ATTENTION.map(|(_, limited, whole)| limited / whole).iter().sum::<f64>() / 4.0;
    assert!((held - 0.805).abs() < 5e-4, "{held}");
    let [limited, whole] =
        ["h100-sxm5-96gb-500w", "h100-sxm5-80gb"].map(|gpu| in_training(gpu).parameters.attention);
    for (limited, whole) in [(limited.forward, whole.forward), (limited.backward, whole.backward)] {
        assert!((limited.e_max / whole.e_max - held).abs() < 1e-3, "{limited:?}");
        assert_eq!((limited.tail, limited.head_dim_192), (whole.tail, whole.head_dim_192));
    }
    assert_eq!(limited.libraries, whole.libraries);
    let model = in_training("h100-sxm5-96gb-500w");
    for (tokens, timed, _) in ATTENTION {
        let shape = Attention {
            batch: 128,
            queries: tokens,
            keys: tokens,
            causal: false,
            ..causal(Pass::Forward, 8)
        };
        let cost = model.attention(&shape).unwrap();
        let rate = cost.flops / cost.alone().as_secs() / 1e12;
        assert!((rate / timed - 1.0).abs() < 0.08, "{tokens} tokens: {rate}, timed {timed}");
    }
}

/// A B200 lowers its clock after some 40 ms (github.com/flashinfer-ai/flashinfer, pull request 2899). A table of 75 products
/// one after the other sees that where one takes 1 ms or more, and nothing of it below 0.5 ms.
#[test]
fn products_timed_for_a_moment_run_no_faster_in_a_step_than_those_timed_for_long() {
    let product = |n, k, layout| Gemm { m: 4096, n, k, layout, ..square(1, Dtype::Bf16) };
    let (moment, long) =
        (product(14_336, 4096, Layout::Forward), product(8192, 57_344, Layout::InputGradient));
    let rate = |model: &KernelModel, product| {
        let cost = model.gemm(product).unwrap();
        cost.flops / cost.alone().as_secs() / 1e12
    };
    let [alone, step] = [model("b200-sxm-180gb"), in_training("b200-sxm-180gb")];
    for (product, timed) in [(&moment, 1465.124), (&long, 1086.557)] {
        assert!((rate(&alone, product) / timed - 1.0).abs() < 0.02, "{product:?}: {}", rate(&alone, product));
    }
    // 0.4951 of 2,250 TFLOP/s.
    assert!((rate(&step, &moment) - 1113.98).abs() < 0.01, "{}", rate(&step, &moment));
    assert_eq!(rate(&step, &long), rate(&alone, &long));
}

/// Of the shapes of Llama 70B on random data with a cold cache (SemiAnalysis, MI300X vs H100 vs H200 Benchmark Part 1, 2024).
#[test]
fn products_in_8_bits_hold_1280_tflops_on_h100() {
    let model = in_training("h100-sxm5-80gb");
    let shapes = [
        (16_384, 8192, 1280),
        (16_384, 1024, 8192),
        (16_384, 8192, 7168),
        (16_384, 3584, 8192),
        (8192, 8192, 8192),
    ];
    let rates = shapes.map(|(m, n, k)| {
        let cost = model.gemm(&Gemm { m, n, k, ..square(1, Dtype::Fp8) }).unwrap();
        cost.flops / cost.alone().as_secs() / 1e12
    });
    assert!(rates.iter().all(|&rate| rate < 1280.5), "{rates:?}");
    assert!(rates[2] > 1260.0 && rates[4] > 1260.0, "{rates:?}");
}

/// A B300 in a loop over one product at four limits of power: watts drawn, products per second; 182.4 W at full clocks with
/// nothing to do, 1,100 at most (github.com/sinkers/gpu-power-lab, results/b300-consolidated, rungs `cap` and `infer-idle`).
const LIMITED: [(f64, f64); 4] = [(448.2, 990.88), (546.9, 1224.63), (692.1, 1539.05), (886.4, 1891.61)];

/// What a rate takes beyond the power of an idle board grows with its power of 1.5: energy goes with the square of the voltage,
/// which falls with the clock. That holds what was timed at 500 W against what was timed at 700 W by others.
#[test]
fn a_limit_of_500_w_leaves_of_products_what_another_board_says() {
    let idle = 182.4;
    let logs = LIMITED.map(|(watts, rate)| (rate.ln(), (watts - idle).ln()));
    let mean = |of: fn(&(f64, f64)) -> f64| logs.iter().map(of).sum::<f64>() / 4.0;
    let (x, y) = (mean(|log| log.0), mean(|log| log.1));
    let (slope, square) = logs.iter().fold((0.0, 0.0), |(slope, square), log| {
        (slope + (log.0 - x) * (log.1 - y), square + (log.0 - x).powi(2))
    });
    let exponent = slope / square;
    assert!((exponent - 1.502).abs() < 5e-4, "{exponent}");
    for (watts, rate) in LIMITED {
        let law = idle + (y + exponent * (rate.ln() - x)).exp();
        assert!((law / watts - 1.0).abs() < 0.006, "{rate}: {law} W, drawn {watts}");
    }
    let idle = idle / 1100.0 * 700.0;
    let left = ((500.0 - idle) / (700.0 - idle)).powf(1.0 / exponent);
    let held = |gpu| in_training(gpu).parameters.gemm(Dtype::Bf16).unwrap().sustained;
    let timed = held("h100-sxm5-96gb-500w") / held("h100-sxm5-80gb");
    assert!((left - 0.756).abs() < 5e-4 && (timed / left - 1.0).abs() < 0.01, "{left}, timed {timed}");
}

fn in_training(device: &str) -> KernelModel {
    let mut model = model(device);
    model.parameters = model.parameters.in_training(Libraries::default());
    model
}
