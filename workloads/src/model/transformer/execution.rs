//! How a transformer is executed, and the transformer with that checked.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::diagnostic::Diagnostic;
use crate::graph::Phase;

use super::draft::{BlockDraft, Draft, Issue, Name};
use super::joined::joined;
use super::{
    Adapters, ContextExchange, CrossEntropy, Fp8, Positions, QueryKeyNorm, Rotary, Scaling, Split, States,
    Transformer, WindowForm, adapters,
};
use crate::graph::block::Block;
use crate::graph::operator::{CollectiveKind, Dtype, Group, OperatorList};

/// The operator that makes a message whole.
pub(crate) const GATHER_RECEIVED: &str = "gather received";

/// How a transformer is executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Execution {
    /// Sequences of a micro-batch, b.
    pub micro_batch: u32,
    /// Tokens of a sequence, s.
    pub sequence: u32,
    /// How the model is split over ranks.
    pub split: Split,
    /// Type of activations and of the parameters that operators read.
    pub dtype: Dtype,
    /// How attention is computed.
    pub attention: AttentionKernel,
    /// The framework pads the vocabulary to a multiple of this for each tensor rank. 1: only as far as ranks share it evenly.
    pub vocabulary_multiple: u32,
    /// Which chains of small operators are one kernel.
    pub fusion: Fusion,
    /// Types of gradients and optimizer states.
    pub states: States,
    /// What a step does.
    pub step: Step,
    /// Tensor ranks sum the gradient of a layer's input beside the product for that of its weight, as Megatron-LM does since
    /// September 2021 (`async_tensor_model_parallel_allreduce`).
    pub reduces_beside: bool,
    /// What a gathered ring exchanges goes beside attention. Compiled by PyTorch it is waited for where it is issued
    /// (`_maybe_wrap_tensor` of its functional collectives, when traced).
    pub exchanges_beside: bool,
    /// With sequence parallelism the inputs of layers that are split by columns are kept in parts, and gathered again for the
    /// gradients of weights, as in Megatron-LM; else as they were multiplied.
    pub gathers_again: bool,
    /// Place of the parts of sequences that tensor ranks exchange.
    pub parts: Parts,
    /// Products of layers and what tensor ranks exchange for them go in pieces, one beside the other.
    pub in_pieces: bool,
    /// Linear layers multiply in 8 bits.
    pub fp8: Option<Fp8>,
    /// Adapters, which are trained in the place of weights.
    pub adapters: Option<Adapters>,
}

/// Place of the parts of sequences that tensor ranks gather or scatter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Parts {
    /// One behind the other, as a collective takes them: sequences are the first axis, as in
    /// Megatron-LM.
    #[default]
    OneByOne,
    /// Behind the axis of the batch: they are copied into place, as in PyTorch's tensor
    /// parallelism.
    Copied,
    /// Copied by a pass over memory that makes or takes them, where there is one, as compiled.
    InPasses,
}

/// Scope of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// Forward and backward passes, sums of gradients, an update of the parameters.
    #[default]
    #[serde(rename = "full")]
    Whole,
    /// Forward and backward passes without the update, and without optimizer states.
    Gradients,
    /// Forward passes only, without gradients: inference on whole sequences, or validation. Layers
    /// of a list then drop nothing, and the list needs no loss.
    Forward,
}

/// How attention is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttentionKernel {
    /// Scores in memory: two batched products and passes over s x s.
    Materialised,
    /// Flash attention: one kernel, no scores in memory.
    Flash,
}

