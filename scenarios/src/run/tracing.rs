//! Traces for viewers: a run is simulated again, and written as it goes.

use std::collections::BTreeMap;

use reports::summary::RunSummary;
use reports::trace::{Arrow, Detail, Process, Slice, Tracer, Track, Unit, Word};
use sim_core::fixed::Rate;
use sim_core::id::{BlockId, CauseId, FluidId, KindId, StoreId, StreamId};
use sim_core::observe::{Message, Observer, Unobserved};
use sim_core::outcome::{Place, Run};
use sim_core::program::Op;
use sim_core::record::{Messages, Sent};
use sim_core::time::Time;
use workloads::account::{Task, TaskKind};
use workloads::lower::{Lowered, RankIds, StreamRole};
use workloads::names::cause;
use workloads::schedule::LaneKind;

use super::lanes::{Lane, lanes};
use super::one::{Planned, Simulation};
use super::picture::broken;
use super::replanned::replanned;
use super::words::{Words, cause_of, task_name};
use super::{Refusal, programmed, ranks, replayed};
use crate::experiment::{Experiment, Resolved};
use crate::plans;

/// Links whose use is counted: the busiest.
const LINKS_MAX: usize = 64;

/// Writes a run of an experiment that has ended; false if it does not run to its end.
///
/// # Errors
/// A mistake in foretrain.
pub fn trace(
    experiment: &Experiment,
    seed: u64,
    run: &RunSummary,
    tracer: &mut dyn Tracer,
) -> Result<bool, Refusal> {
    let point = experiment.point_of(&run.point);
    let resolved = point.and_then(|point| experiment.resolve(&run.variant, &point).ok());
    let Some(Resolved { scenario, .. }) = resolved.filter(|_| run.fits) else {
        return Ok(false);
    };
    let written = if let Some(trace) = scenario.model.trace() {
        replayed::trace(trace, tracer).map(|()| true)
    } else if scenario.model.program().is_some() {
        programmed::trace(&scenario, seed, tracer).map(|()| true)
    } else {
        match replanned(&scenario, seed, run) {
            Ok((Planned { scenario, prepared }, _)) => {
                write(&Simulation::of(&scenario, &prepared.built, seed), tracer).map(|()| true)
            }
            Err(unbuilt) => unbuilt.told().map(|_| false),
        }
    };
    written.map_err(|reason| broken(run, reason))
}

fn write(simulation: &Simulation<'_>, tracer: &mut dyn Tracer) -> Result<(), String> {
    // What is counted hangs on what was used.
    let run = simulation.observed(&mut Unobserved)?;
    let mut tracing = Tracing::new(simulation, &run, tracer);
    simulation.observed(&mut tracing)?;
    tracing.end();
    Ok(())
}

/// Writes what it sees.
struct Tracing<'a> {
    simulation: &'a Simulation<'a>,
    words: Words<'a>,
    tracer: &'a mut dyn Tracer,
    lanes: Vec<Lane<'a>>,
    /// By simulated stream.
    streams: Vec<OnTrack>,
    messages: Messages<'a>,
    /// By simulated store, those of ranks, hosts and drives.
    stores: BTreeMap<StoreId, Held>,
    /// Simulated links, and their counters.
    fluids: Vec<FluidId>,
    links: Vec<Track>,
    names: Names,
}

/// Words that are used often.
struct Names {
    visit: Word,
    micro_batch: Word,
    step: Word,
    bytes: Word,
    flops: Word,
    phase: Word,
    chunk: Word,
}

impl Names {
    fn of(tracer: &mut dyn Tracer) -> Self {
        Self {
            visit: tracer.word("visit"),
            micro_batch: tracer.word("micro-batch"),
            step: tracer.word("step"),
            bytes: tracer.word("bytes"),
            flops: tracer.word("FLOPs"),
            phase: tracer.word("phase"),
            chunk: tracer.word("chunk"),
        }
    }
}

/// Ranks that are written, by stage and replica.
struct Processes<'a> {
    lowered: &'a Lowered,
    words: &'a Words<'a>,
    /// By stream, the simulated one that stands for it.
    folded: &'a [StreamId],
    known: BTreeMap<(u32, u32), Process>,
}

