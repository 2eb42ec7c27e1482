//! The cost book: what operators, messages and copies take. The only place beside the profile and the hardware models
//! that knows time; schedules and techniques never see it.

use std::collections::{BTreeMap, BTreeSet};

use hw_models::copies::CopyCost;
use sim_core::fixed::Rate;
use sim_core::program::CapTable;
use sim_core::time::Time;

use crate::chain::Hop;
use crate::graph::{Op, OpGraph, OpId};
use crate::transfer::Medium;

/// Costs for lowering.
#[derive(Clone, Debug, PartialEq)]
pub struct CostBook {
    /// By stage, the kind of its GPUs.
    pub kinds: Vec<u32>,
    /// Costs of each work on each kind of GPU, indexed by [`OperatorId`](crate::graph::OperatorId).
    pub operators: Vec<Vec<OpCost>>,
    /// Speeds of kernels over the SMs they are given, in bytes of HBM per second.
    pub speeds: Vec<CapTable>,
    /// A message across the boundary after each stage, see [`CostBook::message`].
    pub messages: Vec<Message>,
    /// By stage, the speed of a copy from it to its partner `p - 1 - s` when nothing contends.
    pub copies: Vec<Rate>,
    /// By kind of GPU, costs of a copy to a tier beside its links, and of one back.
    pub tier_copies: Vec<BTreeMap<Medium, [CopyCost; 2]>>,
    /// By stage, what copies of activations from its first GPU to its host take, and those back; none where nobody knows.
    pub host_links: Vec<HostLinks>,
    /// What issuing costs the host; none: it is never late.
    pub issue: Option<IssueCosts>,
}

/// The ways between a GPU and its host, there, and back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostLinks {
    /// Before the bytes flow (s).
    pub latency: [f64; 2],
    /// B/s.
    pub rate: [f64; 2],
    /// B/s while all copies of the model on its node copy the same way.
    pub at_once: [f64; 2],
}

/// What issuing work costs the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssueCosts {
    /// For each work, indexed by [`OperatorId`](crate::graph::OperatorId).
    pub works: Vec<Time>,
    /// Operators that are issued when the host knows that another has ended, and what that takes more.
    pub waited: BTreeMap<OpId, Time>,
    /// What ranks exchange beside all operators, which no operator waits for in its stream.
    pub exchanges: BTreeSet<OpId>,
    /// Once for all operators of a visit that are issued as one graph; none: they are issued one by one.
    pub graph: Option<Time>,
}

impl IssueCosts {
    /// Time the host takes to issue an operator.
    pub fn of(&self, id: OpId, op: &Op) -> Time {
        let waited = self.waited.get(&id).copied().unwrap_or(Time::ZERO);
        waited.saturating_add(self.works[op.operator.0 as usize])
    }

    /// Costs of a host that takes `factor` times as long for each.
    pub fn slower(self, factor: f64) -> Self {
        let slower = |time: Time| Time((time.0 as f64 * factor).round() as u64);
        Self {
            works: self.works.into_iter().map(slower).collect(),
            waited: self.waited.into_iter().map(|(op, time)| (op, slower(time))).collect(),
            exchanges: self.exchanges,
            graph: self.graph.map(slower),
        }
    }
}

/// What an operator takes.
#[derive(Clone, Debug, PartialEq)]
pub enum OpCost {
    /// So long, whatever else happens.
    Lasting(Time),
    /// A kernel: a fixed time, then bytes of HBM at the speed of the SMs it is given.
    Kernel {
        /// Passes first.
        fixed: Time,
        /// Bytes of HBM.
        bytes: u64,
        /// Index into [`CostBook::speeds`].
        speed: u32,
        /// Most SMs it can use.
        sms: u32,
    },
    /// A kernel that reads rows over links: a fixed time, then bytes at the speed of the SMs it is
    /// given.
    Read {
        /// Passes first.
        fixed: Time,
        /// Bytes on the links.
        bytes: u64,
        /// Index into [`crate::site::RankSite::ways_of_rows`].
        way: u32,
        /// Index into [`CostBook::speeds`].
        speed: u32,
        /// Most SMs it can use.
        sms: u32,
    },
    /// A copy between tiers of memory, over the way that the site knows between them.
    Transfer {
        /// Where it begins.
        from: Medium,
        /// Where it ends.
        to: Medium,
        /// How much is copied.
        bytes: u64,
        /// Passes first.
        latency: Time,
        /// The speed when nothing contends, where something else than links and memory limits it.
        cap: Rate,
    },
    /// Work of the host's processors on bytes of its memory.
    Host {
        /// How many they are.
        bytes: u64,
        /// The speed when nothing contends, where something else than memory limits it.
        cap: Rate,
    },
    /// Work of threads of the host that fetch rows.
    Fetch {
        /// Bytes.
        bytes: u64,
        /// Index into [`crate::site::RankSite::ways_of_rows`].
        way: u32,
        /// The speed when nothing contends, where the threads limit it.
        cap: Rate,
    },
    /// A collective: phases one after the other, each joined by all ranks of its channel.
    Collective(Vec<CollectivePhase>),
}

/// A phase of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectivePhase {
    /// Index into [`crate::site::Site::channels`].
    pub channel: u32,
    /// Passes first: steps and hops.
    pub latency: Time,
    /// Bytes that each rank sends over its busiest link.
    pub bytes: u64,
    /// The speed when nothing contends.
    pub cap: Rate,
}

