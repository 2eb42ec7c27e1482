//! The plain step: every stage's visits on its compute lane, storages allocated where they are written and freed after
//! their last use, messages between neighbours.

use std::collections::{BTreeMap, BTreeSet};

use crate::chain::{Chain, Hop};
use crate::error::PlanError;
use crate::graph::{Op, OpGraph, OpId, Phase, StorageId};
use crate::order::{Order, Visit};
use crate::passes::{Context, Kind, Pass, Plan, Step};
use crate::schedule::{Call, Item, Lane, LaneKind, Schedule, SignalId, StageMemory, Why};
use crate::transfer::Tier;

use super::{collectives, exchanges, feed, host_update};

/// The plain step: visits, with what runs beside operators, is exchanged or updated by hosts.
#[derive(Clone, Copy, Debug)]
pub struct Visits;

impl Pass for Visits {
    fn name(&self) -> &'static str {
        "visits"
    }

    fn kind(&self) -> Kind {
        Kind::Realiser
    }

    fn apply(&self, plan: &mut Plan, _: &Context<'_>) -> Result<(), PlanError> {
        let Plan { graph, exchanges, updates, feed, training, memory, steps, .. } = plan;
        for Step { order, cohorts } in steps {
            for cohort in cohorts {
                let mut schedule = realise(order, graph, memory.clone());
                collectives::realise(&mut schedule, graph);
                let done = exchanges::realise(&mut schedule, graph, exchanges);
                host_update::realise(&mut schedule, updates, &done);
                feed::realise(&mut schedule, feed, *training);
                cohort.schedule = schedule;
            }
        }
        Ok(())
    }
}

/// The schedule of one step. A stage begins its first visit of a step with a mark, and sets another after its last.
pub fn realise(order: &Order, graph: &OpGraph, memory: Vec<StageMemory>) -> Schedule {
    let chain = order.shape.chain;
    let micro_batches = order.shape.micro_batches;
    let mut schedule = Schedule { micro_batches, stages: memory, ..Schedule::default() };
    let messages = Messages::between(chain, &mut schedule);
    let last_uses = graph.last_uses();
    for (stage, visits) in (0u32..).zip(&order.stages) {
        let mut lane = Lane::new(stage, LaneKind::Compute);
        let mut blocks = BTreeMap::new();
        for (n, visit) in visits.iter().enumerate() {
            let ops = graph.visit(stage, u32::from(visit.chunk), visit.phase);
            if ops.is_empty() {
                continue;
            }
            let block = *blocks.entry((visit.phase, visit.chunk, n == 0)).or_insert_with(|| {
                let position = chain.position(stage, u32::from(visit.chunk));
                let ends = ends(graph, stage, u32::from(visit.chunk)) == visit.phase;
                // What comes to a stage without gradients of inputs is for those of its weights.
                let phase = if ends && visit.phase == Phase::BackwardWeight {
                    Phase::BackwardInput
                } else {
                    visit.phase
                };
                let (receive, send) = messages.of(phase, position);
                let name = name(chain, *visit);
                let first = n == 0;
                lane.block(name, items(graph, ops, &last_uses, Around { receive, send, first, ends }))
            });
            lane.calls.push(Call { block, micro_batch: visit.micro_batch, number: 0 });
        }
        let updates = graph.visit(stage, 0, Phase::Update).iter().map(|&op| Item::Execute(op));
        let end = lane.block("end of step", updates.chain([Item::Mark]).collect());
        lane.calls.push(Call { block: end, micro_batch: micro_batches - 1, number: 0 });
        schedule.lanes.push(lane);
    }
    schedule
}

/// The signals and hops of the messages between positions, indexed by the lower position.
struct Messages {
    forward: Vec<Option<(SignalId, Hop)>>,
    backward: Vec<Option<(SignalId, Hop)>>,
}

impl Messages {
    fn between(chain: Chain, schedule: &mut Schedule) -> Self {
        let mut messages = Self { forward: Vec::new(), backward: Vec::new() };
        for position in 0..chain.positions() {
            let hop = chain.hop(position);
            let mut message = |what: &str, hop: Hop, chunk: u32| {
                let Hop { from, to } = hop;
                (schedule.signal(format!("{what} of chunk {chunk}, stage {from} to {to}")), hop)
            };
            messages.forward.push(hop.map(|hop| message("activations", hop, chain.chunk(position))));
            let back = hop.map(|Hop { from, to }| Hop { from: to, to: from });
            messages.backward.push(back.map(|hop| message("gradients", hop, chain.chunk(position + 1))));
        }
        messages
    }

    /// What a visit waits for, and what it sends.
    fn of(&self, phase: Phase, position: u32) -> (Option<SignalId>, Option<(SignalId, Hop)>) {
        let before = position.checked_sub(1).map(|p| p as usize);
        let signal = |message: Option<(SignalId, Hop)>| message.map(|(signal, _)| signal);
        match phase {
            Phase::Forward => (before.and_then(|p| signal(self.forward[p])), self.forward[position as usize]),
            Phase::Backward | Phase::BackwardInput => {
                (signal(self.backward[position as usize]), before.and_then(|p| self.backward[p]))
            }
            Phase::BackwardWeight | Phase::Recompute | Phase::Accumulate | Phase::Update => (None, None),
        }
    }
}

/// What is around the operators of a visit.
#[derive(Clone, Copy)]
struct Around {
    receive: Option<SignalId>,
    send: Option<(SignalId, Hop)>,
    /// Whether it begins a step.
    first: bool,
    /// Whether its micro-batch leaves the memory of the stage.
    ends: bool,
}

/// What a visit does: wait for its message, execute its operators, send. A storage is allocated right before the first
/// operator that writes it and freed after the last that reads it; a micro-batch is resident from its forward visit to the
/// one that [ends] it.
fn items(graph: &OpGraph, ops: &[OpId], last_uses: &[Vec<StorageId>], around: Around) -> Vec<Item> {
    let Around { receive, send, first, ends } = around;
    let Op { stage, phase, .. } = *graph.get(ops[0]);
    let home = Tier::hbm(stage);
    let mut items = Vec::new();
    items.extend(receive.map(|signal| Item::wait(signal, Why::Bubble)));
    if phase == Phase::Forward {
        items.push(Item::Enter(home));
    }
    let mut allocated = BTreeSet::new();
    for (n, &op) in ops.iter().enumerate() {
        let new = graph.get(op).writes.iter().filter(|&&storage| allocated.insert(storage));
        items.extend(new.map(|&storage| Item::Allocate(storage, home)));
        if first && n == 0 {
            items.push(Item::Mark);
        }
        items.push(Item::Execute(op));
        if n + 1 == ops.len() {
            items.extend(send.map(|(signal, hop)| Item::Send(signal, hop)));
        }
        items.extend(last_uses[op.0 as usize].iter().map(|&storage| Item::Free(storage, home)));
    }
    if ends {
        items.push(Item::Leave(home));
    }
    items
}

/// The visit with which a micro-batch is done on a stage: its input gradient, that of the weights where no input has one, or
/// its forward pass where no other follows.
fn ends(graph: &OpGraph, stage: u32, chunk: u32) -> Phase {
    let there = |phase: &Phase| !graph.visit(stage, chunk, *phase).is_empty();
    let phases = [Phase::Backward, Phase::BackwardInput, Phase::BackwardWeight];
    phases.into_iter().find(there).unwrap_or(Phase::Forward)
}

fn name(chain: Chain, visit: Visit) -> String {
    match chain.chunks {
        1 => visit.phase.name().to_owned(),
        _ => format!("{} of chunk {}", visit.phase.name(), visit.chunk),
    }
}