impl Processes<'_> {
    /// That of a rank, with the number of ranks that it stands for.
    fn of(&mut self, StreamRole { stage, replica, .. }: StreamRole, tracer: &mut dyn Tracer) -> Process {
        *self.known.entry((stage, replica)).or_insert_with(|| {
            let rank = stage as usize * ranks::replicas(self.lowered) + replica as usize;
            let folded = |ids: &RankIds| self.folded[ids.compute.index()];
            let own = folded(&self.lowered.ranks[rank]);
            let alike = self.lowered.ranks.iter().filter(|ids| folded(ids) == own).count();
            let name = self.words.rank(rank);
            tracer.process(&if alike > 1 { format!("{name} (one of {alike} ranks)") } else { name })
        })
    }
}

/// A simulated stream, as far as it has been written.
struct OnTrack {
    /// The first of those that it stands for.
    stream: StreamId,
    role: StreamRole,
    track: Track,
    /// The call whose slice is open.
    open: Option<(BlockId, [i32; 2])>,
    /// When the last slice ended.
    until: Time,
    /// Arrows that end at the next slice.
    arrows: Vec<Arrow>,
    /// By operation, slices of its activities.
    labels: BTreeMap<(BlockId, u32), Label>,
}

/// The part of a slice that all executions of an operation share.
#[derive(Clone)]
struct Label {
    name: Word,
    category: Word,
    details: Vec<(Word, Detail)>,
}

/// Bytes in a store.
struct Held {
    counter: Track,
    by_kind: Vec<u64>,
}

impl<'a> Tracing<'a> {
    fn new(simulation: &'a Simulation<'a>, run: &Run, tracer: &'a mut dyn Tracer) -> Self {
        let &Simulation { scenario, built, .. } = simulation;
        let (lowered, folded) = (&built.lowered, simulation.folded());
        let words = Words::new(lowered, plans::micro_batches_per_flush(scenario));
        let names = Names::of(tracer);
        let mut processes =
            Processes { lowered, words: &words, folded: &folded.streams, known: BTreeMap::new() };
        // By simulated stream, the first one that it stands for.
        let mut first: BTreeMap<StreamId, StreamId> = BTreeMap::new();
        for (stream, folded) in folded.streams.iter().enumerate() {
            first.entry(*folded).or_insert(StreamId::from(stream));
        }
        // Ranks in their order, the lanes of each in that of the schedule.
        let mut order: Vec<(StreamId, StreamId)> = first.into_iter().collect();
        order.sort_by_key(|(_, stream)| {
            let role = lowered.streams[stream.index()];
            (role.stage, role.replica, *stream)
        });
        let mut streams: Vec<(StreamId, OnTrack)> = Vec::new();
        for (folded, stream) in order {
            let role = lowered.streams[stream.index()];
            let process = processes.of(role, tracer);
            let track = tracer.track(process, &role.kind.name());
            let (arrows, labels) = Default::default();
            let on_track = OnTrack { stream, role, track, open: None, until: Time::ZERO, arrows, labels };
            streams.push((folded, on_track));
        }
        streams.sort_by_key(|(folded, _)| *folded);
        let known = processes.known;
        let mut tracing = Self {
            simulation,
            messages: Messages::new(&folded.program, &folded.start),
            lanes: lanes(lowered).collect(),
            streams: streams.into_iter().map(|(_, on_track)| on_track).collect(),
            stores: BTreeMap::new(),
            fluids: Vec::new(),
            links: Vec::new(),
            words,
            names,
            tracer,
        };
        tracing.add_memories(&known, run);
        tracing.add_links(run);
        tracing
    }

    /// Counters of the memory of ranks, and of what hosts and drives hold of theirs.
    fn add_memories(&mut self, processes: &BTreeMap<(u32, u32), Process>, run: &Run) {
        let (lowered, folded) = (&self.simulation.built.lowered, self.simulation.folded());
        let replicas = ranks::replicas(lowered);
        for (&(stage, replica), &process) in processes {
            let ids = &lowered.ranks[stage as usize * replicas + replica as usize];
            let store = folded.stores[ids.memory.index()];
            let counter = self.tracer.counter(process, "memory", Unit::Bytes);
            self.stores.entry(store).or_insert(Held { counter, by_kind: Vec::new() });
        }
        let of_ranks = |store| lowered.ranks.iter().any(|ids| [ids.memory, ids.resident].contains(&store));
        let others = (0..lowered.platform.stores.len()).map(StoreId::from);
        let others = others.filter(|store| run.stores[store.index()].peak.bytes > 0 && !of_ranks(*store));
        let others: Vec<StoreId> = others.collect();
        if !others.is_empty() {
            let process = self.tracer.process("hosts and drives");
            for store in others {
                let name = &lowered.platform.stores[store.index()].name;
                let folded = folded.stores[store.index()];
                if !self.stores.contains_key(&folded) {
                    let counter = self.tracer.counter(process, name, Unit::Bytes);
                    self.stores.insert(folded, Held { counter, by_kind: Vec::new() });
                }
            }
        }
        for held in self.stores.values_mut() {
            held.by_kind = vec![0; lowered.program.kinds.len()];
        }
        for &(store, kind, bytes) in &folded.start.stores {
            if let Some(held) = self.stores.get_mut(&store) {
                held.by_kind[kind.index()] += bytes;
            }
        }
        for Held { counter, by_kind } in self.stores.values() {
            self.tracer.value(*counter, 0, by_kind.iter().sum::<u64>() as f64);
        }
    }

