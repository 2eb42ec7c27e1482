//! Static checks of a program against its platform, so that the engine needs none in its loop.

use std::collections::BTreeSet;

use thiserror::Error;

use crate::fixed::Rate;
use crate::id::{BindingId, BlockId, CauseId};
use crate::platform::Platform;
use crate::program::{Activity, Binding, Block, Body, CAUSES_MAX, CostTable, Op, Program, Slot, StartState};
use crate::sharing;

/// A fault of a program, in a sentence.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct ProgramError(String);

/// Checks a program.
///
/// # Errors
/// Everything that is wrong with it, in order of streams, blocks and operations.
pub fn validate(platform: &Platform, program: &Program, start: &StartState) -> Result<(), Vec<ProgramError>> {
    let mut check = Check { platform, program, errors: Vec::new() };
    check.quantities();
    check.start(start);
    check.blocks();
    check.reachable();
    check.errors.dedup();
    if check.errors.is_empty() { Ok(()) } else { Err(check.errors) }
}

struct Check<'a> {
    platform: &'a Platform,
    program: &'a Program,
    errors: Vec<ProgramError>,
}

/// Needs of a block or a cost table, each once, that a binding must meet.
#[derive(Clone, Default)]
struct Needs {
    /// Slots, and the kind of object in each.
    slots: Vec<(Slot, Object)>,
    /// Set if nothing else can be wrong with it.
    only_slots: bool,
}

/// Kind of object in a slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Object {
    Counter,
    Store,
    Pool,
    Group,
    Queue,
    Cell,
    Stream,
    Route,
}

impl Needs {
    fn of(slots: impl Iterator<Item = (Slot, Object)>, only_slots: bool) -> Self {
        let mut slots: Vec<_> = slots.collect();
        slots.sort_unstable();
        slots.dedup();
        Self { slots, only_slots }
    }
}

