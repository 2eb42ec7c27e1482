//! Reading layers: what each does to a value, or why it cannot.

use super::convolution::Filters;
use super::layer::{Activation, Convolution, Depthwise, Layer, Mlp, SqueezeExcite};
use super::shape::Shape;
use super::tape::{Kept, Tape, Value, in_bounds};
use crate::graph::operator::Math;

/// A layer that does not fit what it is given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {problem}", path.join("."))]
pub struct Misfit {
    /// Where it stands: keys and indices from the list of layers on.
    pub path: Vec<String>,
    /// What does not fit, and for some what would.
    pub problem: String,
}

impl Misfit {
    pub(super) fn new(problem: impl Into<String>) -> Self {
        Self { path: Vec::new(), problem: problem.into() }
    }

    /// The same, seen from further out.
    pub(super) fn under(mut self, keys: &[&str]) -> Self {
        let outer = keys.iter().map(|&key| key.to_owned());
        self.path = outer.chain(self.path).collect();
        self
    }
}

/// Most operators of a block: who reads what is looked up in it.
const OPERATORS_MAX: usize = 8_192;

impl Tape<'_> {
    /// A list of layers, one after the other.
    pub(super) fn list(
        &mut self,
        from: Value,
        memory: Option<Value>,
        list: &[Layer],
    ) -> Result<Value, Misfit> {
        let mut value = from;
        for (n, layer) in list.iter().enumerate() {
            value = self.apply(value, memory, layer).map_err(|misfit| misfit.under(&[&n.to_string()]))?;
        }
        Ok(value)
    }

    /// One layer.
    pub(super) fn apply(
        &mut self,
        from: Value,
        memory: Option<Value>,
        layer: &Layer,
    ) -> Result<Value, Misfit> {
        let made = match layer {
            Layer::Residual(residual) => {
                let from = from.shared();
                let body = self
                    .list(from, memory, &residual.body)
                    .map_err(|misfit| misfit.under(&["residual", "body"]))?;
                let shortcut = self
                    .list(from, memory, &residual.shortcut)
                    .map_err(|misfit| misfit.under(&["residual", "shortcut"]))?;
                self.add([body, shortcut]).map_err(Misfit::new)?
            }
            Layer::Concat(concat) => {
                let from = from.shared();
                let mut parts = Vec::with_capacity(concat.branches.len());
                for (n, branch) in concat.branches.iter().enumerate() {
                    let part = self.list(from, memory, branch);
                    let part =
                        part.map_err(|misfit| misfit.under(&["concat", "branches", &n.to_string()]))?;
                    parts.push(part);
                }
                self.concat(&parts).map_err(Misfit::new)?
            }
            Layer::Repeat(repeat) => {
                let mut value = from;
                for _ in 0..repeat.count {
                    value = self
                        .list(value, memory, &repeat.layers)
                        .map_err(|misfit| misfit.under(&["repeat", "layers"]))?;
                }
                value
            }
            Layer::Attention(attention) => self.attention(from, memory, attention).map_err(Misfit::new)?,
            simple => self.simple(from, simple).map_err(Misfit::new)?,
        };
        let sizes = [u64::from(self.on.micro_batch), made.shape.channels(), made.shape.places()];
        in_bounds("what a layer makes", &sizes).map_err(Misfit::new)?;
        if self.draft.operators.len() > OPERATORS_MAX {
            return Err(Misfit::new(format!(
                "a block has more than {OPERATORS_MAX} operators: have a layer with a matrix product begin another, or fewer \
                 layers in one `residual` or `concat`"
            )));
        }
        Ok(made)
    }

    /// A layer without layers in it.
    fn simple(&mut self, from: Value, layer: &Layer) -> Result<Value, String> {
        let places = |shape: Shape| matches!(shape, Shape::Image { .. } | Shape::Signal { .. });
        match layer {
            Layer::Conv2d(filters) => self.convolve(from, image_filters(from, filters)?),
            Layer::Conv1d(filters) => self.convolve(from, signal_filters(from, filters)?),
            Layer::DepthwiseConv2d(filters) => {
                self.convolve(from, image_filters(from, &each_channel(from, filters))?)
            }
            Layer::DepthwiseConv1d(filters) => {
                self.convolve(from, signal_filters(from, &each_channel(from, filters))?)
            }
            Layer::BatchNorm => self.batch_norm(from),
            Layer::LayerNorm => self.layer_norm(from),
            Layer::RmsNorm => self.rms_norm(from),
            Layer::GroupNorm(groups) => self.group_norm(from, groups.groups.into()),
            Layer::Relu => Ok(self.activate(from, Activation::Relu)),
            Layer::Gelu => Ok(self.activate(from, Activation::Gelu)),
            Layer::Silu => Ok(self.activate(from, Activation::Silu)),
            Layer::Hardswish => Ok(self.activate(from, Activation::Hardswish)),
            Layer::Sigmoid => Ok(self.activate(from, Activation::Sigmoid)),
            Layer::Tanh => Ok(self.activate(from, Activation::Tanh)),
            Layer::Glu => self.glu(from),
            Layer::MaxPool(pool) => self.pool(from, pool, true),
            Layer::AveragePool(pool) => self.pool(from, pool, false),
            Layer::GlobalAveragePool => self.global_average_pool(from),
            Layer::Linear(linear) => self.linear(from, linear.outputs.into(), linear.bias, linear.tied),
            Layer::Dropout => Ok(self.dropout(from)),
            Layer::StochasticDepth if self.on.trains() => {
                Ok(self.pass("stochastic depth", from, Kept::Nothing))
            }
            Layer::StochasticDepth => Ok(from),
            Layer::Scale => {
                let scaled = self.pass("scale", from, Kept::Nothing);
                self.draft.does(Math::Scale);
                Ok(scaled)
            }
            Layer::LayerScale => Ok(self.layer_scale(from)),
            Layer::Flatten => Ok(self.reshaped(from, Shape::Vector { width: from.shape.elements() })),
            Layer::ToTokens if places(from.shape) => {
                let shape = Shape::Tokens { tokens: from.shape.places(), width: from.shape.channels() };
                Ok(self.transposed(from, shape))
            }
            Layer::ToTokens => Err(format!("`to_tokens` takes an image or a signal, not {}", from.shape)),
            Layer::RowsToTokens => match from.shape {
                Shape::Image { channels, places: [height, width] } => {
                    Ok(self.transposed(from, Shape::Tokens { tokens: height, width: channels * width }))
                }
                other => Err(format!("`rows_to_tokens` takes an image, not {other}")),
            },
            Layer::ToSignal => match from.shape {
                Shape::Tokens { tokens, width } => {
                    Ok(self.transposed(from, Shape::Signal { channels: width, length: tokens }))
                }
                other => Err(format!("`to_signal` takes tokens, not {other}")),
            },
            Layer::DropLast => match from.shape {
                Shape::Signal { channels, length } if length > 1 => {
                    Ok(self.reshaped(from, Shape::Signal { channels, length: length - 1 }))
                }
                other => Err(format!("`drop_last` takes a signal of several places, not {other}")),
            },
            Layer::PatchEmbedding(patches) => {
                let filters = Convolution {
                    channels: patches.width,
                    kernel: patches.patch,
                    stride: patches.patch,
                    padding: 0,
                    dilation: 1,
                    groups: 1,
                    bias: true,
                    weight_norm: false,
                };
                let image = self.convolve(from, image_filters(from, &filters)?)?;
                let shape = Shape::Tokens { tokens: image.shape.places(), width: image.shape.channels() };
                Ok(self.transposed(image, shape))
            }
            Layer::ClassToken => self.class_token(from),
            Layer::FirstToken => self.first_token(from),
            Layer::PositionEmbedding => self.position_embedding(from),
            Layer::Embedding(embedding) => self.embedding(from, embedding),
            Layer::Recurrent(recurrent) => self.recurrent(from, recurrent),
            Layer::Mlp(mlp) => self.mlp(from, mlp),
            Layer::Experts(experts) => self.experts(from, experts),
            Layer::SqueezeExcite(squeeze) => self.squeeze_excite(from, squeeze),
            Layer::CrossEntropy => self.cross_entropy(from),
            Layer::Residual(_) | Layer::Concat(_) | Layer::Repeat(_) | Layer::Attention(_) => Ok(from),
        }
    }

    pub(super) fn mlp(&mut self, from: Value, mlp: &Mlp) -> Result<Value, String> {
        let width = u64::from(mlp.width);
        let up = self.linear(from, width, mlp.bias, false)?;
        let mut inner = self.activate(up, mlp.activation);
        if mlp.gated {
            let gate = self.linear(from, width, mlp.bias, false)?;
            inner = self.multiply(inner, gate);
        }
        if mlp.dropout {
            inner = self.dropout(inner);
        }
        self.linear(inner, from.shape.channels(), mlp.bias, false)
    }

    fn squeeze_excite(&mut self, from: Value, squeeze: &SqueezeExcite) -> Result<Value, String> {
        let from = from.shared();
        let means = self.global_average_pool(from)?;
        let inner = self.linear(means, squeeze.channels.into(), true, false)?;
        let inner = self.activate(inner, squeeze.activation);
        let gate = self.linear(inner, from.shape.channels(), true, false)?;
        let gate = self.activate(gate, Activation::Sigmoid);
        Ok(self.gated(from, gate))
    }
}

