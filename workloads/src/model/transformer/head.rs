//! The end of the last stage: norm, of encoders the transform of masked words, logits, and the loss over a vocabulary that
//! the tensor ranks share; or a head of [classes](super::classes).

use crate::graph::Phase;

use super::block::Block;
use super::classes;
use super::draft::{Draft, Issue};
use super::execution::ShardedTransformer;
use super::linear::{Linear, Names, Side, linear_names};
use super::norm::{NormNames, norm_names};
use super::operator::{CollectiveKind, Dtype, Group, Operator, StreamClass, Tensor};

const INPUT: &str = "input";
const NORM: &NormNames = norm_names!("final norm");
const DENSE: &Names = linear_names!("head dense");
const ACTIVATION: &str = "head activation";
const ACTIVATION_GRADIENT: &str = "head activation gradient";
const TRANSFORM_NORM: &NormNames = norm_names!("head norm");
const LOGITS: &Names = linear_names!("logits");
const LOSS: &str = "loss";
const METRIC: &str = "logits of metric";
const LOG_SOFTMAX: &str = "log-softmax of metric";
const SINGLE: &str = "logits in fp32";
const LOGITS_GRADIENT: &str = "logits gradient";

impl ShardedTransformer {
    /// Final norm, logits and loss of a micro-batch on a rank of the last stage. The gradient of its input is the tensor
    /// `final norm input gradient`, of an encoder, whose transform is in the place of the norm, `head dense input gradient`,
    /// of classes `sequence gradient`.
    pub fn head(&self) -> Block {
        self.as_executed(Block {
            input: Tensor { name: INPUT, bytes: self.bytes(self.residual_elements()) },
            output_gradient: None,
            forward: forward(self),
            backward: backward(self),
        })
    }

    /// Logits of a micro-batch on a rank.
    fn logits(&self) -> u64 {
        self.tokens() * self.vocabulary_share()
    }
}

fn projection(on: &ShardedTransformer) -> Linear {
    Linear::new(LOGITS, Side::Columns, on.hidden(), on.vocabulary_share()).never_narrow()
}

fn forward(on: &ShardedTransformer) -> Vec<Operator> {
    let mut draft = Draft::new(Phase::Forward);
    if let Some(count) = on.model().classes {
        classes::forward(&mut draft, on, count.into(), INPUT);
        return draft.operators;
    }
    let normed = match on.model().encoder {
        Some(_) => transform(&mut draft, on),
        None => NORM.forward(&mut draft, on, INPUT, on.hidden()),
    };
    projection(on).forward(&mut draft, on, normed);
    loss(&mut draft, on);
    for _ in 0..on.execution().fusion.loss_metrics {
        metric(&mut draft, on);
    }
    draft.operators
}

/// `norm(gelu(W x + b))` of an encoder (`BertPredictionHeadTransform` of Hugging Face Transformers, `BertLMHead` of
/// Megatron-LM): whole on every tensor rank, GeLU one kernel, the product adds its bias, as that of the logits does.
fn transform(draft: &mut Draft, on: &ShardedTransformer) -> &'static str {
    let bytes = on.bytes(on.residual_elements());
    let output = dense(on).forward(draft, on, INPUT);
    draft.stream("head gelu", StreamClass::Elementwise, (bytes, bytes), &[output], &[(ACTIVATION, bytes)]);
    TRANSFORM_NORM.forward(draft, on, ACTIVATION, on.hidden())
}

fn dense(on: &ShardedTransformer) -> Linear {
    Linear::new(DENSE, Side::Whole, on.hidden(), on.hidden()).never_narrow()
}

/// From the gradient of the logits to that of the input.
fn transform_gradient(draft: &mut Draft, on: &ShardedTransformer, gradient: &'static str) {
    let (logits, bytes) = (on.bytes(on.logits()), on.bytes(on.residual_elements()));
    draft.within(Phase::BackwardWeight, |draft| {
        draft.stream("logits bias gradient", StreamClass::Reduction, (logits, 0), &[gradient], &[]);
    });
    let gradient = projection(on).backward(draft, on, TRANSFORM_NORM.output, gradient);
    let gradient = TRANSFORM_NORM.backward(draft, on, ACTIVATION, gradient, on.hidden());
    let (reads, writes) = ([DENSE.output, gradient], [(ACTIVATION_GRADIENT, bytes)]);
    draft.stream("head gelu gradient", StreamClass::Elementwise, (2 * bytes, bytes), &reads, &writes);
    draft.within(Phase::BackwardWeight, |draft| {
        let reads = [ACTIVATION_GRADIENT];
        draft.stream("head dense bias gradient", StreamClass::Reduction, (bytes, 0), &reads, &[]);
    });
    dense(on).backward(draft, on, INPUT, ACTIVATION_GRADIENT);
}