/// Which chains of small operators are one kernel, and which are there more than once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fusion {
    /// Scale, mask and softmax of materialised attention.
    pub softmax: SoftmaxFusion,
    /// Passes of a softmax in several kernels work in fp32; else in the type of the scores, which a
    /// triangle masks by a product and a difference.
    pub softmax_in_single: bool,
    /// Most keys that Megatron-LM's kernel takes: 2,048 or 4,096 by release.
    pub softmax_keys: u32,
    /// Bias and GeLU, or SiLU and product.
    pub activation: bool,
    /// Bias, dropout and addition to the residual stream.
    pub residual: bool,
    /// Sums that weight gradients are added to by the product itself.
    pub gradient_accumulation: AddedTo,
    /// Products add biases themselves (`addmm`), rather than what follows them.
    pub bias: bool,
    /// Queries, keys and values are one product.
    pub query_key_value: bool,
    /// An MLP's gate and what it gates are one product.
    pub gate: bool,
    /// A norm is one kernel; else RMSNorm in operators on fp32 copies.
    pub norm: bool,
    /// How positions rotate queries and keys.
    pub rotary: Rotary,
    /// Attention reads the keys and values of a group of queries where they are; else they are repeated for each query.
    pub grouped_queries: bool,
    /// Batched products take the heads of several sequences where they are; else each operand is copied together first, as
    /// `torch.matmul` does with tensors of four dimensions.
    pub strided_heads: bool,
    /// GeLU is one kernel; else the tanh form in eight operators (`NewGELUActivation` of Hugging Face Transformers).
    pub gelu: bool,
    /// The update of parameters: one kernel over lists of tensors, or operator by operator.
    pub optimizer: bool,
    /// The scale of what an adapter gives, and its addition.
    pub adapters: bool,
    /// The loss over the vocabulary.
    pub cross_entropy: CrossEntropy,
    /// How often the loss is computed again from the logits, unfused, for metrics of the training batch.
    pub loss_metrics: u32,
}

/// Sums of gradients over micro-batches that the products of weight gradients accumulate into. A
/// pass of its own adds each other gradient.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "ProductsAddTo")]
pub enum AddedTo {
    /// None, as before Megatron-LM's fused accumulation of 2021: a pass of its own adds each gradient.
    #[serde(rename = "none")]
    Nothing,
    /// Sums in fp32, as in Megatron-LM of 2022.
    #[default]
    #[serde(rename = "fp32")]
    Single,
    /// Sums in 16 bits, too (`memory.bytes_per_parameter: 16`), as in NeMo.
    Any,
}

/// One kernel for scale, mask and softmax of materialised attention.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "FusedSoftmax")]
pub enum SoftmaxFusion {
    /// Where Megatron-LM's kernel takes the shape: micro-batch times heads of a rank a multiple of 4, more than 16 keys.
    #[default]
    Auto,
    /// Always.
    On,
    /// Never.
    Off,
}

/// What passes from one stage to the next for a micro-batch; its gradient passes back in the same way.
#[derive(Clone, Debug, PartialEq)]
pub struct Boundary {
    /// Bytes that each tensor rank sends to its like.
    pub bytes: u64,
    /// What the receiver does to have its input, in either direction.
    pub receive: OperatorList,
}

/// A transformer as a tensor rank executes it: everything divides, no size overflows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardedTransformer {
    model: Transformer,
    execution: Execution,
}

impl Execution {
    /// Megatron-LM's `make_vocab_size_divisible_by`.
    pub const MEGATRON_VOCABULARY_MULTIPLE: u32 = 128;

    /// The common case: all fusions where they exist, gradients in fp32, the vocabulary of Megatron-LM.
    pub const fn new(
        micro_batch: u32,
        sequence: u32,
        split: Split,
        dtype: Dtype,
        attention: AttentionKernel,
    ) -> Self {
        let states = match dtype {
            Dtype::Fp32 => States::Full,
            _ => States::FullGradients,
        };
        Self {
            micro_batch,
            sequence,
            split,
            dtype,
            attention,
            vocabulary_multiple: Self::MEGATRON_VOCABULARY_MULTIPLE,
            fusion: Fusion::ALL,
            states,
            step: Step::Whole,
            reduces_beside: true,
            exchanges_beside: true,
            gathers_again: true,
            parts: Parts::OneByOne,
            in_pieces: false,
            fp8: None,
            adapters: None,
        }
    }
}

impl Execution {
    /// Whether ranks that share parameters gather weights in 8 bits.
    pub(crate) fn gathers_narrow(&self) -> bool {
        self.fp8.is_some_and(|fp8| fp8.gathers)
    }
}

