//! Recomputation, as PyTorch does it.

use workloads::graph::cut::LayerPlace;
use workloads::passes::Techniques;
use workloads::passes::recompute::Mode;

/// What `step.py` recomputes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Recomputed {
    /// Its name in the script.
    pub(super) mode: &'static str,
    /// Number of layers that recompute, from the first on.
    pub(super) layers: u32,
    /// True if recomputation ends with the last tensor that the backward pass needs.
    pub(super) early_stop: bool,
}

/// Recomputation in a model with `layers`.
///
/// # Errors
/// Modes and layers that the script has no part for.
pub(super) fn recomputed(techniques: &Techniques, layers: u32) -> Result<Recomputed, String> {
    let mode = |layer: u32| {
        let place = LayerPlace { in_chunk: layer, on_stage: layer };
        techniques.recompute.as_ref().map_or(Mode::None, |recompute| recompute.mode(place))
    };
    let first = (0..layers).take_while(|&layer| mode(layer) == mode(0)).count() as u32;
    if (first..layers).any(|layer| mode(layer) != Mode::None) {
        return Err("the first layers recompute, or all: `techniques.recompute.layers`".to_owned());
    }
    let (mode, early_stop) = match mode(0) {
        Mode::None => ("none", false),
        Mode::Selective => ("selective", false),
        Mode::Full => ("full", false),
        Mode::FullEarlyStop => ("full", true),
        Mode::Modules(_) | Mode::Operators => {
            return Err("PyTorch recomputes `selective` or `full` here".to_owned());
        }
    };
    Ok(Recomputed { mode, layers: first, early_stop })
}
