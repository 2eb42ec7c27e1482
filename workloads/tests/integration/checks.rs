//! Each check finds the mistake planted for it, and says where.

use hw_models::settings::{Bytes, Count};
use workloads::check::{Fault, Problem, schedule as check};
use workloads::graph::OpGraph;
use workloads::model::profiled;
use workloads::order::{Order, PipelineSchedule};
use workloads::passes::bpipe::{self, Bpipe, EvictionPolicy};
use workloads::passes::offload::{self, ActivationOffload, Keep, Leaving, Store};
use workloads::passes::realise;
use workloads::plan::PipelinePlan;
use workloads::schedule::{Item, LaneKind, Schedule, StageMemory, Why};
use workloads::transfer::{Dispositions, Medium};

use crate::plans::{chain, order, stage, uniform};

/// 1F1B on four stages, plain.
fn plain() -> (PipelinePlan, Order, OpGraph, Schedule) {
    let plan = uniform(stage(1, 1, 1, 1), 4, 8, PipelineSchedule::OneFOneB);
    let graph = profiled::graph(&plan.model.cut(chain(&plan), false), chain(&plan), false);
    let order = order(&plan);
    let memory = vec![
        StageMemory {
            fragments: 0,
            capacity: u64::MAX,
            persistent: Vec::new(),
            hosted: Vec::new(),
            exchanged: Vec::new(),
            locked: None,
            on_drives: Vec::new(),
            rows: 0,
            resident_bound: None,
            waits: false
        };
        4
    ];
    let schedule = realise::visits::realise(&order, &graph, memory);
    (plan, order, graph, schedule)
}

/// With BPipe: stage 0 lends to stage 3.
fn balanced() -> (Schedule, OpGraph) {
    let (_, order, graph, mut schedule) = plain();
    let mut table = Dispositions::default();
    let options = Bpipe { policy: EvictionPolicy::EvictNewest, ..Bpipe::default() };
    bpipe::decide(&options, &order, &graph, &mut table).unwrap();
    realise::transfers::realise(&mut schedule, &graph, &table, false);
    (schedule, graph)
}

/// With activations that depart, and stay if they are recalled in time.
fn departing() -> (Schedule, OpGraph) {
    let (_, order, graph, mut schedule) = plain();
    let mut table = Dispositions::default();
    let store = Store::Produced;
    let options = ActivationOffload {
        smallest: Some(Bytes::new_bytes(0)),
        keep: Keep::Bytes(Bytes::new_bytes(0)),
        prefetch: Some(Count::literal(0)),
        store,
        ..ActivationOffload::default()
    };
    offload::decide(
        &options,
        (&graph, Medium::PAGE_LOCKED),
        order.shape.chain,
        |_, _| Leaving::AllBut(0),
        &mut table,
    )
    .unwrap();
    realise::transfers::realise(&mut schedule, &graph, &table, false);
    (schedule, graph)
}

/// What is found after `mistake` was made.
fn found(mistake: impl FnOnce(&mut Schedule)) -> Vec<Problem> {
    found_in(balanced(), mistake)
}

fn found_in((mut schedule, graph): (Schedule, OpGraph), mistake: impl FnOnce(&mut Schedule)) -> Vec<Problem> {
    assert_eq!(check("techniques", &schedule, &graph), Ok(()));
    mistake(&mut schedule);
    check("mistake", &schedule, &graph).unwrap_err()
}

/// The items of all blocks of a lane of stage `stage`.
fn edit(schedule: &mut Schedule, stage: u32, kind: LaneKind, mut edit: impl FnMut(&mut Vec<Item>)) {
    let lane = schedule.lanes.iter_mut().find(|lane| lane.stage == stage && lane.kind == kind).unwrap();
    lane.blocks.iter_mut().for_each(|block| edit(&mut block.items));
}

fn without(of: fn(&Item) -> bool) -> impl FnMut(&mut Vec<Item>) {
    move |items| items.retain(|item| !of(item))
}

#[track_caller]
fn assert_finds(found: &[Problem], fault: fn(&Fault) -> bool) {
    assert!(found.iter().any(|problem| fault(&problem.fault)), "{found:#?}");
}

#[test]
fn a_read_of_what_is_not_resident() {
    let found = found(|schedule| {
        edit(schedule, 2, LaneKind::Compute, without(|item| matches!(item, Item::Allocate(..))));
    });
    let first = &found[0];
    assert_eq!(first.fault, Fault::NotAllocated("activation of stage 2".to_owned()));
    let read = found.iter().find(|problem| matches!(problem.fault, Fault::NotResident(_)));
    let read = read.expect("its backward pass reads it");
    assert_eq!((read.pass, read.micro_batch, read.times), ("mistake", 0, 8));
    assert_eq!(read.fault, Fault::NotResident("activation of stage 2".to_owned()));
    let words = read.to_string();
    assert!(words.contains("stage[2].compute: backward, micro-batch 0"), "{words}");
}

