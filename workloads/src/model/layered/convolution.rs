//! Convolutions, as PyTorch runs them: one kernel each way, the bias in a pass of its own.

use hw_models::kernels::{self, ConvolutionPass};

use crate::graph::Phase;
use crate::graph::operator::{Math, StreamClass, Work};

use super::shape::Shape;
use super::tape::{Tape, Value, in_bounds};
use crate::model::names::name;

/// Filters over the channels of an image; of a signal with one row.
#[derive(Clone, Copy)]
pub(super) struct Filters {
    pub(super) channels: u64,
    pub(super) kernel: [u64; 2],
    pub(super) stride: [u64; 2],
    pub(super) padding: [u64; 2],
    pub(super) dilation: [u64; 2],
    pub(super) groups: u64,
    pub(super) bias: bool,
    pub(super) weight_norm: bool,
}

impl Tape<'_> {
    /// What filters make of an image or a signal.
    pub(super) fn convolve(&mut self, from: Value, filters: Filters) -> Result<Value, String> {
        let input = match from.shape {
            Shape::Image { places, .. } => places,
            Shape::Signal { length, .. } => [1, length],
            other => return Err(format!("a convolution takes an image or a signal, not {other}")),
        };
        let in_channels = from.shape.channels();
        check(&filters, in_channels, input)?;
        let padded = [0, 1].map(|side| input[side] + 2 * filters.padding[side]);
        let images = [u64::from(self.on.micro_batch), filters.channels, padded[0], padded[1]];
        in_bounds("what a convolution makes", &images)?;
        in_bounds("a filter", &[filters.channels, in_channels, filters.kernel[0], filters.kernel[1]])?;
        let shape = kernels::Convolution {
            pass: ConvolutionPass::Forward,
            batch: self.on.micro_batch.into(),
            in_channels,
            out_channels: filters.channels,
            input,
            filter: filters.kernel,
            padding: filters.padding,
            stride: filters.stride,
            dilation: filters.dilation,
            groups: filters.groups,
            dtype: self.on.dtype,
            algorithm: None,
        };
        let places = shape.output();
        let made = match from.shape {
            Shape::Signal { .. } => Shape::Signal { channels: filters.channels, length: places[1] },
            _ => Shape::Image { channels: filters.channels, places },
        };
        let layer = self.layer("convolution");
        let (weights, bias) = (shape.weights(), filters.channels);
        self.parameters += weights + if filters.bias { bias } else { 0 };
        let lengths = filters.kernel.iter().product::<u64>();
        let stored = weights * self.on.dtype.bytes();
        if filters.weight_norm {
            // Squares of the direction are summed, then it is scaled.
            self.parameters += lengths;
            self.draft.stream(
                name(layer, "weight norm"),
                StreamClass::Reduction,
                (2 * stored, stored),
                &[],
                &[],
            );
        }
        let (to, bytes) = (self.value(layer, made), self.on.bytes(made));
        self.draft.push(layer, Work::Convolution(shape), &[from.tensor], &[(to.tensor, bytes)]);
        if filters.bias {
            let class = StreamClass::Elementwise;
            let pass = self.draft.stream(name(layer, "bias"), class, (bytes, bytes), &[to.tensor], &[]);
            pass.math = Some(Math::Bias);
        }
        self.back(to, move |reverse, gradient| {
            let of = |pass| Work::Convolution(kernels::Convolution { pass, ..shape });
            if from.tracked {
                let (result, bytes) = (name(layer, "input gradient"), reverse.on.bytes(from.shape));
                let work = of(ConvolutionPass::InputGradient);
                reverse.draft.push(result, work, &[gradient], &[(result, bytes)]);
                reverse.give(from, result);
            }
            let result = name(layer, "weight gradient");
            reverse.draft.within(Phase::BackwardWeight, |draft| {
                let work = of(ConvolutionPass::WeightGradient);
                draft.push(result, work, &[gradient, from.tensor], &[(result, stored)]);
                if filters.weight_norm {
                    let both = name(layer, "weight norm gradient");
                    draft.stream(both, StreamClass::Reduction, (3 * stored, stored), &[result], &[]);
                }
            });
            reverse.accumulate(result, weights);
            if filters.bias {
                let bytes = reverse.on.bytes(made);
                reverse.reduced(layer, "bias gradient", &[gradient], bytes, (bias, 1));
            }
        });
        Ok(to)
    }
}

/// Whether the filters fit the channels and the places.
fn check(filters: &Filters, in_channels: u64, input: [u64; 2]) -> Result<(), String> {
    let Filters { channels, groups, .. } = *filters;
    if groups == 0 || !in_channels.is_multiple_of(groups) || !channels.is_multiple_of(groups) {
        return Err(format!(
            "{groups} groups do not divide {in_channels} channels of the input and {channels} of the output"
        ));
    }
    for (place, &extent) in input.iter().enumerate() {
        let reach = (filters.kernel[place] - 1) * filters.dilation[place] + 1;
        let padded = extent + 2 * filters.padding[place];
        if reach > padded {
            return Err(format!(
                "a filter that reaches over {reach} places does not fit {padded}, padding included"
            ));
        }
    }
    Ok(())
}