    /// Counters of the busiest links.
    fn add_links(&mut self, run: &Run) {
        let &Simulation { scenario, built, .. } = self.simulation;
        let Lowered { platform, partner_links, .. } = &built.lowered;
        let machine = plans::machine::of(scenario);
        let links = machine.map_or_else(|_| partner_links.clone(), |it| it.resources().links.clone());
        let used = |fluid: FluidId| {
            let capacity = platform.fluids[fluid.index()].capacity.units_per_second();
            run.fluids[fluid.index()].served as f64 / capacity
        };
        let mut links: Vec<(FluidId, f64)> = links.into_iter().map(|fluid| (fluid, used(fluid))).collect();
        links.retain(|(_, used)| *used > 0.0);
        links.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let mut process = None;
        for (fluid, _) in links {
            let folded = self.simulation.folded().fluids[fluid.index()];
            if self.fluids.contains(&folded) || self.fluids.len() == LINKS_MAX {
                continue;
            }
            let process = *process.get_or_insert_with(|| self.tracer.process("links"));
            let name = &platform.fluids[fluid.index()].name;
            let counter = self.tracer.counter(process, name, Unit::BytesPerSecond);
            self.tracer.value(counter, 0, 0.0);
            self.links.push(counter);
            self.fluids.push(folded);
        }
    }

    /// Slices of a wait: for what, then what is under way.
    fn wait(&mut self, place: &Place, waited: &str, [start, ready, end]: [Time; 3]) {
        for (from, to, word) in [(start, ready, waited), (ready, end, cause::COMMUNICATION)] {
            if from < to {
                let word = self.tracer.word(word);
                let slice = Slice { name: word, category: word, details: &[], arrows: &[] };
                self.slice(place, &slice, [from, to]);
            }
        }
    }

    /// A slice of an activity, within that of its visit.
    fn activity(&mut self, place: &Place, op: &Op, [start, end]: [Time; 2]) {
        let index = place.stream.index();
        let call = (place.block, place.args);
        if self.streams[index].open != Some(call) {
            self.close(index);
            let own = Place { stream: self.streams[index].stream, ..*place };
            let name = self.tracer.word(&self.words.operation(&own));
            let [micro_batch, step] = [self.words.micro_batch(&own), self.words.step(&own)];
            let details = [
                (self.names.micro_batch, Detail::Whole(micro_batch.into())),
                (self.names.step, Detail::Whole(step.into())),
            ];
            let slice = Slice { name, category: self.names.visit, details: &details, arrows: &[] };
            let on_track = &mut self.streams[index];
            on_track.open = Some(call);
            self.tracer.begin(on_track.track, start.0, &slice);
        }
        let key = (place.block, place.op);
        if !self.streams[index].labels.contains_key(&key) {
            let label = self.label(place, op);
            self.streams[index].labels.insert(key, label);
        }
        let on_track = &mut self.streams[index];
        let Some(Label { name, category, details }) = on_track.labels.get(&key) else { return };
        let slice = Slice { name: *name, category: *category, details, arrows: &on_track.arrows };
        self.tracer.begin(on_track.track, start.0, &slice);
        self.tracer.end(on_track.track, end.0);
        on_track.until = end;
        on_track.arrows.clear();
    }

    /// A slice that is of the call which is open, or of none.
    fn slice(&mut self, place: &Place, slice: &Slice<'_>, [start, end]: [Time; 2]) {
        let index = place.stream.index();
        if self.streams[index].open.is_some_and(|open| open != (place.block, place.args)) {
            self.close(index);
        }
        let on_track = &mut self.streams[index];
        self.tracer.begin(on_track.track, start.0, slice);
        self.tracer.end(on_track.track, end.0);
        on_track.until = end;
    }

