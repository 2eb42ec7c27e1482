//! The loss over a vocabulary that the tensor ranks share, and its gradient: pass after pass as Megatron-LM or PyTorch compute
//! it, or one kernel each way.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::draft::{Draft, Issue, Name};
use super::execution::ShardedTransformer;
use crate::graph::operator::{CollectiveKind, Dtype, Group, StreamClass};

const LOSS: Name = Name::of("loss");
const METRIC: Name = Name::of("logits of metric");
const METRIC_LOG_SOFTMAX: Name = Name::of("log-softmax of metric");
const SINGLE: Name = Name::of("logits in fp32");
const SHIFTED: Name = Name::of("shifted logits");
const EXPONENTIALS: Name = Name::of("exponentials");
const LOG_SOFTMAX: Name = Name::of("log-softmax");
const LOSS_GRADIENT: Name = Name::of("loss gradient");
const PROBABILITIES: Name = Name::of("probabilities");
const ADDED: Name = Name::of("loss gradient and probabilities");
const SINGLE_GRADIENT: Name = Name::of("logits gradient in fp32");
const LOGITS_GRADIENT: Name = Name::of("logits gradient");
const ELEMENTWISE: StreamClass = StreamClass::Elementwise;
const REDUCTION: StreamClass = StreamClass::Reduction;

/// How the loss over the vocabulary is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CrossEntropy {
    /// Pass after pass over an fp32 copy of the logits, as in Megatron-LM.
    #[default]
    Passes,
    /// As PyTorch's `cross_entropy` of an fp32 copy, operator by operator, each with memory of its
    /// own; over tensor ranks as its `loss_parallel`. So torchtitan does, whose `compile` is of
    /// layers alone.
    Operators,
    /// The passes of Megatron-LM compiled to three kernels forward and one backward
    /// (`fused_vocab_parallel_cross_entropy`).
    Compiled,
    /// One kernel forward and one backward, which fills the logits with their gradient:
    /// flash-attention's.
    Fused,
    /// Two kernels forward, of which the second fills the logits with their gradient, and one
    /// backward that scales it: Transformer Engine's.
    TransformerEngine,
}

/// From the logits to the loss.
pub(super) fn forward(draft: &mut Draft, on: &ShardedTransformer, logits: Name) {
    match on.execution().fusion.cross_entropy {
        CrossEntropy::Passes => passes(draft, on, logits),
        CrossEntropy::Operators => operators(draft, on, logits),
        CrossEntropy::Compiled => compiled(draft, on, logits),
        CrossEntropy::Fused => fused(draft, on, logits),
        CrossEntropy::TransformerEngine => transformer_engine(draft, on, logits),
    }
}

/// Fills the gradient of the logits; returns its name.
pub(super) fn backward(draft: &mut Draft, on: &ShardedTransformer, logits: Name) -> Name {
    match on.execution().fusion.cross_entropy {
        CrossEntropy::Passes => {
            let (work_in, single) = (fp32_logits(on, logits), single(on));
            draft.stream(LOSS_GRADIENT, ELEMENTWISE, (single, single), &[work_in], &[]);
            narrowed(draft, on, work_in)
        }
        CrossEntropy::Operators => operators_gradient(draft, on),
        CrossEntropy::Compiled => {
            // The kernel writes the exponentials back, as they are changed in place.
            let (single, bytes) = (single(on), on.bytes(on.logits()));
            let (reads, writes) = ([fp32_logits(on, logits)], [(LOGITS_GRADIENT, bytes)]);
            draft.stream(LOGITS_GRADIENT, ELEMENTWISE, (single, single + bytes), &reads, &writes);
            LOGITS_GRADIENT
        }
        CrossEntropy::TransformerEngine => {
            in_place(draft, on, Name::of("scale logits gradient"), logits);
            logits
        }
        CrossEntropy::Fused => {
            let (class, bytes) = ((StreamClass::CrossEntropy, on.tokens()), on.bytes(on.logits()));
            // Metrics read the logits again, so that the kernel must not work in place (`inplace_backward=False` of
            // flash-attention's `CrossEntropyLoss`, its default, which llm-foundry keeps; Transformer Engine works in place).
            let is_read_again = on.execution().fusion.loss_metrics > 0;
            let (gradient, writes) = if is_read_again {
                (LOGITS_GRADIENT, vec![(LOGITS_GRADIENT, bytes)])
            } else {
                (logits, Vec::new())
            };
            draft.walk(LOGITS_GRADIENT, class, (bytes, bytes), &[logits, LOSS], &writes);
            gradient
        }
    }
}

