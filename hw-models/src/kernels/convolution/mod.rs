//! Convolutions of two dimensions: the library takes the fastest of its algorithms, unless it is
//! told which one to take. Channels in groups are a product for each group; where a group has one
//! channel they are no product at all ([`depthwise`](super::depthwise)).

mod algorithms;

use serde::{Deserialize, Serialize};

use self::algorithms::Algorithm;
use super::fused::TileLaw;
use super::rows::Blocks;
use super::sequence::Stage;
use super::{
    AlgorithmParameters, Attached, ConvolutionParameters, Dtype, KernelClass, KernelCost, KernelError,
    KernelModel, Shape, StreamClass,
};

/// A convolution over `batch` images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Convolution {
    /// Forward, or which gradient.
    pub pass: ConvolutionPass,
    /// Images.
    pub batch: u64,
    /// Channels of the input.
    pub in_channels: u64,
    /// Channels of the output.
    pub out_channels: u64,
    /// Height and width of the input.
    pub input: [u64; 2],
    /// Height and width of the filter.
    pub filter: [u64; 2],
    /// Padding on each side, vertically and horizontally.
    pub padding: [u64; 2],
    /// Step of the filter, vertically and horizontally.
    pub stride: [u64; 2],
    /// Distance of the filter's elements, vertically and horizontally.
    pub dilation: [u64; 2],
    /// Groups that the channels are in, each with filters over its own channels only.
    pub groups: u64,
    /// Type of the tensors.
    pub dtype: Dtype,
    /// Algorithm. `None`: the library's choice.
    pub algorithm: Option<ConvolutionAlgorithm>,
}

/// Algorithms of convolutions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConvolutionAlgorithm {
    /// One product whose operand is found in the input as it is read, or one whose elements are added
    /// to a gradient of the input; without workspace.
    Implicit,
    /// Winograd's products in a kernel that transforms the operands it loads.
    FusedWinograd,
    /// Winograd's products of tiles that are transformed in passes of their own.
    Winograd,
    /// Products of spectra of tiles, which are transformed in passes of their own.
    Fourier,
}

/// Passes of a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConvolutionPass {
    /// Outputs from inputs.
    Forward,
    /// Gradient of the input.
    InputGradient,
    /// Gradient of the weight.
    WeightGradient,
}

/// Area of the tile of full efficiency.
const FULL_TILE: f64 = 128.0 * 128.0;
/// Algorithms that the library takes where they are faster than products of the operands as they are.
const TRANSFORMING: [ConvolutionAlgorithm; 2] =
    [ConvolutionAlgorithm::FusedWinograd, ConvolutionAlgorithm::Winograd];

impl KernelModel {
    /// A convolution.
    ///
    /// # Errors
    /// When the GPU has no rate or the catalogue no parameters for the type.
    pub fn convolution(&self, shape: &Convolution) -> Result<KernelCost, KernelError> {
        self.convolution_with(shape, &Attached::NONE)
    }

    /// A convolution with members around it. Those of transformed products would be in the pass out
    /// of the domain, which libraries do not change.
    ///
    /// # Errors
    /// As [`Self::convolution`].
    pub(super) fn convolution_with(
        &self,
        shape: &Convolution,
        attached: &Attached,
    ) -> Result<KernelCost, KernelError> {
        if shape.depthwise() {
            return self.depthwise(shape, attached);
        }
        let parameters = self.parameters.convolution(shape.dtype)?;
        let peak = self.peak(shape.dtype)?;
        let achieved = self.parameters.stream(StreamClass::Elementwise)?.achieved;
        let cost = |algorithm: Algorithm<'_>| {
            self.by_algorithm((shape, attached), &algorithm, parameters, peak, achieved)
        };
        if let Some(told) = shape.algorithm.and_then(|told| shape.by(told, parameters)) {
            return Ok(cost(told));
        }
        let mut best = cost(shape.implicit(parameters));
        if attached.is_none() {
            let transforming = TRANSFORMING.into_iter().filter(|_| shape.algorithm.is_none());
            let transforming = transforming.filter_map(|algorithm| shape.by(algorithm, parameters));
            for other in transforming.chain(shape.scattered(parameters)).map(cost) {
                if other.alone() < best.alone() {
                    best = other;
                }
            }
        }
        let corrected = shape.algorithm.is_none() && shape.groups <= 1;
        Ok(if corrected { self.corrected(best, 0.0, || shape.among_measured()) } else { best })
    }

    fn by_algorithm(
        &self,
        (shape, attached): (&Convolution, &Attached),
        algorithm: &Algorithm<'_>,
        parameters: &ConvolutionParameters,
        peak: f64,
        achieved: f64,
    ) -> KernelCost {
        let law = self.tile_law_of_convolutions(peak, algorithm.law);
        let blocks = |tile: [u64; 2], split: u64| {
            let depth = algorithm.k.div_ceil(split) as f64;
            let tiles = algorithm.m.div_ceil(tile[0]).saturating_mul(algorithm.n.div_ceil(tile[1]));
            let count = algorithm.products.saturating_mul(tiles).saturating_mul(split);
            let sums = if split > 1 { (split + 1) * Dtype::Fp32.bytes() } else { 0 };
            let outputs = algorithm.m.saturating_mul(algorithm.n).saturating_mul(algorithm.products);
            let apart = algorithm.apart.saturating_add(outputs.saturating_mul(sums));
            let beside = attached.traffic(algorithm.beside, [shape.input_bytes(), shape.output_bytes()]);
            let bytes = beside.saturating_add(apart).max(1);
            let sides = tile.map(|side| side as u32);
            let members = self.of_tile(attached, sides, outputs as f64, achieved);
            let seconds = members.begun(law.seconds(sides, depth), depth);
            let beside = beside as f64 / bytes as f64;
            // What is moved apart adds to the time, what is moved beside the products may hide.
            let nominal = achieved * self.facts.hbm_bytes_per_s;
            let transforming = parameters.transforms * self.facts.hbm_bytes_per_s;
            Blocks {
                count,
                resident: 1,
                bytes,
                achieved,
                serial: 0.0,
                seconds: move |sms: u32| {
                    let on_each = count.div_ceil(u64::from(sms)) as f64;
                    let products = members.of_tiles(on_each, seconds);
                    let added = self.atomic_seconds(algorithm.atomics, sms);
                    products.max(added).max(beside * bytes as f64 / nominal) + apart as f64 / transforming
                },
            }
        };
        let deepest = (algorithm.k / 256).max(1);
        let candidates = algorithm.tiles.iter().flat_map(|&tile| {
            algorithm.splits.iter().take_while(|&&split| split <= deepest).map(move |&split| (tile, split))
        });
        let best = Blocks::fastest(self, candidates.map(|(tile, split)| blocks(tile, split)))
            .unwrap_or_else(|| blocks([128, 128], 1));
        best.cost(self, algorithm.start_us, shape.flops(), KernelClass::Convolution(shape.dtype))
    }
}

