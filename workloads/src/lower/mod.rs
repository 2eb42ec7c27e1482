//! Lowering: a schedule, its cost book and its site become a platform and a program. Tensors, stages and micro-batches end
//! here. The ranks of a stage share everything but a row of slots.

mod at_once;
mod cohorts;
mod lane;
mod objects;
mod trips;

use std::collections::{BTreeMap, BTreeSet};
use std::mem;

use sim_core::id::{BlockId, FluidId, GroupId, StoreId, StreamId};
use sim_core::platform::Platform;
use sim_core::program::{Body, Call, Op, Program, StartState};

use self::at_once::{Step, at_once};
pub(crate) use self::cohorts::Cohorts;
use self::lane::LaneLowering;
use self::objects::Objects;
use self::trips::Trips;
use crate::account::Task;
use crate::cost::{CollectivePhase, CostBook, OpCost};
use crate::graph::OpGraph;
use crate::names::cause;
use crate::schedule::{Block, Item, Lane, LaneKind};
use crate::site::{Channel, Site};

/// What the engine takes, `sim_core::simulate(&lowered.platform, &lowered.program, &lowered.start, ...)`, and what its
/// streams and stores stand for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lowered {
    /// Resources.
    pub platform: Platform,
    /// Streams.
    pub program: Program,
    /// What is held from the start.
    pub start: StartState,
    /// One per stage: its first rank.
    pub stages: Vec<RankIds>,
    /// All ranks, by stage, then replica.
    pub ranks: Vec<RankIds>,
    /// What each stream does, indexed by [`StreamId`].
    pub streams: Vec<StreamRole>,
    /// The links between partners, one per direction, in which a rate is given.
    pub partner_links: Vec<FluidId>,
    /// By lane, then activity of its cost table, what that does.
    pub tasks: Vec<Vec<Task>>,
    /// By counter, what ends when it counts; none if it tells of a moment.
    pub ends: Vec<Option<Task>>,
}

impl Lowered {
    /// Lets the memory of ranks hold whatever it is given, so that it counts without refusing, unless they wait for room: the
    /// allocator of the framework says what fits.
    pub fn count_memory(&mut self) {
        for ids in self.ranks.iter().filter(|ids| !ids.waits) {
            self.platform.stores[ids.memory.index()].capacity = u64::MAX;
        }
    }
}

/// The stream and the stores of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankIds {
    /// The stream of its operators. Its marks come in pairs, one pair a step: the start of its first operator and the
    /// end of its last.
    pub compute: StreamId,
    /// Its memory, in bytes.
    pub memory: StoreId,
    /// Bytes that the memory has; its store holds no more, unless it only counts ([`Lowered::count_memory`]).
    pub capacity: u64,
    /// Whether who finds no room there waits for it.
    pub waits: bool,
    /// Counts what is resident in that memory, in micro-batches of one chunk; its capacity is the bound of a stage that
    /// lends micro-batches.
    pub resident: StoreId,
}

/// What a stream does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamRole {
    /// Its stage.
    pub stage: u32,
    /// Its replica.
    pub replica: u32,
    /// What it does there.
    pub kind: LaneKind,
    /// The lane of the schedule that it executes: index into [`Lowered::tasks`].
    pub lane: u32,
}

