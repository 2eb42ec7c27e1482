//! A list of layers, read: its blocks with their operators.

use crate::graph::block::Block;
use crate::graph::operator::Operator;
use crate::model::flops::counted;
use crate::model::names::Name;
use crate::model::transformer::Step;

use super::execution::LayeredExecution;
use super::layer::{DecoderList, Layer, LayerList};
use super::read::Misfit;
use super::shape::Shape;
use super::tape::{Tape, in_bounds};

/// A list of layers as a rank executes it: every shape fits.
///
/// A block is what recomputation keeps the input of, what ranks gather together and what a pipeline is cut between: a
/// layer with a matrix product or with layers in it, and the layers without that follow.
#[derive(Clone, Debug, PartialEq)]
pub struct LayeredModel {
    execution: LayeredExecution,
    blocks: Vec<ModelBlock>,
    has_decoder: bool,
}

/// A block of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelBlock {
    /// Its operators.
    pub block: Block,
    /// Its parameters; shared ones belong to the block that has them first.
    pub parameters: u64,
    /// What it starts from (bytes): what a stage sends to the next where a pipeline is cut before it.
    pub input_bytes: u64,
}

/// Most layers of a list with all that is repeated.
const LAYERS_MAX: u64 = 1 << 16;
/// Most blocks: layers of the deepest model.
const BLOCKS_MAX: usize = 4_096;

impl LayeredModel {
    /// Reads a list of layers.
    ///
    /// # Errors
    /// The first layer that does not fit what it is given.
    pub fn new(model: &LayerList, execution: &LayeredExecution) -> Result<Self, Misfit> {
        let input = Shape::of(&model.input).ok_or_else(|| {
            Misfit::new(
                "an input is an image (`channels`, `height`, `width`), a signal (`channels`, `length`), `tokens`, or vectors \
                 (`tokens`, `width`)",
            )
            .under(&["input"])
        })?;
        let sizes = [u64::from(execution.micro_batch), input.channels(), input.places()];
        in_bounds("an input", &sizes).map_err(|problem| Misfit::new(problem).under(&["input"]))?;
        let mut reading = Reading { on: execution, blocks: Vec::new() };
        let decoder = model.decoder.as_ref();
        let made = reading.list(Start::Input(input), &model.list, decoder.is_none());
        let made = made.map_err(|misfit| misfit.under(&["list"]))?;
        if let Some(DecoderList { tokens, list }) = decoder {
            let tokens = tokens.map_or(input.places(), u64::from);
            in_bounds("the input of a decoder", &[execution.micro_batch.into(), tokens])
                .map_err(|problem| Misfit::new(problem).under(&["decoder", "tokens"]))?;
            reading
                .list(Start::Decoder { memory: made, tokens: Shape::Ids { tokens } }, list, true)
                .map_err(|misfit| misfit.under(&["decoder", "list"]))?;
        }
        let has_decoder = decoder.is_some();
        Ok(Self { execution: execution.clone(), blocks: reading.blocks, has_decoder })
    }

    /// A model of blocks that another source of models has written.
    pub(crate) fn of_blocks(blocks: Vec<ModelBlock>, on: &LayeredExecution) -> Self {
        Self { execution: on.clone(), blocks, has_decoder: false }
    }

    /// Its blocks, in the order of the forward pass.
    pub fn blocks(&self) -> &[ModelBlock] {
        &self.blocks
    }

    /// How it is executed.
    pub const fn execution(&self) -> &LayeredExecution {
        &self.execution
    }

    /// Whether what an encoder made goes to every layer of a decoder.
    pub const fn has_decoder(&self) -> bool {
        self.has_decoder
    }

    /// Whether the host waits for some of its operators.
    pub fn makes_host_wait(&self) -> bool {
        self.blocks.iter().any(|block| block.block.forward.iter().any(|op| op.awaited))
    }

    /// Its parameters.
    pub fn parameters(&self) -> u64 {
        self.blocks.iter().map(|block| block.parameters).sum()
    }

    /// Multiplications and additions of a forward pass of one micro-batch, by the convention of
    /// [`model_flops`](crate::model::flops::model_flops).
    pub fn forward_flops(&self) -> f64 {
        let operators = self.blocks.iter().flat_map(|block| &block.block.forward);
        operators.map(|op| counted(&op.work)).sum()
    }
}

/// Multiplications and additions of operators.
pub(super) fn flops(operators: &[Operator]) -> f64 {
    operators.iter().map(|op| op.work.flops()).sum()
}

/// What a list starts from.
#[derive(Clone, Copy)]
enum Start {
    /// Samples.
    Input(Shape),
    /// Tokens, beside what an encoder made.
    Decoder { memory: Shape, tokens: Shape },
}

struct Reading<'a> {
    on: &'a LayeredExecution,
    blocks: Vec<ModelBlock>,
}

