//! Launches that take longer with every shape launched before: a host keeps a plan for each, and
//! looks for it among them (`torch.backends.cudnn.benchmark`: 30 ns a shape at first, 100 ns among
//! thousands, which do not fit its caches).

use super::Sample;
use hw_models::kernels::KernelModel;
use hw_models::search::minimise;

/// Unit of the times that are searched (s).
const UNIT: f64 = 50e-6;
/// Unit of shapes launched before.
const SHAPES: f64 = 1000.0;

/// What shapes launched before add to a launch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Growth {
    /// For each of them (s).
    linear: f64,
    /// For each pair of them (s).
    quadratic: f64,
}

impl Growth {
    /// That with which the predictions of a model are nearest, by the mean absolute logarithm of
    /// their ratios; none where samples do not tell their place.
    pub fn of(samples: &[Sample], model: &KernelModel) -> Self {
        if samples.iter().all(|sample| sample.nth == 0) {
            return Self::default();
        }
        let known = |sample: &Sample| Some((sample.shape.cost(model).ok()?.alone().as_secs(), *sample));
        let pairs: Vec<(f64, Sample)> = samples.iter().filter_map(known).collect();
        let distance = |at: &[f64]| -> f64 {
            let growth = Self::found(at);
            let far = |(predicted, sample): &(f64, Sample)| match predicted
                + UNIT * at[0]
                + growth.added(sample.nth)
            {
                sum if sum > 0.0 => (sum / sample.seconds).ln().abs(),
                _ => f64::INFINITY,
            };
            pairs.iter().map(far).sum()
        };
        let once = minimise(&[1.0, 1.0, 0.1], 0.5, &distance);
        Self::found(&minimise(&once, 0.1, &distance))
    }

    /// What `nth` earlier shapes add (s).
    pub fn added(self, nth: u64) -> f64 {
        (self.linear + self.quadratic * nth as f64) * nth as f64
    }

    fn found(at: &[f64]) -> Self {
        Self { linear: UNIT * at[1] / SHAPES, quadratic: UNIT * at[2] / (SHAPES * SHAPES) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KernelShape;
    use hw_models::catalogue::Catalogue;
    use hw_models::kernels::{Convolution, ConvolutionPass, Dtype, GpuFacts, KERNELS, KernelCatalogue};

    #[test]
    fn launches_that_grow_are_told_from_kernels() {
        let parts = Catalogue::embedded(serde_yaml::Deserializer::from_str).unwrap();
        let kernels: KernelCatalogue = serde_yaml::from_str(KERNELS).unwrap();
        let gpu = &parts.gpus["a100-pcie-80gb"];
        let parameters = kernels.parameters("a100-pcie-80gb", &gpu.architecture).unwrap();
        let model = KernelModel::new(GpuFacts::of(gpu, 1.0), parameters);
        // 40 us, 30 ns a shape and 10 ps a pair of shapes, on kernels of many sizes in no order.
        let measured = |nth: u64| {
            let shape = Convolution {
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
            let shape = KernelShape::Convolution(shape);
            let kernel = shape.cost(&model).unwrap().alone().as_secs();
            let launch = 40e-6 + 30e-9 * nth as f64 + 10e-12 * (nth * nth) as f64;
            Sample { nth, ..Sample::new(shape, kernel + launch, nth, 1) }
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
}