/// Lowers `steps` repetitions of the schedules of all ranks. Arguments of every block are the micro-batch and the number of its call,
/// counted over all steps.
pub(crate) fn lower(
    cohorts: &Cohorts<'_>,
    graph: &OpGraph,
    costs: &CostBook,
    mut site: Site,
    steps: u32,
) -> Lowered {
    let (platform, partner_links) = (mem::take(&mut site.platform), mem::take(&mut site.partner_links));
    let mut lowered = Lowered { platform, partner_links, ..Lowered::default() };
    let site = &site;
    for name in cause::ALL {
        lowered.program.cause(name);
    }
    lowered.program.caps.clone_from(&costs.speeds);
    stores(&mut lowered, cohorts, site);
    for _ in 0..cohorts.count {
        lowered.program.counter();
    }
    let mut trips = Trips::of(cohorts.schedules, site.replicas, steps, &mut lowered.program);
    let groups = groups(&mut lowered.program, cohorts, (graph, costs), site);
    let meetings = meetings(&mut lowered.program, cohorts, site);
    // Blocks of the lane before of the same kind: lanes that do the same thing share them.
    let mut before: BTreeMap<u8, Vec<BlockId>> = BTreeMap::new();
    lowered.ends = vec![None; cohorts.count as usize];
    let alone: Vec<BTreeSet<u32>> = cohorts.schedules.iter().map(at_once::alone).collect();
    let lanes = cohorts.schedules.iter().enumerate();
    let lanes = lanes.flat_map(|(cohort, schedule)| schedule.lanes.iter().map(move |lane| (cohort, lane)));
    for (index, (cohort, lane)) in (0u32..).zip(lanes) {
        let schedule = &cohorts.schedules[cohort];
        let shared = (&mut lowered.program, &mut trips);
        let mut lowering = LaneLowering::new(schedule, graph, costs, site, lane, shared);
        let is_alone = lane.kind == LaneKind::Compute && alone[cohort].contains(&lane.stage);
        let body = |block: &Block| match is_alone {
            true => lowering.block(at_once(&block.items, graph)),
            false => lowering.block(block.items.iter().copied().map(Step::Item)),
        };
        let bodies: Vec<Vec<Op>> = lane.blocks.iter().map(body).collect();
        let LaneLowering { program, trips, slots, activities, sizes, tasks, ends, .. } = lowering;
        lowered.tasks.push(tasks);
        for (signal, task) in ends {
            for &replica in &cohorts.members[cohort] {
                lowered.ends[cohorts.counter(signal.0, replica) as usize] = Some(task);
            }
        }
        let costs = program.cost_table(activities, sizes);
        let shared = before.entry(class(lane.kind)).or_default();
        let blocks = share(program, lane, bodies, shared);
        let role = program.role(calls(lane, &blocks, schedule.micro_batches, steps));
        *shared = blocks;
        for &replica in &cohorts.members[cohort] {
            let (groups, meetings) = (&groups, &meetings);
            let objects = Objects { site, ranks: &lowered.ranks, groups, meetings, cohorts, trips };
            let row: Vec<u32> = slots.iter().map(|&object| objects.id(object, lane.stage, replica)).collect();
            let binding = program.binding(row, Some(costs));
            let name = format!("{}.{}", rank_name(site, lane.stage, replica), lane.kind.name());
            let stream = program.stream(name, binding, Body::Role(role));
            program.streams[stream.index()].device = site.rank(lane.stage, replica) as u32;
            let role = StreamRole { stage: lane.stage, replica, kind: lane.kind, lane: index };
            lowered.streams.push(role);
            if lane.kind == LaneKind::Compute {
                lowered.ranks[site.rank(lane.stage, replica)].compute = stream;
            }
        }
    }
    lowered.stages = lowered.ranks.iter().step_by(site.replicas as usize).copied().collect();
    lowered
}

fn class(kind: LaneKind) -> u8 {
    match kind {
        LaneKind::Compute => 0,
        LaneKind::Link { .. } => 1,
        LaneKind::Evict => 2,
        LaneKind::Load => 3,
        LaneKind::Collective => 4,
        LaneKind::Gather => 5,
        LaneKind::Reduce => 6,
        LaneKind::Host => 7,
        LaneKind::Offload => 8,
        LaneKind::Reload => 9,
        LaneKind::HostUpdate => 10,
        LaneKind::Return => 11,
        LaneKind::ReadStates => 12,
        LaneKind::WriteStates => 13,
        LaneKind::ReadParameters => 14,
        LaneKind::Sample => 15,
        LaneKind::GatherRows => 16,
        LaneKind::CopyRows => 17,
    }
}

fn rank_name(site: &Site, stage: u32, replica: u32) -> String {
    let rank = &site.ranks[site.rank(stage, replica)];
    rank.name.clone().unwrap_or_else(|| format!("stage[{stage}]"))
}

/// The stores of every rank, with what is held throughout.
fn stores(lowered: &mut Lowered, cohorts: &Cohorts<'_>, site: &Site) {
    for stage in 0..cohorts.schedules[0].stages.len() as u32 {
        for replica in 0..site.replicas {
            let memory = &cohorts.schedule(replica).stages[stage as usize];
            let usable = if memory.waits { memory.usable() } else { memory.capacity };
            let name = rank_name(site, stage, replica);
            let platform = &mut lowered.platform;
            let bound = memory.resident_bound.map_or(u64::MAX, u64::from);
            let ids = RankIds {
                compute: StreamId(0),
                capacity: memory.capacity,
                waits: memory.waits,
                memory: match site.ranks[site.rank(stage, replica)].memory {
                    Some(store) => {
                        platform.stores[store.index()].capacity = usable;
                        store
                    }
                    None => platform.store(format!("{name}.memory"), usable),
                },
                resident: platform.store(format!("{name}.resident"), bound),
            };
            for &(kind, bytes) in memory.persistent.iter().filter(|&&(_, bytes)| bytes > 0) {
                let kind = lowered.program.kind(kind);
                lowered.start.stores.push((ids.memory, kind, bytes));
            }
            for (store, kind, bytes) in site.ranks[site.rank(stage, replica)].held_away(memory) {
                let kind = lowered.program.kind(kind);
                lowered.start.stores.push((store, kind, bytes));
            }
            lowered.ranks.push(ids);
        }
    }
}