impl Reading<'_> {
    /// Reads a list, which ends with a loss if it is the last; gives the shape that it ends with.
    fn list(&mut self, start: Start, list: &[Layer], is_last: bool) -> Result<Shape, Misfit> {
        if expanded(list) > LAYERS_MAX {
            return Err(Misfit::new(format!("there are more than {LAYERS_MAX} layers")));
        }
        let mut layers = Vec::new();
        flatten(list, &mut Vec::new(), &mut layers);
        let ends_with_loss = matches!(layers.last(), Some((_, Layer::CrossEntropy)));
        if is_last && !ends_with_loss && self.on.step != Step::Forward {
            return Err(Misfit::new("a list ends with a loss: add `cross_entropy`"));
        }
        let losses = layers.iter().filter(|(_, layer)| matches!(layer, Layer::CrossEntropy)).count();
        if losses > usize::from(is_last) {
            return Err(Misfit::new("there is one loss, at the end of the last list"));
        }
        let mut shape = match start {
            Start::Input(shape) => shape,
            Start::Decoder { tokens, .. } => tokens,
        };
        let mut rest = layers.as_slice();
        let mut is_first = true;
        while let Some((_, following)) = rest.split_first() {
            let more = following.iter().position(|(_, layer)| begins_block(layer));
            let (of_block, others) = rest.split_at(more.map_or(rest.len(), |more| more + 1));
            if self.blocks.len() == BLOCKS_MAX {
                return Err(Misfit::new(format!("there are more than {BLOCKS_MAX} blocks")));
            }
            shape = self.block(start, shape, of_block, is_first)?;
            (rest, is_first) = (others, false);
        }
        Ok(shape)
    }

    fn block(
        &mut self,
        start: Start,
        shape: Shape,
        layers: &[(Vec<String>, &Layer)],
        is_first: bool,
    ) -> Result<Shape, Misfit> {
        let (mut tape, mut value, memory);
        match start {
            Start::Input(_) => {
                tape = Tape::new(self.on, shape, !is_first);
                (value, memory) = (tape.input(), None);
            }
            // What the encoder made comes in with the first block of the decoder.
            Start::Decoder { memory: made, tokens } if is_first => {
                tape = Tape::new(self.on, made, true);
                value = tape.outside(Name::of("decoder tokens"), tokens, false);
                memory = Some(tape.input());
            }
            Start::Decoder { memory: made, .. } => {
                tape = Tape::new(self.on, shape, true);
                value = tape.input();
                memory = Some(tape.outside(Name::of("encoder output"), made, true));
            }
        }
        for (path, layer) in layers {
            let keys: Vec<&str> = path.iter().map(String::as_str).collect();
            value = tape.apply(value, memory, layer).map_err(|misfit| misfit.under(&keys))?;
        }
        let is_loss = matches!(layers.last(), Some((_, Layer::CrossEntropy)));
        let parameters = tape.parameters;
        let mut draft = tape.block(value, memory.filter(|memory| memory.tracked), is_loss);
        if self.on.step == Step::Forward {
            draft.backward.clear();
        }
        if let (Start::Decoder { .. }, true) = (start, is_first)
            && let Some(last) = draft.backward.last_mut()
        {
            // It stays until all layers of the decoder have gone back, of which this is the last.
            last.reads.push(draft.input.0);
        }
        let input_bytes = draft.input.1;
        self.blocks.push(ModelBlock { block: draft.block(), parameters, input_bytes });
        Ok(value.shape)
    }
}

/// Layers with all that is repeated, however deep; to repeat nothing takes its time, too.
fn expanded(list: &[Layer]) -> u64 {
    let count = |layer: &Layer| match layer {
        Layer::Repeat(repeat) => u64::from(repeat.count).saturating_mul(expanded(&repeat.layers).max(1)),
        Layer::Residual(residual) => {
            1 + expanded(&residual.body).saturating_add(expanded(&residual.shortcut))
        }
        Layer::Concat(concat) => {
            concat.branches.iter().map(|branch| expanded(branch)).fold(1, u64::saturating_add)
        }
        _ => 1,
    };
    list.iter().map(count).fold(0, u64::saturating_add)
}

/// The layers of a list one by one, repeated ones again, with where each stands.
fn flatten<'a>(list: &'a [Layer], outer: &mut Vec<String>, layers: &mut Vec<(Vec<String>, &'a Layer)>) {
    for (n, layer) in list.iter().enumerate() {
        let depth = outer.len();
        outer.push(n.to_string());
        if let Layer::Repeat(repeat) = layer {
            outer.extend(["repeat".to_owned(), "layers".to_owned()]);
            for _ in 0..repeat.count {
                flatten(&repeat.layers, outer, layers);
            }
        } else {
            layers.push((outer.clone(), layer));
        }
        outer.truncate(depth);
    }
}

/// Whether a layer does not belong to the block before it.
const fn begins_block(layer: &Layer) -> bool {
    matches!(
        layer,
        Layer::Conv2d(_)
            | Layer::Conv1d(_)
            | Layer::DepthwiseConv2d(_)
            | Layer::DepthwiseConv1d(_)
            | Layer::Linear(_)
            | Layer::PatchEmbedding(_)
            | Layer::Embedding(_)
            | Layer::Recurrent(_)
            | Layer::Attention(_)
            | Layer::Mlp(_)
            | Layer::Experts(_)
            | Layer::Residual(_)
            | Layer::Concat(_)
    )
}
