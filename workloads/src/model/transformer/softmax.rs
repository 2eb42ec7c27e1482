//! Softmax over attention scores: one kernel for scale, mask and softmax where it takes the shape, else a pass for each.
//!
//! The kernel of Megatron-LM (`megatron/model/fused_softmax.py`, `is_kernel_available`; 2021 to 2023) takes only some
//! shapes. Whether it does decides how many times the scores cross memory, and can decide what a study finds: with 26
//! heads a rank it takes micro-batches of two sequences but not of one.

use super::draft::{Draft, Name};
use super::execution::{Fusion, ShardedTransformer, SoftmaxFusion};
use crate::graph::operator::{Dtype, Math, StreamClass};

pub(super) const SCORES: Name = Name::of("scores");
pub(super) const SCORES_GRADIENT: Name = Name::of("scores gradient");
pub(super) const PROBABILITIES: Name = Name::of("probabilities");
pub(super) const PROBABILITIES_GRADIENT: Name = Name::of("probabilities gradient");
const SINGLE: Name = Name::of("scores in fp32");
const SCALED: Name = Name::of("scaled scores");
const SOFTMAX: Name = Name::of("softmax output");
const SOFTMAX_GRADIENT: Name = Name::of("softmax output gradient");
const PRODUCT: Name = Name::of("softmax output times gradient");
const SCALED_GRADIENT: Name = Name::of("scaled scores gradient");
const SINGLE_GRADIENT: Name = Name::of("scores gradient in fp32");

/// A softmax over so many scores of a layer and rank.
pub(super) struct Softmax {
    /// Elements.
    scores: u64,
    /// Queries of all sequences and heads: rows of scores.
    rows: u64,
    /// Bytes of an element before and after.
    element: u64,
    /// A triangle of scores is masked by filling it in; the padding of encoders by adding to them, which needs nothing of
    /// the backward pass.
    causal: bool,
    fused: bool,
    /// Bytes of an element in passes of their own.
    in_passes: u64,
    choice: String,
}

impl Softmax {
    pub(super) fn new(on: &ShardedTransformer) -> Self {
        let execution = on.execution();
        let heads = u64::from(on.model().heads) / on.tensor();
        let sequence = u64::from(execution.sequence);
        let batches = u64::from(execution.micro_batch) * heads;
        let (fused, choice) = choose(execution.fusion, batches, sequence, execution.dtype);
        Self {
            scores: batches * sequence * sequence,
            rows: batches * sequence,
            element: execution.dtype.bytes(),
            causal: on.model().encoder.is_none(),
            fused,
            in_passes: if execution.fusion.softmax_in_single { 4 } else { execution.dtype.bytes() },
            choice,
        }
    }

    /// From scores to probabilities. The passes work in fp32, as Megatron-LM does with
    /// `attention_softmax_in_fp32`. Before it had that it masked a triangle by two passes, as
    /// `scores * mask - 10000 * (1 - mask)`.
    pub(super) fn forward(&self, draft: &mut Draft) {
        let (bytes, single) = (self.scores * self.element, self.scores * self.in_passes);
        let (copy, softmax) = (StreamClass::Elementwise, (StreamClass::Softmax, self.rows));
        let result = [(PROBABILITIES, bytes)];
        if self.fused {
            let kernel = draft.walk("scale, mask and softmax", softmax, (bytes, bytes), &[SCORES], &result);
            kernel.choice = Some(self.choice.clone());
            return;
        }
        let casts = self.casts();
        if casts {
            draft.stream("cast scores", copy, (bytes, single), &[SCORES], &[(SINGLE, single)]);
        }
        let scores = if casts { SINGLE } else { SCORES };
        draft.stream("scale", copy, (single, single), &[scores], &[(SCALED, single)]).math =
            Some(Math::Scale);
        draft.stream("mask", copy, (single, single), &[SCALED], &[]).math = Some(Math::Mask);
        if self.causal && !casts && self.element < 4 {
            draft.stream("lower what is masked", copy, (single, single), &[SCALED], &[]).math =
                Some(Math::Mask);
        }
        let writes = if casts { [(SOFTMAX, single)] } else { result };
        let kernel = draft.walk("softmax", softmax, (single, single), &[SCALED], &writes);
        kernel.choice = Some(self.choice.clone());
        if casts {
            draft.stream("cast probabilities", copy, (single, bytes), &[SOFTMAX], &result);
        }
    }

