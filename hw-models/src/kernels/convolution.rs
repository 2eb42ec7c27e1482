//! Convolutions of two dimensions: the library takes the faster of implicit products and
//! Winograd's, unless it is told which algorithm to take.
//!
//! ```text
//! implicit:  one product, m = batch outputs, n = out channels, k = in channels x filter, operands and output once
//! Winograd:  36 products of m = batch ceil(h/4) ceil(w/4), n = out, k = in channels, in a domain that the input and the
//!            filter are transformed into and the output out of, each a pass over memory
//! Fourier:   32 x 17 complex products of m = batch tiles, n = out, k = in channels: the half of
//!            the spectrum of tiles of 32 x 32, of which 33 - filter along each side are outputs
//!            (`CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING`)
//! ```
//!
//! What is transformed is in memory while a convolution runs: its workspace.
//!
//! Winograd's is F(4x4, 3x3) of Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2016, for filters
//! 3 x 3 that move by one; it saves 3/4 of the multiplications. The gradients are products of the same size: that of the
//! input sums over the output channels, that of the weight over the outputs of the batch or, in the domain, over the tiles
//! (`CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED`: `winogradWgradData4x4` and `winogradWgradDelta4x4` beside
//! products in a trace of ResNet-50). Channels in groups are a product
//! for each group; where a group has one channel they are no product at all ([`depthwise`](super::depthwise)).

use serde::{Deserialize, Serialize};