impl Fusion {
    /// All that Megatron-LM does by default, the softmax where its kernel takes the shape.
    pub const ALL: Self = Self {
        softmax: SoftmaxFusion::Auto,
        softmax_in_single: true,
        softmax_keys: 4_096,
        activation: true,
        residual: true,
        gradient_accumulation: AddedTo::Single,
        bias: false,
        query_key_value: true,
        gate: true,
        norm: true,
        rotary: Rotary::Kernel,
        grouped_queries: true,
        strided_heads: true,
        gelu: true,
        optimizer: true,
        adapters: false,
        cross_entropy: CrossEntropy::Passes,
        loss_metrics: 0,
    };

    /// Megatron-LM's layers of 2019 (`mpu/transformer.py`): nothing is fused but GeLU and norms.
    /// Linear layers add biases in passes of their own, as PyTorch did with three dimensions.
    pub const MEGATRON_2019: Self = Self {
        softmax: SoftmaxFusion::Off,
        softmax_in_single: false,
        activation: false,
        residual: false,
        strided_heads: false,
        ..Self::ALL
    };

    /// torchtitan's layers, which are those of the authors of Llama, operator by operator; compiled they have `norm`,
    /// `activation` and `residual`.
    pub const TORCHTITAN: Self = Self {
        activation: false,
        residual: false,
        bias: true,
        query_key_value: false,
        gate: false,
        norm: false,
        rotary: Rotary::Complex,
        grouped_queries: false,
        ..Self::ALL
    };
}

/// Most sequences of a micro-batch.
const MICRO_BATCH_MAX: u32 = 1 << 16;
/// Most tokens of a sequence.
const SEQUENCE_MAX: u32 = 1 << 24;
/// Most tokens of a micro-batch: a tensor of them stays below 2^56 bytes.
const TOKENS_MAX: u64 = 1 << 28;
/// Most attention scores of a layer and rank.
const SCORES_MAX: u128 = 1 << 50;

impl ShardedTransformer {
    /// Checks the model, its split and its sizes.
    ///
    /// # Errors
    /// All that is out of range or does not divide, with values that would do.
    pub fn new(model: &Transformer, execution: &Execution) -> Result<Self, Vec<Diagnostic>> {
        model.validate()?;
        let mut found = Vec::new();
        let mut wrong = |field, problem| found.push(Diagnostic::sentence(field, problem));
        sizes(model, execution, &mut wrong);
        precision(execution, &mut wrong);
        narrow(model, execution, &mut wrong);
        adapters::check(model, execution, &mut wrong);
        windows(model, execution, &mut wrong);
        if execution.in_pieces && !execution.split.sequence_parallel {
            let problem = "products go in pieces with what sequence parallelism gathers and scatters: ask for that, too";
            wrong("in_pieces", problem.to_owned());
        }
        found.extend(execution.split.validate(model, execution.sequence).err().into_iter().flatten());
        if found.is_empty() {
            Ok(Self { model: model.clone(), execution: execution.clone() })
        } else {
            Err(found)
        }
    }

    /// The model.
    pub const fn model(&self) -> &Transformer {
        &self.model
    }

    /// The same execution of a model that differs in nothing that is checked.
    pub(super) fn with_model(&self, model: Transformer) -> Self {
        Self { model, execution: self.execution.clone() }
    }

    /// Norm of the heads of queries and keys; one without weights only where positions rotate them.
    pub(super) fn query_key_norm(&self) -> Option<QueryKeyNorm> {
        let turns = self.model.positions == Positions::Rotary;
        self.model.query_key_norm.filter(|norm| norm.precedes_rotation() || turns)
    }

    /// How it is executed.
    pub const fn execution(&self) -> &Execution {
        &self.execution
    }

