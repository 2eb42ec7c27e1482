//! Kernel times: the committed constants follow from the committed measurements, other shapes are predicted, and
//! quantisation shows where it does on hardware. Every table is split in the order of its file: constants are fitted on
//! the first, third, fifth ... row and judged on the others.

#![expect(clippy::print_stdout, reason = "errors on what was held out, for who asks with --nocapture")]

use std::collections::BTreeMap;

use hw_models::kernels::fit::{self, Errors, Sample};
use hw_models::kernels::{
    Attention, Dtype, Gemm, GemmParameters, GpuFacts, KERNELS, KernelCatalogue, KernelCost, KernelError,
    KernelModel, Layout, Pass, Stream, StreamClass,
};
use proptest::prelude::*;
use sim_core::time::Time;

use crate::table::rows;

const SIMUMAX: &str = include_str!("../../measurements/kernels/gemm_bf16_simumax.csv");
const XLA: &str = include_str!("../../measurements/kernels/gemm_h100_xla.csv");
const DEEPBENCH: &str = include_str!("../../measurements/kernels/gemm_deepbench.csv");
const ATTENTION: &str = include_str!("../../measurements/kernels/attention_bf16_simumax.csv");
const VECTOR: &str = include_str!("../../measurements/kernels/vector_neusight_fp32.csv");
const VECTOR_SXM: &str = include_str!("../../measurements/kernels/vector_fp16_a100_sxm_llmcompass.csv");
const BMM: &str = include_str!("../../measurements/kernels/bmm_fp16_h100_neusight.csv");
const MAMF: &str = include_str!("../../measurements/cc-by-sa/mamf_peak_matmul.csv");

#[test]
fn constants_of_matrix_products_follow_from_their_tables() {
    let a100 = model("a100-pcie-80gb");
    fitted_gemm(&a100, &simumax("A100_PCIe_80GB"), Limits { mean: 0.05, median: 0.02, p95: 0.25 });
    let b200 = model("b200-sxm-180gb");
    fitted_gemm(&b200, &simumax("B200_SXM"), Limits { mean: 0.11, median: 0.06, p95: 0.35 });
    let h100 = model("h100-sxm5-80gb");
    let bf16 = xla("BF16xBF16_to_BF16", Dtype::Bf16);
    fitted_gemm(&h100, &bf16, Limits { mean: 0.05, median: 0.03, p95: 0.18 });
    let tf32 = xla("F32xF32_to_F32", Dtype::Tf32);
    fitted_gemm(&h100, &tf32, Limits { mean: 0.17, median: 0.14, p95: 0.45 });
    let v100 = model("v100-sxm2-16gb");
    let fp16 = deepbench("FP16_in_tensorcore_FP32_acc", Dtype::Fp16);
    fitted_gemm(&v100, &fp16, Limits { mean: 0.10, median: 0.08, p95: 0.35 });
}

#[test]
fn constants_of_attention_follow_from_their_tables() {
    let limits = Limits { mean: 0.08, median: 0.08, p95: 0.15 };
    fitted_attention(&model("a100-pcie-80gb"), &attention("A100_PCIe_80GB", Pass::Forward), limits);
    fitted_attention(&model("a100-pcie-80gb"), &attention("A100_PCIe_80GB", Pass::Backward), limits);
    fitted_attention(&model("b200-sxm-180gb"), &attention("B200_SXM", Pass::Forward), limits);
    fitted_attention(&model("b200-sxm-180gb"), &attention("B200_SXM", Pass::Backward), limits);
}

#[test]
fn achieved_bandwidths_follow_from_their_tables() {
    use StreamClass::{Elementwise, LayerNorm, Softmax};
    let tight = Limits { mean: 0.025, median: 0.025, p95: 0.05 };
    let loose = Limits { mean: 0.18, median: 0.16, p95: 0.95 };
    for (gpu, device) in [
        ("NVIDIA_A100-PCIE-40GB", "a100-pcie-40gb"),
        ("NVIDIA_A100_80GB_PCIe", "a100-pcie-80gb"),
        ("Tesla_V100-PCIE-32GB", "v100-pcie-32gb"),
        ("NVIDIA_L4", "l4"),
        ("Tesla_T4", "t4"),
        ("Tesla_P100-PCIE-16GB", "p100-pcie-16gb"),
    ] {
        let model = model(device);
        fitted_stream(device, &model, &vector(gpu, &["add", "addu", "relu", "gelu"], Elementwise), tight);
        fitted_stream(device, &model, &vector(gpu, &["ln"], LayerNorm), loose);
        fitted_stream(device, &model, &vector(gpu, &["softmax"], Softmax), loose);
    }
}