impl Check<'_> {
    fn quantities(&mut self) {
        if let Err(wrong) = sharing::validate(self.platform) {
            self.errors.extend(wrong.into_iter().map(ProgramError));
        }
        self.require(self.program.causes.len() <= CAUSES_MAX, "at most 16", || {
            "the number of causes".to_owned()
        });
        for (index, group) in self.program.groups.iter().enumerate() {
            self.require(group.members > 0, "at least 1", || format!("the members of group {index}"));
            if let Some(route) = group.route {
                self.bound(route.index(), self.platform.routes.len(), "route", || format!("group {index}"));
            }
        }
        for fluid in &self.platform.fluids {
            self.cause(fluid.cause, || format!("fluid `{}`", fluid.name));
        }
        for (index, table) in self.program.costs.iter().enumerate() {
            for activity in &table.activities {
                self.cause(activity.cause, || format!("an activity of cost table {index}"));
            }
        }
    }

    fn start(&mut self, start: &StartState) {
        let place = || "the start state".to_owned();
        for &(counter, _) in &start.counters {
            self.bound(counter.index(), self.program.counters as usize, "counter", place);
        }
        for &(cell, _) in &start.cells {
            self.bound(cell.index(), self.program.cells as usize, "cell", place);
        }
        for &(store, kind, _) in &start.stores {
            self.bound(store.index(), self.platform.stores.len(), "store", place);
            self.bound(kind.index(), self.program.kinds.len(), "kind", place);
        }
        let mut held = vec![0; self.platform.stores.len()];
        for &(store, _, bytes) in &start.stores {
            if let Some(total) = held.get_mut(store.index()) {
                *total += u128::from(bytes);
            }
        }
        for (store, total) in self.platform.stores.iter().zip(held) {
            self.require(total <= u128::from(store.capacity), "at most its capacity", || {
                format!("the bytes held in store `{}` from the start", store.name)
            });
        }
    }

    /// What can be seen without a binding.
    fn blocks(&mut self) {
        for block in &self.program.blocks {
            for (index, op) in block.ops.iter().enumerate() {
                self.names(block, index, op);
                let Op::Branch { targets, .. } = *op else { continue };
                let Some(targets) = self.program.branches.get(targets.index()) else {
                    let count = self.program.branches.len();
                    self.bound(targets.index(), count, "branch table", || format!("block `{}`", block.name));
                    continue;
                };
                let bad = |t: &&u32| **t as usize <= index || **t as usize > block.ops.len();
                let target = if targets.is_empty() { Some(&0) } else { targets.iter().find(bad) };
                if let Some(&target) = target {
                    self.wrong(format!(
                        "operation {index} of block `{}` branches to {target}; branches go forward, at most to the \
                         block's end",
                        block.name
                    ));
                }
            }
        }
    }

    /// The kinds and causes of an operation.
    fn names(&mut self, block: &Block, index: usize, op: &Op) {
        let place = || format!("operation {index} of block `{}`", block.name);
        if let Op::Acquire { kind, .. } | Op::Release { kind, .. } = *op {
            self.bound(kind.index(), self.program.kinds.len(), "kind", place);
        }
        if let Op::Wait { cause, .. }
        | Op::Acquire { cause, .. }
        | Op::Hold { cause, .. }
        | Op::Join { cause, .. }
        | Op::Await { cause, .. } = *op
        {
            self.cause(cause, place);
        }
    }

    /// Every block with every binding it may execute with.
    fn reachable(&mut self) {
        let mut todo: Vec<(BlockId, BindingId)> = Vec::new();
        let called: Vec<Vec<BlockId>> = self
            .program
            .roles
            .iter()
            .map(|role| {
                let mut blocks: Vec<BlockId> = role.calls.iter().map(|call| call.block).collect();
                blocks.sort_unstable();
                blocks.dedup();
                blocks
            })
            .collect();
        for stream in &self.program.streams {
            let place = || format!("stream `{}`", stream.name);
            self.bound(stream.binding.index(), self.program.bindings.len(), "binding", place);
            match stream.body {
                Body::Serve(queue) => self.bound(queue.index(), self.program.queues.len(), "queue", place),
                Body::Role(role) => match called.get(role.index()) {
                    Some(blocks) => todo.extend(blocks.iter().map(|&block| (block, stream.binding))),
                    None => self.bound(role.index(), self.program.roles.len(), "role", place),
                },
            }
        }
        for table in &self.program.reclaim {
            let place = || "a reclaim table".to_owned();
            self.bound(table.store.index(), self.platform.stores.len(), "store", place);
            self.bound(table.queue.index(), self.program.queues.len(), "queue", place);
            if let Some(clock) = table.clock {
                self.bound(clock.index(), self.program.counters as usize, "counter", place);
            }
            for candidate in &table.candidates {
                self.bound(candidate.cell.index(), self.program.cells as usize, "cell", place);
                self.bound(candidate.binding.index(), self.program.bindings.len(), "binding", place);
                self.require(
                    candidate.evicting != candidate.resident,
                    "another than the one in which it is resident",
                    || "the state in which a candidate is evicted".to_owned(),
                );
                todo.push((candidate.block, candidate.binding));
            }
        }
        let blocks: Vec<Needs> = self.program.blocks.iter().map(needs_of_block).collect();
        let costs: Vec<Needs> = self.program.costs.iter().map(|table| self.needs_of_costs(table)).collect();
        let (mut seen, mut bound) = (BTreeSet::new(), vec![false; self.program.bindings.len()]);
        while let Some((block, binding)) = todo.pop() {
            let Some(Binding { slots, costs: table }) = self.program.bindings.get(binding.index()) else {
                continue;
            };
            if blocks.get(block.index()).is_none_or(|needs| !self.are_met(needs, slots))
                && seen.insert((block, binding))
            {
                self.block_with(block, binding, &mut todo);
            }
            let needs = table.and_then(|table| costs.get(table.index()));
            if !std::mem::replace(&mut bound[binding.index()], true)
                && needs.is_none_or(|needs| !self.are_met(needs, slots))
            {
                self.activities_of(binding);
            }
        }
    }

    /// Tells if the slots of a binding meet all needs, so that there is nothing to report.
    fn are_met(&self, needs: &Needs, slots: &[u32]) -> bool {
        let is_met = |&(slot, object): &(Slot, Object)| {
            slots.get(slot as usize).is_some_and(|&value| (value as usize) < self.count(object).1)
        };
        needs.only_slots && needs.slots.iter().all(is_met)
    }

    fn needs_of_costs(&self, table: &CostTable) -> Needs {
        let slots = |activity: &Activity| {
            let pool = activity.units.map(|units| (units.pool, Object::Pool));
            pool.into_iter().chain(activity.route.map(|route| (route, Object::Route)))
        };
        let slots = table.activities.iter().flat_map(slots);
        Needs::of(slots, table.activities.iter().all(|activity| self.fault(activity).is_none()))
    }

    fn block_with(&mut self, id: BlockId, binding: BindingId, todo: &mut Vec<(BlockId, BindingId)>) {
        let Some(block) = self.program.blocks.get(id.index()) else {
            let count = self.program.blocks.len();
            return self.bound(id.index(), count, "block", || "a call".to_owned());
        };
        for (index, op) in block.ops.iter().enumerate() {
            if let Op::Post { block, .. } = *op {
                todo.push((block, binding));
            }
            if let Op::Halt { stream, .. } = *op {
                self.halted(stream, binding, || format!("operation {index} of block `{}`", block.name));
            }
            for (slot, object) in slots_of(op) {
                let (what, count) = self.count(object);
                let slots = &self.program.bindings[binding.index()].slots;
                match slots.get(slot as usize) {
                    Some(&value) => self.bound(value as usize, count, what, || {
                        format!("slot {slot} of binding {} in block `{}`", binding.0, block.name)
                    }),
                    None => {
                        let (block, binding, count) = (&block.name, binding.0, slots.len());
                        self.wrong(format!(
                            "operation {index} of block `{block}` uses slot {slot}, but binding {binding} has {count} slots"
                        ));
                    }
                }
            }
        }
    }

    /// A halted stream resumes at a call of its role: one that serves a queue has none.
    fn halted(&mut self, slot: Slot, binding: BindingId, place: impl Fn() -> String) {
        let halted = self.program.bindings[binding.index()].slots.get(slot as usize);
        let stream = halted.and_then(|&stream| self.program.streams.get(stream as usize));
        let serves = stream.is_some_and(|stream| matches!(stream.body, Body::Serve(_)));
        self.require(!serves, "one with a role", || format!("the stream that {} halts", place()));
    }

    /// The name of a kind of object, and how many there are.
    fn count(&self, object: Object) -> (&'static str, usize) {
        let (platform, program) = (self.platform, self.program);
        match object {
            Object::Counter => ("counter", program.counters as usize),
            Object::Store => ("store", platform.stores.len()),
            Object::Pool => ("pool", platform.pools.len()),
            Object::Group => ("group", program.groups.len()),
            Object::Queue => ("queue", program.queues.len()),
            Object::Cell => ("cell", program.cells as usize),
            Object::Stream => ("stream", program.streams.len()),
            Object::Route => ("route", platform.routes.len()),
        }
    }

    /// Routes, pools and tables of a binding's activities.
    fn activities_of(&mut self, binding: BindingId) {
        let program = self.program;
        let bound = &program.bindings[binding.index()];
        let Some(costs) = bound.costs else { return };
        let Some(table) = program.costs.get(costs.index()) else {
            return self.bound(costs.index(), program.costs.len(), "cost table", || {
                format!("binding {}", binding.0)
            });
        };
        for activity in &table.activities {
            let units = activity.units.map(|units| (units.pool, Object::Pool));
            let route = activity.route.map(|route| (route, Object::Route));
            for (slot, object) in units.into_iter().chain(route) {
                let (what, count) = self.count(object);
                let value = bound.slots.get(slot as usize).map_or(usize::MAX, |&v| v as usize);
                self.bound(value, count, what, || {
                    format!("slot {slot} of binding {} in its activities", binding.0)
                });
            }
            if let Some((what, expected)) = self.fault(activity) {
                self.require(false, expected, || format!("{what} of an activity of binding {}", binding.0));
            }
        }
    }

    /// Fault of an activity under every binding, and the expected value.
    fn fault(&self, activity: &Activity) -> Option<(&'static str, &'static str)> {
        if let Some(units) = activity.units {
            let rows = self.program.caps.get(units.table.index()).map_or(0, |table| table.rows.len());
            let is_claim = rows > 0 && units.want > 0;
            return (!is_claim)
                .then_some(("the cap table", "a table with rows and a claim of at least one unit"));
        }
        let endless = activity.work > 0 && activity.cap == Rate::UNLIMITED && activity.route.is_none();
        endless.then_some(("the work", "limited by a cap, a route or units"))
    }

    fn cause(&mut self, cause: CauseId, place: impl Fn() -> String) {
        self.bound(cause.index(), self.program.causes.len(), "cause", place);
    }

    fn bound(&mut self, index: usize, count: usize, what: &'static str, place: impl Fn() -> String) {
        if index >= count {
            self.wrong(format!("{} refers to {what} {index}, but there are only {count}", place()));
        }
    }

    fn wrong(&mut self, fault: String) {
        self.errors.push(ProgramError(fault));
    }

    fn require(&mut self, holds: bool, expected: &'static str, what: impl Fn() -> String) {
        if !holds {
            self.wrong(format!("{} must be {expected}", what()));
        }
    }
}

