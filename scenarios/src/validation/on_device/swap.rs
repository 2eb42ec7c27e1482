//! From a scenario to what leaves the GPU in the forward pass of a step and comes back for the backward pass.

use hw_models::copies::HostMemory;
use serde::Serialize;
use workloads::passes::host_buffers::HostBuffers;
use workloads::passes::offload::{Keep, Store};

use super::build::{Build, build};
use crate::plans::transformer::plan;
use crate::schema::Scenario;

/// A transformer, and the tensors of it that leave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Swapping {
    model: Build,
    swap: Leaving,
}

/// The rule by which tensors leave, as `swap.py` takes it: it decides there what the technique
/// decides here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct Leaving {
    /// Smaller tensors stay (bytes).
    smallest: u64,
    /// Of the others so many bytes stay.
    keep: u64,
    /// One is asked for when that so many before it is needed, whether that has left or not.
    prefetch: u32,
    /// Whether the host's memory is page-locked.
    pinned: bool,
}

/// What PyTorch builds for a checked scenario, and what leaves of it.
///
/// # Errors
/// What of the scenario the script has no part for.
pub fn swapping(scenario: &Scenario) -> Result<Swapping, String> {
    let mut stays = scenario.clone();
    stays.techniques.activation_offload = None;
    let model = build(&stays)?;
    let (offload, buffers) = match scenario.model.transformer() {
        Some(transformer) => {
            let deployment = plan(scenario, transformer).deployment;
            if !deployment.drives.activations.is_empty() {
                return Err("tensors leave for host memory here: remove `techniques.activation_offload.to`"
                    .to_owned());
            }
            (deployment.pipelining.techniques.activation_offload, deployment.buffers)
        }
        None => (None, HostBuffers::ENOUGH),
    };
    let offload = offload.ok_or("activations leave the GPU here: `techniques.activation_offload`")?;
    if !model.leaves_saved_tensors_to_autograd() {
        return Err(
            "tensors leave where autograd keeps them, and the host says when: nothing is recomputed, \
                    `software.launch` is eager and nothing is compiled"
                .to_owned(),
        );
    }
    if offload.store != Store::Produced || offload.forwarding {
        return Err("a tensor leaves as it is saved, and copies that a GPU has queued are not left out: \
                    `techniques.activation_offload: { store: produced, forwarding: false }`"
            .to_owned());
    }
    let Keep::Bytes(keep) = offload.keep else {
        return Err(
            "tensors stay by their bytes: `techniques.activation_offload: { keep: { bytes: 1 GB } }`"
                .to_owned(),
        );
    };
    let Some(prefetch) = offload.prefetch else {
        return Err(
            "a tensor is asked for a number of them ahead, whose copy waits for the GPU to come there: \
                    `techniques.activation_offload.prefetch`"
                .to_owned(),
        );
    };
    let pinned = buffers.activations == HostMemory::Pinned;
    let (smallest, keep, prefetch) = (offload.smallest(), keep.bytes(), prefetch.get() as u32);
    Ok(Swapping { model, swap: Leaving { smallest, keep, prefetch, pinned } })
}
