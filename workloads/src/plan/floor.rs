//! Least time and memory of a plan, told before its visits are in any order.
//!
//! Nothing runs faster than alone, and a lane executes one operator at a time. So with the times of
//! the compute lane alone, w(s) of a micro-batch on stage s, F and B of a position of the chain,
//!
//! ```text
//! step >= fill(s) + m w(s) + drain(s) + update(first stage)     for each stage s
//! step >= m w(s) + update(s)
//! fill(s)  = sum of F and messages of the positions before the first one of s
//! drain(s) = sum of B and messages of the same; without weight gradients where these are visits of
//!            their own, which may follow all others
//! ```
//!
//! The first visit of a stage is a forward pass of its first position, and its last one a backward
//! pass there: others of a micro-batch come between. The first stage begins and ends a step.
//! Where no backward pass returns to it, only the second line holds: steps run into each other.
//!
//! Where no technique moves activations, a stage of 1F1B holds those of its first position for as
//! many micro-batches as there are stages from it on, GPipe those of all. One of them is then in a
//! pass, whose operators have tensors of their own: by liveness a stage holds at least
//!
//! ```text
//! states + (micro-batches - 1) activations + most bytes alive in a pass of the first position
//! states + most bytes alive in any pass of one micro-batch
//! ```
//!
//! An operator needs all that it reads and fills, also where a technique moves activations.

use std::collections::BTreeMap;

use hw_models::machine::PartId;
use sim_core::time::Time;

use crate::chain::Chain;
use crate::cost::CostBook;
use crate::exchange::{Exchange, LaunchedBy, Tie};
use crate::graph::{OpGraph, OpId, Phase};
use crate::hardware::Hardware;
use crate::liveness::Liveness;
use crate::model::transformer::{Collective, Group, Work};
use crate::order::{PipelineSchedule, Visit};
use crate::passes::Pipelining;
use crate::schedule::StageMemory;
use crate::site::{Job, Kinds};

use super::PlanError;
use super::deployed::{Deployed, kinds};
use super::timing::{distinct, held};

/// Time and memory that a plan takes at least, in whichever order it is executed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Floor {
    /// Time of a step between two flushes.
    pub step: Time,
    /// Compute lanes of all stages together, for one micro-batch.
    pub micro_batch: Time,
    /// By stage, the memory of a GPU.
    pub memory: Vec<MemoryFloor>,
    /// Memories of hosts in which ranks keep states.
    pub hosts: Vec<MemoryFloor>,
}

/// Memory of a GPU, or of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryFloor {
    /// Bytes that are held at once.
    pub held: u64,
    /// Bytes that there are; `u64::MAX` where unlimited.
    pub capacity: u64,
}

/// A plan as far as it is known before it is put in order.
pub(super) struct Parts<'a> {
    pub(super) graph: &'a OpGraph,
    pub(super) exchanges: &'a [Exchange],
    pub(super) chain: Chain,
    pub(super) costs: &'a CostBook,
}

/// Times of a position of the chain on its compute lane, for one micro-batch.
#[derive(Clone, Copy, Debug, Default)]
struct Visits {
    forward: Time,
    backward: Time,
    weight: Time,
    /// To the next position.
    message: Time,
}

