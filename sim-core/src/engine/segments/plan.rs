//! Where segments are and what they do: computed once per (block, cost table).

use std::collections::BTreeMap;

use super::super::activities::{duration, fixed_work};
use super::super::code::Code;
use crate::fixed::Rate;
use crate::id::KindId;
use crate::platform::Platform;
use crate::program::{Activity, Affine, Op, Program, Shortage, Slot};
use crate::time::Time;

/// Segments of a program.
#[derive(Debug, Default)]
pub(in super::super) struct Plans {
    /// Per operation, whether it lies in a stretch that may run as a segment; empty when segments are off.
    in_stretch: Vec<bool>,
    /// By (first operation of the stretch, cost table).
    stretches: BTreeMap<(u32, u32), Stretch>,
    /// Per operation, the first of its stretch.
    first_of: Vec<u32>,
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
        u64::try_from(self.peak_from[from] - before).unwrap_or(0)
    }
}

impl Plans {
    pub(in super::super) fn new(on: bool, platform: &Platform, program: &Program, code: &Code) -> Self {
        if !on {
            return Self::default();
        }
        let mut plans = Self {
            in_stretch: vec![false; code.ops.len()],
            stretches: BTreeMap::new(),
            first_of: vec![0; code.ops.len()],
        };
        for block in 0..program.blocks.len() {
            plans.mark_block(&code.ops, code.first_op[block] as usize, code.first_op[block + 1] as usize);
        }
        plans.sum_up(platform, program, code);
        plans
    }

    /// Whether a stream at this operation may enter a segment.
    #[inline]
    pub(in super::super) fn starts_at(&self, pc: u32) -> bool {
        self.in_stretch.get(pc as usize).copied().unwrap_or(false)
    }

    /// The stretch around an operation, for a cost table.
    pub(super) fn stretch(&self, pc: u32, costs: u32) -> Option<&Stretch> {
        self.stretches.get(&(self.first_of[pc as usize], costs))
    }

    /// Marks the stretches of a block with at least two activities.
    fn mark_block(&mut self, ops: &[Op], start: usize, end: usize) {
        let mut first = start;
        while first < end {
            let length = ops[first..end].iter().take_while(|op| is_quiet(op)).count();
            let runs = ops[first..first + length].iter().filter(|op| matches!(op, Op::Run { .. })).count();
            if runs >= 2 {
                self.in_stretch[first..first + length].fill(true);
                self.first_of[first..first + length].fill(first as u32);
            }
            first += length.max(1);
        }
    }

    /// Prefix sums of every marked stretch for every cost table whose streams may execute it.
    fn sum_up(&mut self, platform: &Platform, program: &Program, code: &Code) {
        let firsts: Vec<u32> = (0..self.in_stretch.len() as u32)
            .filter(|&i| self.starts_at(i) && self.first_of[i as usize] == i)
            .collect();
        for (binding, bound) in program.bindings.iter().zip(&code.bindings) {
            let Some(costs) = bound.costs else { continue };
            for &first in &firsts {
                if self.stretches.contains_key(&(first, costs.0)) {
                    continue;
                }
                let length = (first as usize..self.in_stretch.len())
                    .take_while(|&i| self.in_stretch[i] && self.first_of[i] == first)
                    .count();
                let ops = &code.ops[first as usize..first as usize + length];
                let table = &program.costs[costs.index()];
                let resolve = Resolve { platform, program, slots: &binding.slots, table };
                if let Some(stretch) = resolve.stretch(first, ops) {
                    self.stretches.insert((first, costs.0), stretch);
                }
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
        stretch.sum_stores();
        Some(stretch)
    }

    fn run(&self, index: Affine, stretch: &mut Stretch, end: &mut Time) -> Option<Act> {
        let activity = *self.table.activities.get(usize::try_from(index.base).ok()?)?;
        let mut cap = activity.cap;
        if let Some(units) = activity.units {
            let pool = self.platform.pools.get(*self.slots.get(units.pool as usize)? as usize)?;
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
    fn store(&mut self, slot: Slot) -> u16 {
        let at = self.stores.iter().position(|s| s.slot == slot).unwrap_or_else(|| {
            self.stores.push(StoreSum { slot, prefix: Vec::new(), peak_from: Vec::new() });
            self.stores.len() - 1
        });
        at as u16
    }

    fn sum_stores(&mut self) {
        for (index, store) in self.stores.iter_mut().enumerate() {
            let mut held = 0;
            for step in &self.steps {
                if let Act::Hold { store: at, change, .. } = step.act
                    && at as usize == index
                {
                    held += change;
                }
                store.prefix.push(held);
            }
            store.peak_from.clone_from(&store.prefix);
            for i in (1..store.peak_from.len()).rev() {
                store.peak_from[i - 1] = store.peak_from[i - 1].max(store.peak_from[i]);
            }
        }
    }
}
