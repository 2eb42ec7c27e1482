//! ZeRO-Offload (Ren et al., ATC 2021): parameters stay on the GPU as its operators read them;
//! gradients leave for the host as soon as they are there, which has the states of the optimizer,
//! updates, and sends the parameters back.
//!
//! Copies of the model share the states as ZeRO-2 does: a host updates what its rank has the sum
//! of. Stages of a pipeline sum gradients of their micro-batches on the GPU, which leave once a
//! step, as with ZeRO-1.

use hw_models::settings::{Count, Rate, Share};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::diagnostic::Diagnostic;
use crate::host_update::{HostRates, HostedStates, KeptParameters};
use crate::model::transformer::Sharding;

use super::technique::{billionths, check_ratio};
use super::{Around, Facts, Saving, Technique};

/// The name of this technique in scenarios and errors.
const NAME: &str = "zero_offload";

const PATH: &str = "techniques.zero_offload";

/// Keep the states of the optimizer in host memory. Gradients go there once they are summed, in
/// buckets of `overlap_gradient_reduce` or block by block. The host updates at the speed of its
/// memory, which copies share, and parameters return. Copies of the model shard states and
/// gradients (ZeRO-2); in a pipeline they shard states (ZeRO-1).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ZeroOffload {
    /// Delayed parameter update: the host updates during the next step, which has the parameters of
    /// the step before.
    pub delayed_update: bool,
    /// True if gradients leave during the backward pass (`overlap_comm` of DeepSpeed). Otherwise it
    /// waits for each of their copies.
    pub overlap: bool,
    /// Parameters that are updated, and go back, together; 128 Mi when absent, as in DeepSpeed's
    /// CPU Adam.
    pub group: Count<1, 1_000_000_000_000>,
    /// Part of the parameters that the host updates; the GPU keeps the states of the others, and
    /// updates them meanwhile (Megatron Core's `--optimizer-offload-fraction`). All when absent.
    pub ratio: Option<Share>,
    /// Limit on the host-memory rate of one rank's update, reads and writes together; none when
    /// absent.
    pub rate: Option<Rate>,
    /// True if gradients and parameters are page-locked there (`pin_memory` of DeepSpeed).
    /// Otherwise one host thread copies them once more in each direction, and they cross its memory
    /// three times.
    pub pinned: bool,
}

impl Default for ZeroOffload {
    fn default() -> Self {
        Self {
            delayed_update: false,
            overlap: true,
            group: Count::literal(128 << 20),
            ratio: None,
            rate: None,
            pinned: true,
        }
    }
}

impl Technique for ZeroOffload {
    fn savings(_layers: u32) -> Vec<Saving> {
        const EFFECT: &str = "hosts hold the states of the optimizer, and update";
        vec![Saving::new(NAME, "{}", EFFECT)]
    }

    fn facts(&self, stages: u32) -> Facts<'_> {
        Facts {
            path: PATH,
            hosted: Some((
                HostedStates {
                    group: self.group.get(),
                    buffers: 1,
                    delayed: self.delayed_update,
                    beside: stages == 1,
                    waits: !self.overlap,
                    parameters: KeptParameters::Gpu,
                    parameter_buffers: 0,
                    states_on_drives: false,
                    all_gradients: true,
                    billionths: billionths(self.ratio),
                    pages: false,
                },
                "techniques.zero_offload.group",
            )),
            exchanged_pinned: Some(self.pinned),
            rates: HostRates {
                update: self.rate.map(|rate| rate.bytes_per_second() as f64),
                gradients: None,
            },
            ..Facts::default()
        }
    }

    fn check(&self, around: &Around<'_>, wrong: &mut dyn FnMut(Diagnostic)) {
        check_ratio("techniques.zero_offload.ratio", self.ratio, wrong);
        around.check_hosted(PATH, wrong, |refuse| {
            around.check_shared_states(refuse);
            if around.data.sharding == Sharding::Parameters {
                refuse("parameters stay whole on every GPU: let copies share gradients (ZeRO-2)");
            }
        });
    }
}
