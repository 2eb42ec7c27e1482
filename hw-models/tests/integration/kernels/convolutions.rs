//! Convolutions: tiles, transforms and taps show where they do on hardware, no shape breaks the model.

use hw_models::kernels::{Convolution, ConvolutionAlgorithm, ConvolutionPass, Correct, Dtype};
use proptest::prelude::*;
use sim_core::time::Time;

use super::{model, three_by_three};

/// Gradients of the input of DeepBench on P100 (us): one product over places would pad its channel to a tile of 32.
#[test]
fn taps_fill_the_tile_that_one_channel_does_not() {
    let model = model("p100-pcie-16gb").correcting(Correct::Never);
    let layers = [
        (32, [161, 700], [5, 20], [0, 0], [2, 2], 1602.0),
        (64, [161, 700], [5, 5], [1, 1], [2, 2], 801.0),
        (16, [48, 480], [3, 3], [1, 1], [1, 1], 328.0),
    ];
    for (out_channels, input, filter, padding, stride, measured) in layers {
        let any = three_by_three(16, 1);
        let pass = ConvolutionPass::InputGradient;
        let layer = Convolution { pass, in_channels: 1, out_channels, input, filter, padding, stride, ..any };
        let seconds =
            |algorithm| model.convolution(&Convolution { algorithm, ..layer }).unwrap().alone().as_secs();
        let micros = seconds(None) * 1e6;
        assert!((0.6..1.1).contains(&(micros / measured)), "{input:?}: {micros} us");
        // Neither takes a workspace, so that a library without any has both.
        assert_eq!(seconds(Some(ConvolutionAlgorithm::Implicit)), seconds(None));
    }
}

#[test]
fn filters_of_three_by_three_save_multiplications() {
    let model = model("a100-pcie-80gb").correcting(Correct::Never);
    let layer = three_by_three(64, 56);
    let rate = |layer: &Convolution| layer.flops() / model.convolution(layer).unwrap().alone().as_secs();
    assert_eq!(layer.output(), [56, 56]);
    let strided = Convolution { stride: [2, 2], ..layer };
    assert_eq!((strided.output(), strided.flops() * 4.0), ([28, 28], layer.flops()));
    assert!(rate(&layer) > 1.2 * rate(&strided), "{} {}", rate(&layer), rate(&strided));
}

/// Transforms take a workspace that grows with the batch, and pay where channels are many.
#[test]
fn transforms_trade_workspace_for_multiplications() {
    use ConvolutionAlgorithm::{Fourier, FusedWinograd, Implicit, Winograd};
    let model = model("a100-pcie-80gb").correcting(Correct::Never);
    let layer = three_by_three(64, 56);
    let seconds = |algorithm| model.convolution(&Convolution { algorithm, ..layer }).unwrap().alone();
    let [implicit, fused, winograd, fourier] =
        [Implicit, FusedWinograd, Winograd, Fourier].map(|it| seconds(Some(it)));
    assert_eq!(seconds(None), implicit.min(fused).min(winograd));
    assert!(winograd < implicit && fourier < implicit, "{implicit:?} {winograd:?} {fourier:?}");
    let workspace = |batch, algorithm| Convolution { batch, ..layer }.workspace(algorithm).unwrap();
    assert_eq!(workspace(64, Implicit), 0);
    assert_eq!(workspace(64, FusedWinograd), 4 * 16 * 256 * 256);
    // 14 x 14 tiles of 36 numbers, and 2 x 2 of 544 complex ones, for 256 channels in and out,
    // and as many for each filter.
    assert_eq!(workspace(64, Winograd), 4 * 36 * (64 * 196 * 512 + 256 * 256));
    assert_eq!(workspace(64, Fourier), 8 * 544 * (64 * 4 * 512 + 256 * 256));
    let strided = Convolution { stride: [2, 2], ..layer };
    assert_eq!([FusedWinograd, Winograd, Fourier].map(|it| strided.workspace(it)), [None, None, None]);
}

