//! Where segments are and what they do: computed once per (block, cost table).

use std::collections::BTreeSet;

use super::super::activities::{duration, fixed_work, is_pure};
use super::super::code::Code;
use crate::fixed::Rate;
use crate::id::{BindingId, BlockId, CauseId, KindId};
use crate::platform::Platform;
use crate::program::{Activity, Affine, Body, CostTable, Op, Program, Shortage, Slot};
use crate::time::Time;

/// Segments of a program.
#[derive(Debug, Default)]
pub(in super::super) struct Plans {
    /// Per operation, what it can begin; empty when segments are off.
    entries: Vec<Entry>,
    /// Per place of a stretch, its sums by cost table, ascending.
    by_costs: Vec<Vec<(u32, u32)>>,
    stretches: Vec<Stretch>,
}

/// What an operation can begin.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// The first operation of its stretch, and one beyond the last; both 0 outside stretches.
    first: u32,
    end: u32,
    /// Its place among all stretches.
    place: u32,
    /// True if an activity follows.
    saves: bool,
}

/// A maximal run of operations that synchronise with nobody, with prefix sums.
#[derive(Debug)]
pub(in super::super) struct Stretch {
    /// Its first operation.
    pub(super) first: u32,
    /// Effects of its operations.
    pub(super) acts: Vec<Act>,
    /// When each operation begins, alone, from the start of the stretch; one more entry ends the last.
    pub(super) begins: Vec<Time>,
    /// Activities before each operation, and in all.
    pub(super) runs: Vec<u32>,
    /// Events of the activities from each operation on, one by one: ends of latencies and of work.
    events: Vec<u32>,
    /// Time by cause.
    pub(super) causes: Vec<CauseSum>,
    /// Routes its activities use.
    pub(super) routes: Vec<RouteSum>,
    /// Pools its kernels use, with the number of units their caps were computed for.
    pub(super) pools: Vec<(Slot, u32)>,
    /// Stores it touches.
    pub(super) stores: Vec<StoreSum>,
    /// Bytes of these by kind.
    pub(super) kinds: Vec<KindSum>,
}

/// What an operation of a stretch does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
    /// Runs an activity at this cap.
    Run { activity: Activity, cap: Rate },
    /// Changes what a store holds of a kind.
    Hold { store: Slot, kind: KindId, change: i64 },
}

/// Time of a stretch under one cause.
#[derive(Debug)]
pub(super) struct CauseSum {
    pub(super) cause: CauseId,
    /// Before each operation, and in all.
    pub(super) before: Vec<Time>,
}

/// Work of a stretch on one route.
#[derive(Debug)]
pub(super) struct RouteSum {
    pub(super) slot: Slot,
    /// The largest cap of an activity with work.
    pub(super) cap: Rate,
    /// Work before each operation, and in all.
    pub(super) before: Vec<u64>,
}

/// What a stretch does to one store.
#[derive(Debug)]
pub(super) struct StoreSum {
    pub(super) slot: Slot,
    held: Held,
}

/// Bytes of one kind that a stretch takes and gives back in one store.
#[derive(Debug)]
pub(super) struct KindSum {
    pub(super) store: Slot,
    pub(super) kind: KindId,
    pub(super) held: Held,
}

/// Bytes held more than at the start of a stretch.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// Before each operation, and in the end.
    pub(super) before: Vec<i64>,
    /// The most and the least of these from each operation on.
    most: Vec<i64>,
    least: Vec<i64>,
}

impl Held {
    /// None if a sum leaves its range.
    fn of(changes: impl Iterator<Item = i64>) -> Option<Self> {
        let mut before = vec![0i64];
        for change in changes {
            before.push(before[before.len() - 1].checked_add(change)?);
        }
        let (mut most, mut least) = (before.clone(), before.clone());
        for i in (1..before.len()).rev() {
            most[i - 1] = most[i - 1].max(most[i]);
            least[i - 1] = least[i - 1].min(least[i]);
        }
        // Differences of two sums stay in range.
        most[0].checked_sub(least[0])?;
        Some(Self { before, most, least })
    }