/// The engine's group of each group of a channel that somebody joins.
///
/// By channel and the class of the lanes that do: a rank may be in one of each at the same time,
/// and must not meet another lane of its peers.
type Groups = BTreeMap<(u32, u8), Vec<Option<GroupId>>>;

fn groups(
    program: &mut Program,
    cohorts: &Cohorts<'_>,
    (graph, costs): (&OpGraph, &CostBook),
    site: &Site,
) -> Groups {
    let mut joined: BTreeMap<(u32, u8), BTreeSet<u32>> = BTreeMap::new();
    for lane in cohorts.schedules.iter().flat_map(|schedule| &schedule.lanes) {
        let class = class(lane.kind);
        for item in lane.blocks.iter().flat_map(|block| &block.items) {
            let &Item::Execute(op) = item else { continue };
            let OpCost::Collective(phases) = costs.of(graph.get(op)) else { continue };
            for &CollectivePhase { channel, .. } in phases {
                joined.entry((channel, class)).or_default().insert(lane.stage);
            }
        }
    }
    let groups_of = |((channel, class), stages): ((u32, u8), BTreeSet<u32>)| {
        let Channel { groups, of_rank, .. } = &site.channels[channel as usize];
        let mut is_joined = vec![false; groups.len()];
        let replicas = site.replicas as usize;
        let ranks = stages.into_iter().flat_map(|stage| &of_rank[stage as usize * replicas..][..replicas]);
        ranks.flatten().for_each(|&group| is_joined[group as usize] = true);
        let of_engine = groups
            .iter()
            .zip(is_joined)
            .map(|(&(members, route), is_joined)| is_joined.then(|| program.group(members, Some(route))));
        ((channel, class), of_engine.collect())
    };
    joined.into_iter().map(groups_of).collect()
}

/// Where the ranks of each stage meet that do.
fn meetings(program: &mut Program, cohorts: &Cohorts<'_>, site: &Site) -> BTreeMap<u32, GroupId> {
    let lanes = cohorts.schedules.iter().flat_map(|schedule| &schedule.lanes);
    let meets = |lane: &&Lane| lane.blocks.iter().any(|block| block.items.contains(&Item::Meet));
    let stages: BTreeSet<u32> = lanes.filter(meets).map(|lane| lane.stage).collect();
    stages.into_iter().map(|stage| (stage, program.group(site.replicas, None))).collect()
}

/// The blocks of a lane, those of the lane before where they are the same.
fn share(program: &mut Program, lane: &Lane, bodies: Vec<Vec<Op>>, before: &[BlockId]) -> Vec<BlockId> {
    let mut blocks = Vec::with_capacity(bodies.len());
    for (index, (block, ops)) in lane.blocks.iter().zip(bodies).enumerate() {
        let same = before.get(index).copied().filter(|id| {
            let other = &program.blocks[id.index()];
            other.name == block.name && other.ops == ops
        });
        blocks.push(same.unwrap_or_else(|| program.block(block.name.as_str(), ops)));
    }
    blocks
}

/// The calls of a lane over all steps; a run of calls of one block whose arguments grow evenly becomes one.
fn calls(lane: &Lane, blocks: &[BlockId], micro_batches: u32, steps: u32) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    for step in 0..steps {
        for call in &lane.calls {
            let block = blocks[call.block as usize];
            let micro_batch = call.micro_batch + step * micro_batches;
            let number = call.number + step * lane.numbers;
            let args = [micro_batch as i32, number as i32];
            let Some(last) = calls.last_mut().filter(|last| last.block == block) else {
                calls.push(Call { block, args, step: [0; 2], repeat: 1 });
                continue;
            };
            if last.repeat == 1 {
                last.step = [args[0] - last.args[0], args[1] - last.args[1]];
            }
            let next = |n: usize| i64::from(last.args[n]) + i64::from(last.step[n]) * i64::from(last.repeat);
            if [next(0), next(1)] == args.map(i64::from) {
                last.repeat += 1;
            } else {
                calls.push(Call { block, args, step: [0; 2], repeat: 1 });
            }
        }
    }
    calls
}
