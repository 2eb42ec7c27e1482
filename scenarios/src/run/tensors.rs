//! Tensors that wait for the backward pass, as a decided plan has them.

use reports::summary::RunSummary;
use workloads::passes::movement_plan::{Listed, listed};

use super::one::Planned;
use super::replanned::replanned;
use crate::schema::{Model, Scenario};

/// Tensors of a scenario.
///
/// # Errors
/// Why there are none, in words.
pub fn tensors(scenario: &Scenario, seed: u64) -> Result<Vec<Listed>, String> {
    if !matches!(scenario.model, Model::Transformer(_) | Model::Layers(_) | Model::Graph(_)) {
        return Err("only transformers and lists of layers have tensors to list".to_owned());
    }
    match replanned(scenario, seed, &RunSummary::default()) {
        Ok((Planned { prepared, .. }, _)) => {
            let built = prepared.built;
            let tensors = listed(&built.graph, &built.layers, &built.table);
            let split = "no tensor waits for a whole backward pass where the schedule splits it: list those \
                         of `1f1b`, `gpipe` or `interleaved`";
            if tensors.is_empty() { Err(split.to_owned()) } else { Ok(tensors) }
        }
        Err(unbuilt) => {
            let failure = unbuilt.told()?.failure.map(|failure| failure.message).unwrap_or_default();
            Err(format!("the plan cannot be built, so that nothing is decided: {failure}"))
        }
    }
}