    /// The most that is held more than before operation `from`, from then on.
    fn most_from(&self, from: usize) -> u64 {
        (self.most[from] - self.before[from]) as u64
    }

    /// The most that is lacking of what was held before operation `from`, from then on.
    pub(super) fn lacking_from(&self, from: usize) -> u64 {
        (self.before[from] - self.least[from]) as u64
    }
}

impl StoreSum {
    /// The most the store holds more than before operation `from`, from then on.
    pub(super) fn most_from(&self, from: usize) -> u64 {
        self.held.most_from(from)
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

    /// Tells if a stream that comes to this operation may save events with a segment.
    #[inline]
    pub(in super::super) fn saves_at(&self, pc: u32) -> bool {
        self.entries.get(pc as usize).is_some_and(|entry| entry.saves)
    }

    /// The stretch around an operation, for a cost table.
    #[inline]
    pub(super) fn find(&self, pc: u32, costs: u32) -> Option<u32> {
        let by_costs = &self.by_costs[self.entries[pc as usize].place as usize];
        // The tables of a block mostly follow each other: then the first tells where they are.
        let next = by_costs.get(costs.wrapping_sub(by_costs.first()?.0) as usize);
        if let Some(&(_, stretch)) = next.filter(|&&(known, _)| known == costs) {
            return Some(stretch);
        }
        let at = by_costs.binary_search_by_key(&costs, |&(costs, _)| costs).ok()?;
        Some(by_costs[at].1)
    }

    pub(super) fn stretch(&self, id: u32) -> &Stretch {
        &self.stretches[id as usize]
    }

    /// Marks the stretches of a block that have activities.
    fn mark_block(&mut self, ops: &[Op], start: usize, end: usize) {
        let mut first = start;
        while first < end {
            let length = ops[first..end].iter().take_while(|op| is_quiet(op)).count();
            let runs = ops[first..first + length].iter().filter(|op| matches!(op, Op::Run { .. })).count();
            let mut saves = false;
            for at in (0..if runs > 0 { length } else { 0 }).rev() {
                saves |= matches!(ops[first + at], Op::Run { .. });
                let (first, end) = (first as u32, (first + length) as u32);
                let place = self.by_costs.len() as u32;
                self.entries[first as usize + at] = Entry { first, end, place, saves };
            }
            if runs > 0 {
                self.by_costs.push(Vec::new());
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
        let Some(costs) = program.bindings[binding.index()].costs else { return };
        let Some(resolve) = Resolve::new(platform, program, binding) else { return };
        let (mut at, end) = (code.first_op[block.index()], code.first_op[block.index() + 1]);
        while at < end {
            let Entry { first, end, place, .. } = self.entries[at as usize];
            at = end.max(at + 1);
            if end == 0 {
                continue;
            }
            let by_costs = &mut self.by_costs[place as usize];
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
    table: &'a CostTable,
}

impl<'a> Resolve<'a> {
    /// None if the binding has no costs.
    fn new(platform: &'a Platform, program: &'a Program, binding: BindingId) -> Option<Self> {
        let binding = &program.bindings[binding.index()];
        let table = &program.costs[binding.costs?.index()];
        Some(Self { platform, program, slots: &binding.slots, table })
    }

    /// None if the binding lacks something or a sum leaves its range: such a stretch runs operation by operation.
    fn stretch(&self, first: u32, ops: &[Op]) -> Option<Stretch> {
        let mut stretch = Stretch::new(first);
        for op in ops {
            let (act, length) = match *op {
                Op::Run { activity } => self.run(activity, &mut stretch)?,
                Op::Acquire { store, bytes, kind, .. } => {
                    let change = i64::try_from(self.size(bytes)?).ok()?;
                    (Act::Hold { store, kind, change }, Time::ZERO)
                }
                Op::Release { store, bytes, kind } => {
                    let change = -i64::try_from(self.size(bytes)?).ok()?;
                    (Act::Hold { store, kind, change }, Time::ZERO)
                }
                _ => return None,
            };
            stretch.acts.push(act);
            stretch.begins.push(stretch.end().saturating_add(length));
        }
        stretch.sum_up()?;
        Some(stretch)
    }

    /// An activity and how long it takes alone.
    fn run(&self, index: Affine, stretch: &mut Stretch) -> Option<(Act, Time)> {
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
        let mut length = activity.latency;
        if activity.work > 0 {
            if cap == Rate::UNLIMITED && activity.route.is_some() {
                return None; // its speed is the fluid's
            }
            length = length.saturating_add(duration(fixed_work(activity.work), cap));
            if let Some(slot) = activity.route {
                match stretch.routes.iter_mut().find(|sum| sum.slot == slot) {
                    Some(sum) => sum.cap = sum.cap.max(cap),
                    None => stretch.routes.push(RouteSum { slot, cap, before: vec![0] }),
                }
            }
        }
        Some((Act::Run { activity, cap }, length))
    }

    fn size(&self, index: Affine) -> Option<u64> {
        self.table.sizes.get(usize::try_from(index.base).ok()?).copied()
    }
}

impl Stretch {
    fn new(first: u32) -> Self {
        Self {
            first,
            acts: Vec::new(),
            begins: vec![Time::ZERO],
            runs: vec![0],
            events: Vec::new(),
            causes: Vec::new(),
            routes: Vec::new(),
            pools: Vec::new(),
            stores: Vec::new(),
            kinds: Vec::new(),
        }
    }

    /// When it ends, from its start, alone.
    pub(super) fn end(&self) -> Time {
        self.begins[self.begins.len() - 1]
    }

    /// Tells if the operations from `from` on, as one event, save more than `more_than`.
    pub(super) fn saves(&self, from: usize, more_than: u32) -> bool {
        self.events[from] > more_than + 1
    }

    /// None if a sum leaves its range.
    fn sum_up(&mut self) -> Option<()> {
        self.events = vec![0; self.acts.len()];
        let mut events = 0;
        for (from, act) in self.events.iter_mut().zip(&self.acts).rev() {
            if let Act::Run { activity, .. } = act {
                events += u32::from(activity.latency > Time::ZERO) + u32::from(!is_pure(activity));
            }
            *from = events;
        }
        for (at, act) in self.acts.iter().enumerate() {
            self.runs.push(self.runs[at] + u32::from(matches!(act, Act::Run { .. })));
            match *act {
                Act::Run { activity, .. } => {
                    if !self.causes.iter().any(|sum| sum.cause == activity.cause) {
                        self.causes.push(CauseSum { cause: activity.cause, before: vec![Time::ZERO] });
                    }
                }
                Act::Hold { store, kind, .. } => {
                    if !self.stores.iter().any(|sum| sum.slot == store) {
                        self.stores.push(StoreSum { slot: store, held: self.held(store, None)? });
                    }
                    if !self.kinds.iter().any(|sum| sum.store == store && sum.kind == kind) {
                        self.kinds.push(KindSum { store, kind, held: self.held(store, Some(kind))? });
                    }
                }
            }
        }
        for (at, act) in self.acts.iter().enumerate() {
            let length = self.begins[at + 1] - self.begins[at];
            let (cause, route, work) = match *act {
                Act::Run { activity, .. } => (Some(activity.cause), activity.route, activity.work),
                Act::Hold { .. } => (None, None, 0),
            };
            for sum in &mut self.causes {
                sum.before.push(sum.before[at] + if cause == Some(sum.cause) { length } else { Time::ZERO });
            }
            for sum in &mut self.routes {
                sum.before.push(sum.before[at].checked_add(if route == Some(sum.slot) {
                    work
                } else {
                    0
                })?);
            }
        }
        Some(())
    }

    /// Changes of a store, of all kinds or one.
    fn held(&self, slot: Slot, wanted: Option<KindId>) -> Option<Held> {
        Held::of(self.acts.iter().map(|act| match *act {
            Act::Hold { store, kind, change }
                if store == slot && wanted.is_none_or(|wanted| wanted == kind) =>
            {
                change
            }
            _ => 0,
        }))
    }
}
