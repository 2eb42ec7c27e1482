//! Programs that ask for what does not exist: told before they run where that can be seen, else the run ends as invalid.

use sim_core::fixed::Rate;
use sim_core::id::{
    BindingId, BlockId, CauseId, CellId, CostTableId, CounterId, KindId, QueueId, RoleId, RouteId, StoreId,
};
use sim_core::outcome::{End, Place};
use sim_core::platform::{Demand, Platform};
use sim_core::program::{
    Activity, Affine, Body, Candidate, CapRow, CellRef, Op, Program, ReclaimTable, Rule, Shortage,
    StartState, Units,
};
use sim_core::validate::ProgramError;
use sim_core::{Options, simulate};

use crate::support::*;

fn cell(index: i32) -> CellRef {
    CellRef { slot: 3, index: Affine::constant(index) }
}

/// A program with one of everything, which `ops` make invalid while it runs.
fn invalid(ops: Vec<Op>) -> (Place, &'static str) {
    let (platform, mut p, binding) = one_of_each();
    let stream = stream(&mut p, "stream", binding, ops);
    let run = simulated(&platform, &p);
    let End::Invalid { place, reason } = run.end else { panic!("an invalid program, not {:?}", run.end) };
    assert_eq!(place.stream, stream);
    (place, reason)
}

/// Slots: 0 counter, 1 pool of 4, 2 store of 10, 3 first of 2 cells, 4 queue, 5 group, 6 route.
fn one_of_each() -> (Platform, Program, BindingId) {
    let (mut platform, mut p) = (Platform::default(), program());
    let link = platform.fluid("link", 1e12, BUSY);
    let slots = [
        p.counter().0,
        platform.pool("pool", 4).0,
        platform.store("store", 10).0,
        p.cells(2).0,
        p.queue("queue").0,
        p.group(1, None).0,
        platform.route([Demand::on(link)]).0,
    ];
    p.kind("bytes");
    let costs = p.cost_table(vec![lasting(1), Activity::moving(1, 6, BUSY)], vec![5]);
    let binding = p.binding(slots, Some(costs));
    (platform, p, binding)
}

#[test]
fn what_only_shows_during_a_run_ends_it_as_invalid() {
    let mut p = program();
    let take = |p: &mut Program, size| acquire(p, 2, size, Shortage::Fail);
    let (take_five, take_unknown) = (take(&mut p, 0), take(&mut p, 1));
    let free_five = release(&mut p, 2, 0);
    let no_activity = "refers to an activity that its binding does not have";
    let no_cell = "refers to a cell that does not exist";
    let cases = [
        (vec![run(0), run(2)], no_activity),
        (vec![run(0), run(-1)], no_activity),
        (vec![run(0), Op::Add { counter: 0, amount: 1, after: Some(Affine::constant(9)) }], no_activity),
        (vec![run(0), Op::Join { group: 5, activity: Affine::constant(9), cause: BUSY }], no_activity),
        (vec![run(0), take_unknown], "refers to a size that its binding does not have"),
        (vec![take_five, free_five, free_five], "gives back more bytes of a kind than the store holds"),
        (vec![run(0), hold(1, 5, 0)], "holds more units than the pool has"),
        (vec![hold(1, 3, 0), Op::Drop { pool: 1, units: 4 }], "drops more units than are held"),
        (vec![hold(1, 3, 0), Op::Drop { pool: 1, units: u32::MAX }], "drops more units than are held"),
        (vec![run(0), Op::Set { cell: cell(2), state: 1 }], no_cell),
        (vec![run(0), Op::Set { cell: cell(-1), state: 1 }], no_cell),
        (vec![run(0), Op::Await { cell: cell(i32::MAX), state: 1, cause: BUSY }], no_cell),
        (vec![run(0), Op::Cancel { ticket: cell(i32::MIN) }], no_cell),
    ];
    for (ops, expected) in cases {
        let last = ops.len() as u32 - 1;
        let (place, reason) = invalid(ops.clone());
        assert_eq!((place.op, reason), (last, expected), "{ops:?}");
    }
}

/// Units of a running kernel are its own.
#[test]
fn nobody_drops_the_units_of_a_kernel() {
    let (platform, mut p, binding) = one_of_each();
    let table = p.cap_table([CapRow { units: 1, cap: Rate::per_second(1e12), waves: 1 }]);
    let units = Some(Units { pool: 1, want: 4, priority: 1, table });
    p.costs[0].activities[1] = Activity { units, ..Activity::moving(5_000_000_000_000, 6, BUSY) };
    stream(&mut p, "kernel", binding, vec![run(1)]);
    let thief = stream(&mut p, "thief", binding, vec![run(0), Op::Drop { pool: 1, units: 2 }]);
    let run = simulated(&platform, &p);
    assert!(matches!(run.end, End::Invalid { place, .. } if place.stream == thief), "{:?}", run.end);
}

