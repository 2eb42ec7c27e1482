//! Recorded steps of a real program.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use workloads::lanes::QUEUE;
use workloads::trace::Traced;

use super::{Count, WhatIf};

/// Recorded steps of a real program, which are replayed: how long hosts, kernels and copies take is
/// recorded, when they begin is simulated. It needs no machine and no training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// File that PyTorch's profiler has exported, or graph of MLCommons Chakra (`.et`), plain or
    /// packed with gzip or zstd. Paths are relative to this file; `library:resnet50-v100` and
    /// `library:dlrm-a100` are always there.
    #[schemars(extend("examples" = ["library:resnet50-v100"]))]
    pub file: String,
    /// Changes of what was recorded.
    #[serde(default, skip_serializing_if = "WhatIf::is_empty")]
    pub what_if: WhatIf,
    /// Launches that a stream of a device may have waiting; a thread that launches more stalls.
    #[serde(default = "queue")]
    pub launch_queue: Count<1, 1_000_000>,
    /// The file as it was understood; the check of an experiment fills it in.
    #[serde(skip)]
    pub(crate) recorded: Option<Recorded>,
}

fn queue() -> Count<1, 1_000_000> {
    Count::new(QUEUE).expect("within the limits")
}

/// An understood trace, which scenarios of one experiment share.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    /// Its path, as it is opened.
    pub(crate) path: String,
    /// Its lanes.
    pub(crate) traced: Arc<Traced>,
}

/// A file is understood once.
impl PartialEq for Recorded {
    fn eq(&self, other: &Self) -> bool {
        self.path == other.path
    }
}

impl Recorded {
    /// Activities of a replay at most: an item of a thread has up to four times, one of a stream
    /// up to three.
    pub(crate) fn activities(&self) -> u64 {
        let lanes = &self.traced.lanes;
        let of_threads: usize = lanes.threads.iter().map(|thread| 4 * thread.items.len()).sum();
        let of_streams: usize = lanes.streams.iter().map(|stream| 4 * stream.items.len()).sum();
        (of_threads + of_streams) as u64
    }
}