#[test]
fn the_sxm_part_is_the_pcie_part_times_the_ratio_of_best_rates() {
    let catalogue = catalogue();
    let pcie = rows(SIMUMAX)
        .iter()
        .filter(|row| row["gpu"] == "A100_PCIe_80GB")
        .map(|row| row.number("measured_tflops"))
        .fold(0.0, f64::max);
    let best = rows(MAMF).into_iter().find(|row| row["accelerator"] == "NVIDIA A100 SXM").unwrap();
    let ratio = best.number("max_achieved_tflops") / pcie;
    let e_max = |device| catalogue.parameters(device, "ampere").unwrap().gemm(Dtype::Bf16).unwrap().e_max;
    let expected = e_max("a100-pcie-80gb") * ratio;
    assert!((e_max("a100-sxm4-80gb") / expected - 1.0).abs() < 1e-3, "ratio {ratio}: {expected}");
}

/// Of tensors far larger than the cache, rows as wide as those of a language model: five, three and three times, all of
/// them fitted.
#[test]
fn achieved_bandwidths_of_the_sxm_part_follow_from_its_table() {
    let model = model("a100-sxm4-80gb");
    for (op, class) in
        [("gelu", StreamClass::Elementwise), ("ln", StreamClass::LayerNorm), ("softmax", StreamClass::Softmax)]
    {
        let kept = rows(VECTOR_SXM).into_iter().filter(|row| row["op"] == op);
        let kept = kept.filter(|row| row["rows"] == "1" || row["cols"] == "4096");
        let samples: Vec<Sample<Stream>> = kept
            .map(|row| {
                let tensor = 2 * row.count("rows") * row.count("cols");
                Sample {
                    shape: Stream { class, bytes_read: tensor, bytes_written: tensor },
                    seconds: row.number("latency_ms") * 1e-3,
                }
            })
            .filter(|sample| sample.shape.bytes_read + sample.shape.bytes_written >= 128 << 20)
            .collect();
        let fitted = fit::stream(&model, &samples).unwrap();
        println!("{class:?}: {:?}, {:?}", fitted.parameters.stream(class), fit::errors(&fitted, &samples));
        let achieved = |model: &KernelModel| [model.parameters.stream(class).unwrap().achieved];
        same_constants(op, &achieved(&model), &achieved(&fitted));
    }
}

#[test]
fn batched_products_of_another_source_are_predicted() {
    // A known miss: the batched kernels of PyTorch 2.1 reach 37 % of peak on products of 1024 cubed, where XLA's table,
    // on which the constants rest, has more than 60 %. The model follows the newer kernels.
    let samples: Vec<Sample<Gemm>> = rows(BMM)
        .iter()
        .map(|row| Sample {
            shape: Gemm {
                batch: row.count("B"),
                m: row.count("M"),
                n: row.count("K_out"),
                k: row.count("N_contraction"),
                dtype: Dtype::Fp16,
                layout: Layout::InputGradient,
                accumulate: false,
            },
            seconds: row.number("latency_ms") * 1e-3,
        })
        .collect();
    let errors = fit::errors(&model("h100-sxm5-80gb"), &samples).unwrap();
    println!("H100 batched fp16, NeuSight: {errors:?}");
    assert!(errors.mean < 0.4 && errors.bias < 0.0, "{errors:?}");
}

#[test]
fn a_product_of_132_tiles_beside_24_channels_takes_two_waves() {
    // 11 x 12 tiles of 128 x 256: one wave on 132 SMs, two on 108 (NVIDIA developer forum 337991).
    let shape = Gemm { m: 11 * 128, n: 12 * 256, k: 8192, ..square(1, Dtype::Bf16) };
    let cost = model("h100-sxm5-80gb").gemm(&shape).unwrap();
    let (alone, beside) = (row_at(&cost, 132), row_at(&cost, 108));
    assert_eq!((alone.waves, beside.waves), (1, 2));
    assert!((alone.bytes_per_s / beside.bytes_per_s - 2.0).abs() < 1e-9);
}

#[test]
fn attention_of_few_heads_wastes_the_end_of_the_kernel() {
    let model = model("a100-pcie-80gb");
    let rate = |heads| {
        let cost = model.attention(&causal(Pass::Forward, heads)).unwrap();
        cost.flops / cost.alone().as_secs()
    };
    assert!(rate(4) < 0.55 * rate(64));
    let full = model.attention(&Attention { causal: false, ..causal(Pass::Forward, 64) }).unwrap();
    assert!(
        full.flops / full.alone().as_secs() > rate(64),
        "half of the square, but more than half of the time"
    );
}

