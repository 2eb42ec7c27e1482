//! Launches that take longer with every shape launched before.

use calibration::{Growth, KernelShape, Sample};
use hw_models::kernels::{Convolution, ConvolutionPass, Dtype};

use crate::known::model;

#[test]
fn launches_that_grow_are_told_from_kernels() {
    let model = model("a100-pcie-80gb");
    // 40 us, 30 ns a shape and 10 ps for the square of their number, on kernels of many sizes in no
    // order.
    let measured = |nth: u64| {
        let convolution = Convolution {
            pass: ConvolutionPass::Forward,
            batch: 1 + nth * 7919 % 61,
            in_channels: 64,
            out_channels: 32 + nth * 104_729 % 211,
            input: [28, 28],
            filter: [3, 3],
            padding: [1, 1],
            stride: [1, 1],
            dilation: [1, 1],
            groups: 1,
            dtype: Dtype::Fp32,
            algorithm: None,
        };
        let shape = KernelShape::Convolution(convolution);
        let kernel = shape.cost(&model).unwrap().alone().as_secs();
        let launch = 40e-6 + 30e-9 * nth as f64 + 10e-12 * (nth * nth) as f64;
        Sample { shape, seconds: kernel + launch, took: None, nth, hash: nth, line: 1 }
    };
    let samples: Vec<Sample> = (0..4000).step_by(37).map(measured).collect();
    let growth = Growth::of(&samples, &model);
    for nth in [500, 2000, 4000] {
        let expected = 30e-9 * nth as f64 + 10e-12 * (nth * nth) as f64;
        assert!((growth.added(nth) / expected - 1.0).abs() < 0.02, "{nth}: {growth:?}");
    }
    let first: Vec<Sample> = samples.iter().map(|sample| sample.without(growth)).collect();
    assert_eq!(Growth::of(&first, &model), Growth::default());
}
