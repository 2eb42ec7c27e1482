//! The interpreter: executes the operations of a stream until it has to wait.

use super::jobs::Job;
use super::stores::Request;
use super::{Engine, Status};
use crate::fixed::RATE_BITS;
use crate::id::{BindingId, BlockId, RouteId};
use crate::observe::Watch;
use crate::outcome::{End, Limit};
use crate::platform::{Demand, Platform};
use crate::program::{Activity, Affine, Body, CellRef, Op, Slot};
use crate::time::Time;

impl<'a, O: Watch> Engine<'a, O> {
    /// A stream can go on.
    pub(super) fn resume(&mut self, s: u32) {
        let goes_on = match self.state.streams[s as usize].status {
            Status::Ready | Status::Ahead => true,
            Status::Latency => self.begin_work(s, self.running(s)),
            Status::InFlow => self.flow_due(s),
            Status::InSegment => {
                self.finish_segment(s);
                true
            }
            Status::OnCounter => match *self.op_of(s) {
                Op::Wait { counter, cause, .. } => {
                    self.finish_wait(s, self.slot(s, counter), cause);
                    true
                }
                _ => false,
            },
            _ => false,
        };
        if goes_on {
            self.interpret(s);
        }
    }

    pub(super) fn interpret(&mut self, s: u32) {
        loop {
            let stream = &self.state.streams[s as usize];
            let (pc, end) = (stream.pc, stream.end);
            if pc == end {
                if self.next_block(s) {
                    continue;
                }
                return;
            }
            let code = &self.inputs.code;
            let op = &code.ops[pc as usize];
            if self.inputs.plans.saves_at(pc)
                && let Some(stretch) = self.stretch_at(s, pc)
            {
                if self.is_ahead() {
                    return self.wait_for_clock(s);
                }
                if self.enter_segment(s, stretch) {
                    return;
                }
            }
            match self.step(s, op) {
                Step::Next => self.state.streams[s as usize].pc += 1,
                Step::Moved => {}
                Step::Blocked => return,
                Step::Noticed => return self.wait_for_clock(s),
            }
        }
    }

    #[inline(always)]
    fn step(&mut self, s: u32, op: &Op) -> Step {
        match *op {
            Op::Run { activity } => {
                if self.run(s, activity) {
                    Step::Moved
                } else {
                    Step::Blocked
                }
            }
            Op::Wait { counter, at_least, cause } => {
                let counter = self.slot(s, counter);
                if self.state.counters[counter].is_channel {
                    self.receive(s, counter, at_least, cause)
                } else if self.is_ahead() {
                    Step::Noticed
                } else {
                    self.wait(s, counter, at_least).into()
                }
            }
            Op::Add { counter, amount, after } => {
                let counter = self.slot(s, counter);
                if self.is_ahead() && !self.sends_unnoticed(counter) {
                    return Step::Noticed;
                }
                self.add(s, counter, amount, after).into()
            }
            Op::Acquire { store, bytes, kind, shortage, priority, .. } => {
                let Some(bytes) = self.size(s, bytes) else { return Step::Blocked };
                let store = self.slot(s, store);
                if self.is_ahead() && !self.state.stores[store].is_own {
                    return Step::Noticed;
                }
                self.acquire(s, Request { store, bytes, kind, shortage, priority }).into()
            }
            Op::Release { store, bytes, kind } => {
                let Some(bytes) = self.size(s, bytes) else { return Step::Blocked };
                let store = self.slot(s, store);
                if self.is_ahead() && !self.state.stores[store].is_own {
                    return Step::Noticed;
                }
                self.release(s, store, bytes, kind).into()
            }
            Op::Mark => {
                self.mark(s);
                Step::Next
            }
            _ if self.is_ahead() => Step::Noticed,
            Op::Hold { pool, units, priority, .. } => {
                self.hold(s, self.slot(s, pool), units, priority).into()
            }
            Op::Drop { pool, units } => self.give_back(s, self.slot(s, pool), units).into(),
            Op::Join { group, activity, .. } => {
                self.join(s, self.slot(s, group), activity);
                Step::Blocked
            }
            _ => self.step_on_items(s, op),
        }
    }

