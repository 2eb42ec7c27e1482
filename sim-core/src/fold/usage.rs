//! What the streams of a rank do with its slots, read off the operations.

use std::collections::{BTreeMap, BTreeSet};

use crate::id::{BlockId, RoleId};
use crate::program::{Activity, Affine, Body, CellRef, CostTable, Op, Program, Slot};
use crate::time::Time;

/// The kind of object a slot stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Object {
    Route,
    Pool,
    Store,
    Counter,
    Cell,
    Group,
    Queue,
}

/// What a slot is used for.
#[derive(Clone, Debug)]
pub(super) struct SlotUse {
    pub(super) slot: Slot,
    pub(super) object: Object,
    /// Cells: hull of the offsets from the slot's cell, with 0.
    pub(super) offsets: (i64, i64),
    /// Groups: number of streams of the rank that join.
    pub(super) joiners: u32,
    /// Counters: whether an addition takes effect in the instant and round it is made, so that the order of streams
    /// decides who sees it.
    pub(super) immediate: bool,
    /// Whether posted blocks use it, which run on the streams of others.
    pub(super) posted: bool,
}

/// The slots that streams with these bodies and costs use, ascending. None when a slot stands for two kinds of object or a
/// stream halts another, which folding does not follow.
pub(super) fn slots_of(
    program: &Program,
    bodies: &[Body],
    costs: Option<&CostTable>,
) -> Option<Vec<SlotUse>> {
    let activities = costs.map_or(&[][..], |table| &table.activities);
    let mut uses = Uses { activities, slots: BTreeMap::new(), foldable: true, executes: false };
    for body in bodies {
        if let Body::Role(role) = *body {
            uses.role(program, role);
        }
    }
    for activity in if uses.executes { activities } else { &[] } {
        if let Some(route) = activity.route {
            uses.object(route, Object::Route);
        }
        if let Some(units) = activity.units {
            uses.object(units.pool, Object::Pool);
        }
    }
    uses.foldable.then(|| uses.slots.into_values().collect())
}

struct Uses<'a> {
    activities: &'a [Activity],
    slots: BTreeMap<Slot, SlotUse>,
    foldable: bool,
    /// Whether any block is executed; otherwise the costs mean nothing.
    executes: bool,
}

impl Uses<'_> {
    fn role(&mut self, program: &Program, role: RoleId) {
        let mut joined = BTreeSet::new();
        for ((block, posted), arguments) in reached(program, role) {
            self.executes = true;
            for op in &program.blocks[block.index()].ops {
                self.operation(op, arguments, posted);
                if let (Op::Join { group, .. }, false) = (op, posted) {
                    joined.insert(*group);
                }
            }
        }
        for group in joined {
            self.object(group, Object::Group).joiners += 1;
        }
    }

    fn operation(&mut self, op: &Op, arguments: Hull, posted: bool) {
        match *op {
            Op::Add { counter, after, .. } => {
                let immediate = after.is_none_or(|flight| self.may_take_no_time(arguments.of(flight)));
                let used = self.object(counter, Object::Counter);
                used.immediate |= immediate;
                used
            }
            Op::Wait { counter, .. } => self.object(counter, Object::Counter),
            Op::Acquire { store, .. } | Op::Release { store, .. } => self.object(store, Object::Store),
            Op::Hold { pool, .. } | Op::Drop { pool, .. } => self.object(pool, Object::Pool),
            Op::Join { group, .. } => self.object(group, Object::Group),
            Op::Cancel { ticket: cell }
            | Op::Await { cell, .. }
            | Op::Set { cell, .. }
            | Op::Branch { cell, .. } => self.cell(cell, arguments),
            Op::Post { queue, ticket, .. } => {
                if let Some(ticket) = ticket {
                    self.cell(ticket, arguments);
                }
                self.object(queue, Object::Queue)
            }
            Op::Halt { .. } => {
                self.foldable = false;
                return;
            }
            Op::Run { .. } | Op::Mark => return,
        }
        .posted |= posted;
    }

    /// Whether an activity in a range of positions has no latency.
    fn may_take_no_time(&self, (first, last): (i64, i64)) -> bool {
        let position = |index: i64| index.clamp(0, self.activities.len() as i64) as usize;
        let range = position(first)..position(last.saturating_add(1));
        self.activities[range].iter().any(|activity| activity.latency == Time::ZERO)
    }

    fn cell(&mut self, cell: CellRef, arguments: Hull) -> &mut SlotUse {
        let (first, last) = arguments.of(cell.index);
        let used = self.object(cell.slot, Object::Cell);
        used.offsets = (used.offsets.0.min(first), used.offsets.1.max(last));
        used
    }

    fn object(&mut self, slot: Slot, object: Object) -> &mut SlotUse {
        let unused = SlotUse { slot, object, offsets: (0, 0), joiners: 0, immediate: false, posted: false };
        let used = self.slots.entry(slot).or_insert(unused);
        self.foldable &= used.object == object;
        used
    }
}

