//! Paged states of the optimizer: they are in host memory, come to the GPU a group at a time for
//! their update, and leave again. Harmony (Li et al., VLDB 2022) moves them so, and paged
//! optimizers of bitsandbytes, whose pages leave where memory is short.
//!
//! Where the link is fast beside the host's memory this beats an update by the host; otherwise
//! [ZeRO-Offload](super::zero_offload) moves a third of the bytes.

use hw_models::settings::{Count, Share};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::diagnostic::Diagnostic;
use crate::host_update::{HostedStates, KeptParameters};

use super::technique::{billionths, check_ratio};
use super::{Around, Facts, Saving, Technique};

/// The name of this technique in scenarios and errors.
const NAME: &str = "paged_states";

const PATH: &str = "techniques.paged_states";

/// Keep the states of the optimizer in host memory. For the update on the GPU the states of a group
/// are fetched, the next group's meanwhile, and written back. Parameters and gradients stay on the
/// GPU.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PagedStates {
    /// Parameters that are updated together; 128 Mi when absent.
    pub group: Count<1, 1_000_000_000_000>,
    /// Groups whose states are on the GPU at a time: with one, fetch, update and write-back take
    /// turns.
    pub buffers: Count<1, 1_024>,
    /// Part of the parameters whose states are in host memory; those of the others stay on the GPU.
    /// All when absent.
    pub ratio: Option<Share>,
    /// True if their memory is page-locked. Otherwise one host thread copies the states once more
    /// in each direction, and they cross its memory three times.
    pub pinned: bool,
}

impl Default for PagedStates {
    fn default() -> Self {
        Self { group: Count::literal(128 << 20), buffers: Count::literal(2), ratio: None, pinned: true }
    }
}

impl Technique for PagedStates {
    fn savings(_layers: u32) -> Vec<Saving> {
        const EFFECT: &str = "states of the optimizer wait in host memory, and come for their update";
        vec![Saving::new(NAME, "{}", EFFECT)]
    }

    fn facts(&self, _stages: u32) -> Facts<'_> {
        Facts {
            path: PATH,
            hosted: Some((
                HostedStates {
                    group: self.group.get(),
                    buffers: self.buffers.get() as u32,
                    delayed: false,
                    beside: false,
                    waits: false,
                    parameters: KeptParameters::Gpu,
                    parameter_buffers: 0,
                    states_on_drives: false,
                    all_gradients: true,
                    billionths: billionths(self.ratio),
                    pages: true,
                },
                "techniques.paged_states.group",
            )),
            exchanged_pinned: Some(self.pinned),
            ..Facts::default()
        }
    }

    fn check(&self, around: &Around<'_>, wrong: &mut dyn FnMut(Diagnostic)) {
        check_ratio("techniques.paged_states.ratio", self.ratio, wrong);
        around.without_update(PATH).into_iter().for_each(wrong);
    }
}