    /// The visit of a stream has ended.
    fn close(&mut self, stream: usize) {
        let on_track = &mut self.streams[stream];
        if on_track.open.take().is_some() {
            self.tracer.end(on_track.track, on_track.until.0);
        }
    }

    /// Everything has ended.
    fn end(&mut self) {
        for stream in 0..self.streams.len() {
            self.close(stream);
            let OnTrack { track, until, arrows, .. } = &mut self.streams[stream];
            for arrow in arrows.drain(..) {
                self.tracer.arrive(*track, until.0, arrow);
            }
        }
    }

    fn cause(&self, cause: CauseId) -> String {
        self.simulation.built.lowered.program.causes[cause.index()].clone()
    }

    fn label(&mut self, place: &Place, op: &Op) -> Label {
        let &Simulation { built, .. } = self.simulation;
        let program = &built.lowered.program;
        let OnTrack { stream, role, .. } = &self.streams[place.stream.index()];
        let category = cause_of(program, *stream, place.args, op);
        let task = self.lanes[role.lane as usize].done_by(op);
        let mut details = Vec::new();
        match task {
            Some(&Task { kind: TaskKind::Operator(op), .. }) => {
                let (operator, op) = (built.graph.operator(op), built.graph.get(op));
                details.push((self.names.phase, Detail::Text(self.tracer.word(op.phase.name()))));
                details.push((self.names.chunk, Detail::Whole(op.chunk.into())));
                let (flops, bytes) = (operator.work.flops(), operator.work.bytes());
                details.extend((flops > 0.0).then_some((self.names.flops, Detail::Number(flops))));
                details.extend((bytes > 0).then_some((self.names.bytes, Detail::Whole(bytes))));
            }
            Some(&Task { bytes, .. }) if bytes > 0 => details.push((self.names.bytes, Detail::Whole(bytes))),
            _ => {}
        }
        let name = task_name(built, task, category);
        Label { name: self.tracer.word(&name), category: self.tracer.word(category), details }
    }
}

/// Name of an arrow between two lanes.
const fn arrow_name(from: LaneKind, to: LaneKind) -> &'static str {
    match (from, to) {
        (LaneKind::Host, _) => "launch",
        (LaneKind::Link { .. }, _) | (_, LaneKind::Link { .. }) | (LaneKind::Compute, LaneKind::Compute) => {
            "send"
        }
        (_, LaneKind::Host) => "return to the host",
        _ => "ready",
    }
}

impl Observer for Tracing<'_> {
    fn fluids(&self) -> &[FluidId] {
        &self.fluids
    }

    fn span(&mut self, place: Place, op: &Op, start: Time, ready: Time, end: Time) {
        if let Some(Sent { by, departure }) = self.messages.received(&place, op, end)
            && by != place.stream
        {
            let [from, to] = [by, place.stream].map(|stream| self.streams[stream.index()].role.kind);
            let name = self.tracer.word(arrow_name(from, to));
            let arrow = self.tracer.depart(self.streams[by.index()].track, departure.0, name);
            self.streams[place.stream.index()].arrows.push(arrow);
        }
        if start == end {
            return;
        }
        match *op {
            Op::Run { .. } => self.activity(&place, op, [start, end]),
            Op::Join { cause, .. } => {
                let waited = self.cause(cause);
                self.wait(&place, &waited, [start, ready, ready]);
                if ready < end {
                    self.activity(&place, op, [ready, end]);
                }
            }
            Op::Wait { cause, .. }
            | Op::Acquire { cause, .. }
            | Op::Hold { cause, .. }
            | Op::Await { cause, .. } => {
                let waited = self.cause(cause);
                self.wait(&place, &waited, [start, ready, end]);
            }
            _ => {}
        }
    }

    fn message(&mut self, message: &Message) {
        self.messages.send(message);
    }

    fn store(&mut self, now: Time, store: StoreId, kind: KindId, bytes: u64) {
        if let Some(Held { counter, by_kind }) = self.stores.get_mut(&store) {
            by_kind[kind.index()] = bytes;
            self.tracer.value(*counter, now.0, by_kind.iter().sum::<u64>() as f64);
        }
    }

    fn fluid(&mut self, now: Time, fluid: FluidId, load: Rate) {
        if let Some(at) = self.fluids.iter().position(|&watched| watched == fluid) {
            self.tracer.value(self.links[at], now.0, load.units_per_second());
        }
    }
}
