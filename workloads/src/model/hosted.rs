//! States of the optimizer that are with the hosts of their GPUs (ZeRO-Offload, Ren et al., ATC 2021), or on their drives
//! (ZeRO-Infinity, Rajbhandari et al., SC 2021): gradients leave, the host updates, parameters come back, or stay there.
//!
//! ```text
//! of a parameter     fp16 or bf16, its gradient in the type of the sums        on its way   g + 2 B
//! at the host        fp32 parameter, moments, gradient                         held         4 + 8 + g B, two gradients where delayed
//! on drives          all of it in fp32                                held         16 B, 4 of them written by passes
//!                    gradients that pass its buffers                  on their way 4 B
//!                                                                     moved        16 B read, 12 B written
//! Adam               all of them read, all but the gradient written, and the   processed    12 + g + 12 + 2 B
//!                    parameter as the GPU reads it
//! before it          gradients unscaled and clipped    processed    2 g B, not of states on drives
//! ```
//!
//! Gradients of stages of a pipeline, which are summed on the GPU, leave at the end of a step and
//! wait in host memory, not on drives.
//!
//! Parameters may be on drives, too: a block's are read ahead of every pass, and what a group's update has made of them is written.
//!
//! Gradients of several micro-batches are summed on the GPU: what the host has of them comes back, is added to and leaves again
//! (DeepSpeed, `async_accumulate_grad_in_cpu_via_gpu`). Division by the loss scale and clipping are
//! a pass of the host before Adam (`unscale_and_clip_grads`); of states on drives it is part of
//! what the host does with a group.
//!
//! States may also come to the GPU for an update that is its own, group by group, and leave again:
//! the host has the fp32 parameter and the moments, and nothing else moves.
//!
//! A part of the states may stay with the GPU (Twin-Flow of ZeRO-Offload++, DeepSpeed's `ratio`;
//! Megatron Core's `--optimizer-offload-fraction`): it updates them while the host updates the rest.

use std::cmp::Reverse;
use std::collections::VecDeque;

use crate::exchange::{Exchange, Tie};
use crate::graph::{OpId, Phase};
use crate::host_update::{ALL, HostEvent, HostLane, HostTask, HostUpdate, HostedStates, KeptParameters};

use super::draft::{Draft, Name};
use super::laid::Laid;
use super::transformer::{MOMENTS, StateBytes, States};
use crate::graph::operator::{HostWork, HostWorkKind, Medium, Operator, Role, TierCopy, Work};

/// Settings with a part in what hosts can update.
pub(crate) const INVOLVED: [&str; 3] = ["parallelism.sharding", "parallelism.pipeline", "training.step"];

/// Bytes of a state in fp32.
const SINGLE: u64 = 4;

/// What a rank holds throughout, by place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Places {
    pub(crate) gpu: StateBytes,
    pub(crate) host: StateBytes,
    pub(crate) drives: StateBytes,
}