/// The loss once more without a gradient, as PyTorch's `cross_entropy` computes it: a cast to fp32, a log-softmax (Composer's
/// `_eval_train_metrics`, for each metric).
fn metric(draft: &mut Draft, on: &ShardedTransformer) {
    let single = 4 * on.logits();
    let (class, bytes) = (StreamClass::Elementwise, on.bytes(on.logits()));
    draft.stream("cast logits of metric", class, (bytes, single), &[LOGITS.output], &[(METRIC, single)]);
    let class = (StreamClass::Softmax, on.tokens());
    draft.walk("log-softmax of metric", class, (single, single), &[METRIC], &[(LOG_SOFTMAX, single)]);
    let targets = 4 * on.tokens();
    draft.stream("loss of metric", StreamClass::Reduction, (targets, 0), &[LOG_SOFTMAX], &[]);
}

/// The passes of Megatron-LM's `_VocabParallelCrossEntropy`, all in the fp32 copy of the logits: what the backward pass
/// needs are the probabilities it ends with. Three numbers a token are summed over the tensor ranks.
fn loss(draft: &mut Draft, on: &ShardedTransformer) {
    if on.execution().fusion.cross_entropy {
        return fused_loss(draft, on);
    }
    let single = 4 * on.logits();
    let (elementwise, reduction) = (StreamClass::Elementwise, StreamClass::Reduction);
    let logits = fp32_logits(on);
    if logits == SINGLE {
        let bytes = on.bytes(on.logits());
        draft.stream("cast logits", elementwise, (bytes, single), &[LOGITS.output], &[(SINGLE, single)]);
    }
    let all_reduce = |draft: &mut Draft, name| {
        if on.tensor() > 1 {
            let sum = (CollectiveKind::AllReduce, Group::Tensor, 4 * on.tokens());
            draft.collective(name, sum, Issue::Waiting, &[logits], &[]);
        }
    };
    draft.stream("largest logit", reduction, (single, 0), &[logits], &[]);
    all_reduce(draft, "reduce largest logit");
    draft.stream("subtract largest logit", elementwise, (single, single), &[logits], &[]);
    all_reduce(draft, "reduce logit of the target");
    draft.stream("exponentials", elementwise, (single, single), &[logits], &[]);
    draft.stream("sum of exponentials", reduction, (single, 0), &[logits], &[]);
    all_reduce(draft, "reduce sum of exponentials");
    draft.stream("normalise exponentials", elementwise, (single, single), &[logits], &[]);
}

/// One pass over the logits as they are, for the largest, the sum and the target's of each token; tensor ranks gather
/// these three numbers of all (flash-attention's `cross_entropy`, Transformer Engine's `cross_entropy`).
fn fused_loss(draft: &mut Draft, on: &ShardedTransformer) {
    let each = 4 * on.tokens();
    let class = (StreamClass::CrossEntropy, on.tokens());
    let reads = [LOGITS.output];
    draft.walk("cross entropy", class, (on.bytes(on.logits()), 3 * each), &reads, &[(LOSS, 3 * each)]);
    if on.tensor() > 1 {
        let gather = (CollectiveKind::AllGather, Group::Tensor, 3 * each * on.tensor());
        draft.collective("gather parts of the loss", gather, Issue::Waiting, &[LOSS], &[]);
    }
}

fn backward(on: &ShardedTransformer) -> Vec<Operator> {
    let mut draft = Draft::new(Phase::BackwardInput);
    if let Some(count) = on.model().classes {
        classes::backward(&mut draft, on, count.into());
        return draft.operators;
    }
    let gradient = loss_gradient(&mut draft, on);
    if on.model().encoder.is_some() {
        transform_gradient(&mut draft, on, gradient);
        return draft.operators;
    }
    let gradient = projection(on).backward(&mut draft, on, NORM.output, gradient);
    NORM.backward(&mut draft, on, INPUT, gradient, on.hidden());
    draft.operators
}

/// The gradient of the logits.
fn loss_gradient(draft: &mut Draft, on: &ShardedTransformer) -> &'static str {
    let (bytes, single) = (on.bytes(on.logits()), 4 * on.logits());
    if on.execution().fusion.cross_entropy {
        let class = (StreamClass::CrossEntropy, on.tokens());
        draft.walk(LOGITS_GRADIENT, class, (bytes, bytes), &[LOGITS.output, LOSS], &[]);
        return LOGITS.output;
    }
    let elementwise = StreamClass::Elementwise;
    let mut gradient = fp32_logits(on);
    draft.stream("loss gradient", elementwise, (single, single), &[gradient], &[]);
    if gradient == SINGLE {
        draft.stream(
            "cast logits gradient",
            elementwise,
            (single, bytes),
            &[SINGLE],
            &[(LOGITS_GRADIENT, bytes)],
        );
        gradient = LOGITS_GRADIENT;
    }
    gradient
}

/// The tensor that the loss works in.
fn fp32_logits(on: &ShardedTransformer) -> &'static str {
    if on.execution().dtype == Dtype::Fp32 { LOGITS.output } else { SINGLE }
}
