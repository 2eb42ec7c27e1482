//! Realises the send mode: whether messages occupy anything while they travel.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::chain::Hop;
use crate::diagnostic::Diagnostic;
use crate::error::PlanError;
use crate::order::PipelineSchedule;
use crate::passes::{Context, Kind, Pass, Plan};
use crate::schedule::{Call, Item, Lane, LaneKind, Schedule, SignalId, Why};

/// How boundary tensors are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Send")]
pub enum SendMode {
    /// A message arrives the transfer time after its producer ends; the sender goes on at once.
    #[default]
    Latency,
    /// Messages of one boundary and direction go one after the other; the sender goes on at once.
    // The buffers that messages would hold are not counted: a profile does not say how large one is.
    Eager,
    /// As eager, but the sender goes on when its message has arrived, as in Megatron-LM through
    /// 2022.
    // Receives are posted early, but the sender waits for its own requests (`p2p_communication.py`: a wait
    // for every request, then for the device).
    Blocking,
    /// Sender and receiver meet, and both are busy for the transfer time: for `1f1b`, `gpipe` and
    /// `zb-h1`, others deadlock.
    // What is sent after a visit and what is received before the next are one batch, as in the 1F1B of
    // Megatron-LM.
    Rendezvous,
}

impl Pass for SendMode {
    fn name(&self) -> &'static str {
        "messages"
    }

    fn kind(&self) -> Kind {
        Kind::Realiser
    }

    fn follows(&self) -> &'static [&'static str] {
        &["visits", "transfers"]
    }

    fn apply(&self, plan: &mut Plan, _: &Context<'_>) -> Result<(), PlanError> {
        plan.realise(|schedule, _| realise(schedule, *self));
        Ok(())
    }
}

impl SendMode {
    /// Whether a sender waits until its message has arrived.
    pub const fn blocks(self) -> bool {
        matches!(self, Self::Blocking | Self::Rendezvous)
    }

    /// Reports a send mode with which a pipeline of so many stages deadlocks under `schedule`.
    ///
    /// A stage that posts only the receives of its next visit meets the sends of GPipe, 1F1B and ZB-H1, whose stages come to
    /// the two ends of a message in turn. Where stages run further ahead, two of them send to each other before either has
    /// come to its receive. Systems with such orders post receives further ahead (Megatron-LM batches those of both
    /// directions, ZB those of several visits), which is [`SendMode::Eager`] but for the buffers.
    pub(crate) fn check(self, schedule: &PipelineSchedule, stages: u32, wrong: &mut impl FnMut(Diagnostic)) {
        let in_turn =
            matches!(schedule, PipelineSchedule::Gpipe | PipelineSchedule::OneFOneB | PipelineSchedule::ZbH1);
        if self == Self::Rendezvous && stages > 1 && !in_turn {
            let problem = format!(
                "`rendezvous` deadlocks under `{}`, whose stages send before the others have come to their receives: \
                 write `send: eager`, which posts receives ahead, or `schedule: 1f1b`",
                schedule.name()
            );
            wrong(Diagnostic::sentence("send", problem));
        }
    }
}

/// Turns the plain messages of a schedule into those of `mode`.
pub fn realise(schedule: &mut Schedule, mode: SendMode) {
    if mode == SendMode::Latency {
        return;
    }
    let computes: Vec<usize> =
        (0..schedule.lanes.len()).filter(|&l| schedule.lanes[l].kind == LaneKind::Compute).collect();
    // Per message: it may leave; it has left; it may arrive.
    let mut ready: BTreeMap<SignalId, SignalId> = BTreeMap::new();
    let mut departed: BTreeMap<SignalId, SignalId> = BTreeMap::new();
    let mut wanted: BTreeMap<SignalId, SignalId> = BTreeMap::new();
    for &lane in &computes {
        for message in sent(&schedule.lanes[lane]).into_values().map(|(message, _)| message) {
            let what = schedule.signals[message.0 as usize].clone();
            ready.insert(message, schedule.signal(format!("{what}, ready to leave")));
            departed.insert(message, schedule.signal(format!("{what}, departed")));
            if mode == SendMode::Rendezvous {
                wanted.insert(message, schedule.signal(format!("{what}, ready to arrive")));
            }
        }
    }
    for lane in computes {
        let links = links(&schedule.lanes[lane], &ready, &departed, &wanted);
        schedule.lanes.extend(links);
        let lane = &mut schedule.lanes[lane];
        await_departures(lane, &departed);
        if mode == SendMode::Rendezvous {
            announce(lane, &wanted);
        }
        hand_over(lane, &ready, &departed, mode != SendMode::Eager);
    }
}