use super::fused::TileLaw;
use super::rows::Blocks;
use super::sequence::Stage;
use super::{
    Attached, ConvolutionParameters, Dtype, KernelClass, KernelCost, KernelError, KernelModel, Shape,
    StreamClass,
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
    /// One product whose operand is found in the input as it is read; without workspace.
    Implicit,
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

/// Tiles of the products that convolutions are made of.
const TILES: [[u64; 2]; 6] = [[128, 128], [128, 64], [64, 128], [64, 64], [128, 32], [32, 128]];
/// Area of the tile of full efficiency.
const FULL_TILE: f64 = 128.0 * 128.0;
/// Parts a contraction is cut into: of an implicit product, or over the tiles.
const SPLITS: [u64; 6] = [1, 2, 4, 8, 16, 32];
/// Products in Winograd's domain: a tile of 4 x 4 outputs comes from 6 x 6 inputs.
const WINOGRAD_PRODUCTS: u64 = 36;
/// Outputs of a tile of Winograd's along each side.
const WINOGRAD_OUTPUTS: u64 = 4;
/// Places of a tile that is transformed after Fourier, along each side.
const FOURIER_TILE: u64 = 32;
/// Frequencies of such a tile: those of real numbers come in pairs.
const FOURIER_PRODUCTS: u64 = FOURIER_TILE * (FOURIER_TILE / 2 + 1);
/// Real products of a complex one.
const COMPLEX_PRODUCTS: u64 = 4;

/// One way to do it: `count` products of `m x k` with `k x n`, and what they move.
struct Algorithm {
    products: u64,
    m: u64,
    n: u64,
    k: u64,
    splits: &'static [u64],
    efficiency: f64,
    /// Moved while it multiplies (bytes).
    beside: u64,
    /// Moved before and after (bytes).
    apart: u64,
    start_us: f64,
}

/// Operands transformed for products of their own.
struct Domain {
    /// Products of the transforms of a tile.
    products: u64,
    /// Tiles of all images.
    tiles: u64,
    /// All transforms (bytes).
    bytes: u64,
}

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
        let cost = |algorithm: &Algorithm| {
            self.by_algorithm((shape, attached), algorithm, parameters, peak, achieved)
        };
        if let Some(told) = shape.algorithm {
            let algorithm = shape.by(told, parameters);
            return Ok(cost(&algorithm.unwrap_or_else(|| shape.implicit(parameters))));
        }
        let implicit = cost(&shape.implicit(parameters));
        let winograd = shape.by(ConvolutionAlgorithm::Winograd, parameters);
        let best = match winograd.map(|algorithm| cost(&algorithm)) {
            Some(winograd) if attached.is_none() && winograd.alone() < implicit.alone() => winograd,
            _ => implicit,
        };
        Ok(if shape.groups > 1 { best } else { self.corrected(best, 0.0, || shape.among_measured()) })
    }

    fn by_algorithm(
        &self,
        (shape, attached): (&Convolution, &Attached),
        algorithm: &Algorithm,
        parameters: &ConvolutionParameters,
        peak: f64,
        achieved: f64,
    ) -> KernelCost {
        let law = self.tile_law_of_convolutions(peak, parameters, algorithm.efficiency);
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
            Blocks {
                count,
                resident: 1,
                bytes,
                achieved,
                serial: 0.0,
                seconds: move |sms: u32| {
                    let on_each = count.div_ceil(u64::from(sms)) as f64;
                    let products = members.of_tiles(on_each, seconds);
                    products.max(beside * bytes as f64 / nominal) + apart as f64 / nominal
                },
            }
        };
        let deepest = (algorithm.k / 256).max(1);
        let candidates = TILES.into_iter().flat_map(|tile| {
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
        let Algorithm { n, k, efficiency, start_us, .. } = shape.implicit(parameters);
        Ok(Stage {
            law: self.tile_law_of_convolutions(self.peak(shape.dtype)?, parameters, efficiency),
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
        parameters: &ConvolutionParameters,
        efficiency: f64,
    ) -> TileLaw {
        let rate = peak / f64::from(self.facts.sms.max(1)) * efficiency;
        let &ConvolutionParameters { exponent, prologue_k, .. } = parameters;
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

    /// Whether every filter sees one channel.
    const fn depthwise(&self) -> bool {
        self.groups > 1 && self.in_channels <= self.groups
    }

    /// Channels of the input that a filter sees.
    const fn group_inputs(&self) -> u64 {
        self.in_channels.div_ceil(if self.groups == 0 { 1 } else { self.groups })
    }

    fn implicit(&self, parameters: &ConvolutionParameters) -> Algorithm {
        let product = |sizes: [u64; 3]| sizes.into_iter().fold(1, u64::saturating_mul);
        let [height, width] = self.output();
        let outputs = product([self.batch, height, width]);
        let filter = self.filter[0].saturating_mul(self.filter[1]);
        let (inputs_of_group, outputs_of_group) =
            (self.group_inputs(), self.out_channels.div_ceil(self.groups.max(1)));
        let [m, n, k] = match self.pass {
            ConvolutionPass::Forward => [outputs, outputs_of_group, inputs_of_group.saturating_mul(filter)],
            ConvolutionPass::InputGradient => {
                let inputs = product([self.batch, self.input[0], self.input[1]]);
                // A step of the filter leaves as many outputs to each input.
                let steps = self.stride[0].max(1).saturating_mul(self.stride[1].max(1));
                [inputs, inputs_of_group, outputs_of_group.saturating_mul(filter).div_ceil(steps)]
            }
            ConvolutionPass::WeightGradient => {
                [inputs_of_group.saturating_mul(filter), outputs_of_group, outputs]
            }
        };
        Algorithm {
            products: self.groups.max(1),
            m,
            n,
            k: k.max(1),
            splits: &SPLITS,
            efficiency: parameters.implicit * self.factor(parameters),
            beside: self.bytes(),
            apart: 0,
            start_us: parameters.start_us,
        }
    }

    /// The convolution by an algorithm, if that applies.
    fn by(&self, algorithm: ConvolutionAlgorithm, parameters: &ConvolutionParameters) -> Option<Algorithm> {
        let real = match algorithm {
            ConvolutionAlgorithm::Implicit => return Some(self.implicit(parameters)),
            ConvolutionAlgorithm::Winograd => 1,
            ConvolutionAlgorithm::Fourier => COMPLEX_PRODUCTS,
        };
        Some(self.transformed(&self.domain(algorithm)?, real, parameters))
    }

    /// Products in a domain, each of which is `real` products of its operands.
    fn transformed(&self, domain: &Domain, real: u64, parameters: &ConvolutionParameters) -> Algorithm {
        let &Domain { products, tiles, bytes } = domain;
        let (inputs, outputs) = (self.in_channels, self.out_channels);
        let (m, n, k, splits) = match self.pass {
            ConvolutionPass::Forward => (tiles, outputs, inputs, &SPLITS[..1]),
            ConvolutionPass::InputGradient => (tiles, inputs, outputs, &SPLITS[..1]),
            ConvolutionPass::WeightGradient => (inputs, outputs, tiles, &SPLITS[..]),
        };
        Algorithm {
            products,
            m,
            n,
            k: k.saturating_mul(real),
            splits,
            efficiency: parameters.winograd * self.factor(parameters),
            beside: bytes,
            apart: bytes.saturating_add(self.bytes()),
            start_us: parameters.start_us + parameters.transforms_us,
        }
    }

    /// The domain that an algorithm transforms into. `None`: it does not, or does not apply.
    fn domain(&self, algorithm: ConvolutionAlgorithm) -> Option<Domain> {
        let element = self.dtype.bytes();
        let (products, outputs, element) = match algorithm {
            ConvolutionAlgorithm::Implicit => return None,
            ConvolutionAlgorithm::Winograd if self.filter != [3, 3] => return None,
            ConvolutionAlgorithm::Winograd => (WINOGRAD_PRODUCTS, [WINOGRAD_OUTPUTS; 2], element),
            ConvolutionAlgorithm::Fourier => {
                let outputs = self.filter.map(|extent| (FOURIER_TILE + 1).saturating_sub(extent.max(1)));
                (FOURIER_PRODUCTS, outputs, 2 * element)
            }
        };
        let applies = (self.stride, self.dilation, self.groups.max(1)) == ([1, 1], [1, 1], 1);
        if !applies || outputs.contains(&0) {
            return None;
        }
        let of_side = |side: usize| self.output()[side].div_ceil(outputs[side]);
        let tiles = self.batch.saturating_mul(of_side(0)).saturating_mul(of_side(1));
        let (inputs, outputs) = (self.in_channels, self.out_channels);
        // Of each tile the transform of the input and that of the output or its gradient, and those
        // of the filters.
        let elements = tiles.saturating_mul(inputs.saturating_add(outputs));
        let elements = elements.saturating_add(inputs.saturating_mul(outputs));
        Some(Domain { products, tiles, bytes: products.saturating_mul(elements).saturating_mul(element) })
    }

    /// Workspace of an algorithm (bytes). `None`: it does not apply.
    pub fn workspace(&self, algorithm: ConvolutionAlgorithm) -> Option<u64> {
        match algorithm {
            ConvolutionAlgorithm::Implicit => Some(0),
            _ if self.depthwise() => None,
            transforming => self.domain(transforming).map(|domain| domain.bytes),
        }
    }

    const fn factor(&self, parameters: &ConvolutionParameters) -> f64 {
        match self.pass {
            ConvolutionPass::Forward => 1.0,
            ConvolutionPass::InputGradient => parameters.input_gradient,
            ConvolutionPass::WeightGradient => parameters.weight_gradient,
        }
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