/// Needs of a block. Posts and halts need more than slots.
fn needs_of_block(block: &Block) -> Needs {
    let only_slots = !block.ops.iter().any(|op| matches!(op, Op::Post { .. } | Op::Halt { .. }));
    Needs::of(block.ops.iter().flat_map(slots_of), only_slots)
}

/// The slots an operation uses, and the kind of object in each.
fn slots_of(op: &Op) -> impl Iterator<Item = (Slot, Object)> + use<> {
    let (first, second) = match *op {
        Op::Add { counter, .. } | Op::Wait { counter, .. } => (Some((counter, Object::Counter)), None),
        Op::Acquire { store, .. } | Op::Release { store, .. } => (Some((store, Object::Store)), None),
        Op::Hold { pool, .. } | Op::Drop { pool, .. } => (Some((pool, Object::Pool)), None),
        Op::Join { group, .. } => (Some((group, Object::Group)), None),
        Op::Post { queue, ticket, .. } => {
            (Some((queue, Object::Queue)), ticket.map(|ticket| (ticket.slot, Object::Cell)))
        }
        Op::Cancel { ticket: cell }
        | Op::Await { cell, .. }
        | Op::Set { cell, .. }
        | Op::Branch { cell, .. } => (Some((cell.slot, Object::Cell)), None),
        Op::Halt { stream, .. } => (Some((stream, Object::Stream)), None),
        Op::Run { .. } | Op::Mark => (None, None),
    };
    first.into_iter().chain(second)
}
