//! Every lane of the last step, visit by visit with its operators, and the critical path: collected
//! while the program runs, in bounded memory.

use std::collections::BTreeMap;
use std::mem;

use reports::summary::{DetailedLane, DetailedSpan, DetailedTimeline, PathLeg, Piece};
use sim_core::id::{BlockId, CauseId, StreamId};
use sim_core::observe::{Look, Observer};
use sim_core::outcome::{PathStep, Place};
use sim_core::program::Op;
use sim_core::time::Time;
use workloads::lower::Lowered;
use workloads::names::cause;
use workloads::schedule::LaneKind;

use super::lanes::{Lane, lanes};
use super::one::Simulation;
use super::words::{Words, cause_of, task_name};
use crate::plans;

/// Spans and pieces that are kept: a page has room for fewer.
const SPANS_MAX: usize = 1 << 18;
const PIECES_MAX: usize = 1 << 18;

/// Collects what lanes of the first rank of each stage do in a window.
pub(super) struct Detail<'a> {
    simulation: &'a Simulation<'a>,
    words: Words<'a>,
    tasks: Vec<Lane<'a>>,
    window: [Time; 2],
    timeline: DetailedTimeline,
    /// By simulated stream, the lane that is shown of it.
    shown: Vec<Option<Shown>>,
    /// By hash of their pieces, patterns.
    known: BTreeMap<u64, u32>,
    pieces: usize,
    /// Spans since the last were joined, and how short those are that are.
    added: usize,
    shortest: u64,
}

/// A stream that is shown.
struct Shown {
    lane: usize,
    /// True for the lane on which its rank computes: waits of other lanes are not shown.
    is_main: bool,
    /// The first stream that the simulated one stands for.
    stream: StreamId,
    /// Call that is being executed, since when, until when so far, with its pieces.
    call: Option<(BlockId, [i32; 2])>,
    since: u64,
    until: u64,
    pieces: Vec<Piece>,
    /// By operation, state and name of its activity.
    labels: BTreeMap<(BlockId, u32), [u32; 2]>,
}

impl<'a> Detail<'a> {
    pub(super) fn new(simulation: &'a Simulation<'a>, window: [Time; 2]) -> Self {
        let lowered = &simulation.built.lowered;
        let folded = &simulation.folded().streams;
        let words = Words::new(lowered, plans::micro_batches_per_flush(simulation.scenario));
        let mut shown: Vec<Option<Shown>> = Vec::new();
        shown.resize_with(folded.iter().map(|id| id.index() + 1).max().unwrap_or(0), || None);
        let mut timeline = DetailedTimeline { end: (window[1] - window[0]).0, ..DetailedTimeline::default() };
        let mut order: Vec<usize> = (0..folded.len()).collect();
        order.sort_by_key(|&stream| (lowered.streams[stream].stage, stream));
        for stream in order {
            let role = lowered.streams[stream];
            let place = &mut shown[folded[stream].index()];
            if role.replica != 0 || place.is_some() {
                continue;
            }
            let is_main = role.kind == LaneKind::Compute;
            let stage = Words::stage(role.stage as usize);
            let name = if is_main { stage } else { format!("{stage}, {}", role.kind.name()) };
            *place = Some(Shown {
                lane: timeline.lanes.len(),
                is_main,
                stream: StreamId::from(stream),
                call: None,
                since: 0,
                until: 0,
                pieces: Vec::new(),
                labels: BTreeMap::new(),
            });
            timeline.lanes.push(DetailedLane { name, is_main, spans: Vec::new() });
        }
        Self {
            simulation,
            words,
            tasks: lanes(lowered).collect(),
            window,
            timeline,
            shown,
            known: BTreeMap::new(),
            pieces: 0,
            added: 0,
            shortest: 0,
        }
    }

    /// The timeline with a critical path, of which the steps of the run are given.
    pub(super) fn finished(mut self, path: &[PathStep]) -> DetailedTimeline {
        for stream in 0..self.shown.len() {
            self.close(stream);
        }
        let [start, end] = self.window;
        let folded = &self.simulation.folded().streams;
        let leg = |steps: &[PathStep]| {
            let shown = self.shown.get(folded[steps[0].stream.index()].index())?.as_ref()?;
            let last = steps.last()?;
            let [from, to] = [steps[0].begin, last.begin + last.duration];
            let [from, to] = [from, to].map(|time| time.clamp(start, end).saturating_sub(start).0);
            (from < to).then_some(PathLeg { lane: shown.lane as u32, from, to })
        };
        // Steps on one lane are one leg, whatever they are spent on.
        let legs = path.chunk_by(|a, b| a.stream == b.stream);
        self.timeline.path = legs.filter_map(leg).collect();
        self.timeline
    }

    /// The call of a stream has ended.
    fn close(&mut self, stream: usize) {
        let Some(shown) = &mut self.shown[stream] else { return };
        let Some((block, args)) = shown.call.take() else { return };
        let place = Place { stream: shown.stream, block, op: 0, args };
        let pieces = mem::take(&mut shown.pieces);
        let (lane, start, end) = (shown.lane, shown.since, shown.until);
        let name = self.timeline.text(&self.words.operation(&place));
        let state = self.state_of(&pieces, block);
        let pattern = self.pattern(pieces);
        self.add(lane, DetailedSpan { start, end, state, name, pattern, count: 1 });
    }

