//! Where segments are and what they do: computed once per (block, cost table).

use std::collections::{BTreeMap, BTreeSet};

use super::super::activities::{duration, fixed_work};
use super::super::code::Code;
use crate::fixed::Rate;
use crate::id::{BindingId, BlockId, KindId};
use crate::platform::Platform;
use crate::program::{Activity, Affine, Body, Op, Program, Shortage, Slot};
use crate::time::Time;

/// Segments of a program.
#[derive(Debug, Default)]
pub(in super::super) struct Plans {
    /// Per operation, what it can begin; empty when segments are off.
    entries: Vec<Entry>,
    /// Per first operation of a stretch, its sums by cost table, ascending.
    by_costs: BTreeMap<u32, Vec<(u32, u32)>>,
    stretches: Vec<Stretch>,
}

/// What an operation can begin.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// The first operation of its stretch, and one beyond the last; both 0 outside stretches.
    first: u32,
    end: u32,
    /// Whether at least two activities follow: one alone saves nothing.
    saves: bool,
}

/// A maximal run of operations that synchronise with nobody, with prefix sums.
#[derive(Debug)]
pub(in super::super) struct Stretch {
    /// Its first operation.
    pub(super) first: u32,
    /// One per operation.
    pub(super) steps: Vec<StepSum>,
    /// Routes its activities use, with the largest cap.
    pub(super) routes: Vec<(Slot, Rate)>,
    /// Pools its kernels use, with the number of units their caps were computed for.
    pub(super) pools: Vec<(Slot, u32)>,
    /// Stores it touches.
    pub(super) stores: Vec<StoreSum>,
}

/// One operation of a stretch.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepSum {
    /// When it ends, from the start of the stretch, alone.
    pub(super) end: Time,
    pub(super) act: Act,
}

/// What an operation of a stretch does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
    /// Runs an activity at this cap.
    Run { activity: Activity, cap: Rate },
    /// Changes what a store (an index into [`Stretch::stores`]) holds of a kind.
    Hold { store: u16, kind: KindId, change: i64 },
}

/// What a stretch does to one store.
#[derive(Debug)]
pub(super) struct StoreSum {
    pub(super) slot: Slot,
    /// Bytes held more than at the start, after each operation.
    prefix: Vec<i64>,
    /// The largest of `prefix` from each operation on.
    peak_from: Vec<i64>,
}

impl StoreSum {
    /// The most the store holds more than before operation `from`, from then on.
    pub(super) fn most_from(&self, from: usize) -> u64 {
        let before = if from == 0 { 0 } else { self.prefix[from - 1] };
        u64::try_from(self.peak_from[from].saturating_sub(before)).unwrap_or(0)
    }
}

impl Plans {
    pub(in super::super) fn new(on: bool, platform: &Platform, program: &Program, code: &Code) -> Self {
        if !on {
            return Self::default();
        }
        let mut plans = Self { entries: vec![Entry::default(); code.ops.len()], ..Self::default() };
        for block in 0..program.blocks.len() {
            plans.mark_block(&code.ops, code.first_op[block] as usize, code.first_op[block + 1] as usize);
        }
        let mut done = BTreeSet::new();
        for stream in &program.streams {
            let costs = program.bindings[stream.binding.index()].costs;
            if let Body::Role(role) = stream.body
                && done.insert((role, costs))
            {
                for &block in &code.executed[role.index()] {
                    plans.sum_up(platform, program, code, block, stream.binding);
                }
            }
        }
        for candidate in program.reclaim.iter().flat_map(|table| &table.candidates) {
            plans.sum_up(platform, program, code, candidate.block, candidate.binding);
        }
        plans
    }

    /// Whether the program runs with segments.
    pub(in super::super) fn are_on(&self) -> bool {
        !self.entries.is_empty()
    }

    /// Whether a stream that comes to this operation saves events with a segment.
    #[inline]
    pub(in super::super) fn saves_at(&self, pc: u32) -> bool {
        self.entries.get(pc as usize).is_some_and(|entry| entry.saves)
    }

    /// The stretch around an operation, for a cost table.
    #[inline]
    pub(super) fn find(&self, pc: u32, costs: u32) -> Option<u32> {
        let by_costs = self.by_costs.get(&self.entries[pc as usize].first)?;
        let at = by_costs.binary_search_by_key(&costs, |&(costs, _)| costs).ok()?;
        Some(by_costs[at].1)
    }

    pub(super) fn stretch(&self, id: u32) -> &Stretch {
        &self.stretches[id as usize]
    }

    /// Marks the stretches of a block that have at least two activities.
    fn mark_block(&mut self, ops: &[Op], start: usize, end: usize) {
        let mut first = start;
        while first < end {
            let length = ops[first..end].iter().take_while(|op| is_quiet(op)).count();
            let runs = ops[first..first + length].iter().filter(|op| matches!(op, Op::Run { .. })).count();
            let mut following = 0;
            for at in (0..if runs >= 2 { length } else { 0 }).rev() {
                following += u32::from(matches!(ops[first + at], Op::Run { .. }));
                let (first, end) = (first as u32, (first + length) as u32);
                self.entries[first as usize + at] = Entry { first, end, saves: following >= 2 };
            }
            first += length.max(1);
        }
    }