/// The problems of a valid program after a change.
fn problems(change: impl FnOnce(&mut Platform, &mut Program, &mut StartState)) -> Vec<String> {
    let (mut platform, mut p, binding) = one_of_each();
    let take = acquire(&mut p, 2, 0, Shortage::Fail);
    let free = release(&mut p, 2, 0);
    let targets = p.branch([4]);
    let ops = vec![run(0), take, free, Op::Branch { cell: cell(0), targets }, wait(0, 0)];
    stream(&mut p, "stream", binding, ops);
    let evict = p.block("evict", [Op::Set { cell: cell(0), state: 3 }]);
    let candidate = Candidate {
        cell: CellId(0),
        resident: 1,
        evicting: 2,
        bytes: 5,
        block: evict,
        args: [0; 2],
        binding,
        uses: Vec::new(),
    };
    p.reclaim.push(ReclaimTable {
        store: StoreId(0),
        rule: Rule::Largest,
        queue: QueueId(0),
        clock: None,
        candidates: vec![candidate],
    });
    let mut start = StartState::default();
    change(&mut platform, &mut p, &mut start);
    match simulate(&platform, &p, &start, &Options::default()) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.iter().map(ProgramError::to_string).collect(),
    }
}

/// A change to a valid program that makes it invalid.
type Change = fn(&mut Platform, &mut Program, &mut StartState);

#[test]
fn what_is_wrong_with_a_program_is_told_before_it_runs() {
    assert_eq!(problems(|_, _, _| ()), [""; 0]);
    let changes: [(Change, &str); 26] = [
        (
            |_, p, _| p.streams[0].binding = BindingId(1),
            "stream `stream` refers to binding 1, but there are only 1",
        ),
        (
            |_, p, _| p.streams[0].body = Body::Role(RoleId(7)),
            "stream `stream` refers to role 7, but there are only 1",
        ),
        (
            |_, p, _| p.streams[0].body = Body::Serve(QueueId(1)),
            "stream `stream` refers to queue 1, but there are only 1",
        ),
        (|_, p, _| p.roles[0].calls[0].block = BlockId(2), "a call refers to block 2, but there are only 2"),
        (
            |_, p, _| p.blocks[0].ops[4] = wait(7, 0),
            "operation 4 of block `stream` uses slot 7, but binding 0 has 7 slots",
        ),
        (
            |_, p, _| p.bindings[0].slots[0] = 1,
            "slot 0 of binding 0 in block `stream` refers to counter 1, but there are only 1",
        ),
        (
            |_, p, _| p.bindings[0].slots[2] = 9,
            "slot 2 of binding 0 in block `stream` refers to store 9, but there are only 1",
        ),
        (
            |_, p, _| p.bindings[0].slots[6] = 1,
            "slot 6 of binding 0 in its activities refers to route 1, but there are only 1",
        ),
        (
            |_, p, _| p.bindings[0].costs = Some(CostTableId(3)),
            "binding 0 refers to cost table 3, but there are only 1",
        ),
        (
            |_, p, _| p.branches[0] = vec![3],
            "operation 3 of block `stream` branches to 3; branches go forward, at most to the block's end",
        ),
        (
            |_, p, _| p.branches[0] = vec![6],
            "operation 3 of block `stream` branches to 6; branches go forward, at most to the block's end",
        ),
        (
            |_, p, _| p.branches[0].clear(),
            "operation 3 of block `stream` branches to 0; branches go forward, at most to the block's end",
        ),
        (|_, p, _| p.branches.clear(), "block `stream` refers to branch table 0, but there are only 0"),
        (|_, p, _| p.groups[0].members = 0, "the members of group 0 must be at least 1"),
        (|_, p, _| p.groups[0].route = Some(RouteId(1)), "group 0 refers to route 1, but there are only 1"),
        (
            |_, p, _| {
                p.blocks[0].ops[2] = Op::Release { store: 2, bytes: Affine::constant(0), kind: KindId(1) }
            },
            "operation 2 of block `stream` refers to kind 1, but there are only 1",
        ),
        (
            |_, p, _| {
                p.blocks[0].ops[4] = Op::Wait { counter: 0, at_least: Affine::constant(0), cause: CauseId(1) }
            },
            "operation 4 of block `stream` refers to cause 1, but there are only 1",
        ),
        (
            |_, p, _| p.costs[0].activities[0].cause = CauseId(16),
            "an activity of cost table 0 refers to cause 16, but there are only 1",
        ),
        (
            |platform, _, _| platform.fluids[0].cause = CauseId(1),
            "fluid `link` refers to cause 1, but there are only 1",
        ),
        (
            |_, p, _| p.reclaim[0].clock = Some(CounterId(1)),
            "a reclaim table refers to counter 1, but there are only 1",
        ),
        (
            |_, p, _| p.reclaim[0].candidates[0].binding = BindingId(1),
            "a reclaim table refers to binding 1, but there are only 1",
        ),
        (
            |_, p, _| p.reclaim[0].candidates[0].cell = CellId(2),
            "a reclaim table refers to cell 2, but there are only 2",
        ),
        (
            |_, p, _| p.reclaim[0].candidates[0].evicting = 1,
            "the state in which a candidate is evicted must be another than the one in which it is resident",
        ),
        (
            |_, _, start| start.stores.push((StoreId(0), KindId(0), 11)),
            "the bytes held in store `store` from the start must be at most its capacity",
        ),
        (
            |_, _, start| start.stores.push((StoreId(0), KindId(1), 1)),
            "the start state refers to kind 1, but there are only 1",
        ),
        (
            |_, _, start| start.cells.push((CellId(2), 1)),
            "the start state refers to cell 2, but there are only 2",
        ),
    ];
    for (change, expected) in changes {
        assert_eq!(problems(change), [expected]);
    }
}