impl HostedStates {
    /// Where what a rank holds is; each parameter has so many `moments`.
    pub(crate) fn places(&self, all: StateBytes, states: States, moments: u64) -> Places {
        let of_adam = states.optimizer_bytes() - SINGLE * MOMENTS;
        let each = of_adam + SINGLE * moments;
        let updated = all.optimizer / each;
        let shared = self.on_host(updated);
        let here = updated - shared;
        let kept = SINGLE * (1 + moments);
        if self.pages {
            let on_gpu = here + self.buffered(shared);
            let host = StateBytes { parameters: 0, gradients: 0, optimizer: shared * paged(states, moments) };
            let drives = StateBytes { optimizer: 0, ..host };
            return Places { gpu: StateBytes { optimizer: on_gpu * each, ..all }, host, drives };
        }
        let [parameters_here, parameters_there, parameters_on_drives] = match self.parameters {
            KeptParameters::Gpu => [all.parameters, 0, 0],
            KeptParameters::Host => [0, all.parameters, 0],
            // What its buffers hold is added where blocks are known.
            KeptParameters::Drives => [0, 0, all.parameters],
        };
        let gradients = match (self.all_gradients, self.delayed) {
            // They pass the buffers of states.
            (false, _) => 0,
            (true, false) => shared * states.gradient_bytes(),
            (true, true) => 2 * shared * states.gradient_bytes(),
        };
        let [at_host, drives] = if self.states_on_drives {
            [self.buffers(shared, moments), shared * (kept + self.gradient_on_drives())]
        } else {
            [shared * kept, 0]
        };
        Places {
            gpu: StateBytes {
                parameters: parameters_here,
                gradients: if self.beside { here * states.gradient_bytes() } else { all.gradients },
                optimizer: here * each,
            },
            host: StateBytes { parameters: parameters_there, gradients, optimizer: at_host },
            drives: StateBytes { parameters: parameters_on_drives, gradients: 0, optimizer: drives },
        }
    }

    /// Parameters of a number that the host updates.
    pub(crate) fn on_host(&self, parameters: u64) -> u64 {
        let part = u128::from(parameters) * u128::from(self.billionths) / u128::from(ALL);
        part as u64
    }

    /// Bytes of a parameter's gradient on drives, where gradients go on as they come. Those that
    /// come at the end of a step wait in host memory.
    const fn gradient_on_drives(&self) -> u64 {
        if self.states_on_drives && self.beside { SINGLE } else { 0 }
    }

    /// Parameters of `shared` whose states are in buffers at a time.
    pub(crate) fn buffered(&self, shared: u64) -> u64 {
        self.group.saturating_mul(self.buffers.into()).min(shared)
    }

    /// Bytes of those buffers: of each parameter its fp32 copy, its moments and its gradient.
    fn buffers(&self, shared: u64, moments: u64) -> u64 {
        self.buffered(shared) * SINGLE * (2 + moments)
    }

    /// Bytes of `bytes` of gradients as they leave the GPU: in fp32 where they go to buffers.
    pub(crate) fn leaving(&self, bytes: u64, states: States) -> u64 {
        if self.all_gradients { bytes } else { bytes / states.gradient_bytes() * SINGLE }
    }

    /// Operators of a step that [`updates`] adds beside one of the visits or exchanges: what a
    /// group is read from and written to, and buffers of gradients.
    pub(crate) fn beside(&self, operator: &Operator) -> u64 {
        let count = |there: bool, operators: u64| if there { operators } else { 0 };
        match operator.work {
            Work::Host(HostWork { kind: HostWorkKind::Update, .. }) => {
                let back = count(!self.parameters.are_away(), 1);
                count(self.states_on_drives, 2) + count(self.parameters.are_on_drives(), 1) + back
            }
            Work::Transfer(TierCopy { to: Medium::HOST, .. }) => {
                count(self.gradient_on_drives() > 0, if self.all_gradients { 2 } else { 1 })
            }
            _ => 0,
        }
    }

    /// Appends what updates a number of parameters, group by group. The last group follows what the
    /// GPU does with the parameters that it updates itself, whose number `here` is told.
    pub(crate) fn update(
        &self,
        draft: &mut Draft,
        parameters: u64,
        (states, moments): (States, u64),
        here: impl FnOnce(&mut Draft, u64),
    ) {
        let on_gpu = parameters - self.on_host(parameters);
        let parameters = parameters - on_gpu;
        if !self.beside {
            let bytes = parameters * states.gradient_bytes();
            draft.push(
                "gradients to the host",
                transfer(Role::Gradient, [Medium::HBM, Medium::HOST], bytes),
                &[Name::of("gradients")],
                &[],
            );
        }
        let of_states = SINGLE * (1 + moments);
        let narrow = if states.copy_bytes() > 0 { states.parameter_bytes() } else { 0 };
        let gradient = match self.gradient_on_drives() {
            0 => states.gradient_bytes(),
            single => single,
        };
        let unscaled = if self.states_on_drives || narrow == 0 { 0 } else { 2 * gradient };
        let each = 2 * of_states + gradient + narrow + unscaled;
        let groups = parameters.div_ceil(self.group.max(1)).max(1 + u64::from(on_gpu > 0));
        let mut here = Some(here).filter(|_| on_gpu > 0);
        for group in 0..groups {
            if group + 1 == groups
                && let Some(here) = here.take()
            {
                here(draft, on_gpu);
            }
            let count = of_group(parameters, group, groups);
            let update = Work::Host(HostWork { kind: HostWorkKind::Update, bytes: count * each });
            draft.push("update on the host", update, &[], &[]);
        }
    }

