//! Algorithms of convolutions: products, and what they move.
//!
//! ```text
//! implicit:  one product, m = batch outputs, n = out channels, k = in channels x filter, operands and output once
//! scattered: one product, m = batch outputs, n = in channels x filter, k = out channels, whose elements are added to a
//!            gradient of the input that is zeros before
//! fused:     blocks of 16 products of 32 x 32, of k = in channels, whose operands are transformed on the way into the
//!            SM: 32 tiles of 2 x 2 outputs by 32 out channels, the arithmetic of a tile of 128 x 128
//! Winograd:  (3 + filter)^2 products of m = batch ceil(h/4) ceil(w/4), n = out, k = in channels,
//!            in a domain that the input and the filter are transformed into and the output out of,
//!            each a pass over memory
//! Fourier:   32 x 17 complex products of m = batch tiles, n = out, k = in channels: the half of
//!            the spectrum of tiles of 32 x 32, of which 33 - filter along each side are outputs
//!            (`CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING`)
//! ```
//!
//! The workspace of a convolution is all that it transforms, in memory while it runs.
//!
//! Winograd's is F(4x4, 3x3) of Lavin and Gray, "Fast Algorithms for Convolutional Neural
//! Networks", 2016, for filters 3 x 3 that move by one, and its like for 5 x 5; it saves 3/4 of the
//! multiplications of the former. In one kernel it is their F(2x2, 3x3), which saves 5/9, for
//! outputs and gradients of inputs (`scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt` in traces:
//! the tiles of a block are of 1 image, 4 down and 8 across). The gradients are products of the
//! same size: that of the input sums over the output channels, that of the weight over the outputs
//! of the batch or, in the domain, over the tiles
//! (`CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED`: `winogradWgradData4x4` and
//! `winogradWgradDelta4x4` beside products in a trace of ResNet-50).

use std::num::NonZeroU64;

use super::super::gemm::ALIGNMENT;
use super::super::{AlgorithmParameters, ConvolutionParameters, Dtype};
use super::{Convolution, ConvolutionAlgorithm, ConvolutionPass};

/// Tiles of the products that convolutions are made of.
const TILES: [[u64; 2]; 8] =
    [[128, 128], [128, 64], [128, 32], [64, 128], [64, 64], [32, 128], [64, 32], [32, 32]];
/// Parts a contraction is cut into: of an implicit product, or over the tiles.
const SPLITS: [u64; 6] = [1, 2, 4, 8, 16, 32];
/// Outputs of a tile of Winograd's along each side, which takes as many products as inputs.
const WINOGRAD_OUTPUTS: u64 = 4;
/// Outputs of a tile of the fused kernel along each side.
const FUSED_OUTPUTS: u64 = 2;
/// Channels of the output of a block of the fused kernel.
const FUSED_CHANNELS: u64 = 32;
/// Accumulators of such a block: those of 16 products of 32 x 32.
const FUSED_TILE: [[u64; 2]; 1] = [[128, 128]];
/// Taps of the filters it is for.
const FUSED_TAPS: u64 = 9;
/// Its products, and the elements of a filter after its transform.
const FUSED_PRODUCTS: u64 = 16;
/// Places of a tile that is transformed after Fourier, along each side.
const FOURIER_TILE: u64 = 32;
/// Frequencies of such a tile: those of real numbers come in pairs.
const FOURIER_PRODUCTS: u64 = FOURIER_TILE * (FOURIER_TILE / 2 + 1);
/// Real products of a complex one.
const COMPLEX_PRODUCTS: u64 = 4;

/// One way to do it: `products` products of `m x k` with `k x n`, and what they move.
pub(super) struct Algorithm<'a> {
    pub(super) products: u64,
    pub(super) m: u64,
    pub(super) n: u64,
    pub(super) k: u64,
    pub(super) tiles: &'a [[u64; 2]],
    pub(super) splits: &'static [u64],
    pub(super) law: &'a AlgorithmParameters,
    /// Moved while it multiplies (bytes).
    pub(super) beside: u64,
    /// Moved before and after (bytes).
    pub(super) apart: u64,
    /// Elements added by atomics.
    pub(super) atomics: u64,
    pub(super) start_us: f64,
}

/// Tiles that a library is known to have, or those of the model.
fn tiles_of<'a>(law: &'a AlgorithmParameters, all: &'a [[u64; 2]]) -> &'a [[u64; 2]] {
    if law.tiles.is_empty() { all } else { &law.tiles }
}

