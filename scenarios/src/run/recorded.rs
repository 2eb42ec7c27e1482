//! What only a run tells of the memory of a framework: when the device has returned what the host took for gathers and for gradients
//! that leave, and when storages that are away left and came back.

use sim_core::id::{KindId, StoreId};
use sim_core::observe::{Look, Observer};
use sim_core::outcome::Place;
use sim_core::program::Op;
use sim_core::time::Time;
use workloads::account::TaskKind;
use workloads::memory::{Absences, Execution, Passage, Recorded};
use workloads::names::kind;
use workloads::schedule::LaneKind;

use super::lanes::{Lane, lanes};
use super::one::Simulation;
use crate::plans;

/// Watches the memory of the first rank of each stage.
pub(super) struct Recorder<'a> {
    look: Look,
    /// By stage.
    lent: Vec<[Lent; 2]>,
    /// By simulated stream, the lanes that it stands for.
    lanes: Vec<Vec<Lane<'a>>>,
    micro_batches: u32,
    /// The step that is recorded.
    step: u32,
    /// By stage.
    moments: Vec<Moments>,
}

/// Tensors of a kind that a rank has lent.
struct Lent {
    /// `None`: a program without such tensors.
    kind: Option<KindId>,
    store: StoreId,
    held: u64,
    returned: u32,
    before: Vec<u32>,
}

/// When a rank executes operators, and when its copies out end and its copies back begin.
#[derive(Default)]
struct Moments {
    executions: Vec<Execution>,
    passages: Vec<(Time, Passage)>,
}

impl<'a> Recorder<'a> {
    /// Nothing yet; `lends` says whether memory is returned to the host, which takes curves of it.
    pub(super) fn new(simulation: &Simulation<'a>, lends: bool) -> Self {
        let &Simulation { scenario, built, .. } = simulation;
        let (lowered, folded) = (&built.lowered, simulation.folded());
        let kind = |of| {
            let mut kinds = (0u32..).map(KindId).zip(&lowered.program.kinds);
            kinds.find(|(_, name)| **name == of).map(|(kind, _)| kind)
        };
        let watched = [kind::GATHERED, kind::UNREDUCED].map(kind);
        let of_stage = |store: StoreId| {
            watched.map(|kind| Lent { kind, store, held: 0, returned: 0, before: Vec::new() })
        };
        let memories = lowered.stages.iter().map(|ids| folded.stores[ids.memory.index()]);
        let lent: Vec<[Lent; 2]> = memories.map(of_stage).collect();
        let all: Vec<Lane<'a>> = lanes(lowered).collect();
        let mut lanes = vec![Vec::new(); folded.streams.iter().map(|id| id.index() + 1).max().unwrap_or(0)];
        for (role, stream) in lowered.streams.iter().zip(&folded.streams) {
            let copies = matches!(role.kind, LaneKind::Offload | LaneKind::Reload);
            if role.replica == 0 && (copies || role.kind == LaneKind::Compute) {
                lanes[stream.index()].push(all[role.lane as usize]);
            }
        }
        Self {
            look: if lends { Look::Curves } else { Look::Spans },
            moments: lent.iter().map(|_| Moments::default()).collect(),
            lent,
            lanes,
            micro_batches: plans::micro_batches_per_flush(scenario).max(1),
            step: if scenario.training.flush { plans::steps(scenario).saturating_sub(1) } else { 0 },
        }
    }

    /// By stage, what has been seen.
    pub(super) fn recorded(self) -> Vec<Recorded> {
        let of_stage = |(lent, Moments { executions, passages }): ([Lent; 2], Moments)| {
            let [gathers, sums] = lent.map(|lent| lent.before);
            Recorded { gathers, sums, absences: Absences::new(executions, passages) }
        };
        self.lent.into_iter().zip(self.moments).map(of_stage).collect()
    }
}

impl Observer for Recorder<'_> {
    fn look(&self) -> Look {
        self.look
    }

    fn span(&mut self, place: Place, op: &Op, start: Time, _ready: Time, end: Time) {
        let number = place.args[0].unsigned_abs();
        if number / self.micro_batches != self.step {
            return;
        }
        let micro_batch = number % self.micro_batches;
        for lane in &self.lanes[place.stream.index()] {
            let Some(task) = lane.done_by(op) else { continue };
            let Moments { executions, passages } = &mut self.moments[lane.stage as usize];
            let passage = |storage, returns| Passage { storage, micro_batch, returns };
            match task.kind {
                TaskKind::Operator(op) => executions.push(Execution { op, micro_batch, begin: start, end }),
                TaskKind::Transfer { storage, returns: false, .. } => {
                    passages.push((end, passage(storage, false)));
                }
                TaskKind::Transfer { storage, returns: true, .. } => {
                    passages.push((start, passage(storage, true)));
                }
                _ => {}
            }
        }
    }

    fn store(&mut self, _now: Time, store: StoreId, kind: KindId, held: u64) {
        let watched = self.lent.as_flattened_mut().iter_mut();
        for lent in watched.filter(|lent| lent.kind == Some(kind) && lent.store == store) {
            if held > lent.held {
                lent.before.push(lent.returned);
            } else {
                lent.returned += 1;
            }
            lent.held = held;
        }
    }
}
