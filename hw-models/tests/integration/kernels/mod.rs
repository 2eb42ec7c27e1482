//! Kernel times: quantisation shows where it does on hardware, what is missing is named, no shape breaks the model.

mod convolutions;
mod fused;
mod graphs;
mod held;
mod occupancy;
mod tiles;

use std::sync::LazyLock;

use hw_models::catalogue::Catalogue;
use hw_models::kernels::{
    Attention, Convolution, ConvolutionPass, Correct, Corrections, Dtype, Flash, Gemm, GpuFacts, GroupedGemm,
    KERNELS, KernelCatalogue, KernelCost, KernelModel, Layout, Libraries, Pass, Stream, StreamClass,
};
use proptest::prelude::*;
use sim_core::time::Time;

#[test]
fn a_product_of_132_tiles_beside_24_channels_takes_two_waves() {
    // 11 x 12 tiles of 128 x 256: one wave on 132 SMs, two on 108 (NVIDIA developer forum 337991).
    let shape = Gemm { m: 11 * 128, n: 12 * 256, k: 8192, ..square(1, Dtype::Bf16) };
    let cost = model("h100-sxm5-80gb").gemm(&shape).unwrap();
    let (alone, beside) = (row_at(&cost, 132), row_at(&cost, 108));
    assert_eq!((alone.waves, beside.waves), (1, 2));
    // Not quite twice as long: alone, the power limit of the board slows the one wave a little.
    let slower = alone.bytes_per_s / beside.bytes_per_s;
    assert!((1.85..=2.0).contains(&slower), "{slower}");
}

