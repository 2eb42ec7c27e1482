//! Runs without a step time, in words.

use std::cmp::Reverse;

use indexmap::IndexMap;
use reports::quantity;
use reports::summary::{Failure, FailureKind, Remedy, RunSummary};
use sim_core::id::{KindId, StoreId};
use sim_core::outcome::{End, Limit, OutOfMemory, Run, Waiting};
use sim_core::program::Op;
use workloads::check::memory::{FullHost, Shortfall};
use workloads::lower::Lowered;
use workloads::names::kind;
use workloads::passes::host_buffers::ShortBuffers;
use workloads::plan::Built;

use super::words::Words;
use crate::experiment::Infeasible;
use crate::schema::Scenario;

/// Most waiting streams named.
const WAITING_MAX: usize = 8;

/// A run that is not possible at its point.
pub(super) fn impossible(found: Infeasible) -> RunSummary {
    let Infeasible { reason, unsupported, .. } = found;
    unbuilt(Failure { message: reason, unsupported, ..empty(FailureKind::Infeasible) })
}

/// A run whose sizes do not multiply, or whose techniques do not go together.
pub(super) fn infeasible(reason: String) -> RunSummary {
    unbuilt(Failure { message: reason, ..empty(FailureKind::Infeasible) })
}

/// A run that cannot hold a single micro-batch: nothing needs to be simulated.
pub(super) fn too_small(shortfalls: &[Shortfall]) -> RunSummary {
    let Some(worst) = shortfalls.iter().max_by_key(|s| s.needed - s.capacity) else {
        return RunSummary::default();
    };
    let message = format!(
        "stage {} needs {} for one micro-batch alone, and {}",
        worst.stage,
        quantity::bytes(worst.needed),
        match shortfalls.len() {
            1 => "no other stage is short".to_owned(),
            stages => format!("{stages} stages cannot hold theirs"),
        }
    );
    unbuilt(Failure {
        message,
        time_s: Some(0.0),
        stream: Some(Words::stage(worst.stage as usize)),
        operation: Some(format!("{} of micro-batch 0", worst.block)),
        store: Some(format!("memory of stage {}", worst.stage)),
        requested_kind: Some(worst.requested.to_owned()),
        requested_bytes: Some(worst.needed - worst.persistent),
        holders_bytes: held(&worst.holders),
        short_bytes: Some(worst.needed - worst.capacity),
        capacity_bytes: Some(worst.capacity),
        ..empty(FailureKind::OutOfMemory)
    })
}

/// Who holds any bytes.
fn held(holders: &[(&str, u64)]) -> IndexMap<String, u64> {
    let some = holders.iter().filter(|(_, bytes)| *bytes > 0);
    some.map(|&(kind, bytes)| (kind.to_owned(), bytes)).collect()
}

/// A run whose ranks have too little page-locked memory: nothing needs to be simulated.
pub(super) fn buffers_too_small(short: &[ShortBuffers]) -> RunSummary {
    let Some(worst) = short.iter().max_by_key(|stage| stage.needed - stage.capacity) else {
        return RunSummary::default();
    };
    let ShortBuffers { stage, ref moment, needed, capacity } = *worst;
    let message = format!(
        "each rank of stage {stage} is to have {} in page-locked memory of its host, but has {} of it",
        quantity::bytes(needed),
        quantity::bytes(capacity)
    );
    unbuilt(Failure {
        message,
        time_s: Some(0.0),
        stream: Some(Words::stage(stage as usize)),
        operation: Some(moment.clone()),
        store: Some(format!("page-locked memory beside stage {stage}")),
        requested_kind: Some(kind::OFFLOADED.to_owned()),
        requested_bytes: Some(needed),
        short_bytes: Some(needed - capacity),
        capacity_bytes: Some(capacity),
        remedies: vec![
            Remedy::untried("lock more: `memory: { pinned: { size: ... } }`"),
            Remedy::untried("let the rest go to other memory: `memory: { pinned: { when_full: pageable } }`"),
        ],
        ..empty(FailureKind::OutOfMemory)
    })
}

/// A run whose hosts cannot hold what their ranks keep there: nothing needs to be simulated.
pub(super) fn host_too_small(hosts: &[FullHost]) -> RunSummary {
    let Some(worst) = hosts.iter().max_by_key(|host| host.needed - host.capacity) else {
        return RunSummary::default();
    };
    let message = format!(
        "{} is to hold {} of {} ranks, but has {}",
        worst.memory,
        quantity::bytes(worst.needed),
        worst.ranks,
        quantity::bytes(worst.capacity)
    );
    unbuilt(Failure {
        message,
        time_s: Some(0.0),
        store: Some(worst.memory.clone()),
        holders_bytes: held(&worst.holders),
        short_bytes: Some(worst.needed - worst.capacity),
        capacity_bytes: Some(worst.capacity),
        ..empty(FailureKind::OutOfMemory)
    })
}