fn image_filters(from: Value, filters: &Convolution) -> Result<Filters, String> {
    match from.shape {
        Shape::Image { .. } => two_dimensional(filters, |along, _| [along, along]),
        other => Err(format!("a convolution of two dimensions takes an image, not {other}")),
    }
}

fn signal_filters(from: Value, filters: &Convolution) -> Result<Filters, String> {
    match from.shape {
        Shape::Signal { .. } => two_dimensional(filters, |along, across| [across, along]),
        other => Err(format!("a convolution of one dimension takes a signal, not {other}")),
    }
}

/// Filters whose extents `both` makes of that along a line and the neutral one across it.
fn two_dimensional(filters: &Convolution, both: impl Fn(u64, u64) -> [u64; 2]) -> Result<Filters, String> {
    let Convolution { channels, kernel, stride, padding, dilation, groups, bias, weight_norm } = *filters;
    for (what, count) in
        [("channels", channels), ("kernel", kernel), ("stride", stride), ("dilation", dilation)]
    {
        if count == 0 {
            return Err(format!("`{what}` must be at least 1"));
        }
    }
    Ok(Filters {
        channels: channels.into(),
        kernel: both(kernel.into(), 1),
        stride: both(stride.into(), 1),
        padding: both(padding.into(), 0),
        dilation: both(dilation.into(), 1),
        groups: groups.into(),
        bias,
        weight_norm,
    })
}

/// A filter for every channel.
fn each_channel(from: Value, filters: &Depthwise) -> Convolution {
    let Depthwise { kernel, stride, padding, bias } = *filters;
    // A shape with more channels than a file can say does not pass its own layer.
    let channels = u32::try_from(from.shape.channels()).unwrap_or(u32::MAX);
    Convolution { channels, kernel, stride, padding, dilation: 1, groups: channels, bias, weight_norm: false }
}
