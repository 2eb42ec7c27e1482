//! Joins: the last to arrive starts the one activity, all resume at its end.

use super::activities::{Owner, duration, fixed_work};
use super::ledger::Account;
use super::{Engine, Status};
use crate::id::{CauseId, StreamId};
use crate::observe::Watch;
use crate::platform::Demand;
use crate::program::{Activity, Affine, Op};
use crate::time::Time;

/// One group.
#[derive(Clone, Debug, Default)]
pub(super) struct GroupState {
    /// In order of arrival: the members of the activity under way, then those that wait for the next one.
    pub(super) arrived: Vec<u32>,
    /// The activity under way.
    running: Option<Common>,
}

/// The activity all members wait for.
#[derive(Clone, Copy, Debug)]
struct Common {
    activity: Activity,
    /// How many of those that arrived first it belongs to.
    members: usize,
    /// With the noise of the last arrival, in 2^-40 units.
    work: u128,
    /// The last arrival.
    since: Time,
    /// The path of the last to arrive.
    account: Account,
    flow: Option<u32>,
    /// When the latency ends.
    wake: Time,
}

impl<'a, O: Watch> Engine<'a, O> {
    /// [`Op::Join`]: true when the stream may go on at once (a group of one with an empty activity).
    pub(super) fn join(&mut self, s: u32, group: usize, index: Affine) -> bool {
        let Some(activity) = self.activity(s, index) else { return false };
        let stream = &mut self.state.streams[s as usize];
        stream.status = Status::InGroup;
        stream.since = self.state.now;
        let members = self.inputs.program.groups[group].members as usize;
        let state = &mut self.state.groups[group];
        state.arrived.push(s);
        let under_way = state.running.map_or(0, |common| common.members);
        if state.arrived.len() - under_way < members {
            return false;
        }
        if state.running.is_some() {
            return self.invalid(s, "joins a group of other streams, whose activity is under way");
        }
        let mut latency = activity.latency;
        let demands = self.group_demands(group);
        if demands.is_empty() && activity.work > 0 {
            latency = latency.saturating_add(duration(fixed_work(activity.work), activity.cap));
        }
        let latency = self.vary(s, latency);
        let work = self.vary_work(s, activity.work);
        let account = self.state.streams[s as usize].path.share(&mut self.state.ledger);
        let wake = self.state.now.saturating_add(latency);
        let common =
            Common { activity: *activity, members, work, since: self.state.now, account, flow: None, wake };
        self.state.groups[group].running = Some(common);
        if latency > Time::ZERO {
            self.state.timers.push(wake, self.group_entity(group));
        } else {
            self.begin_common(group);
        }
        false
    }

    /// The latency of a group's activity may be over.
    pub(super) fn group_timer(&mut self, group: usize) {
        let due =
            self.state.groups[group].running.is_some_and(|c| c.wake == self.state.now && c.flow.is_none());
        if due {
            self.begin_common(group);
        }
    }

    /// Puts the work of a group's activity on its route, or ends it.
    fn begin_common(&mut self, group: usize) {
        let Some(common) = self.state.groups[group].running else { return };
        let route = self.inputs.program.groups[group].route;
        if common.activity.work == 0 || self.group_demands(group).is_empty() {
            self.finish_common(group, Time::ZERO, common.activity.cause);
            return;
        }
        let flow = self.begin_flow(Owner::Group(group as u32), route, common.activity.cap, common.work);
        if let Some(common) = &mut self.state.groups[group].running {
            common.flow = Some(flow);
        }
    }

    /// The flow of a group's activity is due.
    pub(super) fn group_flow_due(&mut self, group: usize) {
        let Some(Common { activity, since, flow: Some(flow), .. }) = self.state.groups[group].running else {
            return;
        };
        let elapsed = (self.state.now - since).saturating_sub(activity.latency);
        let route = self.inputs.program.groups[group].route;
        let (lost, cause) = match self.end_flow(flow, activity.work, route) {
            Some(fluid) => {
                let lost = self.lost(flow, route, activity.cap, elapsed);
                (lost, self.inputs.platform.fluids[fluid.index()].cause)
            }
            None => (Time::ZERO, activity.cause),
        };
        self.finish_common(group, lost, cause);
    }

    /// Lets all members go: before the last arrival they spent skew, after it the activity; the critical path is that of
    /// the last to arrive.
    fn finish_common(&mut self, group: usize, lost: Time, lost_cause: CauseId) {
        let running = self.state.groups[group].running.take();
        let Some(Common { activity, members: count, since, account, .. }) = running else { return };
        self.state.activities += 1;
        let own = self.state.now - since - lost;
        let mut members = std::mem::take(&mut self.state.groups[group].arrived);
        // The path is that of the last to arrive.
        let last = StreamId(members[count - 1]);
        let account = self.state.ledger.charge(account, last, activity.cause, own);
        let account = self.state.ledger.charge(account, last, lost_cause, lost);
        for member in members.drain(..count) {
            let skew = match *self.op_of(member) {
                Op::Join { cause, .. } => cause,
                _ => activity.cause,
            };
            self.spend(member, skew, since - self.state.streams[member as usize].since);
            self.spend(member, activity.cause, own);
            if lost > Time::ZERO {
                self.spend(member, lost_cause, lost);
            }
            let share = self.state.ledger.share(account);
            self.take_over(member, share);
            self.go_on(member, since);
            self.next_round.push(member);
        }
        self.state.ledger.close(account);
        self.state.groups[group].arrived = members;
    }

    /// Takes a halted stream out of its group; an activity that is under way goes on for the others, if there are any.
    pub(super) fn leave_group(&mut self, s: u32, group: usize) {
        let state = &mut self.state.groups[group];
        let Some(at) = state.arrived.iter().position(|&m| m == s) else { return };
        state.arrived.remove(at);
        let Some(common) = &mut state.running else { return };
        if at < common.members {
            common.members -= 1;
        }
        if common.members == 0 {
            let Common { account, flow, .. } = *common;
            state.running = None;
            self.state.ledger.close(account);
            if let Some(flow) = flow {
                self.drop_flow(flow, self.inputs.program.groups[group].route);
            }
        }
    }

    fn group_demands(&self, group: usize) -> &'a [Demand] {
        self.inputs.program.groups[group].route.map_or(&[], |route| self.demands_on(route))
    }
}