#[test]
fn a_stream_reaches_its_share_of_the_bandwidth() {
    let model = model("a100-sxm4-80gb");
    let shape = Stream { class: StreamClass::Elementwise, bytes_read: 1 << 32, bytes_written: 1 << 32 };
    let cost = model.stream(&shape).unwrap();
    let achieved = model.parameters.stream(StreamClass::Elementwise).unwrap().achieved;
    let rate = (cost.bytes as f64) / (cost.alone() - cost.fixed).as_secs();
    assert!((rate / (achieved * model.facts.hbm_bytes_per_s) - 1.0).abs() < 1e-6);
}

#[test]
fn what_is_missing_is_named() {
    let error = model("v100-sxm2-16gb").gemm(&square(128, Dtype::Bf16)).unwrap_err();
    assert!(matches!(error, KernelError::NoPeak { dtype: Dtype::Bf16, .. }));
    assert!(error.to_string().contains("fp16"), "{error}");
    let error = catalogue().parameters("thing", "amper").unwrap_err();
    assert!(error.to_string().contains("ampere"), "{error}");
}

#[test]
fn every_generation_has_what_a_training_step_needs() {
    for (name, kernels) in catalogue().generations {
        assert!(kernels.gemm(Dtype::Fp32).is_ok(), "{name}");
        for class in
            [StreamClass::Elementwise, StreamClass::Softmax, StreamClass::LayerNorm, StreamClass::Optimizer]
        {
            let parameters = kernels.stream(class).unwrap();
            assert!((0.2..1.0).contains(&parameters.achieved), "{name}: {class:?}");
        }
    }
}

proptest! {
    #[test]
    fn more_sms_are_never_slower(
        batch in 1u64..9, m in 1u64..9000, n in 1u64..9000, k in 1u64..9000, heads in 1u64..65, keys in 1u64..5000,
    ) {
        let model = model("a100-sxm4-80gb");
        let gemm = Gemm { batch, m, n, k, ..square(1, Dtype::Bf16) };
        let attention = Attention { keys, ..causal(Pass::Backward, heads) };
        let stream = Stream { class: StreamClass::Softmax, bytes_read: m * n, bytes_written: k };
        for cost in [model.gemm(&gemm).unwrap(), model.attention(&attention).unwrap(), model.stream(&stream).unwrap()] {
            prop_assert!((1..=12).contains(&cost.rows.len()));
            prop_assert!(cost.rows.windows(2).all(|pair| pair[0].sms < pair[1].sms
                && pair[0].bytes_per_s <= pair[1].bytes_per_s * (1.0 + 1e-9)
                && pair[0].waves >= pair[1].waves));
            prop_assert!(cost.rows.last().unwrap().sms <= cost.sms_wanted);
            // Neither faster than its FLOPs at peak nor than its bytes at the nominal bandwidth.
            let bound = (cost.flops / 312e12).max(cost.bytes as f64 / 2039e9);
            prop_assert!(cost.alone().as_secs() >= bound);
        }
    }

    #[test]
    fn no_shape_breaks_the_model(m in any::<u64>(), n in any::<u64>(), k in any::<u64>(), batch in any::<u64>()) {
        let model = model("h100-sxm5-80gb");
        let gemm = Gemm { batch, m, n, k, ..square(1, Dtype::Fp8) };
        prop_assert!(model.gemm(&gemm).unwrap().alone() > Time::ZERO);
        let attention = Attention { batch, queries: m, keys: n, head_dim: k, ..causal(Pass::Forward, 2) };
        prop_assert!(model.attention(&attention).unwrap().alone() > Time::ZERO);
    }
}

/// Highest errors allowed on the shapes that were not fitted.
#[derive(Clone, Copy, Debug)]
struct Limits {
    mean: f64,
    median: f64,
    p95: f64,
}

impl Limits {
    fn hold(self, what: &str, errors: Errors) {
        println!("{what}: held out {errors:.3?}");
        let within = errors.mean <= self.mean && errors.median <= self.median && errors.p95 <= self.p95;
        assert!(within && errors.samples > 0, "{what}: {errors:?} beyond {self:?}");
    }
}