/// The fused kernel of a V100 has blocks of 4 x 8 tiles of 2 x 2 outputs of one image; that of an
/// A100 also has blocks of four images, for batches of whole blocks.
#[test]
fn fused_kernels_fill_blocks_of_tiles() {
    let seconds = |gpu, batch, input| {
        let algorithm = Some(ConvolutionAlgorithm::FusedWinograd);
        let shape = Convolution { batch, input, algorithm, ..three_by_three(1, 1) };
        let model = model(gpu).correcting(Correct::Never);
        model.convolution(&shape).unwrap().alone()
    };
    // 80 images of 8 x 16 by 8 blocks of 32 channels are 8 waves of 80 SMs.
    let full = seconds("v100-sxm2-16gb", 80, [8, 16]);
    assert_eq!(seconds("v100-sxm2-16gb", 80, [7, 9]), full);
    let v100 = model("v100-sxm2-16gb");
    let parameters = v100.parameters.convolution(Dtype::Fp32).unwrap();
    let law = parameters.fused.as_ref().unwrap();
    let of_law = 8.0 * 2.0 * 128.0 * 128.0 * (256.0 + law.prologue_k) / (law.e_max * 15.7e12 / 80.0);
    let transform = 25.0 * 256.0 * 256.0 * 4.0 / (parameters.transforms * 900e9);
    let start = 10.4e-6;
    let expected = start + of_law + transform;
    assert!((full.as_secs() / expected - 1.0).abs() < 0.01, "{full:?} {expected}");
    assert!(seconds("v100-sxm2-16gb", 80, [8, 17]) > full);
    // 108 SMs: 112 images of 8 x 8 by 8 channels' blocks, in halves of four images where they come
    // in fours.
    let halved = seconds("a100-pcie-80gb", 112, [8, 8]).as_secs();
    let alone = seconds("a100-pcie-80gb", 113, [8, 8]).as_secs();
    assert!(alone > 1.5 * halved, "{alone} {halved}");
}

/// Tensor cores take channels in eights of 16 bits: fewer are padded, in copies.
#[test]
fn channels_of_sixteen_bits_are_padded() {
    let model = model("v100-sxm2-16gb").correcting(Correct::Never);
    let shape = |in_channels| Convolution { in_channels, dtype: Dtype::Fp16, ..three_by_three(64, 56) };
    let [three, eight] = [3, 8].map(|channels| model.convolution(&shape(channels)).unwrap());
    assert!(three.alone() > eight.alone());
    // The copies are there beside the image, the output and the filters.
    assert_eq!(three.bytes - shape(3).bytes(), 64 * 56 * 56 * (3 + 8) * 2);
    assert_eq!(eight.bytes, shape(8).bytes());
}

/// Outputs of images with few channels, of DeepBench on V100 and T4 (us): kernels of cuDNN 7.6 take a step of 32 for each tap.
#[test]
fn few_channels_take_a_step_of_their_own() {
    let layers = [
        (1, 32, [161, 700], [5, 20], [0, 0], [2, 2], [1857.0, 4161.0]),
        (1, 64, [161, 700], [5, 5], [1, 1], [2, 2], [535.0, 1387.0]),
        (1, 16, [48, 480], [3, 3], [1, 1], [1, 1], [187.0, 482.0]),
        (3, 64, [224, 224], [3, 3], [1, 1], [1, 1], [405.0, 1116.0]),
    ];
    for (in_channels, out_channels, input, filter, padding, stride, measured) in layers {
        let any = Convolution { dtype: Dtype::Fp16, in_channels, out_channels, ..three_by_three(16, 1) };
        let layer = Convolution { input, filter, padding, stride, ..any };
        for (gpu, measured) in ["v100-sxm2-16gb", "t4"].into_iter().zip(measured) {
            let model = model(gpu).correcting(Correct::Never);
            let micros = model.convolution(&layer).unwrap().alone().as_secs() * 1e6;
            assert!((0.7..1.3).contains(&(micros / measured)), "{gpu}, {input:?}: {micros} us");
        }
    }
    let seconds = |gpu, in_channels| {
        let model = model(gpu).correcting(Correct::Never);
        let layer = Convolution { in_channels, dtype: Dtype::Fp16, ..three_by_three(64, 56) };
        model.convolution(&layer).unwrap().alone().as_secs()
    };
    let faster = |gpu| seconds(gpu, 8) / seconds(gpu, 32);
    assert!(faster("v100-sxm2-16gb") > 0.9, "{}", faster("v100-sxm2-16gb"));
    assert!(faster("a100-sxm4-80gb") < 0.7, "{}", faster("a100-sxm4-80gb"));
}

