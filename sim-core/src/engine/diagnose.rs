//! Who waits for what when nothing can happen any more.

use super::{Engine, Status};
use crate::id::{PoolId, StoreId, StreamId};
use crate::observe::Watch;
use crate::outcome::Waiting;
use crate::program::{Body, Op};

/// How many possible releasers are named.
const NAMED_MAX: usize = 8;

impl<O: Watch> Engine<'_, O> {
    /// The streams that have not ended, and what each waits for.
    pub(super) fn waiting(&self) -> Vec<Waiting> {
        (0..self.state.streams.len() as u32)
            .filter(|&s| !matches!(self.state.streams[s as usize].status, Status::Done | Status::Idle))
            .map(|s| self.waiting_of(s))
            .collect()
    }

    fn waiting_of(&self, s: u32) -> Waiting {
        let (for_what, on) = match (self.state.streams[s as usize].status, *self.op_of(s)) {
            (Status::OnPool(pool), _) => {
                (self.for_units(pool), self.others(s, |o, op| self.drops(o, op, pool)))
            }
            (_, Op::Acquire { store, bytes, .. }) => {
                let id = StoreId::from(self.slot(s, store));
                let bytes = self.find_size(s, bytes).unwrap_or(0);
                (self.for_room(id, bytes), self.others(s, |o, op| self.releases(o, op, id)))
            }
            (_, Op::Wait { counter, at_least, .. }) => {
                let id = self.slot(s, counter);
                let text = format!(
                    "counter {id} to reach {} (it gets to {})",
                    at_least.at(self.state.streams[s as usize].args),
                    self.state.counters[id].outcome()
                );
                let adds = |o, op: &Op| matches!(*op, Op::Add { counter, .. } if self.slot_of(o, counter) == Some(id));
                (text, self.others(s, adds))
            }
            (_, Op::Join { group, .. }) => {
                let id = self.slot(s, group);
                let here = &self.state.groups[id].arrived;
                let text = format!(
                    "group {id}: {} of {} members have arrived",
                    here.len(),
                    self.inputs.program.groups[id].members
                );
                let joins = |o: u32, op: &Op| {
                    matches!(*op, Op::Join { group, .. } if self.slot_of(o, group) == Some(id))
                        && !here.contains(&o)
                };
                (text, self.others(s, joins))
            }
            (_, Op::Await { cell, state, .. }) => {
                let text = self.find_cell(s, cell).map_or_else(String::new, |id| {
                    format!(
                        "cell {id} to reach state {state} (it is in state {})",
                        self.state.cells[id].state
                    )
                });
                let slot = cell.slot;
                let sets = |o, op: &Op| {
                    matches!(*op, Op::Set { cell, .. }
                        if self.slot_of(o, cell.slot).is_some() && self.slot_of(o, cell.slot) == self.slot_of(s, slot))
                };
                (text, self.others(s, sets))
            }
            _ => ("a rate above zero".to_owned(), Vec::new()),
        };
        Waiting { place: self.place(s), since: self.state.streams[s as usize].since, for_what, on }
    }

    fn for_units(&self, pool: PoolId) -> String {
        let state = &self.state.pools[pool.index()];
        let name = &self.inputs.platform.pools[pool.index()].name;
        let ahead = state.waiting().count() - 1;
        format!("units of pool `{name}` ({} of {} free, {ahead} others wait)", state.free, state.units)
    }

    fn for_room(&self, store: StoreId, bytes: u64) -> String {
        let declared = &self.inputs.platform.stores[store.index()];
        let state = &self.state.stores[store.index()];
        let others = state.waiting().count() - 1;
        format!(
            "{bytes} bytes of store `{}` ({} of {} are held, {others} others wait)",
            declared.name, state.used, declared.capacity
        )
    }

    /// Streams other than `s`, not ended, with an operation that `matches`.
    fn others(&self, s: u32, matches: impl Fn(u32, &Op) -> bool) -> Vec<StreamId> {
        let alive = (0..self.state.streams.len() as u32)
            .filter(|&o| o != s && self.state.streams[o as usize].status != Status::Done);
        alive.filter(|&o| self.ops_of(o).any(|op| matches(o, op))).take(NAMED_MAX).map(StreamId).collect()
    }

    /// All operations of a stream's role.
    fn ops_of(&self, s: u32) -> impl Iterator<Item = &Op> + '_ {
        let calls = match self.inputs.program.streams[s as usize].body {
            Body::Role(role) => self.inputs.program.roles[role.index()].calls.as_slice(),
            Body::Serve(_) => &[],
        };
        let mut blocks: Vec<_> = calls.iter().map(|call| call.block).collect();
        blocks.sort_unstable();
        blocks.dedup();
        blocks.into_iter().flat_map(|block| &self.inputs.program.blocks[block.index()].ops)
    }

    fn slot_of(&self, s: u32, slot: u16) -> Option<usize> {
        let binding = &self.inputs.program.bindings[self.inputs.program.streams[s as usize].binding.index()];
        binding.slots.get(slot as usize).map(|&id| id as usize)
    }

    fn drops(&self, s: u32, op: &Op, pool: PoolId) -> bool {
        matches!(*op, Op::Drop { pool: slot, .. } if self.slot_of(s, slot) == Some(pool.index()))
    }

    fn releases(&self, s: u32, op: &Op, store: StoreId) -> bool {
        matches!(*op, Op::Release { store: slot, .. } if self.slot_of(s, slot) == Some(store.index()))
    }
}
