//! What the lanes of a lowered schedule do, operation by operation. All ranks of a stage execute the same lanes, but where copies
//! of the model do different things.

use sim_core::id::BlockId;
use sim_core::program::{Affine, Body, Call, Op};
use workloads::account::Task;
use workloads::lower::Lowered;
use workloads::schedule::LaneKind;

/// A lane, as its first rank executes it.
#[derive(Clone, Copy)]
pub(super) struct Lane<'a> {
    pub(super) stage: u32,
    pub(super) kind: LaneKind,
    /// The first of the replicas that execute it.
    pub(super) replica: u32,
    /// What it executes, over all steps.
    pub(super) calls: &'a [Call],
    lowered: &'a Lowered,
    tasks: &'a [Task],
    slots: &'a [u32],
}

/// All lanes, in their order.
pub(super) fn lanes(lowered: &Lowered) -> impl Iterator<Item = Lane<'_>> {
    let program = &lowered.program;
    // The streams of a lane follow each other.
    let streams = lowered.streams.chunk_by(|a, b| a.lane == b.lane).scan(0, |from, of_lane| {
        let first = *from;
        *from += of_lane.len();
        Some((first, of_lane[0]))
    });
    streams.zip(&lowered.tasks).map(move |((stream, role), tasks)| Lane {
        stage: role.stage,
        kind: role.kind,
        replica: role.replica,
        calls: match program.streams[stream].body {
            Body::Role(role) => &program.roles[role.index()].calls,
            Body::Serve(_) => &[],
        },
        lowered,
        tasks,
        slots: &program.bindings[program.streams[stream].binding.index()].slots,
    })
}

impl<'a> Lane<'a> {
    /// The operations of a block.
    pub(super) fn ops(&self, block: BlockId) -> &'a [Op] {
        &self.lowered.program.blocks[block.index()].ops
    }

    /// What an operation does that takes time.
    pub(super) fn done_by(&self, op: &Op) -> Option<&'a Task> {
        // The activities of a schedule do not depend on the arguments of its blocks.
        let task = |activity: Affine| self.tasks.get(activity.base as usize);
        match *op {
            Op::Run { activity } | Op::Join { activity, .. } | Op::Add { after: Some(activity), .. } => {
                task(activity)
            }
            _ => None,
        }
    }

    /// What an operation waits for the end of.
    pub(super) fn awaited_by(&self, op: &Op) -> Option<&'a Task> {
        let Op::Wait { counter, .. } = *op else { return None };
        self.lowered.ends[self.slots[counter as usize] as usize].as_ref()
    }
}