fn fitted_gemm(model: &KernelModel, samples: &[Sample<Gemm>], limits: Limits) {
    let (fitted_on, held_out) = halves(samples);
    let dtype = samples[0].shape.dtype;
    let fitted = fit::gemm(model, &fitted_on).unwrap();
    let what = format!("{dtype} products, {} SMs", model.facts.sms);
    limits.hold(&what, fit::errors(&fitted, &held_out).unwrap());
    let values =
        |p: &GemmParameters| [p.e_max, p.exponent, p.prologue_k, p.input_gradient, p.weight_gradient];
    let committed = values(model.parameters.gemm(dtype).unwrap());
    let refitted = values(fitted.parameters.gemm(dtype).unwrap());
    same_constants(&what, &committed, &refitted);
}

fn fitted_attention(model: &KernelModel, samples: &[Sample<Attention>], limits: Limits) {
    let (fitted_on, held_out) = halves(samples);
    let pass = samples[0].shape.pass;
    let fitted = fit::attention(model, &fitted_on).unwrap();
    let what = format!("{pass:?} attention, {} SMs", model.facts.sms);
    limits.hold(&what, fit::errors(&fitted, &held_out).unwrap());
    let values = |model: &KernelModel| {
        let attention = &model.parameters.attention;
        let pass = if pass == Pass::Forward { &attention.forward } else { &attention.backward };
        [pass.e_max, pass.tail]
    };
    same_constants(&what, &values(model), &values(&fitted));
}

fn fitted_stream(device: &str, model: &KernelModel, samples: &[Sample<Stream>], limits: Limits) {
    let (fitted_on, held_out) = halves(samples);
    let class = samples[0].shape.class;
    let fitted = fit::stream(model, &fitted_on).unwrap();
    let what = format!("{class:?} on {device}");
    limits.hold(&what, fit::errors(&fitted, &held_out).unwrap());
    let achieved = |model: &KernelModel| [model.parameters.stream(class).unwrap().achieved];
    same_constants(&what, &achieved(model), &achieved(&fitted));
}

/// The start of a kernel is left out: that of these tables is a property of the way they were timed, see `kernels.yaml`.
fn same_constants(what: &str, committed: &[f64], fitted: &[f64]) {
    println!("{what}: committed {committed:.4?}, fitted {fitted:.4?}");
    let close = |(a, b): (&f64, &f64)| (a - b).abs() <= 0.01 * b.abs() + 1e-3;
    assert!(
        committed.iter().zip(fitted).all(close),
        "{what}: committed {committed:.4?}, fitted {fitted:.4?}"
    );
}

fn halves<T: Copy>(samples: &[Sample<T>]) -> (Vec<Sample<T>>, Vec<Sample<T>>) {
    let every_second = |first| samples.iter().skip(first).step_by(2).copied().collect();
    (every_second(0), every_second(1))
}

/// Layers of language models: forward TN, input gradient NN, weight gradient NT.
fn simumax(gpu: &str) -> Vec<Sample<Gemm>> {
    let kept = rows(SIMUMAX).into_iter().filter(|row| row["gpu"] == gpu);
    kept.map(|row| Sample {
        shape: Gemm {
            batch: row.count("b"),
            m: row.count("m"),
            n: row.count("n"),
            k: row.count("k"),
            dtype: Dtype::Bf16,
            layout: match row["layout"].as_str() {
                "TN" => Layout::Forward,
                "NN" => Layout::InputGradient,
                _ => Layout::WeightGradient,
            },
            accumulate: row["accumulate"] == "True",
        },
        seconds: row.number("time_us_derived") * 1e-6,
    })
    .collect()
}

fn xla(types: &str, dtype: Dtype) -> Vec<Sample<Gemm>> {
    let kept = rows(XLA).into_iter().filter(|row| row["dtypes"] == types);
    kept.map(|row| Sample {
        shape: Gemm {
            batch: row.count("b"),
            m: row.count("m"),
            n: row.count("n"),
            k: row.count("k"),
            dtype,
            layout: Layout::Forward,
            accumulate: false,
        },
        seconds: row.number("time_us_derived") * 1e-6,
    })
    .collect()
}

/// Shapes of training; those with a side under 128 run in kernels of another kind.
fn deepbench(precision: &str, dtype: Dtype) -> Vec<Sample<Gemm>> {
    let kept = rows(DEEPBENCH).into_iter().filter(|row| {
        row["gpu"] == "V100" && row["precision"] == precision && row.count("M").min(row.count("N")) >= 128
    });
    kept.map(|row| Sample {
        shape: Gemm {
            batch: 1,
            m: row.count("M"),
            n: row.count("N"),
            k: row.count("K"),
            dtype,
            layout: match (row["a_trans"].as_str(), row["b_trans"].as_str()) {
                ("T", _) => Layout::Forward,
                (_, "N") => Layout::InputGradient,
                _ => Layout::WeightGradient,
            },
            accumulate: false,
        },
        seconds: row.number("time_ms") * 1e-3,
    })
    .collect()
}

