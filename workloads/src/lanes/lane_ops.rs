//! Operations of one lane, as they are written.

use std::collections::BTreeMap;

use sim_core::id::{CauseId, CellId, CounterId, PoolId};
use sim_core::program::{Activity, Affine, Body, Call, CellRef, Op, Program, Slot};
use sim_core::time::Time;

/// Something that a lane uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Object {
    Counter(CounterId),
    Pool(PoolId),
    /// A stream of the engine, by number.
    Stream(u32),
    /// The first of all cells.
    Cells,
}

/// A lane under construction: what its slots stand for, and its operations so far.
pub(super) struct LaneOps<'a> {
    pub(super) program: &'a mut Program,
    pub(super) ops: Vec<Op>,
    calls: Vec<Call>,
    slots: Vec<u32>,
    by_object: BTreeMap<Object, Slot>,
    activities: Vec<Activity>,
    by_activity: BTreeMap<(Time, CauseId), i32>,
}

impl<'a> LaneOps<'a> {
    pub(super) fn new(program: &'a mut Program) -> Self {
        let (ops, calls, slots, by_object, activities, by_activity) = Default::default();
        Self { program, ops, calls, slots, by_object, activities, by_activity }
    }

    /// The slot of an object: one, however often the lane uses it, as there may be 65,536.
    pub(super) fn slot(&mut self, object: Object) -> Slot {
        let Self { slots, by_object, .. } = self;
        *by_object.entry(object).or_insert_with(|| {
            slots.push(match object {
                Object::Counter(CounterId(id)) | Object::Pool(PoolId(id)) | Object::Stream(id) => id,
                Object::Cells => 0,
            });
            (slots.len() - 1) as Slot
        })
    }

    /// A cell, counted from the first of all.
    pub(super) fn cell(&mut self, cell: CellId) -> CellRef {
        CellRef { slot: self.slot(Object::Cells), index: Affine::constant(cell.0 as i32) }
    }

    pub(super) fn cause(&mut self, name: &str) -> CauseId {
        self.program.cause(name)
    }

    /// The position of an activity of a duration.
    fn lasting(&mut self, time: Time, cause: &str) -> Affine {
        let cause = self.cause(cause);
        let position = *self.by_activity.entry((time, cause)).or_insert_with(|| {
            self.activities.push(Activity::lasting(time, cause));
            self.activities.len() as i32 - 1
        });
        Affine::constant(position)
    }

    /// Takes a time, if there is any.
    pub(super) fn last(&mut self, time: Time, cause: &str) {
        if time > Time::ZERO {
            let activity = self.lasting(time, cause);
            self.ops.push(Op::Run { activity });
        }
    }

    pub(super) fn run(&mut self, activity: Activity) {
        self.activities.push(activity);
        let activity = Affine::constant(self.activities.len() as i32 - 1);
        self.ops.push(Op::Run { activity });
    }

    /// Adds to a counter at once.
    pub(super) fn add(&mut self, counter: CounterId) {
        let counter = self.slot(Object::Counter(counter));
        self.ops.push(Op::Add { counter, amount: 1, after: None });
    }

    /// Adds to a counter when a time has passed, for which the lane does not wait.
    pub(super) fn add_after(&mut self, counter: CounterId, amount: u32, time: Time, cause: &str) {
        let (counter, after) = (self.slot(Object::Counter(counter)), Some(self.lasting(time, cause)));
        self.ops.push(Op::Add { counter, amount, after });
    }

    pub(super) fn wait(&mut self, counter: CounterId, at_least: i32, cause: &str) {
        let (counter, cause) = (self.slot(Object::Counter(counter)), self.cause(cause));
        self.ops.push(Op::Wait { counter, at_least: Affine::constant(at_least), cause });
    }

    /// Ends a part of the lane at which a halted one goes on.
    pub(super) fn section(&mut self) {
        let block = self.program.block("section", std::mem::take(&mut self.ops));
        self.calls.push(Call::once(block));
    }

    /// Adds the stream to the program.
    pub(super) fn end(mut self, name: String) {
        self.section();
        let role = self.program.role(self.calls);
        let costs = self.program.cost_table(self.activities, Vec::new());
        let binding = self.program.binding(self.slots, Some(costs));
        self.program.stream(name, binding, Body::Role(role));
    }
}
