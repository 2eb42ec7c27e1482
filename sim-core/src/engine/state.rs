//! The state of a run: everything that changes from instant to instant, and nothing else. A copy of it goes on like the
//! original.

use super::activities::Flow;
use super::ahead::Ahead;
use super::buckets::BucketState;
use super::counters::Counter;
use super::groups::GroupState;
use super::inputs::Inputs;
use super::jobs::{CellState, Holdings, QueueState};
use super::ledger::Ledger;
use super::marks::Cut;
use super::pools::PoolState;
use super::segments::{FluidSegments, Running};
use super::stores::StoreState;
use super::stream::StreamState;
use crate::id::StreamId;
use crate::noise::NoiseSource;
use crate::outcome::{ByCause, End};
use crate::program::{CAUSES_MAX, StartState};
use crate::queue::finish::FinishTree;
use crate::queue::timers::Timers;
use crate::sharing::Network;
use crate::time::Time;

/// The state of a run between two instants.
#[derive(Clone, Debug)]
pub(super) struct State {
    /// Whether the first instant is over.
    pub(super) begun: bool,
    /// The instant of the clock.
    pub(super) instant: Time,
    /// The time of the stream that executes: the instant, or later where it is ahead of the clock.
    pub(super) now: Time,
    /// The last instant in which anything happened: timers that have lost their meaning still come.
    pub(super) moved: Time,
    pub(super) timers: Timers,
    pub(super) finishes: FinishTree,
    pub(super) streams: Vec<StreamState>,
    pub(super) spent: Vec<ByCause>,
    pub(super) ledger: Ledger,
    pub(super) cut: Cut,
    pub(super) counters: Vec<Counter>,
    pub(super) stores: Vec<StoreState>,
    pub(super) pools: Vec<PoolState>,
    pub(super) groups: Vec<GroupState>,
    pub(super) queues: Vec<QueueState>,
    pub(super) cells: Vec<CellState>,
    pub(super) network: Network,
    pub(super) flows: Vec<Flow>,
    /// Work done along each route.
    pub(super) served: Vec<u128>,
    pub(super) buckets: Vec<BucketState>,
    /// Whether a bucket may be empty in this instant.
    pub(super) bucket_due: bool,
    /// What streams hold; empty where nobody is halted.
    pub(super) holdings: Vec<Holdings>,
    pub(super) noise: NoiseSource,
    /// Per stream; empty without segments.
    pub(super) running_segments: Vec<Option<Running>>,
    /// By operation, true if a segment that began there has been opened before anything of it
    /// ended; empty without segments.
    pub(super) opened_at_once: Vec<bool>,
    /// Per fluid; empty without segments.
    pub(super) fluid_segments: Vec<FluidSegments>,
    pub(super) activities: u64,
    pub(super) events: u64,
    /// Blocks that streams have begun, or looked for.
    pub(super) blocks: u64,
    pub(super) end: Option<End>,
}

impl State {
    /// The state before the first instant. Streams may run ahead of the clock as `ahead` says.
    pub(super) fn new(inputs: &Inputs<'_>, ahead: &Ahead) -> Self {
        let Inputs { platform, program, halts, options, .. } = inputs;
        let mut ledger = Ledger::default();
        let declared = (0..).map(StreamId).zip(program.streams.iter().zip(&halts.targets));
        let streams: Vec<StreamState> = declared
            .map(|(id, (stream, &halted))| {
                let bound = inputs.code.bindings[stream.binding.index()];
                StreamState::new((id, bound), !halted, ahead.on && !halted, &mut ledger)
            })
            .collect();
        let cut = Cut::new(options.path_from, program);
        if options.path_of.is_some() || (ahead.on && cut.is_made()) {
            // Who runs ahead may be past the first mark before that is known.
            ledger.record();
        }
        let segments = inputs.plans.are_on();
        let count = streams.len();
        let mut state = Self {
            begun: false,
            instant: Time::ZERO,
            now: Time::ZERO,
            moved: Time::ZERO,
            timers: Timers::default(),
            finishes: FinishTree::default(),
            streams,
            spent: vec![[Time::ZERO; CAUSES_MAX]; count],
            ledger,
            cut,
            counters: ahead.channels.iter().map(|&is_channel| Counter::new(0, is_channel)).collect(),
            stores: platform
                .stores
                .iter()
                .zip(ahead.own_stores.iter().zip(&halts.stores))
                .map(|(s, (&is_own, &noted))| StoreState::new(s.capacity, program.kinds.len(), is_own, noted))
                .collect(),
            pools: platform.pools.iter().map(|p| PoolState::new(p.units)).collect(),
            groups: vec![GroupState::default(); program.groups.len()],
            queues: vec![QueueState::default(); program.queues.len()],
            cells: vec![CellState::default(); program.cells as usize],
            network: Network::new(platform),
            flows: Vec::new(),
            served: vec![0; platform.routes.len()],
            buckets: BucketState::all(platform),
            bucket_due: false,
            holdings: vec![Holdings::default(); if halts.targets.contains(&true) { count } else { 0 }],
            noise: NoiseSource::new(program.noise, options.seed),
            running_segments: vec![None; if segments { count } else { 0 }],
            opened_at_once: vec![false; if segments { inputs.code.ops.len() } else { 0 }],
            fluid_segments: vec![FluidSegments::default(); if segments { platform.fluids.len() } else { 0 }],
            activities: 0,
            events: 0,
            blocks: 0,
            end: None,
        };
        state.begin_from(inputs.start);
        state
    }

    fn begin_from(&mut self, start: &StartState) {
        for &(counter, value) in &start.counters {
            let counter = &mut self.counters[counter.index()];
            *counter = Counter::new(value, counter.is_channel);
        }
        for &(cell, state) in &start.cells {
            self.cells[cell.index()] = CellState::new(state);
        }
        for &(store, kind, bytes) in &start.stores {
            self.stores[store.index()].hold_from_start(kind, bytes);
        }
        for bucket in &self.buckets {
            let (fluid, capacity) = bucket.start();
            self.network.set_capacity(fluid, capacity);
        }
    }
}