    /// Operations on queues, cells and other streams.
    fn step_on_items(&mut self, s: u32, op: &Op) -> Step {
        match *op {
            Op::Post { queue, block, args, ticket, priority } => {
                let queue = self.slot(s, queue);
                let Some(job) = self.job(s, block, args, ticket, priority) else { return Step::Blocked };
                self.post(s, queue, job);
                Step::Next
            }
            Op::Cancel { ticket } => self.on_cell(s, ticket, |engine, cell| {
                engine.cancel(s, cell);
                true
            }),
            Op::Await { cell, state, .. } => {
                self.on_cell(s, cell, |engine, cell| engine.await_cell(s, cell, state))
            }
            Op::Set { cell, state } => self.on_cell(s, cell, |engine, cell| {
                engine.set_cell(s, cell, state);
                true
            }),
            Op::Branch { cell, targets } => {
                let Some(cell) = self.cell(s, cell) else { return Step::Blocked };
                let targets = &self.inputs.program.branches[targets.index()];
                let state = self.state.cells[cell].state as usize;
                let target = targets[state.min(targets.len() - 1)];
                let stream = &mut self.state.streams[s as usize];
                stream.pc = (self.inputs.code.first_op[stream.block as usize] + target).min(stream.end);
                Step::Moved
            }
            Op::Halt { stream, call } => {
                let target = self.slot(s, stream) as u32;
                self.halt(s, target, call);
                Step::Next
            }
            _ => Step::Next,
        }
    }

    fn on_cell(&mut self, s: u32, cell: CellRef, act: impl FnOnce(&mut Self, usize) -> bool) -> Step {
        match self.cell(s, cell) {
            Some(cell) => act(self, cell).into(),
            None => Step::Blocked,
        }
    }

    fn job(
        &mut self,
        s: u32,
        block: BlockId,
        args: [Affine; 2],
        ticket: Option<CellRef>,
        priority: u8,
    ) -> Option<Job> {
        let ticket = match ticket {
            Some(cell) => Some(self.cell(s, cell)? as u32),
            None => None,
        };
        let own = self.state.streams[s as usize].args;
        let args = args.map(|a| a.at(own).clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32);
        let binding = self.state.streams[s as usize].bound.binding;
        let account = self.path_of(s);
        Some(Job { priority, block, args, binding, ticket, account })
    }

    /// At the end of a block: enters the next one. False when the stream has ended or idles.
    fn next_block(&mut self, s: u32) -> bool {
        self.state.blocks += 1;
        if self.state.blocks > self.inputs.options.events_max {
            self.state.end = Some(End::Limit(Limit::Events(self.inputs.options.events_max)));
            return false;
        }
        let role = match self.inputs.program.streams[s as usize].body {
            Body::Role(role) => role,
            Body::Serve(queue) => {
                self.finish_job(s);
                return self.serve_queue(s, queue.index());
            }
        };
        let calls = &self.inputs.program.roles[role.index()].calls;
        let stream = &mut self.state.streams[s as usize];
        if stream.left > 0 {
            let step = calls[stream.call as usize - 1].step;
            stream.left -= 1;
            stream.args = [stream.args[0].wrapping_add(step[0]), stream.args[1].wrapping_add(step[1])];
            stream.pc = self.inputs.code.first_op[stream.block as usize];
            return true;
        }
        while let Some(call) = calls.get(stream.call as usize) {
            stream.call += 1;
            if call.repeat > 0 {
                stream.left = call.repeat - 1;
                stream.args = call.args;
                self.enter(s, call.block);
                return true;
            }
        }
        stream.status = Status::Done;
        stream.finished = Some(self.state.now);
        false
    }

    /// A stream's next operation is the first of a block.
    pub(super) fn enter(&mut self, s: u32, block: BlockId) {
        let stream = &mut self.state.streams[s as usize];
        stream.block = block.0;
        stream.pc = self.inputs.code.first_op[block.index()];
        stream.end = self.inputs.code.first_op[block.index() + 1];
    }

    /// A worker executes with the binding of a job.
    pub(super) fn bind(&mut self, s: u32, binding: BindingId) {
        self.state.streams[s as usize].bound = self.inputs.code.bindings[binding.index()];
    }

    /// What a slot of a stream stands for.
    #[inline]
    pub(super) fn slot(&self, s: u32, slot: Slot) -> usize {
        self.slots(s)[slot as usize] as usize
    }