/// A run that the engine ended.
pub(super) fn describe(
    summary: RunSummary,
    scenario: &Scenario,
    built: &Built,
    words: &Words<'_>,
    run: &Run,
) -> RunSummary {
    let failure = match &run.end {
        End::OutOfMemory(oom) => out_of_memory(built, words, oom),
        End::Deadlock(waiting) => {
            if let Some(oom) = waiting.iter().find_map(|waiting| out_of_room(built, run, waiting)) {
                let failure = out_of_memory(built, words, &oom);
                return failed(summary, Failure { time_s: Some(run.time.as_secs()), ..failure });
            }
            let waits = |w: &Waiting| {
                let since = quantity::seconds(w.since.as_secs());
                format!(
                    "{} in {} since {since}: {}",
                    words.stream(w.place.stream),
                    words.operation(&w.place),
                    w.for_what
                )
            };
            Failure {
                message: format!("{} streams wait for each other for ever", waiting.len()),
                waiting: waiting.iter().take(WAITING_MAX).map(waits).collect(),
                ..empty(FailureKind::Deadlock)
            }
        }
        End::Limit(limit) => {
            let (what, remedy) = match limit {
                Limit::Events(events) => {
                    let more = scenario.run.limit.get().saturating_mul(10);
                    (format!("{events} events"), format!("raise the limit with `run: {{ limit: {more} }}`"))
                }
                Limit::Time(time) => (
                    format!("{} of simulated time", quantity::seconds(time.as_secs())),
                    "give shorter times: a step ends before that".to_owned(),
                ),
            };
            Failure {
                message: format!("stopped after {what}"),
                remedies: vec![Remedy::untried(remedy)],
                ..empty(FailureKind::Limit)
            }
        }
        End::Completed => return summary,
        End::Invalid { reason, .. } => {
            Failure { message: format!("an operation {reason}"), ..empty(FailureKind::Infeasible) }
        }
    };
    failed(summary, Failure { time_s: Some(run.time.as_secs()), ..failure })
}

/// The memory of a GPU that a stream of a deadlock waits for: what holds it is never given back, as whoever would waits as
/// well. More memory would end that.
fn out_of_room(built: &Built, run: &Run, Waiting { place, .. }: &Waiting) -> Option<OutOfMemory> {
    let Lowered { program, platform, ranks, .. } = &built.lowered;
    let Op::Acquire { store, bytes, .. } = program.blocks[place.block.index()].ops[place.op as usize] else {
        return None;
    };
    let binding = &program.bindings[program.streams[place.stream.index()].binding.index()];
    let store = StoreId(*binding.slots.get(usize::from(store))?);
    let size = usize::try_from(bytes.at(place.args)).ok()?;
    let requested = *program.costs[binding.costs?.index()].sizes.get(size)?;
    let capacity = platform.stores[store.index()].capacity;
    let held = (0_u32..).map(KindId).zip(run.stores[store.index()].held.iter().copied());
    let mut holders: Vec<(KindId, u64)> = held.filter(|&(_, bytes)| bytes > 0).collect();
    holders.sort_by_key(|&(_, bytes)| Reverse(bytes));
    let full = holders.iter().map(|(_, bytes)| bytes).sum::<u64>().saturating_add(requested) > capacity;
    let of_gpu = ranks.iter().any(|ids| ids.memory == store);
    (full && of_gpu).then_some(OutOfMemory { place: *place, store, requested, capacity, holders })
}

fn out_of_memory(built: &Built, words: &Words<'_>, oom: &OutOfMemory) -> Failure {
    let lowered = &built.lowered;
    let store = match lowered.ranks.iter().position(|ids| ids.memory == oom.store) {
        Some(rank) => format!("memory of {}", words.rank(rank)),
        None => lowered.platform.stores[oom.store.index()].name.clone(),
    };
    let held: u64 = oom.holders.iter().map(|(_, bytes)| bytes).sum();
    let block = &lowered.program.blocks[oom.place.block.index()];
    let kind = match block.ops[oom.place.op as usize] {
        Op::Acquire { kind, .. } => Some(lowered.program.kinds[kind.index()].clone()),
        _ => None,
    };
    Failure {
        message: format!("{store} runs out"),
        stream: Some(words.stream(oom.place.stream)),
        operation: Some(words.operation(&oom.place)),
        store: Some(store),
        requested_kind: kind,
        requested_bytes: Some(oom.requested),
        short_bytes: Some((held + oom.requested).saturating_sub(oom.capacity)),
        capacity_bytes: Some(oom.capacity),
        holders_bytes: oom
            .holders
            .iter()
            .map(|(kind, bytes)| (lowered.program.kinds[kind.index()].clone(), *bytes))
            .collect(),
        ..empty(FailureKind::OutOfMemory)
    }
}

/// A run with its failure.
pub(super) fn failed(run: RunSummary, failure: Failure) -> RunSummary {
    RunSummary { fits: false, failure: Some(failure), ..run }
}

/// A run of which nothing needs to be simulated.
fn unbuilt(failure: Failure) -> RunSummary {
    failed(RunSummary::default(), failure)
}

fn empty(kind: FailureKind) -> Failure {
    Failure { kind, ..Failure::default() }
}
