//! What the activities of a program count as in results: which kind of communication they are, and what their times rest on.

use hw_models::kernels::KernelClass;
use hw_models::provenance::Origin;

use sim_core::time::Time;

use crate::chain::Hop;
use crate::cost::boundary;
use crate::graph::operator::{CollectiveKind, Group, Role};
use crate::graph::{Op, OpGraph, OpId, OperatorId, StorageId};
use crate::transfer::Medium;

/// What an activity does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// For what.
    pub kind: TaskKind,
    /// Bytes that its rank sends, or has sent back; 0 for a kernel.
    pub bytes: u64,
}

/// What an activity is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskKind {
    /// An operator: a kernel, or a phase of a collective.
    Operator(OpId),
    /// A message between stages.
    Message(Hop),
    /// A copy of a storage to another tier, or back.
    Transfer {
        /// Storage that is copied.
        storage: StorageId,
        /// Medium of the other tier.
        medium: Medium,
        /// True on the way back.
        returns: bool,
    },
    /// Work of the host.
    Issue,
    /// Hosts tell each other that a pass has ended.
    Meeting,
}

/// What a task counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// Which communication it is; none: a kernel.
    pub communication: Option<Communication>,
    /// Which model its time is from.
    pub model: TimeModel,
    /// What was timed: operators of one model with one number do the same, in other plans as well.
    pub shape: u64,
    /// Circumstance in which its model is further off than elsewhere.
    pub circumstance: Option<Circumstance>,
    /// The weakest evidence that its time rests on.
    pub origin: Origin,
}

/// Circumstances in which times are less certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Circumstance {
    /// Bytes cross from a node to another.
    BetweenNodes,
    /// Tokens change a state one after the other, each with kernels of its own.
    Recurrent,
}

/// Demand of a kernel on its board, which draws power for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Bytes of HBM, read and written.
    pub bytes: u64,
    /// Time of its matrix products at the peak rate of their type.
    pub at_peak: Time,
}

/// Models of time, each with errors of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TimeModel {
    /// Kernels of a class.
    Kernel(KernelClass),
    /// A measured table of collectives.
    CollectiveTable,
    /// What the communication library computes for collectives.
    CollectiveFormula,
    /// Messages and copies between GPUs.
    Transfer,
    /// What the host does.
    Host,
}

/// Kinds of communication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Communication {
    /// A collective of a kind of group.
    Collective(Group, CollectiveKind),
    /// A message between stages.
    Message,
    /// An activation that goes to the partner stage.
    Eviction,
    /// An activation that comes back.
    Load,
    /// An activation that goes to host memory.
    Offload,
    /// An activation that comes back from there.
    Reload,
    /// States that come from drives.
    ReadStates,
    /// States and gradients that go there.
    WriteStates,
    /// Parameters that come from drives.
    ReadParameters,
    /// Parameters that go there.
    WriteParameters,
    /// An activation that is written to drives.
    Write,
    /// An activation that is read from there.
    Read,
    /// Rows of features that are read from drives.
    ReadRows,
}

/// The accounts of all tasks of a plan on a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Accounts {
    /// By operator of the graph, its kind of GPU and an index into `operators` of that kind.
    pub(crate) operator_of: Vec<(u32, OperatorId)>,
    /// By kind of GPU.
    pub(crate) operators: Vec<Vec<Account>>,
    /// By kind of GPU, likewise.
    pub(crate) loads: Vec<Vec<Load>>,
    /// By [`boundary`].
    pub(crate) messages: Vec<Account>,
    /// Of copies between partner stages, the weakest of all pairs.
    pub(crate) copies: Origin,
    /// Origin of copies to other tiers.
    pub(crate) away: Origin,
    /// Of what the host does.
    pub(crate) host: Origin,
}

impl Accounts {
    /// Accounts of the operators of a graph, by their work and by the kind of GPU of each stage.
    pub(crate) fn of_graph(self, graph: &OpGraph, kinds: &[u32]) -> Self {
        let of = |op: &Op| (kinds[op.stage as usize], op.operator);
        Self { operator_of: graph.ops().iter().map(of).collect(), ..self }
    }

