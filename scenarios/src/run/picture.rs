//! Timelines and memory curves: runs are pure, so those worth drawing are simulated again with a recorder.

use indexmap::IndexMap;
use rayon::prelude::*;
use reports::summary::{
    DetailedLane, DetailedSpan, DetailedTimeline, MemoryCurve, MemoryPoint, RunSummary, Timeline,
    TimelineRow, TimelineSpan,
};
use sim_core::id::{KindId, StoreId, StreamId};
use sim_core::observe::{Observer, Several};
use sim_core::outcome::Place;
use sim_core::program::{Op, StartState};
use sim_core::record::{Recorder, Selection, Span};
use sim_core::time::Time;
use workloads::lower::Lowered;
use workloads::names::cause;
use workloads::plan::Built;

use super::detail::Detail;
use super::one::{Planned, Simulation};
use super::replanned::replanned;
use super::window::Window;
use super::words::Words;
use super::{Options, Progress, Refusal, in_parallel, programmed, replayed};
use crate::experiment::{Experiment, Point};
use crate::plans;
use crate::schema::Scenario;

/// Simulated activities of the longest run that is drawn: it is simulated again for that.
const DRAWN_MAX: u64 = 100_000_000;
/// Activities of the longest run whose every span is kept until the report is written.
const EXACT_MAX: u64 = 200_000;
/// Boxes of the overview of a longer one.
const OVERVIEW_MAX: usize = 20_000;
/// Stretches of time of its memory curve.
const STRETCHES: u64 = 1 << 14;

/// Adds pictures to the runs of one point: where the best run of all is. None once it is stopped.
pub(super) fn add(
    experiment: &Experiment,
    options: &Options,
    mut runs: Vec<RunSummary>,
    progress: &dyn Progress,
) -> Result<Vec<RunSummary>, Refusal> {
    let Some(shown) = point_to_show(&runs) else { return Ok(runs) };
    let Some(point) = experiment.point_of(&shown) else { return Ok(runs) };
    let wanting = |run: &&mut RunSummary| run.point == shown && !is_drawn(run) && !progress.stop();
    let all =
        || runs.par_iter_mut().filter(wanting).try_for_each(|run| rebuilt(experiment, options, &point, run));
    in_parallel(options.jobs, all)?;
    Ok(runs)
}

fn is_drawn(run: &RunSummary) -> bool {
    run.timeline.is_some() || !run.memory_curves.is_empty() || run.not_drawn.is_some()
}

/// The point that is shown: that of the best run.
fn point_to_show(runs: &[RunSummary]) -> Option<IndexMap<String, String>> {
    best(runs).map(|run| run.point.clone())
}

/// The run with the highest throughput; of none fits, the first.
pub fn best(runs: &[RunSummary]) -> Option<&RunSummary> {
    let throughput = |run: &RunSummary| {
        let time = run.step_time()?;
        Some(run.samples_per_s.unwrap_or_else(|| run.micro_batches.unwrap_or(1) as f64 / time))
    };
    // Of equally fast runs the first.
    let order = |a: &&RunSummary, b: &&RunSummary| {
        throughput(a).partial_cmp(&throughput(b)).unwrap_or(std::cmp::Ordering::Equal)
    };
    runs.iter().rev().max_by(order)
}

/// Adds pictures to a run that was simulated without.
fn rebuilt(
    experiment: &Experiment,
    options: &Options,
    point: &Point,
    run: &mut RunSummary,
) -> Result<(), Refusal> {
    let Ok(resolved) = experiment.resolve(&run.variant, point) else { return Ok(()) };
    let scenario = &resolved.scenario;
    if let Some(trace) = scenario.model.trace() {
        return replayed::draw(trace, run).map_err(|reason| broken(run, reason));
    }
    if scenario.model.program().is_some() {
        return programmed::draw(scenario, options.seed, run).map_err(|reason| broken(run, reason));
    }
    if is_too_long(scenario, run) {
        return Ok(());
    }
    let drawn = match replanned(scenario, options.seed, run) {
        Ok((Planned { scenario, prepared }, last_step)) => {
            run.last_step = last_step;
            draw(&Simulation::of(&scenario, &prepared.built, options.seed), run)
        }
        Err(unbuilt) => unbuilt.told().map(drop),
    };
    drawn.map_err(|reason| broken(run, reason))
}

pub(super) fn broken(run: &RunSummary, reason: String) -> Refusal {
    Refusal::Broken { variant: run.variant.clone(), point: run.point.clone(), reason }
}

/// Whether a run has too many activities to be drawn, which it then says. What the allocator refuses was not simulated.
fn is_too_long(scenario: &Scenario, run: &mut RunSummary) -> bool {
    let long = run.activities.unwrap_or_else(|| plans::activities(scenario)) > DRAWN_MAX;
    if long {
        run.not_drawn =
            Some(format!("more than {DRAWN_MAX} activities; with fewer micro-batches it would be"));
    }
    long
}