    /// The state of a visit: that of most of it, with its phase.
    fn state_of(&mut self, pieces: &[Piece], block: BlockId) -> u32 {
        let mut times: BTreeMap<u32, u64> = BTreeMap::new();
        pieces.iter().for_each(|piece| *times.entry(piece.state).or_default() += piece.length);
        let most = times.iter().max_by_key(|(_, time)| **time).map_or(0, |(state, _)| *state);
        let word = self.timeline.texts.get_index(most as usize).cloned().unwrap_or_default();
        if word != cause::COMPUTE {
            return most;
        }
        let block = &self.simulation.built.lowered.program.blocks[block.index()].name;
        let phase = match block.split(" of ").next().unwrap_or(block) {
            "end" => "update",
            phase => phase,
        };
        self.timeline.text(&format!("{word}: {phase}"))
    }

    /// A pattern with these pieces; none once there are too many.
    fn pattern(&mut self, pieces: Vec<Piece>) -> Option<u32> {
        let hash = pieces.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, piece| {
            let words = [piece.offset, piece.length, u64::from(piece.name) << 32 | u64::from(piece.state)];
            words
                .into_iter()
                .fold(hash, |hash, word| (hash ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23))
        });
        if let Some(&known) = self.known.get(&hash) {
            return (self.timeline.patterns[known as usize] == pieces).then_some(known);
        }
        if self.pieces + pieces.len() > PIECES_MAX {
            return None;
        }
        self.pieces += pieces.len();
        let pattern = self.timeline.patterns.len() as u32;
        self.timeline.patterns.push(pieces);
        self.known.insert(hash, pattern);
        Some(pattern)
    }

    fn add(&mut self, lane: usize, span: DetailedSpan) {
        let spans = &mut self.timeline.lanes[lane].spans;
        match spans.last_mut() {
            Some(last)
                if last.pattern.or(span.pattern).is_none()
                    && [last.end, last.state.into(), last.name.into()]
                        == [span.start, span.state.into(), span.name.into()] =>
            {
                last.end = span.end;
            }
            _ => {
                spans.push(span);
                self.added += 1;
            }
        }
        if self.added > SPANS_MAX {
            self.shortest = self.timeline.join_until(SPANS_MAX / 2).max(self.shortest);
            self.added = self.timeline.count();
        }
    }

    /// State and name of an activity.
    fn label(&mut self, stream: usize, place: &Place, op: &Op) -> [u32; 2] {
        let key = (place.block, place.op);
        let Some(shown) = &self.shown[stream] else { return [0; 2] };
        if let Some(label) = shown.labels.get(&key) {
            return *label;
        }
        let built = self.simulation.built;
        let Lowered { program, streams, .. } = &built.lowered;
        let own = shown.stream;
        let task = self.tasks[streams[own.index()].lane as usize].done_by(op);
        let state = cause_of(program, own, place.args, op);
        let name = task_name(built, task, state);
        let label = [self.timeline.text(state), self.timeline.text(&name)];
        if let Some(shown) = &mut self.shown[stream] {
            shown.labels.insert(key, label);
        }
        label
    }

    /// Something that is part of a call which has begun, or stands alone.
    fn piece(
        &mut self,
        stream: usize,
        place: &Place,
        [state, name]: [u32; 2],
        begins: bool,
        times: [Time; 2],
    ) {
        let [from, to] = self.window;
        let (start, end) = (times[0].max(from), times[1].min(to));
        if start >= end {
            return;
        }
        let [start, end] = [start, end].map(|time| (time - from).0);
        let call = (place.block, place.args);
        if self.shown[stream].as_ref().is_some_and(|shown| shown.call.is_some_and(|open| open != call)) {
            self.close(stream);
        }
        let Some(shown) = &mut self.shown[stream] else { return };
        if shown.call.is_none() {
            if !begins {
                let span = DetailedSpan { start, end, state, name, pattern: None, count: 1 };
                let lane = shown.lane;
                return self.add(lane, span);
            }
            (shown.call, shown.since) = (Some(call), start);
        }
        shown.until = end;
        shown.pieces.push(Piece { offset: start - shown.since, length: end - start, state, name });
    }

    fn wait(&mut self, stream: usize, place: &Place, cause: CauseId, [start, ready, end]: [Time; 3]) {
        if self.shown[stream].as_ref().is_none_or(|shown| !shown.is_main) {
            return;
        }
        let waited = &self.simulation.built.lowered.program.causes[cause.index()];
        for (from, to, word) in [(start, ready, waited.as_str()), (ready, end, cause::COMMUNICATION)] {
            if from < to {
                let state = self.timeline.text(word);
                self.piece(stream, place, [state, state], false, [from, to]);
            }
        }
    }
}

impl Observer for Detail<'_> {
    fn look(&self) -> Look {
        Look::Spans
    }

    fn span(&mut self, place: Place, op: &Op, start: Time, ready: Time, end: Time) {
        let stream = place.stream.index();
        if end <= self.window[0] || start >= self.window[1] || start == end || self.shown[stream].is_none() {
            return;
        }
        match *op {
            Op::Run { .. } => {
                let label = self.label(stream, &place, op);
                self.piece(stream, &place, label, true, [start, end]);
            }
            Op::Join { cause, .. } => {
                self.wait(stream, &place, cause, [start, ready, ready]);
                let label = self.label(stream, &place, op);
                self.piece(stream, &place, label, true, [ready, end]);
            }
            Op::Wait { cause, .. }
            | Op::Acquire { cause, .. }
            | Op::Hold { cause, .. }
            | Op::Await { cause, .. } => self.wait(stream, &place, cause, [start, ready, end]),
            _ => {}
        }
    }
}
