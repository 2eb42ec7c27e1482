//! Techniques that decide about the same tensors, or do not go with the schedule.

use crate::diagnostic::Diagnostic;
use crate::model::transformer::Sharding;

use super::{Pipelining, Techniques};

const OFFLOAD: &str = "techniques.activation_offload";
const SWAP: &str = "techniques.swap";

impl Pipelining {
    /// Reports techniques that do not go together, or not with the schedule of so many stages, whose copies shard
    /// `sharding`.
    pub fn check(&self, stages: u32, sharding: Sharding, wrong: &mut impl FnMut(Diagnostic)) {
        let mut all = |found: Option<Diagnostic>| found.into_iter().for_each(&mut *wrong);
        let Techniques { bpipe, activation_offload, swap: swapping, .. } = &self.techniques;
        all(bpipe.and_then(|bpipe| bpipe.check(&self.schedule)));
        let offload = activation_offload.as_ref().map(|_| OFFLOAD);
        let swap = swapping.map(|_| SWAP);
        for technique in offload.into_iter().chain(swap) {
            all(self.schedule.splits_backward().then(|| {
                let message = "activations are away until one backward pass, not for two";
                let remedy = format!("use `1f1b`, `gpipe` or `interleaved`, or remove `{technique}`");
                let note = "needs tensors for the gradients of inputs, and later for those of weights";
                Diagnostic::new(technique, message, remedy).with("parallelism.schedule", note)
            }));
            all(bpipe.map(|_| twice(technique).with("techniques.bpipe", "lends them to another stage")));
        }
        all(activation_offload.as_ref().and_then(|offload| offload.check(&self.schedule)));
        all(offload.and(swap).map(|swap| twice(swap).with(OFFLOAD, "moves all that is large enough")));
        if let Some(swap) = swapping {
            swap.check(stages, sharding, wrong);
        }
    }
}

fn twice(technique: &'static str) -> Diagnostic {
    Diagnostic::new(technique, "two techniques decide where activations are", "remove one of the two")
}
