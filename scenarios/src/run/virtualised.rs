//! Decisions of vDNN, in words.

use reports::quantity;
use workloads::passes::vdnn::Virtualised;
use workloads::plan::Built;

/// A note on each stage whose memory vDNN manages.
pub(super) fn notes(built: &Built) -> impl Iterator<Item = String> {
    built.decided.virtualised.iter().map(note)
}

fn note(&Virtualised { stage, offloaded, kernels, network_wide }: &Virtualised) -> String {
    let (inputs, bytes) = offloaded;
    let [all, without] = kernels;
    format!(
        "vDNN, stage {stage}: {inputs} inputs of layers leave, {}; {without} of {all} kernels of convolutions take no workspace; \
         allocated network-wide it would take {}",
        quantity::bytes(bytes),
        quantity::bytes(network_wide)
    )
}