/// Kernels of a T4 for gradients of 16-bit weights take tap by tap: tiles of 128 x 128 channels.
#[test]
fn taps_of_weight_gradients_fill_tiles_of_their_own() {
    let model = model("t4").correcting(Correct::Never);
    let seconds = |channels| {
        let (pass, dtype) = (ConvolutionPass::WeightGradient, Dtype::Fp16);
        let (in_channels, out_channels) = (channels, channels);
        let shape = Convolution { pass, dtype, in_channels, out_channels, ..three_by_three(16, 56) };
        model.convolution(&shape).unwrap().alone().as_secs()
    };
    let [half, whole, twice] = [64, 128, 256].map(seconds);
    assert!((half / whole - 1.0).abs() < 0.05, "{half} {whole}");
    assert!(twice > 3.3 * whole && twice < 4.2 * whole, "{twice} {whole}");
}

/// A step of the filter leaves phases of places: those of 5 taps by 2 have 3, those of 1 tap are a
/// quarter. In 16 bits, whose products are not added by atomics.
#[test]
fn strided_gradients_take_taps_in_phases() {
    let model = model("a100-pcie-80gb").correcting(Correct::Never);
    let seconds = |filter: u64, stride: u64| {
        let shape = Convolution {
            pass: ConvolutionPass::InputGradient,
            filter: [filter; 2],
            padding: [filter / 2; 2],
            stride: [stride; 2],
            dtype: Dtype::Fp16,
            algorithm: Some(ConvolutionAlgorithm::Implicit),
            ..three_by_three(64, 56)
        };
        model.convolution(&shape).unwrap().alone().as_secs()
    };
    assert!((seconds(5, 2) / seconds(3, 1) - 1.0).abs() < 1e-9);
    assert!((seconds(1, 1) / seconds(1, 2)) > 2.0);
}

#[test]
fn channels_in_groups_are_products_of_their_own() {
    let model = model("v100-pcie-32gb");
    let layer = three_by_three(32, 28);
    let cost = |groups| model.convolution(&Convolution { groups, ..layer }).unwrap();
    assert_eq!(cost(32).flops * 32.0, cost(1).flops);
    // A filter over one channel has nothing to reuse: 1/256 of the operations, but far more than that of the time.
    assert_eq!(cost(256).flops * 256.0, cost(1).flops);
    let seconds = |groups| cost(groups).alone().as_secs();
    assert!(30.0 * seconds(256) > seconds(1) && seconds(256) < seconds(32));
    let dilated = Convolution { dilation: [2, 2], padding: [2, 2], ..layer };
    assert_eq!(dilated.output(), [28, 28]);
}

proptest! {
    #[test]
    fn no_convolution_breaks_the_model(
        sizes in prop::array::uniform12(any::<u64>()), small in 1u64..300, pass in 0usize..3,
    ) {
        let [batch, in_channels, out_channels, h, w, fh, fw, ph, pw, sh, sw, groups] = sizes;
        let pass = [ConvolutionPass::Forward, ConvolutionPass::InputGradient, ConvolutionPass::WeightGradient][pass];
        let any = Convolution {
            pass, batch, in_channels, out_channels, input: [h, w], filter: [fh, fw], padding: [ph, pw],
            stride: [sh, sw], dilation: [sw, sh], groups, dtype: Dtype::Fp32, algorithm: None,
        };
        let modest = Convolution { batch: small, in_channels: small, filter: [3, 3], stride: [1, 1], ..any };
        let depthwise = Convolution { groups: small, ..modest };
        for shape in [any, modest, depthwise] {
            prop_assert!(model("v100-pcie-32gb").convolution(&shape).unwrap().alone() > Time::ZERO);
        }
    }
}
