//! Recomputation, as PyTorch does it.

use workloads::graph::cut::LayerPlace;
use workloads::passes::Techniques;
use workloads::passes::recompute::Mode;

/// Recomputation in a model with `layers`, as `step.py` takes it: mode, number of layers
/// that recompute from the first on, and whether it ends with the last tensor that is needed.
///
/// # Errors
/// Modes and layers that the script has no part for.
pub(super) fn recomputed(techniques: &Techniques, layers: u32) -> Result<(&'static str, u32, bool), String> {
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
    Ok((mode, first, early_stop))
}