    /// Prefix sums of the marked stretches of a block for the cost table of a binding.
    fn sum_up(
        &mut self,
        platform: &Platform,
        program: &Program,
        code: &Code,
        block: BlockId,
        binding: BindingId,
    ) {
        let binding = &program.bindings[binding.index()];
        let Some(costs) = binding.costs else { return };
        let resolve =
            Resolve { platform, program, slots: &binding.slots, table: &program.costs[costs.index()] };
        let (mut at, end) = (code.first_op[block.index()], code.first_op[block.index() + 1]);
        while at < end {
            let Entry { first, end, .. } = self.entries[at as usize];
            at = end.max(at + 1);
            if end == 0 {
                continue;
            }
            let by_costs = self.by_costs.entry(first).or_default();
            if let Err(position) = by_costs.binary_search_by_key(&costs.0, |&(costs, _)| costs)
                && let Some(stretch) = resolve.stretch(first, &code.ops[first as usize..end as usize])
            {
                by_costs.insert(position, (costs.0, self.stretches.len() as u32));
                self.stretches.push(stretch);
            }
        }
    }
}

/// Whether an operation synchronises with nobody and does not depend on the arguments.
fn is_quiet(op: &Op) -> bool {
    match op {
        Op::Run { activity } => activity.stride == 0,
        Op::Acquire { bytes, shortage: Shortage::Fail, .. } | Op::Release { bytes, .. } => bytes.stride == 0,
        _ => false,
    }
}

struct Resolve<'a> {
    platform: &'a Platform,
    program: &'a Program,
    slots: &'a [u32],
    table: &'a crate::program::CostTable,
}

impl Resolve<'_> {
    /// None if the binding lacks something: such a stretch runs operation by operation and reports it.
    fn stretch(&self, first: u32, ops: &[Op]) -> Option<Stretch> {
        let mut stretch =
            Stretch { first, steps: Vec::new(), routes: Vec::new(), pools: Vec::new(), stores: Vec::new() };
        let mut end = Time::ZERO;
        for op in ops {
            let act = match *op {
                Op::Run { activity } => self.run(activity, &mut stretch, &mut end)?,
                Op::Acquire { store, bytes, kind, .. } => {
                    let change = i64::try_from(self.size(bytes)?).ok()?;
                    Act::Hold { store: stretch.store(store), kind, change }
                }
                Op::Release { store, bytes, kind } => {
                    let change = -i64::try_from(self.size(bytes)?).ok()?;
                    Act::Hold { store: stretch.store(store), kind, change }
                }
                _ => return None,
            };
            stretch.steps.push(StepSum { end, act });
        }
        stretch.sum_stores()?;
        Some(stretch)
    }

    fn run(&self, index: Affine, stretch: &mut Stretch, end: &mut Time) -> Option<Act> {
        let activity = *self.table.activities.get(usize::try_from(index.base).ok()?)?;
        let mut cap = activity.cap;
        if let Some(units) = activity.units {
            let pool = self.platform.pools.get(*self.slots.get(units.pool as usize)? as usize)?;
            if pool.units == 0 {
                return None; // it waits for ever
            }
            cap = self.program.caps.get(units.table.index())?.cap(units.want.min(pool.units)).min(cap);
            if !stretch.pools.iter().any(|&(slot, _)| slot == units.pool) {
                stretch.pools.push((units.pool, pool.units));
            }
        }
        *end = end.saturating_add(activity.latency);
        if activity.work > 0 {
            if cap == Rate::UNLIMITED && activity.route.is_some() {
                return None; // its speed is the fluid's
            }
            *end = end.saturating_add(duration(fixed_work(activity.work), cap));
            if let Some(slot) = activity.route {
                match stretch.routes.iter_mut().find(|(s, _)| *s == slot) {
                    Some((_, largest)) => *largest = (*largest).max(cap),
                    None => stretch.routes.push((slot, cap)),
                }
            }
        }
        Some(Act::Run { activity, cap })
    }

    fn size(&self, index: Affine) -> Option<u64> {
        self.table.sizes.get(usize::try_from(index.base).ok()?).copied()
    }
}

impl Stretch {
    /// When an operation begins, from the start of the stretch, alone.
    #[inline]
    pub(super) fn begin_of(&self, position: usize) -> Time {
        if position == 0 { Time::ZERO } else { self.steps[position - 1].end }
    }

    fn store(&mut self, slot: Slot) -> u16 {
        let at = self.stores.iter().position(|s| s.slot == slot).unwrap_or_else(|| {
            self.stores.push(StoreSum { slot, prefix: Vec::new(), peak_from: Vec::new() });
            self.stores.len() - 1
        });
        at as u16
    }

    /// None if a sum leaves its range.
    fn sum_stores(&mut self) -> Option<()> {
        for (index, store) in self.stores.iter_mut().enumerate() {
            let mut held: i64 = 0;
            for step in &self.steps {
                if let Act::Hold { store: at, change, .. } = step.act
                    && at as usize == index
                {
                    held = held.checked_add(change)?;
                }
                store.prefix.push(held);
            }
            store.peak_from.clone_from(&store.prefix);
            for i in (1..store.peak_from.len()).rev() {
                store.peak_from[i - 1] = store.peak_from[i - 1].max(store.peak_from[i]);
            }
        }
        Some(())
    }
}