    /// Demand of a task on its board; none where it is no kernel.
    pub fn load(&self, kind: TaskKind) -> Load {
        let TaskKind::Operator(op) = kind else { return Load::default() };
        let (kind, operator) = self.operator_of[op.0 as usize];
        self.loads[kind as usize][operator.0 as usize]
    }

    /// The account of a task.
    pub fn of(&self, kind: TaskKind) -> Account {
        let copy = |communication, origin| Account {
            communication: Some(communication),
            model: TimeModel::Transfer,
            shape: 0,
            circumstance: None,
            origin,
        };
        match kind {
            TaskKind::Operator(op) => {
                let (kind, operator) = self.operator_of[op.0 as usize];
                self.operators[kind as usize][operator.0 as usize]
            }
            TaskKind::Message(hop) => self.messages[boundary(hop)],
            TaskKind::Transfer { medium, returns, .. } => {
                let way = if returns { [medium, Medium::HBM] } else { [Medium::HBM, medium] };
                match (medium == Medium::HBM, returns) {
                    (true, false) => copy(Communication::Eviction, self.copies),
                    (true, true) => copy(Communication::Load, self.copies),
                    _ => copy(Communication::of_transfer(Role::Activation, way[0], way[1]), self.away),
                }
            }
            TaskKind::Issue | TaskKind::Meeting => {
                let (communication, model) = (None, TimeModel::Host);
                Account { communication, model, shape: 0, circumstance: None, origin: self.host }
            }
        }
    }
}

impl Communication {
    /// That of bytes that go from one tier to another. Copies between GPUs and hosts count as those of activations do.
    pub(crate) fn of_transfer(role: Role, from: Medium, to: Medium) -> Self {
        match (role, from, to) {
            (Role::Activation, Medium::HBM, Medium::DRIVES) => Self::Write,
            (Role::Activation, Medium::DRIVES, Medium::HBM) => Self::Read,
            (Role::Parameter, Medium::DRIVES, _) => Self::ReadParameters,
            (Role::Parameter, _, Medium::DRIVES) => Self::WriteParameters,
            (_, Medium::DRIVES, _) => Self::ReadStates,
            (_, _, Medium::DRIVES) => Self::WriteStates,
            (_, Medium::HBM, _) => Self::Offload,
            _ => Self::Reload,
        }
    }

    /// Its name in results, `tensor all-reduce`.
    pub fn name(self) -> String {
        match self {
            Self::Collective(group, kind) => {
                let group = match group {
                    Group::Tensor => "tensor",
                    Group::Context => "context",
                    Group::Expert => "expert",
                    Group::Data => "data",
                    Group::ExpertData => "expert-data",
                    Group::Shard => "shard",
                    Group::Replica => "replica",
                    Group::Embedding => "embedding",
                    Group::Model => "model",
                };
                let kind = match kind {
                    CollectiveKind::AllReduce => "all-reduce",
                    CollectiveKind::AllGather => "all-gather",
                    CollectiveKind::ReduceScatter => "reduce-scatter",
                    CollectiveKind::AllToAll => "all-to-all",
                    CollectiveKind::SendReceive => "send-receive",
                };
                format!("{group} {kind}")
            }
            Self::Message => "pipeline message".to_owned(),
            Self::Eviction => "eviction to the partner stage".to_owned(),
            Self::Load => "load from the partner stage".to_owned(),
            Self::Offload => "offload to host memory".to_owned(),
            Self::Reload => "load from host memory".to_owned(),
            Self::ReadStates => "states from drives".to_owned(),
            Self::WriteStates => "states to drives".to_owned(),
            Self::ReadParameters => "parameters from drives".to_owned(),
            Self::WriteParameters => "parameters to drives".to_owned(),
            Self::Write => "write to drives".to_owned(),
            Self::Read => "read from drives".to_owned(),
            Self::ReadRows => "rows of features from drives".to_owned(),
        }
    }

    /// Whether only ranks of one stage take part.
    pub const fn within_stage(self) -> bool {
        match self {
            Self::Collective(group, _) => group.is_within_stage(),
            Self::Message | Self::Eviction | Self::Load => false,
            Self::Offload
            | Self::Reload
            | Self::ReadStates
            | Self::WriteStates
            | Self::ReadParameters
            | Self::WriteParameters
            | Self::Write
            | Self::Read
            | Self::ReadRows => true,
        }
    }
}
