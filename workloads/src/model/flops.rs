//! FLOPs by convention: what a model needs, whatever the hardware executes.

use super::transformer::Step;
use crate::graph::operator::Work;

/// Multiplications and additions of a step whose forward pass has `forward` of them: the backward
/// pass has twice as many, and as many if weights are `frozen`, whose gradients nobody needs. Model
/// FLOPs utilisation (MFU, Chowdhery et al. 2022, appendix B) is this over the time of a step and
/// the peak of all ranks.
///
/// Matrix products, convolutions and attention count, attention over the whole square also where
/// half of it is masked, and over the keys of a window for every query, a convolution as the sum
/// over its filter. Nothing that is recomputed counts, nor what a kernel saves: where a faster
/// algorithm
/// multiplies less (Winograd) the utilisation may exceed 1.
pub fn model_flops(forward: f64, step: Step, frozen: bool) -> f64 {
    match step {
        Step::Whole | Step::Gradients if frozen => 2.0 * forward,
        Step::Whole | Step::Gradients => 3.0 * forward,
        Step::Forward => forward,
    }
}

/// What an operator of the forward pass counts for.
pub(crate) fn counted(work: &Work) -> f64 {
    match work {
        Work::Attention(attention) => {
            let mut whole = *attention;
            whole.causal = false;
            whole.keys = whole.window.map_or(whole.keys, |window| whole.keys.min(window));
            whole.flops()
        }
        other => other.flops(),
    }
}