    /// From the gradient of the probabilities to that of the scores; returns the name of the latter. The kernel works in
    /// place. PyTorch multiplies output and gradient before the kernel that sums over rows (`softmax_backward_cuda_out`).
    pub(super) fn backward(&self, draft: &mut Draft) -> Name {
        let (bytes, single) = (self.scores * self.element, self.scores * self.in_passes);
        let (copy, softmax) = (StreamClass::Elementwise, (StreamClass::Softmax, self.rows));
        let from = PROBABILITIES_GRADIENT;
        if self.fused {
            let reads = [PROBABILITIES, from];
            draft.walk("scale, mask and softmax gradient", softmax, (2 * bytes, bytes), &reads, &[]);
            return from;
        }
        let casts = self.casts();
        if casts {
            let writes = [(SOFTMAX_GRADIENT, single)];
            draft.stream("cast probabilities gradient", copy, (bytes, single), &[from], &writes);
        }
        let reads = if casts { [SOFTMAX, SOFTMAX_GRADIENT] } else { [PROBABILITIES, from] };
        draft.stream(PRODUCT, copy, (2 * single, single), &reads, &[(PRODUCT, single)]);
        let (reads, writes) = ([reads[0], PRODUCT], [(SCALED_GRADIENT, single)]);
        draft.walk("softmax gradient", softmax, (2 * single, single), &reads, &writes);
        if self.causal {
            draft.stream("mask gradient", copy, (single, single), &[SCALED_GRADIENT], &[]);
        }
        let scores = if casts { SINGLE_GRADIENT } else { SCORES_GRADIENT };
        draft.stream("scale gradient", copy, (single, single), &[SCALED_GRADIENT], &[(scores, single)]);
        if casts {
            let writes = [(SCORES_GRADIENT, bytes)];
            draft.stream("cast scores gradient", copy, (single, bytes), &[SINGLE_GRADIENT], &writes);
        }
        SCORES_GRADIENT
    }

    /// Whether scores are in half precision, from and to which the passes cast.
    fn casts(&self) -> bool {
        self.element != self.in_passes
    }
}

/// Whether the kernel is used, and why.
fn choose(fusion: Fusion, batches: u64, keys: u64, dtype: Dtype) -> (bool, String) {
    match fusion.softmax {
        SoftmaxFusion::On => (true, "fused, as asked".to_owned()),
        SoftmaxFusion::Off => (false, "unfused, as asked".to_owned()),
        SoftmaxFusion::Auto => match obstacle(batches, keys, dtype, u64::from(fusion.softmax_keys)) {
            None => (true, format!("fused: {batches} matrices of scores, {keys} keys, {dtype}")),
            Some(obstacle) => (false, format!("unfused: {obstacle}")),
        },
    }
}

/// What keeps the kernel from `batches` (sequences x heads of a rank) square matrices of `keys` columns.
fn obstacle(batches: u64, keys: u64, dtype: Dtype, keys_max: u64) -> Option<String> {
    // A block of 128 threads works on as many rows as its warps hold: 4, and twice that up to 128 keys.
    let per_block = if keys > 128 { 4 } else { 8 };
    if dtype == Dtype::Fp32 {
        Some("the kernel takes fp16 and bf16, not fp32".to_owned())
    } else if keys <= 16 || keys > keys_max {
        Some(format!("{keys} keys are not more than 16 and at most {keys_max}"))
    } else if !keys.is_multiple_of(4) {
        Some(format!("{keys} keys are not a multiple of 4"))
    } else if !batches.is_multiple_of(per_block) {
        Some(format!(
            "{batches} matrices of scores (sequences x heads of a rank) are not a multiple of {per_block}"
        ))
    } else {
        None
    }
}