impl Parts<'_> {
    /// Their floor but for its memory; where hosts update, how long that is beside GPUs is not known.
    pub(super) fn floor(&self, pipelining: &Pipelining, hosts_update: bool) -> Floor {
        let positions: Vec<Visits> =
            (0..self.chain.positions()).map(|position| self.visits(position)).collect();
        let stages = 0..self.chain.stages;
        let micro_batches = u64::from(pipelining.micro_batches);
        let splits = pipelining.schedule.splits_backward();
        let update = |stage| if hosts_update { Time::ZERO } else { self.update(stage, splits) };
        let first = update(0);
        let returns = positions.iter().any(|it| it.backward > Time::ZERO);
        let of_stage = |stage| {
            let before = &positions[..self.first_position(stage)];
            let fill = sum(before.iter().flat_map(|it| [it.forward, it.message]));
            let drain = sum(before.iter().flat_map(|it| [it.backward, it.message]));
            let own = || {
                let chunks = 0..self.chain.chunks;
                chunks.map(|chunk| positions[self.chain.position(stage, chunk) as usize])
            };
            let inputs = times(sum(own().flat_map(|it| [it.forward, it.backward])), micro_batches);
            let weights = times(sum(own().map(|it| it.weight)), micro_batches);
            let own = sum([inputs, weights, update(stage)]);
            match (returns, splits) {
                (false, _) => own,
                (true, false) => own.max(sum([fill, inputs, weights, drain, first])),
                // Weight gradients may fill what would be a drain, and are waited for where all
                // stages are.
                (true, true) => {
                    let inputs = fill.saturating_add(inputs);
                    own.max(sum([inputs, drain, first])).max(sum([inputs, weights, self.together()]))
                }
            }
        };
        Floor {
            step: stages.map(of_stage).max().unwrap_or_default(),
            micro_batch: sum(positions.iter().flat_map(|it| [it.forward, it.backward, it.weight])),
            memory: Vec::new(),
            hosts: Vec::new(),
        }
    }

    fn visits(&self, position: u32) -> Visits {
        let (stage, chunk) = (self.chain.stage(position), self.chain.chunk(position));
        let time = |phase| self.alone(self.graph.visit(stage, chunk, phase).iter().copied());
        Visits {
            forward: time(Phase::Forward),
            backward: sum([time(Phase::BackwardInput), time(Phase::Backward)]),
            weight: time(Phase::BackwardWeight),
            message: self.chain.hop(position).map_or(Time::ZERO, |hop| self.costs.message(hop).alone()),
        }
    }

    /// Time of operators on the compute lane; sums are not fetched for the first micro-batch.
    pub(super) fn alone(&self, ops: impl IntoIterator<Item = OpId>) -> Time {
        let ops = ops.into_iter().map(|op| self.graph.get(op));
        let on_lane = ops.filter(|op| op.beside == 0 && op.phase != Phase::Accumulate);
        sum(on_lane.map(|op| self.costs.alone(op)))
    }

    fn first_position(&self, stage: u32) -> usize {
        (0..self.chain.chunks).map(|chunk| self.chain.position(stage, chunk)).min().unwrap_or(0) as usize
    }

    /// Time of a stage between its last backward pass and its next step.
    fn update(&self, stage: u32, splits: bool) -> Time {
        let visits = (0..self.chain.chunks).map(|chunk| self.graph.visit(stage, chunk, Phase::Update));
        let sums = if splits { Time::ZERO } else { self.sums_left(stage) };
        sum(visits.map(|ops| self.alone(ops.iter().copied())).chain([sums]))
    }

    /// Time of the first stage from where it waits for all stages to its next step.
    fn together(&self) -> Time {
        let ops = (0..self.chain.chunks).flat_map(|chunk| self.graph.visit(0, chunk, Phase::Update));
        let waits = |op: &OpId| {
            matches!(self.graph.operator(*op).work, Work::Collective(Collective { group: Group::Model, .. }))
        };
        self.alone(ops.copied().skip_while(|op| !waits(op)))
    }

    /// Time for which sums of gradients go on behind the last backward pass, on a lane of their own.
    fn sums_left(&self, stage: u32) -> Time {
        let position = self.first_position(stage) as u32;
        let visit = |phase| self.graph.visit(stage, self.chain.chunk(position), phase);
        let last = [visit(Phase::BackwardInput), visit(Phase::Backward)].concat();
        let mut behind: Vec<(usize, Time)> = Vec::new();
        for exchange in self.exchanges.iter().filter(|exchange| exchange.phase(self.graph) == Phase::Update) {
            let Tie::Reduce { writer, .. } = exchange.tie else { continue };
            let Some(at) = last.iter().position(|&op| op == writer) else { continue };
            behind.push((at, sum(exchange.ops.iter().map(|&op| self.costs.alone(self.graph.get(op))))));
        }
        let from = |&(at, _): &(usize, Time)| {
            let later = behind.iter().filter(|(other, _)| *other >= at);
            sum(later.map(|&(_, time)| time)).saturating_sub(self.alone(last[at + 1..].iter().copied()))
        };
        behind.iter().map(from).max().unwrap_or_default()
    }
}