    /// Objects that the slots of a stream stand for.
    #[inline]
    pub(super) fn slots(&self, s: u32) -> &'a [u32] {
        &self.inputs.code.slots[self.state.streams[s as usize].bound.slots as usize..]
    }

    /// The cell an operation of a stream refers to; the run ends if there is none.
    pub(super) fn cell(&mut self, s: u32, cell: CellRef) -> Option<usize> {
        let found = self.find_cell(s, cell);
        if found.is_none() {
            self.invalid(s, "refers to a cell that does not exist");
        }
        found
    }

    pub(super) fn find_cell(&self, s: u32, cell: CellRef) -> Option<usize> {
        let index = self.slot(s, cell.slot) as i64 + cell.index.at(self.state.streams[s as usize].args);
        usize::try_from(index).ok().filter(|&index| index < self.state.cells.len())
    }

    /// The activity an operation of a stream refers to; the run ends if there is none.
    #[inline(always)]
    pub(super) fn activity(&mut self, s: u32, index: Affine) -> Option<&'a Activity> {
        let found = self.find_activity(s, index);
        if found.is_none() {
            self.invalid(s, "refers to an activity that its binding does not have");
        }
        Some(&self.inputs.code.activities[found? as usize])
    }

    /// The position of an activity that an operation of a stream refers to.
    #[inline(always)]
    pub(super) fn find_activity(&self, s: u32, index: Affine) -> Option<u32> {
        let stream = &self.state.streams[s as usize];
        self.inputs.code.position(&stream.bound, index.at(stream.args))
    }

    /// The activity of a run that a stream begins; all ends if there is none.
    #[inline(always)]
    pub(super) fn begin_running(&mut self, s: u32, index: Affine) -> Option<&'a Activity> {
        let activity = self.activity(s, index)?;
        self.state.streams[s as usize].running = self.find_activity(s, index)?;
        Some(activity)
    }

    /// The activity of the run that a stream is in.
    #[inline]
    pub(super) fn running(&self, s: u32) -> &'a Activity {
        &self.inputs.code.activities[self.state.streams[s as usize].running as usize]
    }

    /// The size an operation of a stream refers to.
    #[inline(always)]
    pub(super) fn find_size(&self, s: u32, index: Affine) -> Option<u64> {
        let stream = &self.state.streams[s as usize];
        let (base, count) = stream.bound.sizes;
        let index = u32::try_from(index.at(stream.args)).ok().filter(|&i| i < count)?;
        Some(self.inputs.code.sizes[(base + index) as usize])
    }

    #[inline(always)]
    fn size(&mut self, s: u32, index: Affine) -> Option<u64> {
        let found = self.find_size(s, index);
        if found.is_none() {
            self.invalid(s, "refers to a size that its binding does not have");
        }
        found
    }

    /// The route of a stream's activity.
    #[inline]
    pub(super) fn route(&self, s: u32, activity: &Activity) -> Option<RouteId> {
        activity.route.map(|slot| RouteId::from(self.slot(s, slot)))
    }

    /// The demands of a route.
    #[inline]
    pub(super) fn demands_on(&self, route: RouteId) -> &'a [Demand] {
        let platform: &'a Platform = self.inputs.platform;
        &platform.routes[route.index()].demands
    }

    /// The operation a stream stands at.
    #[inline]
    pub(super) fn op_of(&self, s: u32) -> &'a Op {
        &self.inputs.code.ops[self.state.streams[s as usize].pc as usize]
    }

    /// Ends the run: the program asks for something that does not exist.
    pub(super) fn invalid(&mut self, s: u32, reason: &'static str) -> bool {
        let place = self.place(s);
        self.state.end.get_or_insert(End::Invalid { place, reason });
        false
    }

    /// A latency with the noise of the present operation; each call draws for a new operation.
    #[inline]
    pub(super) fn vary(&mut self, s: u32, latency: Time) -> Time {
        if !self.inputs.noisy {
            return latency;
        }
        let device = self.inputs.program.streams[s as usize].device;
        let drawn = self.state.streams[s as usize].drawn;
        self.state.streams[s as usize].drawn += 1;
        let factor = self.state.noise.factor(device, s, drawn);
        let pause = self.state.noise.pause(s, drawn, latency);
        factor.scale(latency).saturating_add(pause)
    }

    /// Work in 2^-40 units with the noise of the operation whose latency was drawn last.
    pub(super) fn vary_work(&mut self, s: u32, work: u64) -> u128 {
        let work = u128::from(work) << RATE_BITS;
        if !self.inputs.noisy {
            return work;
        }
        let device = self.inputs.program.streams[s as usize].device;
        let drawn = self.state.streams[s as usize].drawn - 1;
        // 2^-32 in two steps of 16 bits: the work has up to 104.
        ((work >> 16) * u128::from(self.state.noise.factor(device, s, drawn).0)) >> 16
    }
}

/// How an operation left its stream.
pub(super) enum Step {
    /// At the next operation.
    Next,
    /// At an operation it chose.
    Moved,
    /// Waiting, or the run has ended.
    Blocked,
    /// At an operation that others could notice, ahead of the clock.
    Noticed,
}

impl From<bool> for Step {
    fn from(goes_on: bool) -> Self {
        if goes_on { Self::Next } else { Self::Blocked }
    }
}
