//! When the device returned memory that the host had taken for gathers: a run tells, and the allocator must know.

use sim_core::id::{KindId, StoreId};
use sim_core::observe::Observer;
use sim_core::time::Time;
use workloads::names::kind;

use super::one::Simulation;

/// By stage, for every gather of its first rank in the order in which the host took memory, how many it had back.
///
/// # Errors
/// A mistake in foretrain, in words.
pub(super) fn returned(simulation: &Simulation<'_>) -> Result<Vec<Vec<u32>>, String> {
    let lowered = &simulation.built.lowered;
    let mut kinds = (0u32..).map(KindId).zip(&lowered.program.kinds);
    let Some((kind, _)) = kinds.find(|(_, name)| *name == kind::GATHERED) else { return Ok(Vec::new()) };
    let of_stage = |store: StoreId| Gathers { store, held: 0, returned: 0, before: Vec::new() };
    let memories = lowered.stages.iter().map(|ids| simulation.folded().stores[ids.memory.index()]);
    let mut observer = Returns { kind, stages: memories.map(of_stage).collect() };
    simulation.observed(&mut observer)?;
    Ok(observer.stages.into_iter().map(|gathers| gathers.before).collect())
}

/// Watches the memory of a rank of each stage.
struct Returns {
    kind: KindId,
    stages: Vec<Gathers>,
}

/// What a rank has gathered.
struct Gathers {
    store: StoreId,
    held: u64,
    returned: u32,
    before: Vec<u32>,
}

impl Observer for Returns {
    fn store(&mut self, _now: Time, store: StoreId, kind: KindId, held: u64) {
        let watched = self.stages.iter_mut().filter(|gathers| kind == self.kind && gathers.store == store);
        for gathers in watched {
            if held > gathers.held {
                gathers.before.push(gathers.returned);
            } else {
                gathers.returned += 1;
            }
            gathers.held = held;
        }
    }
}
