//! The end of the last stage: norm, of encoders the transform of masked words, logits, and the loss over a vocabulary that
//! the tensor ranks share; or a head of [classes](super::classes).

use crate::graph::Phase;

use super::cap::{Cap, cap_names};
use super::classes;
use super::draft::{BlockDraft, Draft, Drafted, Name};
use super::execution::ShardedTransformer;
use super::linear::{Linear, Names, Side, linear_names};
use super::loss;
use super::norm::{NormNames, norm_names};
use crate::graph::block::Block;
use crate::graph::operator::StreamClass;

const INPUT: Name = Name::of("input");
const NORM: &NormNames = norm_names!("final norm");
const DENSE: &Names = linear_names!("head dense");
const ACTIVATION: Name = Name::of("head activation");
const ACTIVATION_GRADIENT: Name = Name::of("head activation gradient");
const TRANSFORM_NORM: &NormNames = norm_names!("head norm");
const LOGITS: &Names = linear_names!("logits");
const CAP: &Cap = &Cap { raw: LOGITS.output, ..*cap_names!("logits") };
const CAPPED: Name = Name::of("capped logits");

impl ShardedTransformer {
    /// Final norm, logits and loss of a micro-batch on a rank of the last stage. The gradient of its input is the tensor
    /// `final norm input gradient`, of an encoder, whose transform is in the place of the norm, `head dense input gradient`,
    /// of classes `sequence gradient`.
    pub fn head(&self) -> Block {
        self.as_executed(BlockDraft {
            input: (INPUT, self.bytes(self.residual_elements())),
            output_gradient: None,
            forward: forward(self),
            backward: backward(self),
            middle: None,
        })
    }

    /// Logits of a micro-batch on a rank.
    pub(super) fn logits(&self) -> u64 {
        self.tokens() * self.vocabulary_share()
    }
}

fn projection(on: &ShardedTransformer) -> Linear {
    Linear::new(LOGITS, Side::Columns, on.hidden(), on.vocabulary_share()).never_narrow()
}

fn forward(on: &ShardedTransformer) -> Vec<Drafted> {
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
    if on.model().logit_cap {
        CAP.forward(&mut draft, on, CAPPED, on.bytes(on.logits()));
    }
    loss::forward(&mut draft, on, logits(on));
    draft.operators
}

/// The logits that the loss starts from.
fn logits(on: &ShardedTransformer) -> Name {
    if on.model().logit_cap { CAPPED } else { LOGITS.output }
}

/// `norm(gelu(W x + b))` of an encoder (`BertPredictionHeadTransform` of Hugging Face Transformers, `BertLMHead` of
/// Megatron-LM): whole on every tensor rank, GeLU one kernel, the product adds its bias, as that of the logits does.
fn transform(draft: &mut Draft, on: &ShardedTransformer) -> Name {
    let bytes = on.bytes(on.residual_elements());
    let output = dense(on).forward(draft, on, INPUT);
    draft.stream("head gelu", StreamClass::Elementwise, (bytes, bytes), &[output], &[(ACTIVATION, bytes)]);
    TRANSFORM_NORM.forward(draft, on, ACTIVATION, on.hidden())
}

fn dense(on: &ShardedTransformer) -> Linear {
    Linear::new(DENSE, Side::Whole, on.hidden(), on.hidden()).never_narrow()
}

/// From the gradient of the logits to that of the input.
fn transform_gradient(draft: &mut Draft, on: &ShardedTransformer, gradient: Name) {
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

fn backward(on: &ShardedTransformer) -> Vec<Drafted> {
    let mut draft = Draft::new(Phase::BackwardInput);
    if let Some(count) = on.model().classes {
        classes::backward(&mut draft, on, count.into());
        return draft.operators;
    }
    let mut gradient = loss::backward(&mut draft, on, logits(on));
    if on.model().logit_cap {
        gradient = CAP.backward(&mut draft, on, (CAPPED, gradient), on.bytes(on.logits()));
    }
    if on.model().encoder.is_some() {
        transform_gradient(&mut draft, on, gradient);
    } else {
        let gradient = projection(on).backward(&mut draft, on, NORM.output, gradient);
        NORM.backward(&mut draft, on, INPUT, gradient, on.hidden());
    }
    draft.within(Phase::Forward, |draft| {
        for _ in 0..on.execution().fusion.loss_metrics {
            loss::metric(draft, on, logits(on));
        }
    });
    draft.operators
}
