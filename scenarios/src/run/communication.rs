//! Communication by kind: how often and how much, and how long it is exposed.

use std::collections::BTreeMap;

use reports::summary::CommunicationUse;
use workloads::account::{Accounts, Communication};
use workloads::lower::Lowered;

use super::lanes::{Lane, lanes};
use super::tally::{Tally, Traffic};

/// What the ranks of a transformer communicate in one of so many measured steps.
pub(super) fn communication(
    lowered: &Lowered,
    accounts: &Accounts,
    tally: &Tally<'_>,
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
            let per_step = all as f64 / (measured * by_stage.len() as f64);
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

/// By kind and stage, what each rank of the stage communicates in all measured steps.
fn traffic(
    lowered: &Lowered,
    accounts: &Accounts,
    tally: &Tally<'_>,
) -> BTreeMap<Communication, BTreeMap<u32, Traffic>> {
    let mut traffic: BTreeMap<Communication, BTreeMap<u32, Traffic>> = BTreeMap::new();
    for (number, lane) in lanes(lowered).enumerate().filter(|(_, lane)| lane.replica == 0) {
        for (kind, said) in of_lane(&lane, accounts) {
            let of_stage = traffic.entry(kind).or_default().entry(lane.stage).or_default();
            of_stage.add(1, tally.made(number, said));
        }
    }
    traffic
}

/// By kind, what a lane communicates in all steps if it leaves nothing out. Copies that may be left out are of one kind.
pub(super) fn of_lane(lane: &Lane<'_>, accounts: &Accounts) -> BTreeMap<Communication, Traffic> {
    let mut traffic: BTreeMap<Communication, Traffic> = BTreeMap::new();
    for call in lane.calls {
        for task in lane.ops(call.block).iter().filter_map(|op| lane.done_by(op)) {
            let Some(kind) = accounts.of(task.kind).communication else { continue };
            let once = Traffic { count: 1, bytes: task.bytes };
            traffic.entry(kind).or_default().add(u64::from(call.repeat), once);
        }
    }
    traffic
}
