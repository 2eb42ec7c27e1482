//! Recomputation, as PyTorch does it.

use workloads::graph::cut::LayerPlace;
use workloads::passes::Techniques;
use workloads::passes::recompute::Mode;

/// The mode, as `step.py` takes it, and whether recomputation ends with the last tensor that the
/// backward pass needs.
///
/// # Errors
/// If the script has no part for it.
pub(super) fn mode(techniques: &Techniques) -> Result<(&'static str, bool), String> {
    let recompute = techniques.recompute.as_ref();
    Ok(match recompute.map_or(Mode::None, |recompute| recompute.mode(LayerPlace::default())) {
        Mode::None => ("none", false),
        Mode::Selective => ("selective", false),
        Mode::Full => ("full", false),
        Mode::FullEarlyStop => ("full", true),
        Mode::Modules(_) | Mode::Operators => {
            return Err("PyTorch recomputes `selective` or `full` here".to_owned());
        }
    })
}

/// True if some layers recompute otherwise than others.
pub(super) fn varies(techniques: &Techniques) -> bool {
    let recompute = techniques.recompute.as_ref();
    recompute.is_some_and(|recompute| recompute.layers.is_some() || recompute.every.is_some())
}