/// What each block of a lane sends.
fn sent(lane: &Lane) -> BTreeMap<u32, (SignalId, Hop)> {
    let sends = |items: &[Item]| {
        items.iter().find_map(|item| match *item {
            Item::Send(message, hop) => Some((message, hop)),
            _ => None,
        })
    };
    (0u32..).zip(&lane.blocks).filter_map(|(b, block)| Some((b, sends(&block.items)?))).collect()
}

/// The lanes that carry what `lane` sends, one per destination, in the order of its calls.
fn links(
    lane: &Lane,
    ready: &BTreeMap<SignalId, SignalId>,
    departed: &BTreeMap<SignalId, SignalId>,
    wanted: &BTreeMap<SignalId, SignalId>,
) -> Vec<Lane> {
    let sent = sent(lane);
    let mut links: BTreeMap<u32, (Lane, BTreeMap<SignalId, u32>)> = BTreeMap::new();
    for call in &lane.calls {
        let Some(&(message, hop)) = sent.get(&call.block) else { continue };
        let (link, blocks) = links
            .entry(hop.to)
            .or_insert_with(|| (Lane::new(lane.stage, LaneKind::Link { to: hop.to }), BTreeMap::new()));
        let block = *blocks.entry(message).or_insert_with(|| {
            let mut items = vec![Item::wait(ready[&message], Why::Bubble)];
            items.extend(wanted.get(&message).map(|&signal| Item::wait(signal, Why::Skew)));
            items.extend([Item::Signal(departed[&message]), Item::Carry(message, hop)]);
            link.block("send", items)
        });
        link.calls.push(Call { block, micro_batch: call.micro_batch, number: 0 });
    }
    links.into_values().map(|(link, _)| link).collect()
}

/// Splits the wait for a message: until it departs nothing is there to be sent, after that it is on its way.
fn await_departures(lane: &mut Lane, departed: &BTreeMap<SignalId, SignalId>) {
    for block in &mut lane.blocks {
        let receive = block.items.iter().position(|item| {
            matches!(item, Item::Await { signal, why: Why::Bubble, .. } if departed.contains_key(signal))
        });
        let Some(at) = receive else { continue };
        if let Item::Await { signal, why, .. } = &mut block.items[at] {
            *why = Why::Communication;
            let departed = departed[signal];
            block.items.insert(at, Item::wait(departed, Why::Bubble));
        }
    }
}

/// Replaces sends by handing the message to its link; a sender that `waits` goes on when it has arrived.
fn hand_over(
    lane: &mut Lane,
    ready: &BTreeMap<SignalId, SignalId>,
    departed: &BTreeMap<SignalId, SignalId>,
    waits: bool,
) {
    for block in &mut lane.blocks {
        let mut sent = None;
        for item in &mut block.items {
            if let Item::Send(message, _) = *item {
                *item = Item::Signal(ready[&message]);
                sent = waits.then_some(message);
            }
        }
        let arrival =
            |message| [Item::wait(departed[&message], Why::Skew), Item::wait(message, Why::Communication)];
        block.items.extend(sent.map(arrival).into_iter().flatten());
    }
}

/// Makes every visit announce, at its end, what the next visit receives.
fn announce(lane: &mut Lane, wanted: &BTreeMap<SignalId, SignalId>) {
    let receives = |items: &[Item]| {
        items.iter().find_map(|item| match *item {
            Item::Await { signal, why: Why::Communication, .. } => wanted.get(&signal).copied(),
            _ => None,
        })
    };
    let receives: Vec<_> = lane.blocks.iter().map(|block| receives(&block.items)).collect();
    let of = |call: &Call| receives[call.block as usize];
    let first = lane.calls.first().and_then(of);
    let next: Vec<_> = lane.calls.iter().skip(1).map(of).collect();
    let insertions = lane.calls.iter().enumerate().map(|(call, of_block)| {
        let own = first.filter(|_| call == 0).map(|own| (0, vec![Item::Signal(own)]));
        let end = lane.blocks[of_block.block as usize].items.len();
        let next = next.get(call).copied().flatten().map(|next| (end, vec![Item::Signal(next)]));
        own.into_iter().chain(next).collect()
    });
    lane.insert(insertions.collect());
}