#[test]
fn a_use_that_is_not_ordered_after_a_copy() {
    // A backward pass that does not wait for the load.
    let waits_for_copy = |item: &Item| matches!(item, Item::Await { why: Why::Transfer, .. });
    let found = self::found(|schedule| edit(schedule, 0, LaneKind::Compute, without(waits_for_copy)));
    assert_finds(&found, |fault| matches!(fault, Fault::Unordered { .. }));

    // A load that does not wait for its eviction.
    let found = self::found(|schedule| {
        edit(schedule, 0, LaneKind::Load, without(waits_for_copy));
    });
    assert_finds(&found, |fault| {
        matches!(fault, Fault::Unordered { storage, with }
            if storage == "activation of stage 0" && with == "stage[0].evict")
    });
}

/// A storage that departs is copied when it is filled, leaves when it is idle, is awaited, and given back in the end.
#[test]
fn a_departure_that_is_not_what_it_should_be() {
    let without_on_compute = |of: fn(&Item) -> bool| {
        found_in(departing(), |schedule| edit(schedule, 1, LaneKind::Compute, without(of)))
    };
    let found = without_on_compute(|item| matches!(item, Item::Idle(_)));
    assert_finds(&found, |fault| matches!(fault, Fault::WaitsForever { .. }));
    let found = without_on_compute(|item| matches!(item, Item::Dismiss(_)));
    assert_finds(&found, |fault| matches!(fault, Fault::NeverFreed(_)));
    let found = without_on_compute(|item| matches!(item, Item::Await { why: Why::Transfer, .. }));
    assert_finds(&found, |fault| matches!(fault, Fault::Unordered { .. }));

    let found = found_in(departing(), |schedule| {
        edit(schedule, 1, LaneKind::Offload, without(|item| matches!(item, Item::Await { .. })));
    });
    assert_finds(&found, |fault| matches!(fault, Fault::Unordered { .. } | Fault::NotResident(_)));
}

#[test]
fn an_allocation_that_is_never_freed() {
    let found = found(|schedule| {
        edit(schedule, 1, LaneKind::Compute, without(|item| matches!(item, Item::Free(..))));
    });
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].fault, Fault::NeverFreed("activation of stage 1".to_owned()));
    assert_eq!(found[0].times, 8);
}

#[test]
fn a_storage_freed_or_allocated_twice() {
    let twice = |of: fn(&Item) -> bool| {
        found(move |schedule| {
            edit(schedule, 1, LaneKind::Compute, |items| {
                if let Some(at) = items.iter().position(of) {
                    items.insert(at, items[at]);
                }
            });
        })
    };
    assert_finds(&twice(|item| matches!(item, Item::Free(..))), |fault| {
        matches!(fault, Fault::NotAllocated(_))
    });
    let allocated = twice(|item| matches!(item, Item::Allocate(..)));
    assert_finds(&allocated, |fault| matches!(fault, Fault::AllocatedTwice(_)));
}

#[test]
fn a_message_that_is_never_sent() {
    let found = found(|schedule| {
        edit(schedule, 2, LaneKind::Compute, without(|item| matches!(item, Item::Send(..))));
    });
    assert_finds(&found, |fault| {
        matches!(fault, Fault::WaitsForever { signal, nth: 1, given: 0 }
            if signal == "activations of chunk 0, stage 2 to 3")
    });
}

#[test]
fn a_message_that_is_never_received() {
    let found = found(|schedule| {
        edit(schedule, 3, LaneKind::Compute, without(|item| matches!(item, Item::Await { .. })));
    });
    assert_eq!(found.len(), 1);
    assert!(matches!(found[0].fault, Fault::Unbalanced { given: 8, awaited: 0, .. }));
}

#[test]
fn lanes_that_wait_for_each_other() {
    let found = found(|schedule| {
        // Stage 2 wants the first gradient of stage 3 before it sends it anything.
        let lane = schedule.compute(2).unwrap();
        let backward =
            lane.calls.iter().position(|c| lane.blocks[c.block as usize].name == "backward").unwrap();
        lane.calls.swap(0, backward);
    });
    assert_finds(&found, |fault| matches!(fault, Fault::WaitsForever { .. }));
}

#[test]
fn work_that_vanishes_or_is_done_twice() {
    let vanished = found(|schedule| {
        edit(schedule, 3, LaneKind::Compute, without(|item| matches!(item, Item::Execute(_))));
    });
    assert_finds(&vanished, |fault| matches!(fault, Fault::Executions { times: 0, .. }));

    let doubled = found(|schedule| {
        let lane = schedule.compute(3).unwrap();
        let first = lane.calls[0];
        lane.calls.insert(0, first);
    });
    assert_finds(&doubled, |fault| matches!(fault, Fault::Executions { times: 2, .. }));
}

#[test]
fn a_signal_of_two_lanes() {
    let found = found(|schedule| {
        let mut signal = None;
        edit(schedule, 0, LaneKind::Evict, |items| signal = items.last().copied());
        edit(schedule, 0, LaneKind::Load, |items| items.extend(signal));
    });
    assert_finds(
        &found,
        |fault| matches!(fault, Fault::TwoGivers(signal) if signal == "activation of stage 0 0 is away"),
    );
}

#[test]
fn a_resident_that_never_leaves() {
    let found = found(|schedule| {
        edit(schedule, 0, LaneKind::Load, without(|item| matches!(item, Item::Leave(_))));
    });
    assert_finds(&found, |fault| matches!(fault, Fault::Residents { stage: 3, surplus: 1.. }));
}