    /// What passes from one stage to the next. With `scatter_gather` (Narayanan et al. 2021, section 4.1) each tensor
    /// rank sends its part of a tensor that all hold, and the receivers gather; with sequence parallelism each holds
    /// only its part anyway.
    pub fn boundary(&self, scatter_gather: bool) -> Boundary {
        let whole = self.bytes(self.tokens() * self.hidden());
        let tensor = self.tensor();
        let scattered = scatter_gather && tensor > 1 && !self.execution.split.sequence_parallel;
        let mut receive = Draft::new(Phase::Forward);
        if scattered {
            let gather = (CollectiveKind::AllGather, Group::Tensor, whole);
            let (received, input) = (Name::of("received"), Name::of("input"));
            receive.collective(GATHER_RECEIVED, gather, Issue::Waiting, &[received], &[(input, whole)]);
        }
        let bytes = if scattered { whole.div_ceil(tensor) } else { self.bytes(self.residual_elements()) };
        Boundary { bytes, receive: receive.list() }
    }

    /// A block as a step executes it.
    pub(super) fn as_executed(&self, mut draft: BlockDraft) -> Block {
        if self.execution.step == Step::Forward {
            draft.backward.clear();
        }
        draft.forward = joined(draft.forward, self.execution.parts);
        draft.backward = joined(draft.backward, self.execution.parts);
        draft.block()
    }

    /// Tokens of a micro-batch that a rank has, s b / c.
    pub(super) const fn tokens(&self) -> u64 {
        self.execution.micro_batch as u64 * self.execution.sequence as u64 / self.context()
    }

    /// Ranks that have parts of the same sequences, c.
    pub(super) const fn context(&self) -> u64 {
        self.execution.split.context as u64
    }

    /// How those exchange what attention needs; none: a rank alone has all of it.
    pub(super) const fn context_exchange(&self) -> Option<ContextExchange> {
        if self.context() > 1 { Some(self.execution.split.context_exchange) } else { None }
    }

    /// Tokens whose norms and residuals a rank works on: s b / c, or s b / (c t) with sequence parallelism.
    pub(super) const fn residual_tokens(&self) -> u64 {
        if self.execution.split.sequence_parallel { self.tokens() / self.tensor() } else { self.tokens() }
    }

    /// Elements of the residual stream on a rank.
    pub(super) const fn residual_elements(&self) -> u64 {
        self.residual_tokens() * self.hidden()
    }

    /// Tensor ranks, t.
    pub(super) const fn tensor(&self) -> u64 {
        self.execution.split.tensor as u64
    }

    /// Whether collectives split and gather along the sequence.
    pub(super) const fn sequence_parallel(&self) -> bool {
        self.execution.split.sequence_parallel
    }

    /// Width of the residual stream, h.
    pub(super) const fn hidden(&self) -> u64 {
        self.model.hidden as u64
    }

    /// The type of the sums over micro-batches that products of weight gradients add to; none: a pass of its own does.
    pub(super) fn products_add_to(&self) -> Option<Dtype> {
        let (in_single, dtype) =
            (self.execution.states.gradient_bytes() == Dtype::Fp32.bytes(), self.execution.dtype);
        match self.execution.fusion.gradient_accumulation {
            AddedTo::Single => in_single.then_some(Dtype::Fp32),
            AddedTo::Any => Some(if in_single { Dtype::Fp32 } else { dtype }),
            AddedTo::Nothing => None,
        }
    }

    /// Bytes of `elements` activations.
    pub(super) const fn bytes(&self, elements: u64) -> u64 {
        elements * self.execution.dtype.bytes()
    }
}

