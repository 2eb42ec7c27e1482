//! Techniques. What each is given, refuses and does is its own, in the workloads.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use workloads::techniques::bpipe::Bpipe;
use workloads::techniques::offload::ActivationOffload;
use workloads::techniques::recompute::Recompute;
use workloads::techniques::swap::Swap;
use workloads::techniques::zero_infinity::ZeroInfinity;
use workloads::techniques::zero_offload::ZeroOffload;

/// Techniques that change what is executed, where and in which order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Techniques {
    /// Recompute activations before the backward pass instead of keeping them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recompute: Option<Recompute>,
    /// Balance activation memory between the stages `x` and `p - 1 - x` (Kim et al., ICML 2023).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bpipe: Option<Bpipe>,
    /// Move what the forward pass saves to host memory or drives, and back before the backward pass needs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activation_offload: Option<ActivationOffload>,
    /// Keep the states of the optimizer with the hosts, which update: gradients leave, parameters come back (Ren et al., ATC 2021).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zero_offload: Option<ZeroOffload>,
    /// Move as much of what the forward pass saves to host memory, and back, as must be for the GPU's memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap: Option<Swap>,
    /// Keep the states of the optimizer on drives, and parameters in host memory or on drives (Rajbhandari et al., SC 2021).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zero_infinity: Option<ZeroInfinity>,
}