/// Heads 128 wide. On the B200 fewer than 16 heads end at 91 us whatever their number, the floor of the timing.
fn attention(gpu: &str, pass: Pass) -> Vec<Sample<Attention>> {
    let op = if pass == Pass::Forward { "sdp_fwd" } else { "sdp_bwd" };
    let kept = rows(ATTENTION).into_iter().filter(|row| {
        row["gpu"] == gpu && row["op"] == op && row["qk_head_dim"] == "128" && row["qkv_contiguous"] == "True"
    });
    kept.map(|row| Sample {
        shape: Attention {
            batch: row.count("batch"),
            kv_heads: row.count("kv_heads"),
            queries: row.count("seq_len"),
            keys: row.count("seq_len"),
            ..causal(pass, row.count("q_heads"))
        },
        seconds: row.number("time_us_derived") * 1e-6,
    })
    .filter(|sample| sample.seconds > 100e-6)
    .collect()
}

fn vector(gpu: &str, ops: &[&str], class: StreamClass) -> Vec<Sample<Stream>> {
    let kept = rows(VECTOR).into_iter().filter(|row| row["gpu"] == gpu && ops.contains(&row["op"].as_str()));
    kept.map(|row| {
        let tensor = 4 * row.count("rows") * row.count("cols");
        let inputs = if row["op"] == "add" { 2 } else { 1 };
        Sample {
            shape: Stream { class, bytes_read: inputs * tensor, bytes_written: tensor },
            seconds: row.number("latency_ms") * 1e-3,
        }
    })
    .collect()
}

fn square(side: u64, dtype: Dtype) -> Gemm {
    Gemm { batch: 1, m: side, n: side, k: side, dtype, layout: Layout::Forward, accumulate: false }
}

fn causal(pass: Pass, heads: u64) -> Attention {
    Attention {
        pass,
        batch: 1,
        heads,
        kv_heads: heads,
        queries: 4096,
        keys: 4096,
        head_dim: 128,
        causal: true,
        dtype: Dtype::Bf16,
    }
}

fn row_at(cost: &KernelCost, sms: u32) -> hw_models::kernels::SpeedRow {
    *cost.rows.iter().rev().find(|row| row.sms <= sms).unwrap()
}

fn catalogue() -> KernelCatalogue {
    serde_yaml::from_str(KERNELS).unwrap()
}

/// Nameplate figures of the parts that were measured.
fn model(device: &str) -> KernelModel {
    use Dtype::{Bf16, Fp8, Fp16, Fp32, Tf32};
    let (generation, sms, gb_per_s, tflops): (_, _, _, &[(Dtype, f64)]) = match device {
        "p100-pcie-16gb" => ("pascal", 56, 732.0, &[(Fp32, 9.3)]),
        "v100-sxm2-16gb" => ("volta", 80, 900.0, &[(Fp32, 15.7), (Fp16, 125.0)]),
        "v100-pcie-32gb" => ("volta", 80, 900.0, &[(Fp32, 14.0), (Fp16, 112.0)]),
        "t4" => ("turing", 40, 320.0, &[(Fp32, 8.1), (Fp16, 65.0)]),
        "a100-pcie-40gb" => ("ampere", 108, 1555.0, &[(Fp32, 19.5), (Bf16, 312.0)]),
        "a100-pcie-80gb" => ("ampere", 108, 1935.0, &[(Fp32, 19.5), (Bf16, 312.0)]),
        "a100-sxm4-80gb" => ("ampere", 108, 2039.0, &[(Fp32, 19.5), (Bf16, 312.0)]),
        "l4" => ("ada", 58, 300.0, &[(Fp32, 30.3), (Bf16, 121.0)]),
        "h100-sxm5-80gb" => {
            ("hopper", 132, 3350.0, &[(Tf32, 494.5), (Fp16, 989.0), (Bf16, 989.0), (Fp8, 1979.0)])
        }
        "b200-sxm-180gb" => ("blackwell", 148, 8000.0, &[(Bf16, 2250.0)]),
        other => panic!("no facts for {other}"),
    };
    let facts = GpuFacts {
        sms,
        peak_flops: tflops.iter().map(|&(dtype, peak)| (dtype, peak * 1e12)).collect::<BTreeMap<_, _>>(),
        hbm_bytes_per_s: gb_per_s * 1e9,
    };
    KernelModel::new(facts, catalogue().parameters(device, generation).unwrap())
}