/// The loss once more without a gradient, as PyTorch's `cross_entropy` computes it: a cast to fp32, a log-softmax. Composer's
/// `Trainer._train_microbatch` calls `_eval_train_metrics` after `microbatch_loss.backward()` (github.com/mosaicml/composer, v0.14 to
/// v0.16), once for each metric (`LanguageCrossEntropy`, `LanguagePerplexity`): activations of the layers are gone then.
pub(super) fn metric(draft: &mut Draft, on: &ShardedTransformer, logits: Name) {
    let (bytes, single) = (on.bytes(on.logits()), single(on));
    draft.stream("cast logits of metric", ELEMENTWISE, (bytes, single), &[logits], &[(METRIC, single)]);
    let class = (StreamClass::Softmax, on.tokens());
    let writes = [(METRIC_LOG_SOFTMAX, single)];
    draft.walk(METRIC_LOG_SOFTMAX, class, (single, single), &[METRIC], &writes);
    draft.stream("loss of metric", REDUCTION, (4 * on.tokens(), 0), &[METRIC_LOG_SOFTMAX], &[]);
}

/// Three numbers a token are summed over the tensor ranks.
fn passes(draft: &mut Draft, on: &ShardedTransformer, logits: Name) {
    let single = single(on);
    let logits = cast(draft, on, logits);
    draft.stream("largest logit", REDUCTION, (single, 0), &[logits], &[]);
    all_reduce(draft, on, "reduce largest logit", logits, 1);
    draft.stream("subtract largest logit", ELEMENTWISE, (single, single), &[logits], &[]);
    all_reduce(draft, on, "reduce logit of the target", logits, 1);
    draft.stream("exponentials", ELEMENTWISE, (single, single), &[logits], &[]);
    draft.stream("sum of exponentials", REDUCTION, (single, 0), &[logits], &[]);
    all_reduce(draft, on, "reduce sum of exponentials", logits, 1);
    draft.stream("normalise exponentials", ELEMENTWISE, (single, single), &[logits], &[]);
}

/// A log-softmax, of which the loss takes a number a token; in parts with the largest and the sum of all ranks.
fn operators(draft: &mut Draft, on: &ShardedTransformer, logits: Name) {
    let (single, targets) = (single(on), 4 * on.tokens());
    let logits = cast(draft, on, logits);
    if on.tensor() == 1 {
        let class = (StreamClass::Softmax, on.tokens());
        draft.walk(LOG_SOFTMAX, class, (single, single), &[logits], &[(LOG_SOFTMAX, single)]);
    } else {
        draft.stream("largest logit", REDUCTION, (single, 0), &[logits], &[]);
        all_reduce(draft, on, "reduce largest logit", logits, 1);
        let pass = |draft: &mut Draft, from, to| {
            draft.stream(to, ELEMENTWISE, (single, single), &[from], &[(to, single)]);
        };
        pass(draft, logits, SHIFTED);
        pass(draft, SHIFTED, EXPONENTIALS);
        draft.stream("sum of exponentials", REDUCTION, (single, 0), &[EXPONENTIALS], &[]);
        all_reduce(draft, on, "reduce sum of exponentials", EXPONENTIALS, 1);
        pass(draft, SHIFTED, LOG_SOFTMAX);
    }
    draft.stream("loss of targets", REDUCTION, (targets, 0), &[LOG_SOFTMAX], &[]);
    all_reduce(draft, on, "reduce loss of targets", LOG_SOFTMAX, 1);
}

/// The kernels that a compiler makes of [`passes`]: two numbers of a token are summed at once
/// (`fused_cross_entropy.py` of Megatron-LM).
fn compiled(draft: &mut Draft, on: &ShardedTransformer, logits: Name) {
    let (single, copy) = (single(on), fp32_logits(on, logits));
    let (traffic, writes) = if copy == logits {
        ((single, 0), Vec::new())
    } else {
        ((on.bytes(on.logits()), single), vec![(copy, single)])
    };
    draft.stream("largest logit", REDUCTION, traffic, &[logits], &writes);
    all_reduce(draft, on, "reduce largest logit", copy, 1);
    draft.stream("exponentials and their sum", REDUCTION, (single, single), &[copy], &[]);
    all_reduce(draft, on, "reduce logit of the target and sum of exponentials", copy, 2);
    draft.stream("normalise exponentials", ELEMENTWISE, (single, single), &[copy], &[]);
}