    /// Appends the update of a number of parameters by the GPU, `here`: of those whose states it
    /// has, then group by group, whose states come and leave.
    pub(crate) fn page(
        &self,
        draft: &mut Draft,
        parameters: u64,
        (states, moments): (States, u64),
        here: impl Fn(&mut Draft, u64),
    ) {
        let shared = self.on_host(parameters);
        if shared < parameters {
            here(draft, parameters - shared);
        }
        let groups = shared.div_ceil(self.group.max(1));
        for group in 0..groups {
            let count = of_group(shared, group, groups);
            let bytes = count * paged(states, moments);
            draft.push("states to the GPU", transfer(Role::State, TO_GPU, bytes), &[], &[]);
            here(draft, count);
            draft.push("states to the host", transfer(Role::State, TO_HOST, bytes), &[], &[]);
        }
    }
}

/// Parameters of a group, of a number of them that are divided into alike groups.
const fn of_group(parameters: u64, group: u64, groups: u64) -> u64 {
    parameters * (group + 1) / groups - parameters * group / groups
}

const TO_GPU: [Medium; 2] = [Medium::HOST, Medium::HBM];
const TO_HOST: [Medium; 2] = [Medium::HBM, Medium::HOST];

/// Bytes of a parameter's states that come for its update, and leave again: its copy in fp32, where
/// it has one, and its moments.
const fn paged(states: States, moments: u64) -> u64 {
    states.copy_bytes() + SINGLE * moments
}

/// A copy of bytes from one medium to another.
pub(crate) const fn transfer(role: Role, [from, to]: [Medium; 2], bytes: u64) -> Work {
    Work::Transfer(TierCopy { role, from, to, bytes })
}

/// Adds to `laid` what goes on between hosts, their drives and GPUs beside the update. Gives tasks
/// of hosts, by stage; `updated` are the parameters that a rank of each stage updates, each with
/// so many `moments`.
pub(crate) fn updates(
    laid: &mut Laid,
    exchanges: &[Exchange],
    hosted: Option<HostedStates>,
    (states, moments): (States, u64),
    updated: &[u64],
) -> Vec<HostUpdate> {
    let Some(hosted) = hosted else { return Vec::new() };
    let of_stage = |(stage, &updated)| {
        let mut host = Host { laid: &mut *laid, stage, tasks: Vec::new(), held_back: Vec::new() };
        if hosted.pages {
            return host.page(hosted.buffers as usize);
        }
        if hosted.states_on_drives {
            if hosted.all_gradients {
                host.keep_gradients(exchanges, states);
            } else {
                host.pass_gradients(exchanges, hosted.buffers(hosted.on_host(updated), moments));
            }
        }
        host.update(&hosted, updated, (states, moments));
        let last = |lane| host.tasks.iter().rposition(|task| task.lane == lane);
        let [written, back] = [HostLane::Write, HostLane::Return].map(last);
        // What nothing else waits for; lanes go on in turn.
        let updated = last(HostLane::Process).filter(|_| written.or(back).is_none());
        let awaited = [written, updated, back].into_iter().flatten().collect();
        HostUpdate { stage, tasks: host.tasks, needed: Vec::new(), awaited, held_back: host.held_back }
    };
    (0u32..).zip(updated).map(of_stage).collect()
}

