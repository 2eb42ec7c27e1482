//! A layer: attention and MLP, each added to the residual stream, after a norm or, in encoders, before one.

use crate::graph::Phase;

use super::draft::{BlockDraft, Draft, Drafted, Name};
use super::execution::ShardedTransformer;
use super::mlp::DenseMlp;
use super::norm::{NormNames, norm_names};
use super::pieces::in_pieces;
use super::residual::{ResidualNames, add_gradients, residual_names};
use super::{Experts, LayerKind, attention, mixture};
use crate::graph::block::Block;
use crate::graph::operator::Module;

const INPUT: Name = Name::of("input");
const INPUT_GRADIENT: Name = Name::of("input gradient");
const OUTPUT_GRADIENT: Name = Name::of("output gradient");
const BETWEEN_GRADIENT: Name = Name::of("residual gradient");
const ATTENTION_NORM: &NormNames = norm_names!("attention norm");
const MLP_NORM: &NormNames = norm_names!("mlp norm");
const ATTENTION_POST_NORM: &NormNames = norm_names!("attention post norm");
const MLP_POST_NORM: &NormNames = norm_names!("mlp post norm");
const ATTENTION: &ResidualNames = residual_names!("attention");
const MLP: &ResidualNames = residual_names!("mlp");

impl ShardedTransformer {
    /// A layer of the model as it is there, counted from 0.
    pub fn layer_at(&self, layer: u32) -> Block {
        let alike = self.alike(layer);
        match self.model().layer_kind(layer) {
            LayerKind::Dense => alike.layer(),
            LayerKind::Experts => alike.expert_layer(),
        }
    }

    /// A layer with one MLP, on one rank and for one micro-batch. Its output is the tensor `mlp residual`, of an encoder
    /// `mlp norm output`, its input gradient `input gradient`.
    pub fn layer(&self) -> Block {
        self.block(None)
    }

    /// The same of a layer with a mixture of experts; without experts, one with an MLP.
    pub fn expert_layer(&self) -> Block {
        self.block(self.model().experts.as_ref())
    }

    fn block(&self, experts: Option<&Experts>) -> Block {
        let cut = |operators| {
            if self.execution().in_pieces { in_pieces(operators, self.tensor()) } else { operators }
        };
        self.as_executed(BlockDraft {
            input: (INPUT, self.bytes(self.residual_elements())),
            output_gradient: Some(OUTPUT_GRADIENT),
            forward: cut(forward(self, experts)),
            backward: cut(backward(self, experts)),
            middle: Some([between(self), BETWEEN_GRADIENT]),
        })
    }
}

fn forward(on: &ShardedTransformer, experts: Option<&Experts>) -> Vec<Drafted> {
    let mut draft = Draft::new(Phase::Forward);
    if on.model().encoder.is_some() {
        forward_norms_after(&mut draft, on);
        return draft.operators;
    }
    let normed =
        draft.module(Module::AttentionNorm, |draft| ATTENTION_NORM.forward(draft, on, INPUT, on.hidden()));
    let branch = draft.module(Module::Attention, |draft| {
        let branch = attention::forward(draft, on, normed);
        post_norm(draft, on, ATTENTION_POST_NORM, branch)
    });
    let residual = ATTENTION.forward(&mut draft, on, branch, INPUT);
    let normed =
        draft.module(Module::MlpNorm, |draft| MLP_NORM.forward(draft, on, mlp_input(on), on.hidden()));
    let branch = draft.module(mlp_module(experts), |draft| {
        let branch = match experts {
            Some(experts) => mixture::forward(draft, on, experts, normed),
            None => DenseMlp::of(on).forward(draft, on, normed),
        };
        post_norm(draft, on, MLP_POST_NORM, branch)
    });
    MLP.forward(&mut draft, on, branch, residual);
    draft.operators
}

/// The forward pass of an encoder's layer, whose residual stream is what the norms give.
fn forward_norms_after(draft: &mut Draft, on: &ShardedTransformer) {
    let branch = draft.module(Module::Attention, |draft| attention::forward(draft, on, INPUT));
    let sum = ATTENTION.forward(draft, on, branch, INPUT);
    let normed = ATTENTION_NORM.forward(draft, on, sum, on.hidden());
    let branch = draft.module(Module::Mlp, |draft| DenseMlp::of(on).forward(draft, on, normed));
    let sum = MLP.forward(draft, on, branch, normed);
    MLP_NORM.forward(draft, on, sum, on.hidden());
}

