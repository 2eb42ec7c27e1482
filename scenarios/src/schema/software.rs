//! Which kernels the training framework uses.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AddedTo, Count, CrossEntropy, Duration, Execution, FusedSoftmax, Launch, Mode, Share};

/// Which kernels the training framework uses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Software {
    /// How attention is computed.
    pub attention: Attention,
    /// Fraction of the peak that 16-bit matrix products sustain, where this framework's library
    /// differs from the catalogue's: cuBLAS of 2023 was slower on Hopper than it is now.
    #[schemars(extend("examples" = ["60 %"]))]
    pub sustained_products: Option<Share>,
    /// True if matrix products on tensor cores are persistent kernels, with a block for each SM and
    /// tiles dealt in advance. They take up to twice as long while a collective holds SMs. If not
    /// given: true on Hopper, as in PyTorch. A framework that leaves SMs to its collectives
    /// (`set_sm_margin` of Transformer Engine) says `false`.
    pub persistent_products: Option<bool>,
    /// Arithmetic of matrix products and convolutions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub products: Option<Products>,
    /// Framework of the layers, which decides what chains of small operators are one kernel.
    pub layers: LayersOf,
    /// Library of the image layers of a list; `pytorch` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_layers: Option<ImageLayers>,
    /// Entries of the vocabulary on each tensor rank are padded to a multiple of this: 128 if not given with Megatron-LM's layers
    /// (`make_vocab_size_divisible_by`), 1 with others.
    #[schemars(extend("examples" = [128]))]
    pub vocabulary_multiple: Option<Count<1, 65_536>>,
    /// True if layers are compiled (`torch.compile`): successive passes over memory are one kernel,
    /// which reads and writes once; products and attention stay as they are. Of torchtitan's layers
    /// a norm is one kernel, and an activation with its gate.
    pub compile: bool,
    /// True if queries, keys and values are one product; as in the framework's layers when absent:
    /// Megatron-LM, and those of Hugging Face Transformers with GeLU. Models of Qwen 1 and Phi-3
    /// have one there, too.
    pub joined_qkv: Option<bool>,
    /// Computation of GeLU.
    pub gelu: Gelu,
    /// How parameters are updated.
    pub optimizer: Optimizer,
    /// Sums of gradients that the products of weight gradients accumulate into (fused
    /// accumulation), with Megatron-LM's layers.
    pub products_add_to: AddedTo,
    /// Destination of the first gradients of a step. If not given: cleared sums with Megatron-LM's
    /// layers, copies of a model and frameworks that clear sums; otherwise new memory, as in
    /// PyTorch 2.
    pub gradients: Option<Gradients>,
    /// How the loss over the vocabulary is computed.
    pub cross_entropy: CrossEntropy,
    /// How often the loss is computed again, unfused, for metrics of the training batch: 2 in MosaicML's llm-foundry.
    pub loss_metrics: Count<0, 16>,
    /// One kernel for scale, mask and softmax of materialised attention.
    pub fused_softmax: FusedSoftmax,
    /// Most keys that the kernel takes: 4096 in Megatron-LM, 2048 in older releases.
    pub fused_softmax_keys: Count<16, 1_048_576>,
    /// Way in which the host issues the work of GPUs; `execution` says what is compiled, too.
    pub launch: Launch,
    /// Execution mode: `eager`, `cuda-graphs`, `static`, `lazy`, `compiled`, `compiled-graphs`,
    /// `co-execution`, or one of them with its choices. A model without a program takes those that
    /// capture passes or compile layers.
    pub execution: Option<Execution>,
    /// Framework whose hosts issue the work: a name of `foretrain list frameworks`.
    #[schemars(extend("examples" = ["pytorch-2"]))]
    pub framework: Option<String>,
    /// Launches that a GPU may have waiting; a host that launches more stalls. 1,024 if not given.
    /// A model without a program counts in whole passes of a micro-batch.
    pub launch_queue: Option<Count<1, 1_000_000>>,
    /// Time of the host for every operator beyond the framework's dispatch and launch: the layers
    /// above it.
    pub host_overhead: Duration,
}