#[test]
fn a_persistent_product_beside_a_collective_takes_twice_as_long() {
    // Eight tiles for each SM, dealt before the start: what 24 blocks have to do begins when the others have ended. On A100
    // and B200 tiles go to whichever SM is free.
    let slower = |device: &str, held: u32| {
        let kernels = model(device).correcting(Correct::Never);
        let shape =
            Gemm { m: 32 * 256, n: u64::from(kernels.facts.sms) * 256, k: 8192, ..square(1, Dtype::Bf16) };
        let cost = kernels.gemm(&shape).unwrap();
        let (alone, beside) = (row_at(&cost, kernels.facts.sms), row_at(&cost, kernels.facts.sms - held));
        (alone.waves, beside.waves, alone.bytes_per_s / beside.bytes_per_s)
    };
    let (alone, beside, times) = slower("h100-sxm5-80gb", 24);
    assert_eq!((alone, beside), (1, 2));
    assert!((1.85..=2.0).contains(&times), "{times}");
    for device in ["a100-sxm4-80gb", "b200-sxm-180gb"] {
        let (alone, _, times) = slower(device, 24);
        assert!(alone > 8 && times < 1.35, "{device}: {times}");
    }
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
fn libraries_differ_where_they_were_timed() {
    let times = |device: &str, flash: Flash, pass: Pass| {
        let mut kernels = model(device);
        kernels.parameters = kernels.parameters.in_training(Libraries { flash, ..Libraries::default() });
        let cost = kernels.attention(&causal(pass, 64)).unwrap();
        (cost.alone() - cost.fixed).as_secs()
    };
    let faster = |device: &str, flash| {
        [Pass::Forward, Pass::Backward]
            .map(|pass| (100.0 * times(device, Flash::Second, pass) / times(device, flash, pass)).round())
    };
    assert_eq!(faster("h100-sxm5-80gb", Flash::Cudnn), [161.0, 161.0]);
    assert_eq!(faster("h100-sxm5-80gb", Flash::Third), [182.0, 175.0]);
    assert_eq!(faster("a100-sxm4-80gb", Flash::Cudnn), [82.0, 82.0]);
    assert_eq!(faster("l4", Flash::Cudnn), [100.0, 100.0]);
    assert_eq!(faster("a100-sxm4-80gb", Flash::Triton), [71.0, 50.0]);
}

#[test]
fn gradients_of_wide_heads_are_slow() {
    // Queries and keys 192 wide, values 128 (DeepSeek-V2), against 128: two thirds more steps for the keys, at 0.83 of the rate.
    let model = model("b200-sxm-180gb");
    let rate = |head_dim| {
        let cost = model.attention(&Attention { head_dim, ..causal(Pass::Backward, 64) }).unwrap();
        cost.flops / (cost.alone() - cost.fixed).as_secs()
    };
    let wide = model.parameters.attention.backward.head_dim_192;
    assert!((rate(192) / rate(128) - wide).abs() < 1e-6 && (rate(256) / rate(192) - 1.0).abs() < 1e-6);
    assert!((rate(160) / rate(128) - (1.0 + wide) / 2.0).abs() < 1e-6);
    // No table of Hopper has such heads: they are as slow as on A100.
    let of_a100 = self::model("a100-pcie-80gb").parameters.attention.backward.head_dim_192;
    for device in ["h100-sxm5-80gb", "h100-sxm5-96gb-500w", "h200-sxm5-141gb"] {
        let own = self::model(device).parameters.attention.backward.head_dim_192;
        assert_eq!(own, of_a100, "{device}");
    }
}

#[test]
fn a_stream_reaches_its_share_of_the_bandwidth() {
    let model = model("a100-sxm4-80gb");
    let cost = model.stream(&pass_over(1 << 32, 0)).unwrap();
    let achieved = model.parameters.stream(StreamClass::Elementwise).unwrap().achieved;
    let rate = (cost.bytes as f64) / (cost.alone() - cost.fixed).as_secs();
    assert!((rate / (achieved * model.facts.hbm_bytes_per_s) - 1.0).abs() < 1e-6);
}

#[test]
fn what_lies_in_the_cache_is_not_read_from_memory() {
    let model = model("a100-sxm4-80gb");
    let [cold, warm] = [0, 10_000_000].map(|cached| model.stream(&pass_over(10_000_000, cached)).unwrap());
    assert_eq!((cold.bytes, warm.bytes), (20_000_000, 10_000_000));
    // 10 MB at 0.8876 of 2,039 GB/s take 5.525 us, at 35.5 bytes per clock of 1,410 MHz and 108 SMs 1.850 us.
    let achieved = model.parameters.stream(StreamClass::Elementwise).unwrap().achieved;
    let memory = 1e7 / (achieved * model.facts.hbm_bytes_per_s);
    let blocks = |cost: &KernelCost| (cost.alone() - cost.fixed).as_secs();
    assert!((blocks(&cold) - 2.0 * memory).abs() < 2e-12, "{}", blocks(&cold));
    assert!((blocks(&warm) - memory - 1.850e-6).abs() < 1e-9, "{}", blocks(&warm) - memory);
}

#[test]
fn a_cache_keeps_what_returns_soon() {
    let (a100, l4) = (model("a100-sxm4-80gb"), model("l4"));
    let kept = |model: &KernelModel, share: f64| model.cached(1000, (share * model.facts.l2_bytes) as u64);
    assert_eq!([0.0, 0.3, 0.565, 0.83, 2.0].map(|share| kept(&a100, share)), [1000, 1000, 500, 0, 0]);
    assert_eq!([0.92, 1.06, 1.2].map(|share| kept(&l4, share)), [1000, 500, 0]);
}

/// 67 million numbers at so many a clock of each SM, behind which 512 MiB hide; a copy of as many takes what the memory does.
#[test]
fn lookups_take_the_clocks_of_their_address_arithmetic() {
    let (elements, bytes) = (1u64 << 26, 1u64 << 28);
    let copy = pass_over(bytes, 0);
    let look_up = Stream { class: StreamClass::Embedding, looked_up: elements, ..copy };
    for device in ["h100-sxm5-80gb", "l4"] {
        let kernels = model(device);
        let seconds = |pass: &Stream| kernels.stream(pass).unwrap().of_blocks();
        let parameters = kernels.parameters.stream(StreamClass::Embedding).unwrap();
        let per_second =
            parameters.per_clock.unwrap() * kernels.facts.clock_hz * f64::from(kernels.facts.sms);
        let memory = 2.0 * bytes as f64 / parameters.achieved / kernels.facts.hbm_bytes_per_s;
        let slower = memory.max(elements as f64 / per_second);
        assert!((seconds(&look_up) / slower - 1.0).abs() < 1e-3, "{device}");
        assert!((seconds(&copy) / memory - 1.0).abs() < 1e-3, "{device}");
        assert_eq!(slower > memory, device == "h100-sxm5-80gb", "the memory of L4 is slower still");
    }
}

#[test]
fn what_is_missing_is_named() {
    let error = model("v100-sxm2-16gb").gemm(&square(128, Dtype::Bf16)).unwrap_err();
    assert!(error.to_string().starts_with("the GPU has no bf16 matrix rate; it has fp32, fp16"), "{error}");
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
    /// Against a count of all pairs; a wider window takes no less work and time, one of all keys as
    /// much as none.
    #[test]
    fn windows_hide_pairs(queries in 1u64..300, more in 0u64..300, window in 1u64..700, heads in 1u64..65) {
        let model = model("a100-sxm4-80gb");
        let keys = queries + more;
        for pass in [Pass::Forward, Pass::Backward] {
            let with = |window| Attention { queries, keys, window, ..causal(pass, heads) };
            let seen: u64 = (more..keys).map(|last| (last + 1).min(window)).sum();
            let each = if pass == Pass::Forward { 4 } else { 10 };
            prop_assert_eq!(with(Some(window)).flops(), (each * heads * 128 * seen) as f64);
            let costs = [Some(window), Some(window + 1), None].map(|window| model.attention(&with(window)).unwrap());
            let all = |cost: &KernelCost| row_at(cost, u32::MAX).bytes_per_s / cost.bytes as f64;
            prop_assert!(all(&costs[0]) >= all(&costs[1]) * (1.0 - 1e-9));
            prop_assert!(all(&costs[1]) >= all(&costs[2]) * (1.0 - 1e-9));
            if window >= keys {
                prop_assert_eq!(&costs[0], &costs[2]);
            }
        }
    }

    #[test]
    fn more_sms_are_never_slower(
        batch in 1u64..9, m in 1u64..9000, n in 1u64..9000, k in 1u64..9000, heads in 1u64..65, keys in 1u64..5000,
    ) {
        let model = model("a100-sxm4-80gb");
        let gemm = Gemm { batch, m, n, k, ..square(1, Dtype::Bf16) };
        let attention = Attention { keys, ..causal(Pass::Backward, heads) };
        let stream = Stream { class: StreamClass::Softmax, bytes_written: k, bytes_cached: n, rows: Some(m), ..pass_over(m * n, 0) };
        let few = Stream { class: StreamClass::LayerNorm, rows: Some(heads), ..stream };
        for cost in [
            model.gemm(&gemm).unwrap(),
            model.attention(&attention).unwrap(),
            model.stream(&stream).unwrap(),
            model.stream(&few).unwrap(),
        ] {
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
        let attention = Attention { batch, queries: m, keys: n, head_dim: k, value_dim: k, ..causal(Pass::Forward, 2) };
        prop_assert!(model.attention(&attention).unwrap().alone() > Time::ZERO);
    }
}

fn square(side: u64, dtype: Dtype) -> Gemm {
    Gemm { batch: 1, m: side, n: side, k: side, dtype, layout: Layout::Forward, accumulate: None }
}

/// An elementwise pass from a tensor of so many bytes to another.
fn pass_over(bytes: u64, bytes_cached: u64) -> Stream {
    let class = StreamClass::Elementwise;
    Stream { class, bytes_read: bytes, bytes_written: bytes, bytes_cached, rows: None, looked_up: 0 }
}

/// A convolution of 256 to 256 channels over square inputs, in fp32.
const fn three_by_three(batch: u64, side: u64) -> Convolution {
    Convolution {
        pass: ConvolutionPass::Forward,
        batch,
        in_channels: 256,
        out_channels: 256,
        input: [side, side],
        filter: [3, 3],
        padding: [1, 1],
        stride: [1, 1],
        dilation: [1, 1],
        groups: 1,
        dtype: Dtype::Fp32,
        algorithm: None,
    }
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
        value_dim: 128,
        causal: true,
        window: None,
        dtype: Dtype::Bf16,
    }
}

fn row_at(cost: &KernelCost, sms: u32) -> hw_models::kernels::SpeedRow {
    *cost.rows.iter().rev().find(|row| row.sms <= sms).unwrap()
}

fn catalogue() -> KernelCatalogue {
    serde_yaml::from_str(KERNELS).unwrap()
}

/// The kernels of a GPU of the catalogue.
fn model(device: &str) -> KernelModel {
    static CATALOGUES: LazyLock<(Catalogue, KernelCatalogue)> =
        LazyLock::new(|| (crate::catalogue::catalogue(), catalogue()));
    let (parts, kernels) = &*CATALOGUES;
    let gpu = parts.gpus.get(device).unwrap_or_else(|| panic!("no {device} in the catalogue"));
    KernelModel::new(GpuFacts::of(gpu, 1.0), kernels.parameters(device, &gpu.architecture).unwrap())
}

#[test]
fn a_measured_shape_overrides_the_formula_unless_told_otherwise() {
    let exactly = model("h100-sxm5-80gb");
    let near = exactly.clone().correcting(Correct::Near);
    let never = exactly.clone().correcting(Correct::Never);
    // A row of our own table that was fitted: 8.561 us.
    let shape = Gemm { batch: 1, m: 160, n: 1840, k: 2976, ..square(1, Dtype::Bf16) };
    let [exactly, near, never] =
        [exactly, near, never].map(|model| model.gemm(&shape).unwrap().alone().as_secs());
    assert!((near - never).abs() > 1e-9 && (exactly - near).abs() > 1e-9);
    assert!(
        (exactly / 8.561e-6 - 1.0).abs() < 0.05,
        "the start of the table and of the catalogue are near: {exactly}"
    );
}

#[test]
fn a_correction_leaves_the_start_of_a_kernel_as_it_is() {
    let near = model("h100-sxm5-80gb").correcting(Correct::Near);
    let never = near.clone().correcting(Correct::Never);
    let shape = Gemm { batch: 1, m: 256, n: 512, k: 4096, ..square(1, Dtype::Bf16) };
    let [near, never] = [near, never].map(|model| model.gemm(&shape).unwrap());
    assert_eq!(near.fixed, never.fixed);
    assert_ne!(near.alone(), never.alone());
}

#[test]
fn a_library_that_cuts_no_contraction_when_full_leaves_it_whole() {
    // 128 x 128 tiles of 128: A100 is full; of 8: it is not, and the contraction is cut.
    let model = model("a100-pcie-80gb").correcting(Correct::Never);
    let bytes = |side: u64| {
        let shape = Gemm { m: 128 * side, n: 128 * side, k: 1 << 16, ..square(1, Dtype::Fp32) };
        let once = 4 * (2 * shape.m * shape.k + shape.m * shape.n);
        model.gemm(&shape).unwrap().bytes > once
    };
    assert_eq!((bytes(2), bytes(64)), (true, false));
}

#[test]
fn corrections_fade_away_from_what_was_measured() {
    let model = model("h100-sxm5-80gb");
    let far = Gemm { batch: 1 << 20, m: 1 << 20, n: 1 << 20, k: 1 << 20, ..square(1, Dtype::Bf16) };
    let formula = model.clone().correcting(Correct::Never).gemm(&far).unwrap().alone();
    let ratio = model.gemm(&far).unwrap().alone().as_secs() / formula.as_secs();
    assert!((ratio - 1.0).abs() < 1e-6, "{ratio}");
}

#[test]
fn a_broken_row_of_corrections_is_named() {
    let table = "device,kernel,length,traits,kind,shape,log_ratio,weight\nt4,gemm-bf16,1,0,0,1 2 x,0,0\n";
    let error = Corrections::of_device(table, "t4").unwrap_err().to_string();
    assert!(error.contains("line 2") && error.contains("1 2 x"), "{error}");
    assert!(Corrections::of_device(table, "t40").unwrap().is_empty());
}

/// Batch normalisations of cuDNN (us), forward and backward, in the trace of ResNet-50 that `workloads` has; the rate of a block
/// is from one of A100.
#[test]
fn few_channels_keep_too_few_reads_in_flight() {
    let model = model("v100-sxm2-32gb");
    for (channels, side, forward, backward) in
        [(64, 112, 448.0, 915.0), (64, 56, 118.0, 237.0), (128, 56, 206.0, 378.0), (512, 28, 211.0, 349.0)]
    {
        let tensor = 4 * 32 * channels * side * side;
        for (reads, measured) in [(1, forward), (2, backward)] {
            let (class, bytes_read, rows) = (StreamClass::LayerNorm, reads * tensor, Some(channels));
            let pass = Stream { class, bytes_read, rows, ..pass_over(tensor, 0) };
            let micros = model.stream(&pass).unwrap().alone().as_secs() * 1e6;
            assert!((0.88..1.26).contains(&(micros / measured)), "{channels} of {side}: {micros} us");
        }
    }
}

#[test]
fn wide_rows_of_a_normalisation_are_read_twice() {
    // 16,384 numbers of 4 bytes: in flight on all SMs 113 MB, more than the cache holds; 1,024 fit.
    let model = model("a100-pcie-80gb").correcting(Correct::Never);
    let pass = |columns: u64| {
        let tensor = 1 << 30;
        let rows = Some(tensor / (4 * columns));
        let stream = Stream { class: StreamClass::LayerNorm, rows, ..pass_over(tensor, 0) };
        model.stream(&stream).unwrap().bytes
    };
    assert_eq!((pass(1024), pass(16_384)), (2 << 30, 3 << 30));
}

#[test]
fn rows_of_memory_are_aligned_whatever_the_number_of_tokens() {
    // Without corrections, 616 tokens and 617 are alike; their gradient of weights too; a width of 3,071 is not.
    let model = model("a100-pcie-80gb").correcting(Correct::Never);
    let time = |m, n, k, layout| {
        let shape = Gemm { batch: 1, m, n, k, layout, ..square(1, Dtype::Bf16) };
        model.gemm(&shape).unwrap().alone().as_secs()
    };
    let near = |a: f64, b: f64| (a / b - 1.0).abs() < 0.1;
    assert!(near(time(616, 3072, 5120, Layout::Forward), time(617, 3072, 5120, Layout::Forward)));
    assert!(near(
        time(3072, 5120, 616, Layout::WeightGradient),
        time(3072, 5120, 617, Layout::WeightGradient)
    ));
    assert!(!near(time(616, 3072, 5120, Layout::Forward), time(616, 3071, 5120, Layout::Forward)));
}

#[test]
fn a_grouped_product_counts_waves_over_all_groups() {
    // 40 experts of 616 tokens: each alone fills a part of the GPU, together they fill it.
    let model = model("a100-pcie-80gb");
    let one = Gemm { m: 616, n: 3072, k: 5120, ..square(1, Dtype::Bf16) };
    let grouped = GroupedGemm { groups: Gemm { batch: 40, ..one } };
    let together = model.grouped(&grouped).unwrap().alone();
    let apart = model.gemm(&one).unwrap().alone();
    assert!(together.as_secs() < 40.0 * apart.as_secs(), "{together:?} {apart:?}");
}