const fn product([a, b, c]: [u64; 3]) -> u64 {
    a.saturating_mul(b).saturating_mul(c)
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

impl Convolution {
    /// Channels of the input that a filter sees.
    pub(super) const fn group_inputs(&self) -> u64 {
        self.in_channels.div_ceil(if self.groups == 0 { 1 } else { self.groups })
    }

    /// Channels that units of the type take at once: 16 bytes on tensor cores, where the library
    /// pads what is fewer (cuDNN, from 7.3 on).
    const fn channels_of_unit(&self) -> u64 {
        match self.dtype {
            Dtype::Fp32 => 1,
            dtype => ALIGNMENT / dtype.bytes(),
        }
    }

    /// The implicit product.
    pub(super) fn implicit<'a>(&self, parameters: &'a ConvolutionParameters) -> Algorithm<'a> {
        let [height, width] = self.output();
        let outputs = product([self.batch, height, width]);
        let taps = self.filter.map(|extent| extent.max(1));
        let unit = parameters.channel_step.map_or_else(|| self.channels_of_unit(), NonZeroU64::get);
        let [to_channels, from_channels] =
            [self.out_channels.div_ceil(self.groups.max(1)), self.group_inputs()]
                .map(|channels| channels.max(1).next_multiple_of(unit));
        // Outputs of kernels are 128 places by some channels, each summed by one block; weights are
        // few, and their long sums are cut (`scudnn_128x32_relu_small_nn`, `wgrad_alg1_engine`).
        let weights = (&TILES[..], &SPLITS[..]);
        let places = if parameters.cuts_outputs { weights } else { (&TILES[..3], &SPLITS[..1]) };
        let (law, (tiles, splits), [products, m, n, k]) = match self.pass {
            ConvolutionPass::Forward => {
                (None, places, [1, outputs, to_channels, product([from_channels, taps[0], taps[1]])])
            }
            ConvolutionPass::InputGradient => {
                let [(height, down), (width, across)] = [0, 1].map(|side| self.phases(side));
                let inputs = product([self.batch, height, width]);
                let law = parameters.input_gradient.as_ref();
                (law, places, [1, inputs, from_channels, product([to_channels, down, across])])
            }
            ConvolutionPass::WeightGradient => {
                let taps = taps[0].saturating_mul(taps[1]);
                let (apart, together) = if parameters.taps_apart { (taps, 1) } else { (1, taps) };
                let rows = from_channels.saturating_mul(together);
                let law = parameters.weight_gradient.as_ref();
                (law, weights, [apart, rows, to_channels, outputs])
            }
        };
        let law = law.unwrap_or(&parameters.implicit);
        Algorithm {
            products: products.saturating_mul(self.groups.max(1)),
            m,
            n,
            k: k.max(1),
            tiles: tiles_of(law, tiles),
            splits,
            law,
            beside: self.bytes(),
            apart: self.padded_bytes(),
            atomics: 0,
            start_us: parameters.start_us,
        }
    }

    /// The gradient of the input as a product of the filters with the gradients of the outputs, whose elements are added to a
    /// gradient of zeros (`CUDNN_CONVOLUTION_BWD_DATA_ALGO_0`: `dgrad_engine` after `scalePackedTensor_kernel`): where channels
    /// are fewer than those of a tile, taps fill it.
    pub(super) fn scattered<'a>(&self, parameters: &'a ConvolutionParameters) -> Option<Algorithm<'a>> {
        if (self.pass, self.dtype) != (ConvolutionPass::InputGradient, Dtype::Fp32) {
            return None;
        }
        let ([height, width], groups) = (self.output(), self.groups.max(1));
        let m = product([self.batch, height, width]);
        let n = product([self.group_inputs(), self.filter[0], self.filter[1]]);
        Some(Algorithm {
            m,
            n,
            k: self.out_channels.div_ceil(groups).max(1),
            apart: self.input_bytes(),
            atomics: product([m, n, groups]),
            ..self.implicit(parameters)
        })
    }

    /// Places of the input along a side whose gradients have a tap, and taps of each. Places are in
    /// phases of the step, of which some have none; those of all others are computed as in the
    /// phase that has most.
    fn phases(&self, side: usize) -> (u64, u64) {
        let (filter, step) = (self.filter[side].max(1), self.stride[side].max(1));
        let phases = filter.min(step);
        (self.input[side].div_ceil(step).saturating_mul(phases), filter.div_ceil(step))
    }

    /// Copies of images whose channels are not in units, into such or back (bytes).
    fn padded_bytes(&self) -> u64 {
        let unit = self.channels_of_unit();
        let copied = |channels: u64, bytes: u64| {
            let padded = channels.max(1).next_multiple_of(unit);
            let copy = (bytes / channels.max(1)).saturating_mul(padded);
            if padded == channels { 0 } else { bytes.saturating_add(copy) }
        };
        copied(self.in_channels, self.input_bytes())
            .saturating_add(copied(self.out_channels, self.output_bytes()))
    }

    /// The convolution by an algorithm that transforms its operands, if it is one and applies.
    pub(super) fn by<'a>(
        &self,
        algorithm: ConvolutionAlgorithm,
        parameters: &'a ConvolutionParameters,
    ) -> Option<Algorithm<'a>> {
        let winograd = parameters.winograd.as_ref();
        let (real, law) = match algorithm {
            ConvolutionAlgorithm::Implicit => return None,
            ConvolutionAlgorithm::FusedWinograd => return self.fused(parameters),
            ConvolutionAlgorithm::Winograd => (1, winograd?),
            ConvolutionAlgorithm::Fourier => (COMPLEX_PRODUCTS, winograd.unwrap_or(&parameters.implicit)),
        };
        Some(self.transformed(&self.domain(algorithm)?, (real, law), parameters))
    }

    /// Winograd's products in one kernel, where the library has that and it applies.
    fn fused<'a>(&self, parameters: &'a ConvolutionParameters) -> Option<Algorithm<'a>> {
        let law = parameters.fused.as_ref()?;
        let outputs = self.fused_outputs()?;
        let (n, k) = match self.pass {
            ConvolutionPass::InputGradient => (self.in_channels, self.out_channels),
            _ => (self.out_channels, self.in_channels),
        };
        let tiles = [self.batch, outputs[0].div_ceil(FUSED_OUTPUTS), outputs[1].div_ceil(FUSED_OUTPUTS)];
        // Blocks of several images are there for batches of whole blocks.
        let whole = parameters.fused_blocks.iter().filter(|block| self.batch.is_multiple_of(block[0].max(1)));
        let blocks =
            whole.map(|block| product([0, 1, 2].map(|side| tiles[side].div_ceil(block[side].max(1)))));
        Some(Algorithm {
            products: 1,
            m: blocks.min()?.saturating_mul(FUSED_TILE[0][0]),
            n: n.div_ceil(FUSED_CHANNELS).saturating_mul(FUSED_TILE[0][1]),
            k,
            tiles: &FUSED_TILE,
            splits: &SPLITS[..1],
            law,
            beside: self.bytes(),
            // Filters are transformed in a pass before.
            apart: self.tap_bytes().saturating_mul(FUSED_TAPS + FUSED_PRODUCTS),
            atomics: 0,
            start_us: parameters.start_us + parameters.transforms_us,
        })
    }

    /// Products in a domain, each of which is `real` products of its operands.
    fn transformed<'a>(
        &self,
        domain: &Domain,
        (real, law): (u64, &'a AlgorithmParameters),
        parameters: &ConvolutionParameters,
    ) -> Algorithm<'a> {
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
            tiles: tiles_of(law, &TILES),
            splits,
            law,
            beside: bytes,
            apart: bytes.saturating_add(self.bytes()),
            atomics: 0,
            start_us: parameters.start_us + parameters.transforms_us,
        }
    }

    /// Height and width of what the fused kernel puts out. `None`: it does not apply.
    fn fused_outputs(&self) -> Option<[u64; 2]> {
        let outputs = match self.pass {
            ConvolutionPass::Forward => self.output(),
            ConvolutionPass::InputGradient => self.input,
            ConvolutionPass::WeightGradient => return None,
        };
        (self.filter == [3, 3] && self.transforms()).then_some(outputs)
    }

    /// True where the operands of all channels can be transformed: the filter moves by one.
    fn transforms(&self) -> bool {
        (self.stride, self.dilation, self.groups.max(1)) == ([1, 1], [1, 1], 1)
    }

    /// One tap of all filters (bytes).
    const fn tap_bytes(&self) -> u64 {
        self.in_channels.saturating_mul(self.out_channels).saturating_mul(self.dtype.bytes())
    }

    /// The domain that an algorithm transforms into. `None`: it does not, or does not apply.
    fn domain(&self, algorithm: ConvolutionAlgorithm) -> Option<Domain> {
        let element = self.dtype.bytes();
        let (products, outputs, element) = match algorithm {
            ConvolutionAlgorithm::Implicit | ConvolutionAlgorithm::FusedWinograd => return None,
            ConvolutionAlgorithm::Winograd => match self.filter {
                filter @ ([3, 3] | [5, 5]) => {
                    let side = WINOGRAD_OUTPUTS + filter[0] - 1;
                    (side * side, [WINOGRAD_OUTPUTS; 2], element)
                }
                _ => return None,
            },
            ConvolutionAlgorithm::Fourier => {
                let outputs = self.filter.map(|extent| (FOURIER_TILE + 1).saturating_sub(extent.max(1)));
                (FOURIER_PRODUCTS, outputs, 2 * element)
            }
        };
        if !self.transforms() || outputs.contains(&0) {
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
            ConvolutionAlgorithm::FusedWinograd => {
                self.fused_outputs().map(|_| self.tap_bytes().saturating_mul(FUSED_PRODUCTS))
            }
            transforming => self.domain(transforming).map(|domain| domain.bytes),
        }
    }
}
