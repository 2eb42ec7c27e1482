//! Operations of one lane, as they are written.

use std::collections::BTreeMap;

use sim_core::id::{CauseId, CounterId};
use sim_core::program::{Activity, Affine, Body, Call, Op, Program, Slot};
use sim_core::time::Time;

/// A lane under construction: what its slots stand for, and its operations so far.
pub(super) struct LaneOps<'a> {
    pub(super) program: &'a mut Program,
    pub(super) ops: Vec<Op>,
    calls: Vec<Call>,
    slots: Vec<u32>,
    by_counter: BTreeMap<u32, Slot>,
    activities: Vec<Activity>,
    by_activity: BTreeMap<(Time, CauseId), i32>,
}

impl<'a> LaneOps<'a> {
    pub(super) fn new(program: &'a mut Program) -> Self {
        let (ops, calls, slots, by_counter, activities, by_activity) = Default::default();
        Self { program, ops, calls, slots, by_counter, activities, by_activity }
    }

    /// A new slot.
    pub(super) fn slot(&mut self, object: u32) -> Slot {
        self.slots.push(object);
        (self.slots.len() - 1) as Slot
    }

    fn counter(&mut self, counter: CounterId) -> Slot {
        if let Some(&slot) = self.by_counter.get(&counter.0) {
            return slot;
        }
        let slot = self.slot(counter.0);
        self.by_counter.insert(counter.0, slot);
        slot
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
        let counter = self.counter(counter);
        self.ops.push(Op::Add { counter, amount: 1, after: None });
    }

    /// Adds to a counter when a time has passed, for which the lane does not wait.
    pub(super) fn add_after(&mut self, counter: CounterId, amount: u32, time: Time, cause: &str) {
        let (counter, after) = (self.counter(counter), Some(self.lasting(time, cause)));
        self.ops.push(Op::Add { counter, amount, after });
    }

    pub(super) fn wait(&mut self, counter: CounterId, at_least: i32, cause: &str) {
        let (counter, cause) = (self.counter(counter), self.cause(cause));
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