impl Floor {
    /// Bytes that the fullest GPU or host lacks.
    pub fn lacking(&self) -> u64 {
        let all = self.memory.iter().chain(&self.hosts);
        all.map(|memory| memory.held.saturating_sub(memory.capacity)).max().unwrap_or(0)
    }
}

/// Bytes of a stage that hang on one micro-batch.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Working {
    /// Activations that the first chunk holds from its forward pass on.
    activations: u64,
    /// Most bytes alive in a pass of the first chunk, these activations included.
    first_chunk: u64,
    /// Most bytes alive in a pass of any chunk.
    pass: u64,
    /// Most bytes that an operator reads and fills.
    operator: u64,
}

impl Working {
    /// The bytes of a stage of which only the activations of the first chunk are known.
    pub(super) fn of_activations(activations: u64) -> Self {
        Self { activations, ..Self::default() }
    }

    /// The bytes of a stage on which operators are laid.
    fn of(graph: &OpGraph, stage: u32, chunks: u32, exchanges: &[Exchange]) -> Self {
        let forward = (0..chunks).map(|chunk| Visit::new(Phase::Forward, chunk, 0));
        // Gradients of weights may come later, and their tensors then stay longer.
        let backward = (0..chunks).rev().flat_map(|chunk| {
            let phases = [Phase::Backward, Phase::BackwardInput, Phase::BackwardWeight];
            phases.map(|phase| Visit::new(phase, chunk, 0))
        });
        let visits: Vec<Visit> = forward.chain(backward).collect();
        let live = Liveness::of_stage(graph, stage, &visits, exchanges);
        let mut working = Self::of_activations(held(graph, stage, 0));
        for visit in &visits {
            let ops = graph.visit(stage, u32::from(visit.chunk), visit.phase);
            let Some(begin) = live.begin(*visit) else { continue };
            let most = live.alive[begin..begin + ops.len()].iter().copied().max().unwrap_or(0);
            working.pass = working.pass.max(most);
            if visit.chunk == 0 && visit.phase != Phase::BackwardWeight {
                working.first_chunk = working.first_chunk.max(most);
            }
            let own = |&op: &OpId| distinct(graph, graph.get(op).uses().copied());
            working.operator = working.operator.max(ops.iter().map(own).max().unwrap_or(0));
        }
        working
    }

    /// Bytes beside the states, with as many micro-batches under way if activations stay.
    fn held(&self, under_way: Option<u32>) -> u64 {
        let Some(under_way) = under_way else { return self.operator };
        let others = self.activations.saturating_mul(u64::from(under_way.saturating_sub(1)));
        others.saturating_add(self.activations.max(self.first_chunk)).max(self.pass)
    }
}