/// Adds pictures to a run: its last step, and the memory of the rank that has least to spare. It is
/// simulated for that, as only a run that has ended tells which step is the last and whose path
/// decides; where nobody has kept that, twice.
///
/// # Errors
/// A mistake in foretrain, in words.
pub(super) fn draw(simulation: &Simulation<'_>, run: &mut RunSummary) -> Result<(), String> {
    let &Simulation { scenario, built, .. } = simulation;
    if is_too_long(scenario, run) {
        return Ok(());
    }
    let is_long = run.activities.is_some_and(|activities| activities > EXACT_MAX);
    let folded = simulation.folded();
    let lowered = &built.lowered;
    let words = Words::new(lowered, plans::micro_batches_per_flush(scenario));
    let fullest = fullest(run).and_then(|name| words.rank_called(name));
    let computing = |stage: usize| folded.streams[lowered.stages[stage].compute.index()];
    let stages = lowered.stages.len();
    let Window { start, end, last, until, .. } = match run.last_step {
        Some(last_step) => last_step.into(),
        None => Window::of(simulation, &simulation.quiet(None)?),
    };
    let store = fullest.map(|rank| folded.stores[lowered.ranks[rank].memory.index()]);
    let mut recorder = Recorder::new(Selection {
        streams: if is_long { Vec::new() } else { (0..stages).map(computing).collect() },
        stores: store.into_iter().filter(|_| !is_long).collect(),
        fluids: Vec::new(),
        from: Time::ZERO,
        to: Time::NEVER,
    });
    let mut curve = store.filter(|_| is_long).map(|store| Curve::new(store, &folded.start, lowered, until));
    let mut detail = run.fits.then(|| Detail::new(simulation, [start, end]));
    let mut observers: Vec<&mut dyn Observer> = Vec::new();
    match &mut curve {
        Some(curve) => observers.push(curve),
        None => observers.push(&mut recorder),
    }
    observers.extend(detail.as_mut().map(|detail| detail as &mut dyn Observer));
    let drawn = simulation.with_path(last, &mut Several(observers))?;
    if let Some(detail) = detail.filter(|_| last.is_some()) {
        let detail = detail.finished(&drawn.path);
        run.timeline = Some(match is_long {
            true => overview(detail.clone()),
            false => {
                let rows = (0..stages).map(|stage| {
                    let spans = recorder.spans.iter().filter(|span| span.place.stream == computing(stage));
                    row(built, &words, stage, spans, (start, end))
                });
                Timeline { end_s: (end - start).as_secs(), rows: rows.collect() }
            }
        });
        run.detail = Some(detail);
    }
    if let Some(rank) = fullest {
        let points = match curve {
            Some(curve) => curve.points,
            None => points(&recorder, lowered, lowered.ranks[rank].memory),
        };
        run.memory_curves = vec![memory_curve(lowered, &words, rank, &points)];
    }
    Ok(())
}

/// Compute lanes of a detailed timeline, joined until they can be drawn as boxes.
fn overview(mut detail: DetailedTimeline) -> Timeline {
    detail.lanes.retain(|lane| lane.is_main);
    detail.join_until(OVERVIEW_MAX);
    let text = |text: u32| detail.texts.get_index(text as usize).cloned().unwrap_or_default();
    let span = |span: &DetailedSpan| TimelineSpan {
        start_s: Time(span.start).as_secs(),
        end_s: Time(span.end).as_secs(),
        state: text(span.state),
        label: if span.count > 1 { format!("{} spans", span.count) } else { text(span.name) },
    };
    let row = |lane: &DetailedLane| TimelineRow {
        name: lane.name.clone(),
        spans: lane.spans.iter().map(span).collect(),
    };
    Timeline { end_s: Time(detail.end).as_secs(), rows: detail.lanes.iter().map(row).collect() }
}

/// The name of the rank that ran out of memory, or came closest to it.
fn fullest(run: &RunSummary) -> Option<&str> {
    match &run.failure {
        Some(failure) => failure.store.as_deref()?.strip_prefix("memory of "),
        None => Some(&run.worst_device()?.device),
    }
}

/// What the first rank of a stage did between two times. Spans are those of the rank that stands for it.
fn row<'s>(
    built: &Built,
    words: &Words<'_>,
    stage: usize,
    spans: impl Iterator<Item = &'s Span>,
    (start, end): (Time, Time),
) -> TimelineRow {
    let own = |span: &Span| {
        let stream: StreamId = built.lowered.stages[stage].compute;
        Span { place: Place { stream, ..span.place }, ..*span }
    };
    let mut row = TimelineRow { name: Words::stage(stage), spans: Vec::new() };
    for span in spans.filter(|span| span.end > start && span.start < end) {
        for (from, to, state, label) in states(built, words, &own(span)) {
            let (from, to) = (from.max(start) - start, to.min(end).max(start) - start);
            if to > from {
                draw_span(&mut row.spans, (from.as_secs(), to.as_secs()), state, label);
            }
        }
    }
    row
}

