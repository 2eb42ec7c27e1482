//! Timelines and memory curves: runs are pure, so those worth drawing are simulated again with a recorder.

use indexmap::IndexMap;
use rayon::prelude::*;
use reports::summary::{MemoryCurve, MemoryPoint, RunSummary, Timeline, TimelineRow, TimelineSpan};
use sim_core::program::Op;
use sim_core::record::{Recorder, Selection, Span};
use sim_core::simulate_observed;
use sim_core::time::Time;
use workloads::names::cause;
use workloads::plan::Built;

use super::one;
use super::words::Words;
use super::{Options, Refusal};
use crate::experiment::{Experiment, Point};
use crate::plans;

/// Activities of the longest run that is drawn: a page has room for some thousand boxes.
const DRAWN_MAX: u64 = 200_000;

/// Adds pictures to the runs of one point: where the best run of all is.
pub(super) fn add(
    experiment: &Experiment,
    options: &Options,
    mut runs: Vec<RunSummary>,
) -> Result<Vec<RunSummary>, Refusal> {
    let Some(shown) = point_to_show(&runs) else { return Ok(runs) };
    let Some(point) = experiment.points().find(|point| point.values() == shown) else { return Ok(runs) };
    runs.par_iter_mut()
        .filter(|run| run.point == shown)
        .try_for_each(|run| draw(experiment, options, &point, run))?;
    Ok(runs)
}

/// The point of the run with the highest throughput; of none fits, the first.
fn point_to_show(runs: &[RunSummary]) -> Option<IndexMap<String, String>> {
    let throughput = |run: &RunSummary| {
        let time = run.step_time()?;
        Some(run.samples_per_s.unwrap_or_else(|| run.micro_batches.unwrap_or(1) as f64 / time))
    };
    // Of equally fast runs the first.
    let best = runs
        .iter()
        .rev()
        .max_by(|a, b| throughput(a).partial_cmp(&throughput(b)).unwrap_or(std::cmp::Ordering::Equal));
    best.map(|run| run.point.clone())
}

fn draw(
    experiment: &Experiment,
    options: &Options,
    point: &Point,
    run: &mut RunSummary,
) -> Result<(), Refusal> {
    let Ok(resolved) = experiment.resolve(&run.variant, point) else { return Ok(()) };
    let scenario = &resolved.scenario;
    // What the allocator refuses was not simulated.
    if run.activities.unwrap_or_else(|| plans::activities(scenario)) > DRAWN_MAX {
        run.not_drawn =
            Some(format!("more than {DRAWN_MAX} activities; with fewer micro-batches it would be"));
        return Ok(());
    }
    let Ok(one::Prepared { built, .. }) = one::prepare(scenario, RunSummary::default()) else {
        return Ok(());
    };
    let lowered = &built.lowered;
    let words = Words::new(lowered, plans::micro_batches_per_flush(scenario));
    let fullest = fullest(run).and_then(|name| words.rank_called(name));
    let selection = Selection {
        streams: lowered.stages.iter().map(|ids| ids.compute).collect(),
        stores: fullest.map(|rank| lowered.ranks[rank].memory).into_iter().collect(),
        fluids: Vec::new(),
        from: Time::ZERO,
        to: Time::NEVER,
    };
    let mut recorder = Recorder::new(selection);
    let engine = one::engine(scenario, options.seed);
    let recorded =
        simulate_observed(&lowered.platform, &lowered.program, &lowered.start, &engine, &mut recorder)
            .map_err(|errors| Refusal::Broken {
                variant: run.variant.clone(),
                reason: errors[0].to_string(),
            })?;
    if run.fits {
        let marks = |nth_last: usize| {
            let streams = lowered.stages.iter().map(|ids| &recorded.streams[ids.compute.index()].marks);
            streams.filter_map(move |marks| marks.len().checked_sub(nth_last).map(|at| marks[at]))
        };
        let (start, end) = (marks(2).min().unwrap_or(Time::ZERO), marks(1).max().unwrap_or(recorded.time));
        run.timeline = Some(timeline(&built, &words, &recorder.spans, start, end));
    }
    if let Some(rank) = fullest {
        run.memory_curves = vec![memory_curve(&built, &words, rank, &recorder)];
    }
    Ok(())
}

/// The name of the rank that ran out of memory, or came closest to it.
fn fullest(run: &RunSummary) -> Option<&str> {
    match &run.failure {
        Some(failure) => failure.store.as_deref()?.strip_prefix("memory of "),
        None => Some(&run.worst_device()?.device),
    }
}

/// The last step of the first rank of every stage.
fn timeline(built: &Built, words: &Words<'_>, spans: &[Span], start: Time, end: Time) -> Timeline {
    let mut rows: Vec<TimelineRow> = (0..built.lowered.stages.len())
        .map(|stage| TimelineRow { name: Words::stage(stage), spans: Vec::new() })
        .collect();
    for span in spans.iter().filter(|span| span.end > start && span.start < end) {
        let stage = built.lowered.streams[span.place.stream.index()].stage as usize;
        for (from, to, state, label) in states(built, words, span) {
            let (from, to) = (from.max(start) - start, to.min(end).max(start) - start);
            if to > from {
                draw_span(&mut rows[stage].spans, (from.as_secs(), to.as_secs()), state, label);
            }
        }
    }
    Timeline { end_s: (end - start).as_secs(), rows }
}

/// Adds a box, or lengthens the one before: operators of one visit are one box.
fn draw_span(spans: &mut Vec<TimelineSpan>, (start_s, end_s): (f64, f64), state: String, label: String) {
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

fn memory_curve(built: &Built, words: &Words<'_>, rank: usize, recorder: &Recorder) -> MemoryCurve {
    let lowered = &built.lowered;
    let ids = &lowered.ranks[rank];
    let store = ids.memory;
    let mut held = vec![0; lowered.program.kinds.len()];
    for &(_, kind, bytes) in lowered.start.stores.iter().filter(|(start, ..)| *start == store) {
        held[kind.index()] += bytes;
    }
    let mut points = vec![(Time::ZERO, held.clone())];
    for &(time, _, kind, bytes) in &recorder.stores {
        held[kind.index()] = bytes;
        match points.last_mut() {
            Some((last, bytes)) if *last == time => bytes.clone_from(&held),
            _ => points.push((time, held.clone())),
        }
    }
    let used: Vec<usize> =
        (0..held.len()).filter(|&kind| points.iter().any(|(_, held)| held[kind] > 0)).collect();
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