/// Smallest and largest values of the two arguments of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hull([(i64, i64); 2]);

impl Hull {
    const EVERYTHING: Self = Self([(i32::MIN as i64, i32::MAX as i64); 2]);

    /// Arguments outside `i32` may wrap to anything.
    fn new(arguments: [(i64, i64); 2]) -> Self {
        let inside = |(low, high): (i64, i64)| low >= i64::from(i32::MIN) && high <= i64::from(i32::MAX);
        if arguments.into_iter().all(inside) { Self(arguments) } else { Self::EVERYTHING }
    }

    fn of(self, value: Affine) -> (i64, i64) {
        let (low, high) = self.0[value.arg as usize & 1];
        let at = |argument: i64| {
            i64::from(value.base).saturating_add(i64::from(value.stride).saturating_mul(argument))
        };
        (at(low).min(at(high)), at(low).max(at(high)))
    }

    fn with(self, other: Self) -> Self {
        let both = |i: usize| (self.0[i].0.min(other.0[i].0), self.0[i].1.max(other.0[i].1));
        Self([both(0), both(1)])
    }
}

/// How often the hull of a posted block may grow before it is taken for everything: blocks that post each other with
/// growing arguments would have no end.
const GROWTHS_MAX: u32 = 4;

/// The blocks a role executes or (`true`) posts, directly or not, with the hull of their arguments.
fn reached(program: &Program, role: RoleId) -> BTreeMap<(BlockId, bool), Hull> {
    let mut hulls: BTreeMap<(BlockId, bool), Hull> = BTreeMap::new();
    for call in program.roles[role.index()].calls.iter().filter(|call| call.repeat > 0) {
        let ends = |i: usize| {
            let first = i64::from(call.args[i]);
            let last = first + i64::from(call.step[i]) * i64::from(call.repeat - 1);
            (first.min(last), first.max(last))
        };
        let hull = Hull::new([ends(0), ends(1)]);
        hulls.entry((call.block, false)).and_modify(|known| *known = known.with(hull)).or_insert(hull);
    }
    let mut grown: Vec<(BlockId, bool)> = hulls.keys().copied().collect();
    let mut growths: BTreeMap<BlockId, u32> = BTreeMap::new();
    while let Some(key) = grown.pop() {
        let arguments = hulls[&key];
        for op in &program.blocks[key.0.index()].ops {
            let Op::Post { block, args, .. } = *op else { continue };
            let mut hull = Hull::new(args.map(|value| arguments.of(value)));
            if let Some(&known) = hulls.get(&(block, true)) {
                hull = known.with(hull);
                if hull == known {
                    continue;
                }
            }
            let growths = growths.entry(block).or_default();
            *growths += 1;
            hulls.insert((block, true), if *growths > GROWTHS_MAX { Hull::EVERYTHING } else { hull });
            grown.push((block, true));
        }
    }
    hulls
}