impl Deployed<'_> {
    /// Bytes of each of its stages that hang on one micro-batch.
    pub(super) fn working(&self) -> Vec<Working> {
        // What is gathered ahead may be late: it counts from its reader on.
        let late = |exchange: &Exchange| match exchange.tie {
            Tie::Gather { reader, .. } => {
                let tie = Tie::Gather { reader, prefetch: 0, launched: LaunchedBy::Device };
                Exchange { tie, ..exchange.clone() }
            }
            Tie::Reduce { .. } => exchange.clone(),
        };
        let exchanges: Vec<Exchange> = self.exchanges.iter().map(late).collect();
        let Chain { stages, chunks, .. } = self.chain;
        (0..stages).map(|stage| Working::of(&self.laid.graph, stage, chunks, &exchanges)).collect()
    }

    /// Memory of its stages and hosts, where what is laid is more than one has; buffers of
    /// communicators, which are priced, are not in it.
    pub(super) fn too_large(&self, working: &[Working], job: &Job<'_>, kinds: &Kinds) -> Option<Floor> {
        let buffers = vec![0; self.chain.stages as usize];
        let floor = self.memory_floor(&buffers, working, job, kinds);
        (floor.lacking() > 0).then_some(floor)
    }

    /// Memory of its stages, and of its hosts if these keep states, where states and what hangs on a
    /// micro-batch by stage are more than one has.
    pub(super) fn too_large_with(
        &self,
        working: &[Working],
        on_hosts: bool,
        hardware: &Hardware<'_>,
    ) -> Result<Option<Floor>, PlanError> {
        let job = self.job(hardware)?;
        let memory = self.memory(&vec![0; self.chain.stages as usize], &job, &kinds(&job)?);
        let floor = self.memory_floor_of(&memory, working, on_hosts, &job);
        Ok((floor.lacking() > 0).then_some(floor))
    }

    /// Memory of its stages and hosts alone.
    pub(super) fn memory_floor(
        &self,
        buffers: &[u64],
        working: &[Working],
        job: &Job<'_>,
        kinds: &Kinds,
    ) -> Floor {
        let memory = self.memory(buffers, job, kinds);
        self.memory_floor_of(&memory, working, !self.updates.is_empty(), job)
    }

    fn memory_floor_of(
        &self,
        memory: &[StageMemory],
        working: &[Working],
        on_hosts: bool,
        job: &Job<'_>,
    ) -> Floor {
        let (pipelining, stages) = (&self.deployment.pipelining, self.chain.stages);
        let floor =
            |(stage, (memory, working))| MemoryFloor::of((stage, stages), memory, working, pipelining);
        Floor {
            memory: (0..).zip(memory.iter().zip(working)).map(floor).collect(),
            // Hosts that update nothing are no part of the site.
            hosts: if on_hosts { MemoryFloor::of_hosts(job, memory) } else { Vec::new() },
            ..Floor::default()
        }
    }
}

impl MemoryFloor {
    /// Floors of the hosts beside all ranks, of which those of a stage keep the same.
    pub(super) fn of_hosts(job: &Job<'_>, stages: &[StageMemory]) -> Vec<Self> {
        let mut held: BTreeMap<PartId, u64> = BTreeMap::new();
        for (stage, memory) in (0..).zip(stages) {
            let bytes = memory.held_by_host();
            let gpus = (0..job.extent.replicas()).map(|replica| job.machine.gpu(job.gpu(stage, replica)));
            for host in gpus.filter_map(|gpu| job.machine.memory_of(gpu)) {
                let held = held.entry(host).or_default();
                *held = held.saturating_add(bytes);
            }
        }
        let capacity = |host| job.machine.part(host).capacity.unwrap_or(u64::MAX);
        held.into_iter().map(|(host, held)| Self { held, capacity: capacity(host) }).collect()
    }

    /// Floor of a stage of several.
    fn of(
        (stage, stages): (u32, u32),
        memory: &StageMemory,
        working: &Working,
        pipelining: &Pipelining,
    ) -> Self {
        let mut techniques = pipelining.techniques.all();
        let stays = techniques.all(|it| it.facts(stages).activations.is_none());
        let under_way = match pipelining.schedule {
            PipelineSchedule::Gpipe => pipelining.micro_batches,
            PipelineSchedule::OneFOneB | PipelineSchedule::Interleaved(_) => {
                pipelining.micro_batches.min(stages - stage)
            }
            _ => 1,
        };
        let held = memory.held().saturating_add(working.held(stays.then_some(under_way)));
        Self { held, capacity: memory.capacity }
    }
}

fn sum(times: impl IntoIterator<Item = Time>) -> Time {
    times.into_iter().fold(Time::ZERO, Time::saturating_add)
}

fn times(time: Time, count: u64) -> Time {
    Time(time.0.saturating_mul(count))
}