/// Adds a box, or lengthens the one before: operators of one visit are one box.
pub(super) fn draw_span(
    spans: &mut Vec<TimelineSpan>,
    (start_s, end_s): (f64, f64),
    state: String,
    label: String,
) {
    match spans.last_mut() {
        Some(last) if last.end_s == start_s && last.state == state && last.label == label => {
            last.end_s = end_s;
        }
        _ => spans.push(TimelineSpan { start_s, end_s, state, label }),
    }
}

/// What a stage was doing during a span: one state, or two where a wait turned into a transfer.
fn states(built: &Built, words: &Words<'_>, span: &Span) -> Vec<(Time, Time, String, String)> {
    let program = &built.lowered.program;
    let block = &program.blocks[span.place.block.index()].name;
    let number = words.micro_batch(&span.place);
    match span.op {
        Op::Run { activity } => {
            let binding = &program.bindings[program.streams[span.place.stream.index()].binding.index()];
            let costs = binding.costs.map(|costs| &program.costs[costs.index()]);
            let activity =
                costs.and_then(|table| table.activities.get(activity.at(span.place.args) as usize));
            let own = activity.map_or("", |activity| &program.causes[activity.cause.index()]);
            let phase = block.split(" of ").next().unwrap_or(block);
            let (state, letter) = match phase {
                _ if own == cause::RECOMPUTE => (own.to_owned(), "R"),
                "end" => (format!("{own}: update"), ""),
                "forward" => (format!("{own}: {phase}"), "F"),
                "backward weight" => (format!("{own}: {phase}"), "W"),
                _ => (format!("{own}: {phase}"), "B"),
            };
            let label =
                if letter.is_empty() { words.operation(&span.place) } else { format!("{letter}{number}") };
            vec![(span.start, span.end, state, label)]
        }
        Op::Wait { cause: id, .. }
        | Op::Acquire { cause: id, .. }
        | Op::Hold { cause: id, .. }
        | Op::Join { cause: id, .. } => {
            let waited = program.causes[id.index()].clone();
            let label = match span.op {
                Op::Join { .. } => format!("within {}", words.operation(&span.place)),
                _ => format!("before {block} {number}"),
            };
            let under_way = (span.ready, span.end, cause::COMMUNICATION.to_owned(), label.clone());
            vec![(span.start, span.ready, waited, label), under_way]
        }
        _ => Vec::new(),
    }
}

/// Bytes by kind of a store, at every change.
fn points(recorder: &Recorder, lowered: &Lowered, store: StoreId) -> Vec<(Time, Vec<u64>)> {
    let mut held = held_at_start(&lowered.start, lowered, store);
    let mut points = vec![(Time::ZERO, held.clone())];
    for &(time, _, kind, bytes) in &recorder.stores {
        held[kind.index()] = bytes;
        match points.last_mut() {
            Some((last, bytes)) if *last == time => bytes.clone_from(&held),
            _ => points.push((time, held.clone())),
        }
    }
    points
}

fn held_at_start(start: &StartState, lowered: &Lowered, store: StoreId) -> Vec<u64> {
    let mut held = vec![0; lowered.program.kinds.len()];
    for &(_, kind, bytes) in start.stores.iter().filter(|(held, ..)| *held == store) {
        held[kind.index()] += bytes;
    }
    held
}

/// Bytes in a store, the most of each short stretch of time.
struct Curve {
    store: StoreId,
    stretch: u64,
    held: Vec<u64>,
    points: Vec<(Time, Vec<u64>)>,
}

impl Curve {
    fn new(store: StoreId, start: &StartState, lowered: &Lowered, end: Time) -> Self {
        let held = held_at_start(start, lowered, store);
        Self { store, stretch: (end.0 / STRETCHES).max(1), points: vec![(Time::ZERO, held.clone())], held }
    }
}

impl Observer for Curve {
    fn store(&mut self, now: Time, store: StoreId, kind: KindId, held: u64) {
        if store != self.store {
            return;
        }
        self.held[kind.index()] = held;
        match self.points.last_mut() {
            Some((last, most)) if last.0 / self.stretch == now.0 / self.stretch => {
                if self.held.iter().sum::<u64>() > most.iter().sum() {
                    most.clone_from(&self.held);
                }
            }
            _ => self.points.push((now, self.held.clone())),
        }
    }
}

fn memory_curve(
    lowered: &Lowered,
    words: &Words<'_>,
    rank: usize,
    points: &[(Time, Vec<u64>)],
) -> MemoryCurve {
    let ids = &lowered.ranks[rank];
    let used: Vec<usize> = (0..lowered.program.kinds.len())
        .filter(|&kind| points.iter().any(|(_, held)| held[kind] > 0))
        .collect();
    let point = |(time, held): &(Time, Vec<u64>)| MemoryPoint {
        at_s: time.as_secs(),
        bytes: used.iter().map(|&kind| held[kind]).collect(),
    };
    MemoryCurve {
        device: words.rank(rank),
        capacity_bytes: Words::capacity(ids),
        kinds: used.iter().map(|&kind| lowered.program.kinds[kind].clone()).collect(),
        points: points.iter().map(point).collect(),
    }
}
