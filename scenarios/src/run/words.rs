//! What streams, operations and kinds of bytes are called in results.

use indexmap::IndexMap;
use sim_core::id::StreamId;
use sim_core::outcome::{ByCause, Place};
use sim_core::program::{Op, Program};
use workloads::account::{Task, TaskKind};
use workloads::graph::operator::Work;
use workloads::lower::{Lowered, RankIds};
use workloads::plan::Built;
use workloads::schedule::LaneKind;

use super::ranks;

/// Names for one run.
pub(super) struct Words<'a> {
    lowered: &'a Lowered,
    micro_batches: u32,
}

impl<'a> Words<'a> {
    pub(super) fn new(lowered: &'a Lowered, micro_batches: u32) -> Self {
        Self { lowered, micro_batches }
    }

    /// `stage 3`.
    pub(super) fn stage(stage: usize) -> String {
        format!("stage {stage}")
    }

    /// `stage 3` for its first rank, `stage 3, node[0].gpu[5]` for another.
    pub(super) fn rank(&self, rank: usize) -> String {
        let replicas = ranks::replicas(self.lowered);
        let stage = Self::stage(rank / replicas);
        if rank.is_multiple_of(replicas) {
            return stage;
        }
        let stream = &self.lowered.program.streams[self.lowered.ranks[rank].compute.index()].name;
        let place = stream.rsplit_once('.').map_or(stream.as_str(), |(place, _)| place);
        format!("{stage}, {place}")
    }

    /// The rank that [`Words::rank`] calls `name`.
    pub(super) fn rank_called(&self, name: &str) -> Option<usize> {
        (0..self.lowered.ranks.len()).find(|&rank| self.rank(rank) == name)
    }

    /// The rank that a stream is of.
    pub(super) fn rank_of(&self, stream: StreamId) -> String {
        let role = self.lowered.streams[stream.index()];
        self.rank(role.stage as usize * ranks::replicas(self.lowered) + role.replica as usize)
    }

    /// A rank, or what a stream of it does besides computing.
    pub(super) fn stream(&self, stream: StreamId) -> String {
        let role = self.lowered.streams[stream.index()];
        let name = self.rank_of(stream);
        match role.kind {
            LaneKind::Compute => name,
            LaneKind::Link { to } => format!("messages of {name} to stage {to}"),
            LaneKind::Evict => format!("evictions of {name}"),
            LaneKind::Load => format!("loads of {name}"),
            LaneKind::Offload => format!("copies of what leaves {name}"),
            LaneKind::HostUpdate => format!("update of {name} on its host"),
            LaneKind::ReadParameters => format!("parameters of {name} from drives"),
            LaneKind::ReadStates => format!("states of {name}, brought"),
            LaneKind::WriteStates => format!("states of {name}, taken away"),
            LaneKind::Return => format!("parameters of {name} from its host"),
            LaneKind::Sample => format!("samples of {name}"),
            LaneKind::GatherRows => format!("rows of features for {name}"),
            LaneKind::CopyRows => format!("copies of rows to {name}"),
            LaneKind::Reload => format!("copies of what comes back to {name}"),
            LaneKind::Collective => format!("collectives of {name}"),
            LaneKind::Host => format!("host of {name}"),
            LaneKind::Gather => format!("parameter gathers of {name}"),
            LaneKind::Reduce => format!("gradient sums of {name}"),
        }
    }

    /// Bytes that the memory of a rank holds at most; none without a limit.
    pub(super) fn capacity(ids: &RankIds) -> Option<u64> {
        (ids.capacity < u64::MAX).then_some(ids.capacity)
    }

    /// `forward of micro-batch 7`, counted from 0 in every step.
    pub(super) fn operation(&self, place: &Place) -> String {
        let block = &self.lowered.program.blocks[place.block.index()].name;
        match block.ends_with(" of step") {
            true => block.clone(),
            false => format!("{block} of micro-batch {}", self.micro_batch(place)),
        }
    }

    /// The phase of an operation and its micro-batch; none where it is one of a whole step.
    pub(super) fn visit(&self, place: &Place) -> (String, Option<u32>) {
        let block = &self.lowered.program.blocks[place.block.index()].name;
        (block.clone(), (!block.ends_with(" of step")).then(|| self.micro_batch(place)))
    }

    /// The micro-batch within its step.
    pub(super) fn micro_batch(&self, place: &Place) -> u32 {
        place.args[0].unsigned_abs() % self.micro_batches.max(1)
    }

    /// The step of a micro-batch, counted from 0.
    pub(super) fn step(&self, place: &Place) -> u32 {
        place.args[0].unsigned_abs() / self.micro_batches.max(1)
    }

    /// Durations that are not zero, by the words of the report.
    pub(super) fn by_cause(&self, durations: &ByCause) -> IndexMap<String, f64> {
        let causes = self.lowered.program.causes.iter().zip(durations);
        causes.filter(|(_, time)| time.0 > 0).map(|(cause, time)| (cause.clone(), time.as_secs())).collect()
    }

    /// Bytes that are not zero, by kind.
    pub(super) fn by_kind(&self, bytes: &[u64]) -> IndexMap<String, u64> {
        let kinds = self.lowered.program.kinds.iter().zip(bytes);
        kinds.filter(|(_, bytes)| **bytes > 0).map(|(kind, bytes)| (kind.clone(), *bytes)).collect()
    }
}

/// The cause of an activity that a stream executes; empty for another operation.
pub(super) fn cause_of<'p>(program: &'p Program, stream: StreamId, args: [i32; 2], op: &Op) -> &'p str {
    let (Op::Run { activity } | Op::Join { activity, .. }) = *op else { return "" };
    let binding = &program.bindings[program.streams[stream.index()].binding.index()];
    let costs = binding.costs.map(|costs| &program.costs[costs.index()]);
    let activity = costs.and_then(|table| table.activities.get(activity.at(args) as usize));
    activity.map_or("", |activity| &program.causes[activity.cause.index()])
}

/// Name of a task; one that nobody knows is called by its cause.
pub(super) fn task_name(built: &Built, task: Option<&Task>, cause: &str) -> String {
    match task.map(|task| task.kind) {
        Some(TaskKind::Operator(op)) => match built.graph.operator(op).work {
            // A profile knows no operators.
            Work::Opaque { .. } => built.graph.get(op).phase.name().to_owned(),
            _ => built.graph.operator(op).name.to_string(),
        },
        Some(TaskKind::Message(hop)) => format!("message from stage {} to stage {}", hop.from, hop.to),
        Some(TaskKind::Transfer { storage, .. }) => built.graph.describe(storage),
        Some(TaskKind::Issue) => "issue of operators".to_owned(),
        Some(TaskKind::Meeting) => "meeting of hosts".to_owned(),
        None => cause.to_owned(),
    }
}