/// A message between stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Passes first.
    pub latency: Time,
    /// Bytes that follow over the route between the stages; 0: none do.
    pub bytes: u64,
    /// Their speed when nothing contends.
    pub cap: Rate,
}

impl Message {
    /// A message that takes so long, whatever else happens.
    pub const fn lasting(latency: Time) -> Self {
        Self { latency, bytes: 0, cap: Rate::UNLIMITED }
    }

    /// Its duration when nothing contends.
    pub fn alone(&self) -> Time {
        self.latency.saturating_add(duration(self.bytes, self.cap))
    }
}

impl CostBook {
    /// What an operator takes.
    pub fn of(&self, op: &Op) -> &OpCost {
        &self.operators[self.kinds[op.stage as usize] as usize][op.operator.0 as usize]
    }

    /// Duration of an operator when nothing contends.
    pub fn alone(&self, op: &Op) -> Time {
        match self.of(op) {
            OpCost::Lasting(time) => *time,
            &(OpCost::Kernel { fixed, bytes, speed, sms }
            | OpCost::Read { fixed, bytes, speed, sms, .. }) => {
                fixed.saturating_add(duration(bytes, self.speeds[speed as usize].cap(sms)))
            }
            &OpCost::Transfer { bytes, latency, cap, .. } => latency.saturating_add(duration(bytes, cap)),
            &(OpCost::Host { bytes, cap } | OpCost::Fetch { bytes, cap, .. }) => duration(bytes, cap),
            OpCost::Collective(phases) => phases.iter().fold(Time::ZERO, |sum, phase| {
                sum.saturating_add(phase.latency).saturating_add(duration(phase.bytes, phase.cap))
            }),
        }
    }

    /// How long the host issues `ops` before the first may start, and how long it goes on. With operators one by one the
    /// first starts so late that, when nothing contends, none of the others has to wait: they end when they would if each
    /// started once it is issued.
    pub fn issue(&self, graph: &OpGraph, ops: &[OpId]) -> (Time, Time) {
        let Some(issue) = &self.issue else { return (Time::ZERO, Time::ZERO) };
        let (issued, lead) = self
            .leads(issue, graph, ops)
            .fold((Time::ZERO, Time::ZERO), |(_, most), (issued, lead)| (issued, most.max(lead)));
        match issue.graph {
            Some(once) => (issued.saturating_add(once), Time::ZERO),
            None => (lead, issued.saturating_sub(lead)),
        }
    }

    /// Operators that the device may have to wait for beside the first, as indices into `ops`: it
    /// never does for the others, which are issued before those in front of them can have ended,
    /// however slowly these go.
    pub fn late(&self, graph: &OpGraph, ops: &[OpId]) -> Vec<usize> {
        let Some(issue) = &self.issue else { return Vec::new() };
        let (mut most, mut late) = (Time::ZERO, Vec::new());
        for (number, (_, lead)) in self.leads(issue, graph, ops).enumerate() {
            late.extend((number > 0 && lead > most).then_some(number));
            most = most.max(lead);
        }
        late
    }

    /// For each of `ops`: when it is issued, and how much later that is than its start if nobody
    /// waited, both since the host began.
    fn leads<'a>(
        &'a self,
        issue: &'a IssueCosts,
        graph: &'a OpGraph,
        ops: &'a [OpId],
    ) -> impl Iterator<Item = (Time, Time)> + 'a {
        let (mut issued, mut executed) = (Time::ZERO, Time::ZERO);
        ops.iter().map(move |&op| {
            issued = issued.saturating_add(issue.of(op, graph.get(op)));
            let lead = issued.saturating_sub(executed);
            if !issue.exchanges.contains(&op) {
                executed = executed.saturating_add(self.alone(graph.get(op)));
            }
            (issued, lead)
        })
    }

    /// Costs of a copy from a stage to a tier beside its links, and of one back.
    ///
    /// # Panics
    /// If nobody knows them.
    pub fn tier_copies(&self, stage: u32, medium: Medium) -> [CopyCost; 2] {
        let of_kind = &self.tier_copies[self.kinds[stage as usize] as usize];
        *of_kind.get(&medium).expect("who offloads knows what copies cost")
    }

    /// The links between a stage and its host.
    ///
    /// # Panics
    /// If nobody knows them.
    pub fn links_of_host(&self, stage: u32) -> HostLinks {
        *self.host_links.get(stage as usize).expect("who swaps knows the links to the host")
    }

    /// A message between two stages.
    pub fn message(&self, hop: Hop) -> Message {
        self.messages[boundary(hop)]
    }
}

/// The stage whose `messages` entry holds for a message in either direction: neighbours use the entry of the lower
/// stage, the hop from the last stage to the first that of the last.
pub fn boundary(hop: Hop) -> usize {
    let (low, high) = (hop.from.min(hop.to), hop.from.max(hop.to));
    (if high - low == 1 { low } else { high }) as usize
}

/// The time of `bytes` at a rate, rounded up.
pub(crate) fn duration(bytes: u64, rate: Rate) -> Time {
    if bytes == 0 || rate == Rate::UNLIMITED {
        return Time::ZERO;
    }
    let picoseconds = (u128::from(bytes) << sim_core::fixed::RATE_BITS).div_ceil(u128::from(rate.0.max(1)));
    Time(u64::try_from(picoseconds).unwrap_or(u64::MAX))
}
