//! Communication by kind: how often and how much, and how long it is exposed.

use std::collections::BTreeMap;

use reports::summary::CommunicationUse;
use workloads::account::{Accounts, Communication, Task};
use workloads::lower::Lowered;

use super::lanes::lanes;
use super::tally::{Tally, Traffic};

/// What the ranks of a transformer communicate in one of `steps`, of which `measured` are timed.
pub(super) fn communication(
    lowered: &Lowered,
    accounts: &Accounts,
    tally: &Tally<'_>,
    steps: u32,
    measured: f64,
) -> Vec<CommunicationUse> {
    let mut exposed: BTreeMap<Communication, f64> = BTreeMap::new();
    for rank in 0..lowered.ranks.len() {
        for (kind, time) in tally.exposed(rank) {
            *exposed.entry(kind).or_default() += time.as_secs();
        }
    }
    let ranks = lowered.ranks.len() as f64;
    let used = |(kind, by_stage): (Communication, BTreeMap<u32, Traffic>)| {
        let mean = |all: u64| {
            let per_step = all as f64 / (f64::from(steps) * by_stage.len() as f64);
            per_step.round() as u64
        };
        CommunicationUse {
            kind: kind.name(),
            bytes: mean(by_stage.values().map(|traffic| traffic.bytes).sum()),
            exposed_s: exposed.get(&kind).copied().unwrap_or_default() / (ranks * measured),
            count: mean(by_stage.values().map(|traffic| traffic.count).sum()),
        }
    };
    traffic(lowered, accounts, tally).into_iter().map(used).collect()
}

/// By kind and stage, what each rank of the stage communicates in all steps: all that its lanes say, but of copies that may be left
/// out those that were made.
fn traffic(
    lowered: &Lowered,
    accounts: &Accounts,
    tally: &Tally<'_>,
) -> BTreeMap<Communication, BTreeMap<u32, Traffic>> {
    let mut traffic: BTreeMap<Communication, BTreeMap<u32, Traffic>> = BTreeMap::new();
    for (number, lane) in lanes(lowered).enumerate().filter(|(_, lane)| lane.replica == 0) {
        let kind_of = |task: &Task| accounts.of(task.kind).communication;
        let tasks = |block| lane.ops(block).iter().filter_map(|op| lane.done_by(op));
        if let Some(made) = tally.made(number) {
            let first = lane.calls.iter().flat_map(|call| tasks(call.block)).find_map(kind_of);
            if let Some(kind) = first {
                traffic.entry(kind).or_default().entry(lane.stage).or_default().add(1, made);
            }
            continue;
        }
        for call in lane.calls {
            for task in tasks(call.block) {
                let Some(kind) = kind_of(task) else { continue };
                let of_stage = traffic.entry(kind).or_default().entry(lane.stage).or_default();
                of_stage.add(u64::from(call.repeat), Traffic { count: 1, bytes: task.bytes });
            }
        }
    }
    traffic
}
