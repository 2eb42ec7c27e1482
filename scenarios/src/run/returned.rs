//! When the device returned memory that the host had taken for gathers and for gradients that leave: a run tells, and the allocator
//! must know.

use sim_core::id::{KindId, StoreId};
use sim_core::observe::Observer;
use sim_core::time::Time;
use workloads::memory::Returned;
use workloads::names::kind;

use super::one::Simulation;

/// Lent tensors of the first rank of each stage that were back whenever the host took memory for another.
///
/// # Errors
/// A mistake in foretrain, in words.
pub(super) fn returned(simulation: &Simulation<'_>) -> Result<Vec<Returned>, String> {
    let lowered = &simulation.built.lowered;
    let kind = |of| {
        let mut kinds = (0u32..).map(KindId).zip(&lowered.program.kinds);
        kinds.find(|(_, name)| **name == of).map(|(kind, _)| kind)
    };
    let watched = [kind::GATHERED, kind::UNREDUCED].map(kind);
    let of_stage =
        |store: StoreId| watched.map(|kind| Lent { kind, store, held: 0, returned: 0, before: Vec::new() });
    let memories = lowered.stages.iter().map(|ids| simulation.folded().stores[ids.memory.index()]);
    let mut observer = Returns(memories.flat_map(of_stage).collect());
    simulation.observed(&mut observer)?;
    let told = |of_stage: &[Lent; 2]| {
        let [gathers, sums] = of_stage.each_ref().map(|lent| lent.before.clone());
        Returned { gathers, sums }
    };
    Ok(observer.0.as_chunks().0.iter().map(told).collect())
}

/// Watches the memory of a rank of each stage.
struct Returns(Vec<Lent>);

/// Tensors of a kind that a rank has lent.
struct Lent {
    /// `None`: a program without such tensors.
    kind: Option<KindId>,
    store: StoreId,
    held: u64,
    returned: u32,
    before: Vec<u32>,
}

impl Observer for Returns {
    fn store(&mut self, _now: Time, store: StoreId, kind: KindId, held: u64) {
        let watched = self.0.iter_mut().filter(|lent| lent.kind == Some(kind) && lent.store == store);
        for lent in watched {
            if held > lent.held {
                lent.before.push(lent.returned);
            } else {
                lent.returned += 1;
            }
            lent.held = held;
        }
    }
}