/// The pass of [`fused`], and one that makes gradients of the logits before anything asks for them
/// (`online_softmax_kernel` and `cross_entropy_kernel`, Transformer Engine 2.0 to 2.12).
fn transformer_engine(draft: &mut Draft, on: &ShardedTransformer, logits: Name) {
    fused(draft, on, logits);
    in_place(draft, on, LOGITS_GRADIENT, logits);
}

/// A kernel of the loss over the logits, which takes their place.
fn in_place(draft: &mut Draft, on: &ShardedTransformer, name: Name, logits: Name) {
    let (class, bytes) = ((StreamClass::CrossEntropy, on.tokens()), on.bytes(on.logits()));
    draft.walk(name, class, (bytes, bytes), &[logits, LOSS], &[]);
}

/// One pass over the logits as they are, for the largest, the sum and the target's of each token; tensor ranks gather
/// these three numbers of all.
fn fused(draft: &mut Draft, on: &ShardedTransformer, logits: Name) {
    let each = 4 * on.tokens();
    let class = (StreamClass::CrossEntropy, on.tokens());
    draft.walk("cross entropy", class, (on.bytes(on.logits()), 3 * each), &[logits], &[(LOSS, 3 * each)]);
    if on.tensor() > 1 {
        let gather = (CollectiveKind::AllGather, Group::Tensor, 3 * each * on.tensor());
        draft.collective("gather parts of the loss", gather, Issue::Waiting, &[LOSS], &[]);
    }
}

/// The gradient of a loss that takes a number a token is zero elsewhere; that of the log-softmax adds the probabilities.
fn operators_gradient(draft: &mut Draft, on: &ShardedTransformer) -> Name {
    let single = single(on);
    draft.stream(LOSS_GRADIENT, ELEMENTWISE, (0, single), &[], &[(LOSS_GRADIENT, single)]);
    let writes = [(SINGLE_GRADIENT, single)];
    if on.tensor() == 1 {
        let (class, reads) = ((StreamClass::Softmax, on.tokens()), [LOSS_GRADIENT, LOG_SOFTMAX]);
        draft.walk(SINGLE_GRADIENT, class, (2 * single, single), &reads, &writes);
    } else {
        let probabilities = [(PROBABILITIES, single)];
        draft.stream(PROBABILITIES, ELEMENTWISE, (single, single), &[LOG_SOFTMAX], &probabilities);
        let reads = [LOSS_GRADIENT, PROBABILITIES];
        draft.stream(ADDED, ELEMENTWISE, (2 * single, single), &reads, &[(ADDED, single)]);
        draft.stream(SINGLE_GRADIENT, ELEMENTWISE, (single, single), &[ADDED], &writes);
    }
    narrowed(draft, on, SINGLE_GRADIENT)
}

/// The logits in fp32, in a copy unless they are.
fn cast(draft: &mut Draft, on: &ShardedTransformer, logits: Name) -> Name {
    let copy = fp32_logits(on, logits);
    if copy != logits {
        let traffic = (on.bytes(on.logits()), single(on));
        draft.stream("cast logits", ELEMENTWISE, traffic, &[logits], &[(copy, single(on))]);
    }
    copy
}

/// A gradient in fp32 in the type of the logits.
fn narrowed(draft: &mut Draft, on: &ShardedTransformer, gradient: Name) -> Name {
    if on.execution().dtype == Dtype::Fp32 {
        return gradient;
    }
    let bytes = on.bytes(on.logits());
    let writes = [(LOGITS_GRADIENT, bytes)];
    draft.stream("cast logits gradient", ELEMENTWISE, (single(on), bytes), &[gradient], &writes);
    LOGITS_GRADIENT
}

/// Sums some numbers of each token over tensor ranks, where there are any.
fn all_reduce(draft: &mut Draft, on: &ShardedTransformer, name: &'static str, of: Name, numbers: u64) {
    if on.tensor() > 1 {
        let sum = (CollectiveKind::AllReduce, Group::Tensor, 4 * numbers * on.tokens());
        draft.collective(name, sum, Issue::Waiting, &[of], &[]);
    }
}

/// The tensor that the loss starts from.
fn fp32_logits(on: &ShardedTransformer, logits: Name) -> Name {
    if on.execution().dtype == Dtype::Fp32 { logits } else { SINGLE }
}

/// Bytes of the logits in fp32.
fn single(on: &ShardedTransformer) -> u64 {
    Dtype::Fp32.bytes() * on.logits()
}