impl Default for Software {
    fn default() -> Self {
        Self {
            attention: Attention::default(),
            sustained_products: None,
            persistent_products: None,
            products: None,
            layers: LayersOf::default(),
            image_layers: None,
            vocabulary_multiple: None,
            compile: false,
            joined_qkv: None,
            gelu: Gelu::default(),
            optimizer: Optimizer::default(),
            products_add_to: AddedTo::default(),
            gradients: None,
            cross_entropy: CrossEntropy::default(),
            loss_metrics: Count::new(0).expect("within the limits"),
            fused_softmax: FusedSoftmax::default(),
            fused_softmax_keys: Count::new(4_096).expect("within the limits"),
            launch: Launch::default(),
            execution: None,
            framework: None,
            launch_queue: None,
            host_overhead: Duration::parse("0 us").expect("a duration"),
        }
    }
}

/// The framework where none is named.
pub(crate) const FRAMEWORK: &str = "pytorch-2";

impl Software {
    /// How a program is executed.
    pub(crate) fn mode(&self) -> Execution {
        self.execution.unwrap_or_default()
    }

    /// How hosts issue operators of a model without a program.
    pub(crate) fn launched(&self) -> Launch {
        match self.execution.map(|execution| execution.mode) {
            Some(Mode::CudaGraphs | Mode::CompiledGraphs) => Launch::Graph,
            Some(_) => Launch::Eager,
            None => self.launch,
        }
    }

    /// True if layers of a model without a program are compiled.
    pub(crate) fn is_compiled(&self) -> bool {
        match self.execution.map(|execution| execution.mode) {
            Some(Mode::Compiled | Mode::CompiledGraphs) => true,
            Some(_) => false,
            None => self.compile,
        }
    }
}

/// Arithmetic of matrix products and convolutions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Products {
    /// Type in which products of fp16 are summed.
    pub accumulate: Accumulate,
}

/// Type of sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Accumulate {
    /// Single precision, as libraries do.
    Fp32,
    /// Half precision, which GeForce does at twice the rate.
    Fp16,
}

/// How attention is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Attention {
    /// With the scores in memory: two batched products and passes over them.
    #[default]
    Materialised,
    /// Flash attention: one kernel, no scores in memory.
    Flash,
    /// Flash attention in Triton, as of 2022 and 2023.
    FlashTriton,
    /// FlashAttention-3, made for Hopper; counts as `flash` where it was not timed.
    Flash3,
    /// Attention of cuDNN, which Transformer Engine prefers on Hopper; as `flash` where it was not
    /// timed.
    Cudnn,
}

/// Framework of the layers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LayersOf {
    /// Megatron-LM's: bias, dropout and addition are one kernel, and so are bias and activation.
    #[default]
    MegatronLm,
    /// Megatron-LM's before September 2020, and those of DeepSpeed's copy of it: each bias, mask,
    /// dropout and addition is a kernel of its own, softmax goes over scores in 16 bits, heads of
    /// several sequences are copied together, nothing runs beside the sums of tensor ranks.
    #[serde(rename = "megatron-lm-2019")]
    MegatronLm2019,
    /// Hugging Face Transformers', eager: products add biases, dropout and additions are kernels of their own, heads of
    /// several sequences are copied together for batched products; of BERT and of the Llama family queries, keys and values
    /// are three products, an MLP's gate is one of its own.
    HuggingFace,
    /// torchtitan's, which are those of the authors of Llama: queries, keys and values are three products, an MLP's gate is
    /// one of its own, RMSNorm and the gate are operators (see `compile`), positions turn as complex numbers in fp32, keys and
    /// values are repeated for each query; inputs that sequence parallelism gathers are kept, and nothing runs beside its sums.
    Torchtitan,
}

/// Library of the image layers of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ImageLayers {
    /// PyTorch's: a max-pool keeps the places of its maxima, 8 bytes each; gradients of ReLU are
    /// tensors of their own.
    Pytorch,
    /// cuDNN's, as Torch7, Caffe and vDNN call them: a max-pool compares its input with its output,
    /// and the gradient of a ReLU in place overwrites what it is made of.
    Cudnn,
}

/// Computation of GeLU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Gelu {
    /// As one kernel.
    #[default]
    Kernel,
    /// The tanh form in eight operators, as Hugging Face Transformers do for GPT-2 (`gelu_new`).
    Operators,
}

/// Destination of the first gradients of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Gradients {
    /// Sums that were cleared: buffers, `zero_grad(set_to_none=False)`.
    Added,
    /// New memory in place of sums that were freed: `zero_grad(set_to_none=True)`. With several
    /// micro-batches all are added.
    Released,
}

/// How parameters are updated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Optimizer {
    /// One kernel over lists of tensors: Apex, `fused` optimizers of PyTorch.
    #[default]
    Fused,
    /// Operator by operator: optimizers written in Python, such as MosaicML's `DecoupledAdamW`.
    Operators,
}