impl KernelModel {
    /// A convolution as one of two in a kernel.
    pub(super) fn stage_of_convolution(&self, shape: &Convolution) -> Result<Stage, KernelError> {
        let parameters = self.parameters.convolution(shape.dtype)?;
        let Algorithm { n, k, law, start_us, .. } = shape.implicit(parameters);
        Ok(Stage {
            law: self.tile_law_of_convolutions(self.peak(shape.dtype)?, law),
            columns: n,
            depth: k as f64,
            sustained: f64::INFINITY,
            serial: 0.0,
            start_us,
            class: KernelClass::Convolution(shape.dtype),
        })
    }

    /// Speed of tiles, of a share of the peak rate.
    fn tile_law_of_convolutions(
        &self,
        peak: f64,
        &AlgorithmParameters { e_max, exponent, prologue_k, .. }: &AlgorithmParameters,
    ) -> TileLaw {
        let rate = peak / f64::from(self.facts.sms.max(1)) * e_max;
        TileLaw { rate, full: FULL_TILE, exponent, prologue_k }
    }
}

impl Convolution {
    /// Height and width of the output, at least 1.
    pub fn output(&self) -> [u64; 2] {
        [0, 1].map(|i| {
            let padded = self.input[i].saturating_add(self.padding[i].saturating_mul(2));
            let reach = self.filter[i].saturating_sub(1).saturating_mul(self.dilation[i]).saturating_add(1);
            (padded.saturating_sub(reach) / self.stride[i].max(1)).saturating_add(1)
        })
    }

    /// Multiplications and additions of the direct sum.
    pub fn flops(&self) -> f64 {
        let [height, width] = self.output();
        let outputs = self.batch as f64 * self.out_channels as f64 * height as f64 * width as f64;
        2.0 * outputs * self.group_inputs() as f64 * self.filter[0] as f64 * self.filter[1] as f64
    }

    /// Elements of its filters.
    pub fn weights(&self) -> u64 {
        let filter = self.filter[0].saturating_mul(self.filter[1]);
        self.group_inputs().saturating_mul(self.out_channels).saturating_mul(filter)
    }

    /// True where every filter sees one channel.
    const fn depthwise(&self) -> bool {
        self.groups > 1 && self.in_channels <= self.groups
    }

    /// Bytes of the input.
    pub(super) fn input_bytes(&self) -> u64 {
        let sizes = [self.in_channels, self.input[0], self.input[1], self.dtype.bytes()];
        sizes.into_iter().fold(self.batch, u64::saturating_mul)
    }

    /// Bytes of the output of a forward pass.
    pub(super) fn output_bytes(&self) -> u64 {
        let [height, width] = self.output();
        let sizes = [self.out_channels, height, width, self.dtype.bytes()];
        sizes.into_iter().fold(self.batch, u64::saturating_mul)
    }

    /// Input, output and filter once (bytes).
    pub fn bytes(&self) -> u64 {
        let [height, width] = self.output();
        let image = |channels: u64, height: u64, width: u64| {
            self.batch.saturating_mul(channels).saturating_mul(height).saturating_mul(width)
        };
        image(self.in_channels, self.input[0], self.input[1])
            .saturating_add(image(self.out_channels, height, width))
            .saturating_add(self.weights())
            .saturating_mul(self.dtype.bytes())
            .max(1)
    }

    /// Its place among measured convolutions.
    pub fn among_measured(&self) -> Shape {
        let [height, width] = self.output();
        let dimensions = vec![
            self.batch,
            self.in_channels,
            self.out_channels,
            height.saturating_mul(width),
            self.filter[0].saturating_mul(self.filter[1]),
            self.stride[0].saturating_mul(self.stride[1]),
        ];
        Shape { kind: self.pass as u8, dimensions }
    }
}