/// Sizes of a micro-batch.
fn sizes(model: &Transformer, execution: &Execution, wrong: &mut impl FnMut(&'static str, String)) {
    let (micro_batch, sequence) = (execution.micro_batch, execution.sequence);
    if !(1..=MICRO_BATCH_MAX).contains(&micro_batch) {
        wrong("micro_batch", format!("{micro_batch} is not between 1 and {MICRO_BATCH_MAX}"));
    }
    if !(1..=SEQUENCE_MAX).contains(&sequence) {
        wrong("sequence", format!("{sequence} is not between 1 and {SEQUENCE_MAX}"));
    }
    if model.positions == Positions::Learned && sequence > model.longest_sequence() {
        let most = model.longest_sequence();
        let problem = format!(
            "{sequence} tokens are more than the {most} learned positions: use at most {most}, or raise `max_positions`"
        );
        wrong("sequence", problem);
    }
    let tokens = u64::from(micro_batch) * u64::from(sequence);
    if tokens > TOKENS_MAX {
        wrong(
            "micro_batch",
            format!(
                "{tokens} tokens of a micro-batch are more than {TOKENS_MAX}: use fewer or shorter sequences"
            ),
        );
    }
    let scores = u128::from(tokens) * u128::from(sequence) * u128::from(model.heads);
    if scores > SCORES_MAX {
        wrong(
            "sequence",
            format!(
                "{scores} attention scores of a layer are more than {SCORES_MAX}: use fewer or shorter sequences"
            ),
        );
    }
}

/// Keys that windows hide, and scores without a key.
fn windows(model: &Transformer, execution: &Execution, wrong: &mut impl FnMut(&'static str, String)) {
    let Execution { sequence, split, .. } = execution;
    let narrow = model.window.filter(|window| window < sequence);
    if let Some(window) = narrow
        && model.window_form == WindowForm::Chunks
        && !sequence.is_multiple_of(window)
    {
        let (fewer, more) = (sequence / window * window, sequence.next_multiple_of(window));
        let problem =
            format!("{sequence} tokens are no whole number of chunks of {window}: use {fewer} or {more}");
        wrong("sequence", problem);
    }
    if split.context < 2 {
        return;
    }
    let in_rings = matches!(split.context_exchange, ContextExchange::Ring | ContextExchange::GatheredRing);
    let in_chunks =
        model.window_form == WindowForm::Chunks && split.context_exchange == ContextExchange::AllGather;
    if narrow.is_some() && (in_rings || in_chunks) {
        let problem = "ranks that exchange keys part by part see all of them, and the model has windows: use \
                       `context_exchange: all-to-all`";
        wrong("context", problem.to_owned());
    }
    if model.sinks && split.context_exchange != ContextExchange::AllToAll {
        let problem = "scores without a key take part where all keys are: use `context_exchange: all-to-all`";
        wrong("context", problem.to_owned());
    }
}

/// Types that go together.
fn precision(execution: &Execution, wrong: &mut impl FnMut(&'static str, String)) {
    if !matches!(execution.dtype, Dtype::Fp32 | Dtype::Fp16 | Dtype::Bf16) {
        let dtype = execution.dtype;
        wrong("precision", format!("transformers are trained in fp32, fp16 or bf16, not in {dtype}"));
    }
    let single = execution.dtype == Dtype::Fp32;
    if single && execution.attention == AttentionKernel::Flash {
        wrong(
            "attention",
            "flash attention takes fp16 or bf16: use one of them, or materialised attention".to_owned(),
        );
    }
    if execution.split.context > 1 && execution.attention != AttentionKernel::Flash {
        let problem = "parts of a sequence go through flash attention: ask for it, or leave `context` out";
        wrong("context", problem.to_owned());
    }
    if single != (execution.states == States::Full) {
        let Execution { dtype, states, .. } = execution;
        wrong(
            "states",
            format!("{states} do not go with {dtype}: fp32 takes `full`, fp16 and bf16 the others"),
        );
    }
}

/// What is multiplied in 8 bits.
fn narrow(model: &Transformer, execution: &Execution, wrong: &mut impl FnMut(&'static str, String)) {
    let Some(Fp8 { scaling, gathers }) = execution.fp8 else { return };
    if execution.dtype == Dtype::Fp32 {
        wrong("fp8", "linear layers in 8 bits go with the rest in fp16 or bf16, not in fp32".to_owned());
    }
    if model.experts.is_some() && scaling == Scaling::Tensorwise {
        let problem = "products of experts have no kernel with one scale of present values for all of them: write \
                       `scaling: rowwise` (torchtitan's) or `scaling: delayed` (Transformer Engine's)";
        wrong("fp8", problem.to_owned());
    }
    if gathers && scaling != Scaling::Tensorwise {
        let problem =
            "weights are gathered in 8 bits with one scale each, of their present values: use `tensorwise`";
        wrong("fp8", problem.to_owned());
    }
}