/// The norm of what a branch gives, where branches end with one; returns the name of the result.
fn post_norm(draft: &mut Draft, on: &ShardedTransformer, norm: &NormNames, branch: Name) -> Name {
    if on.model().post_norms { norm.forward(draft, on, branch, on.hidden()) } else { branch }
}

/// From the gradient of what [`post_norm`] gives to that of the `branch`.
fn post_norm_gradient(
    draft: &mut Draft,
    on: &ShardedTransformer,
    norm: &NormNames,
    branch: Name,
    gradient: Name,
) -> Name {
    if on.model().post_norms { norm.backward(draft, on, branch, gradient, on.hidden()) } else { gradient }
}

/// The module after the second norm.
const fn mlp_module(experts: Option<&Experts>) -> Module {
    if experts.is_some() { Module::Moe } else { Module::Mlp }
}

/// What attention leaves for the MLP: the residual stream.
const fn between(on: &ShardedTransformer) -> Name {
    if on.model().encoder.is_some() { ATTENTION_NORM.output } else { ATTENTION.output }
}

/// What the MLP's norm reads.
const fn mlp_input(on: &ShardedTransformer) -> Name {
    if on.model().parallel_residual { INPUT } else { ATTENTION.output }
}

fn backward(on: &ShardedTransformer, experts: Option<&Experts>) -> Vec<Drafted> {
    let mut draft = Draft::new(Phase::BackwardInput);
    if on.model().encoder.is_some() {
        backward_norms_after(&mut draft, on);
    } else {
        backward_norms_before(&mut draft, on, experts);
    }
    draft.operators
}

fn backward_norms_before(draft: &mut Draft, on: &ShardedTransformer, experts: Option<&Experts>) {
    let branch = MLP.backward(draft, on, OUTPUT_GRADIENT);
    let normed = draft.module(mlp_module(experts), |draft| {
        let output = experts.map_or_else(|| DenseMlp::of(on).output(on), mixture::output);
        let branch = post_norm_gradient(draft, on, MLP_POST_NORM, output, branch);
        match experts {
            Some(experts) => mixture::backward(draft, on, experts, MLP_NORM.output, branch),
            None => DenseMlp::of(on).backward(draft, on, MLP_NORM.output, branch),
        }
    });
    let through_mlp = draft
        .module(Module::MlpNorm, |draft| MLP_NORM.backward(draft, on, mlp_input(on), normed, on.hidden()));
    let residual = add_gradients(draft, on, [through_mlp, OUTPUT_GRADIENT], BETWEEN_GRADIENT);
    let branch_gradient = if on.model().parallel_residual { OUTPUT_GRADIENT } else { residual };
    let branch = ATTENTION.backward(draft, on, branch_gradient);
    let normed = draft.module(Module::Attention, |draft| {
        let branch = post_norm_gradient(draft, on, ATTENTION_POST_NORM, attention::output(on), branch);
        attention::backward(draft, on, ATTENTION_NORM.output, branch)
    });
    let through_attention = draft.module(Module::AttentionNorm, |draft| {
        ATTENTION_NORM.backward(draft, on, INPUT, normed, on.hidden())
    });
    add_gradients(draft, on, [through_attention, residual], INPUT_GRADIENT);
}

fn backward_norms_after(draft: &mut Draft, on: &ShardedTransformer) {
    let sum = draft.module(Module::MlpNorm, |draft| {
        MLP_NORM.backward(draft, on, MLP.output, OUTPUT_GRADIENT, on.hidden())
    });
    let branch = MLP.backward(draft, on, sum);
    let through_mlp = draft
        .module(Module::Mlp, |draft| DenseMlp::of(on).backward(draft, on, ATTENTION_NORM.output, branch));
    let normed = add_gradients(draft, on, [through_mlp, sum], BETWEEN_GRADIENT);
    let sum = draft.module(Module::AttentionNorm, |draft| {
        ATTENTION_NORM.backward(draft, on, ATTENTION.output, normed, on.hidden())
    });
    let branch = ATTENTION.backward(draft, on, sum);
    let through_attention =
        draft.module(Module::Attention, |draft| attention::backward(draft, on, INPUT, branch));
    add_gradients(draft, on, [through_attention, sum], INPUT_GRADIENT);
}
