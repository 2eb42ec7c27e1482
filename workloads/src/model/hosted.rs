//! States of the optimizer that are with the hosts of their GPUs (ZeRO-Offload, Ren et al., ATC 2021): gradients leave, the host
//! updates, parameters come back.
//!
//! ```text
//! of a parameter     fp16 or bf16, its gradient in the type of the sums        on its way   g + 2 B
//! at the host        fp32 parameter, moments, gradient                         held         4 + 8 + g B, two gradients where delayed
//! Adam               all of them read, all but the gradient written, and the   processed    12 + g + 12 + 2 B
//!                    parameter as the GPU reads it
//! ```
//!
//! Gradients of several micro-batches are summed on the GPU: what the host has of them comes back, is added to and leaves again
//! (DeepSpeed, `async_accumulate_grad_in_cpu_via_gpu`). Division by the loss scale and clipping are part of the host's pass.

use crate::graph::{Op, OpId, Phase};
use crate::host_update::{HostGroup, HostUpdate};

use super::draft::Draft;
use super::laid::Laid;
use super::operator::{HostWork, HostWorkKind, Work};
use super::transformer::{MOMENTS, StateBytes, States};

/// Bytes of a state in fp32.
const SINGLE: u64 = 4;

/// States of the optimizer that are with the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostedStates {
    /// Parameters that are updated, and go back, together.
    pub group: u64,
    /// The host updates while the next step computes, whose parameters are as old.
    pub delayed: bool,
    /// Gradients leave in every backward pass, as soon as they are there; else once a step, when they are summed.
    pub beside: bool,
}

impl HostedStates {
    /// Of what a rank holds, what stays on its GPU, and what is with its host; each parameter has so many `moments`.
    pub(crate) fn split(&self, all: StateBytes, states: States, moments: u64) -> [StateBytes; 2] {
        let of_adam = states.optimizer_bytes() - SINGLE * MOMENTS;
        let shared = all.optimizer / (of_adam + SINGLE * moments);
        let kept = if self.beside { 0 } else { all.gradients };
        let gradients = shared * states.gradient_bytes() * if self.delayed { 2 } else { 1 };
        [
            StateBytes { gradients: kept, optimizer: 0, ..all },
            StateBytes { parameters: 0, gradients, optimizer: shared * SINGLE * (1 + moments) },
        ]
    }

    /// Appends what updates so many parameters, group by group.
    pub(crate) fn update(&self, draft: &mut Draft, parameters: u64, states: States, moments: u64) {
        if !self.beside {
            let bytes = parameters * states.gradient_bytes();
            draft.push("gradients to the host", work(HostWorkKind::Receive, bytes), &["gradients"], &[]);
        }
        let of_states = SINGLE * (1 + moments);
        let narrow = if states.copy_bytes() > 0 { states.parameter_bytes() } else { 0 };
        let each = 2 * of_states + states.gradient_bytes() + narrow;
        let groups = parameters.div_ceil(self.group.max(1)).max(1);
        for group in 0..groups {
            let count = parameters * (group + 1) / groups - parameters * group / groups;
            draft.push("update on the host", work(HostWorkKind::Process, count * each), &[], &[]);
        }
    }
}

/// Work of the host.
pub(crate) const fn work(kind: HostWorkKind, bytes: u64) -> Work {
    Work::Host(HostWork { kind, bytes })
}

/// Adds to `laid` the copies of updated parameters back to their GPUs. Gives what hosts do, by stage; `parameters` are those
/// that a rank of each stage updates.
pub(crate) fn updates(
    laid: &mut Laid,
    hosted: Option<HostedStates>,
    states: States,
    parameters: &[u64],
) -> Vec<HostUpdate> {
    let Some(HostedStates { delayed, .. }) = hosted else { return Vec::new() };
    let stages = (0u32..).zip(parameters);
    stages
        .map(|(stage, &parameters)| {
            let groups: Vec<OpId> = laid.graph.visit(stage, 0, Phase::Update).to_vec();
            let groups: Vec<OpId> = groups.into_iter().filter(|&op| is_update(laid, op)).collect();
            let bytes = parameters.div_ceil(groups.len().max(1) as u64) * states.parameter_bytes();
            let group = |update| {
                let back = ("parameters to the GPU", Phase::Update, work(HostWorkKind::Send, bytes));
                HostGroup { update, back: laid.add_beside(of_stage(stage, Phase::Update), back) }
            };
            HostUpdate { stage, delayed, groups: groups.into_iter().map(group).collect() }
        })
        .collect()
}

fn is_update(laid: &Laid, op: OpId) -> bool {
    matches!(laid.operator(op).work, Work::Host(HostWork { kind: HostWorkKind::Process, .. }))
}

/// An operator of no storage.
pub(crate) fn of_stage(stage: u32, phase: Phase) -> Op {
    Op { stage, chunk: 0, phase, reads: Vec::new(), writes: Vec::new(), beside: 0, awaited: false }
}