/// The host of a stage with its tasks so far.
struct Host<'a> {
    laid: &'a mut Laid,
    stage: u32,
    tasks: Vec<HostTask>,
    /// Copies of gradients that need a buffer, and the tasks that have freed it.
    held_back: Vec<(OpId, usize)>,
}

impl Host<'_> {
    /// Gradients that host memory has go on to drives as they come from the GPU.
    fn keep_gradients(&mut self, exchanges: &[Exchange], states: States) {
        for (received, bytes) in self.received(exchanges) {
            let single = bytes / states.gradient_bytes() * SINGLE;
            let copy = Work::Host(HostWork { kind: HostWorkKind::Copy, bytes: single });
            let copy = self.once("gradients to a buffer", copy);
            let copied = self.task(HostLane::Process, vec![copy], [HostEvent::Exchanged(received)]);
            let written = transfer(Role::State, [Medium::HOST, Medium::DRIVES], single);
            let write = self.once("gradients to drives", written);
            self.task(HostLane::Write, vec![write], [HostEvent::Ended(copied)]);
        }
    }

    /// Gradients go on to drives from buffers, into which the GPU copies no more than have room:
    /// one copy waits until as many before it are written as leave room for it, or all.
    fn pass_gradients(&mut self, exchanges: &[Exchange], room: u64) {
        let (mut buffered, mut full) = (VecDeque::new(), 0);
        for (received, bytes) in self.received(exchanges) {
            let written = transfer(Role::State, [Medium::HOST, Medium::DRIVES], bytes);
            let write = self.once("gradients to drives", written);
            let write = self.task(HostLane::Write, vec![write], [HostEvent::Exchanged(received)]);
            let mut freed = None;
            while full + bytes > room
                && let Some((before, its)) = buffered.pop_front()
            {
                (freed, full) = (Some(before), full - its);
            }
            self.held_back.extend(freed.map(|before| (received, before)));
            buffered.push_back((write, bytes));
            full += bytes;
        }
    }

    /// Copies of gradients from the GPU with their bytes, in the order of the backward pass, which
    /// begins with the last chunk.
    fn received(&self, exchanges: &[Exchange]) -> Vec<(OpId, u64)> {
        let graph = &self.laid.graph;
        let copy = |exchange: &Exchange| {
            let (Tie::Reduce { writer, .. }, &received) = (exchange.tie, exchange.ops.last()?) else {
                return None;
            };
            match graph.operator(received).work {
                Work::Transfer(TierCopy { to: Medium::HOST, bytes, .. }) => Some((writer, received, bytes)),
                _ => None,
            }
        };
        let mut copies: Vec<_> = exchanges.iter().filter_map(copy).collect();
        copies.sort_by_key(|&(writer, ..)| (Reverse(graph.get(writer).chunk), writer));
        copies.into_iter().map(|(_, received, bytes)| (received, bytes)).collect()
    }

    /// Groups are updated in turn. States on drives come before that and go back then, parameters
    /// go to where they are kept.
    fn update(&mut self, hosted: &HostedStates, updated: u64, (states, moments): (States, u64)) {
        let visit = self.laid.graph.visit(self.stage, 0, Phase::Update).to_vec();
        let groups: Vec<OpId> = visit.into_iter().filter(|&op| is_update(self.laid, op)).collect();
        let each = hosted.on_host(updated).div_ceil(groups.len().max(1) as u64);
        let gradient = each * hosted.gradient_on_drives();
        let [kept, half] = [each * SINGLE * (1 + moments), each * states.parameter_bytes()];
        let (from_drives, to_drives) = ([Medium::DRIVES, Medium::HOST], [Medium::HOST, Medium::DRIVES]);
        // No states are read before all gradients are on the drives.
        let gradients = self.tasks.len().checked_sub(1).map(HostEvent::Ended);
        let mut freed = Vec::new();
        for (number, update) in groups.into_iter().enumerate() {
            // What follows on a lane comes after its first task.
            let begins = (number == 0).then_some(HostEvent::Passes);
            let read = hosted.states_on_drives.then(|| {
                let way = transfer(Role::State, from_drives, kept + gradient);
                let read = self.once("states from drives", way);
                let buffer = number.checked_sub(hosted.buffers as usize).map(|before| freed[before]);
                let after = [begins, begins.and(gradients), buffer];
                HostEvent::Ended(self.task(HostLane::Read, vec![read], after.into_iter().flatten()))
            });
            let updated = self.task(HostLane::Process, vec![update], begins.into_iter().chain(read));
            let mut writes = Vec::new();
            if hosted.states_on_drives {
                writes.push(self.once("states to drives", transfer(Role::State, to_drives, kept)));
            }
            if hosted.parameters.are_on_drives() {
                writes.push(self.once("parameters to drives", transfer(Role::Parameter, to_drives, half)));
            }
            if !writes.is_empty() {
                freed.push(HostEvent::Freed(self.task(HostLane::Write, writes, [HostEvent::Ended(updated)])));
            }
            if !hosted.parameters.are_away() {
                let way = transfer(Role::Parameter, [Medium::HOST, Medium::HBM], half);
                let back = self.once("parameters to the GPU", way);
                if hosted.delayed {
                    let after = begins.into_iter().chain([HostEvent::EndedBefore(updated)]);
                    self.task(HostLane::Return, vec![back], after);
                } else {
                    self.task(HostLane::Return, vec![back], [HostEvent::Ended(updated)]);
                }
            }
        }
    }

    /// States of groups come in turn, as many as there are buffers, and leave when they are updated.
    fn page(mut self, buffers: usize) -> HostUpdate {
        let visit = self.laid.graph.visit(self.stage, 0, Phase::Update);
        let copies = |way: [Medium; 2]| -> Vec<OpId> {
            let is_copy = |op: &&OpId| match self.laid.graph.operator(**op).work {
                Work::Transfer(TierCopy { role: Role::State, from, to, .. }) => [from, to] == way,
                _ => false,
            };
            visit.iter().filter(is_copy).copied().collect()
        };
        let (arriving, leaving) = (copies(TO_GPU), copies(TO_HOST));
        let (mut needed, mut left) = (Vec::new(), Vec::new());
        for (number, (arrives, leaves)) in arriving.into_iter().zip(leaving).enumerate() {
            let begins = (number == 0).then_some(HostEvent::Passes);
            let buffer = number.checked_sub(buffers).map(|before| HostEvent::Freed(left[before]));
            needed.push(self.task(HostLane::Read, vec![arrives], begins.into_iter().chain(buffer)));
            left.push(self.task(HostLane::Write, vec![leaves], [HostEvent::Reached(leaves)]));
        }
        let awaited = left.last().copied().into_iter().collect();
        HostUpdate { stage: self.stage, tasks: self.tasks, needed, awaited, held_back: self.held_back }
    }

    /// Adds an operator of no visit.
    fn once(&mut self, name: &'static str, work: Work) -> OpId {
        self.laid.add_beside((self.stage, 0), (name, Phase::Update, work), Default::default())
    }

    /// Adds a task; gives its index.
    fn task(&mut self, lane: HostLane, ops: Vec<OpId>, after: impl IntoIterator<Item = HostEvent>) -> usize {
        self.tasks.push(HostTask { lane, ops, after: after.into_iter().collect() });
        self.tasks.len() - 1
    }
}

fn is_update(laid: &Laid, op: OpId) -> bool {
    matches!(laid.graph.operator(op).work, Work::Host(HostWork { kind: HostWorkKind::Update, .. }))
}
