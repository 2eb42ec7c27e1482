//! The answer in one sentence, also when the answer is no.

use std::collections::BTreeSet;

use indexmap::IndexMap;

use crate::axis;
use crate::quantity;
use crate::ranking::{Point, Speed, best, tied};
use crate::summary::{FailureKind, RunSummary, short_path};

/// What the comparison of `runs` over the swept `axes` found, as one sentence with its full stop.
#[must_use]
pub fn finding(runs: &[RunSummary], axes: &[String]) -> String {
    let speed = Speed::of(runs);
    let points = Point::all(runs);
    let variants: BTreeSet<&str> = runs.iter().map(|run| run.variant.as_str()).collect();
    let sentence = match points.as_slice() {
        [] => "Nothing was run".to_owned(),
        [point] => one_point(point, speed),
        many if variants.len() == 1 => one_variant(many, speed),
        many => sweep(many, axes, speed),
    };
    format!("{sentence}.")
}

/// Why a run has no step time, as a short clause: `does not fit: stage 0 is 4.00 GB short`.
#[must_use]
pub fn verdict(run: &RunSummary) -> String {
    let Some(failure) = &run.failure else { return failed(FailureKind::OutOfMemory, true).to_owned() };
    let reason = match (&failure.store, failure.short_bytes) {
        (Some(store), Some(short)) => format!("{store} is {} short", quantity::bytes(short)),
        _ => failure.message.clone(),
    };
    format!("{}: {reason}", failed(failure.kind, true))
}

fn one_point(point: &Point<'_>, speed: Speed) -> String {
    let ranked = point.ranked(speed);
    let verdict = match ranked.as_slice() {
        [] => return nothing_fits(point),
        [(run, value)] if point.runs.len() == 1 => return alone(run, *value, speed),
        [(run, value)] => format!("Only {} fits, with {}", run.variant, speed_and_time(run, *value, speed)),
        several => comparison(several, speed),
    };
    let failures = failures(point);
    if failures.is_empty() { verdict } else { format!("{verdict}; {failures}") }
}

/// One run that has a step time: how long, and what most of it goes to.
fn alone(run: &RunSummary, value: f64, speed: Speed) -> String {
    let mut text = format!("{} runs at {}", run.variant, speed_and_time(run, value, speed));
    let step = run.time_breakdown_s.values().sum::<f64>();
    let largest = run.time_breakdown_s.iter().max_by(|a, b| a.1.total_cmp(b.1));
    if let Some((state, time)) = largest.filter(|_| step > 0.0) {
        text += &format!(", {} of it {state}", quantity::percent(time / step));
    }
    if let Some((device, capacity)) =
        run.worst_device().and_then(|device| Some((device, device.capacity_bytes?)))
    {
        let (peak, capacity) = (quantity::bytes(device.peak_bytes), quantity::bytes(capacity));
        text += &format!("; it needs {peak} of the {capacity} of {}", device.device);
    }
    text
}

/// Two or more runs with a speed, fastest first.
fn comparison(ranked: &[(&RunSummary, f64)], speed: Speed) -> String {
    let (first, fastest) = ranked[0];
    let equals = ranked.iter().take_while(|(_, value)| tied(fastest, *value)).count();
    let names: Vec<&str> = ranked[..equals].iter().map(|(run, _)| run.variant.as_str()).collect();
    let slower = &ranked[equals..];
    let Some((next, last)) = slower.first().zip(slower.last()) else {
        let same = speed_and_time(first, fastest, speed);
        return match names[..] {
            [plain, other] => format!("{other} changes nothing: {same}, as with {plain}"),
            _ => format!("All {} variants that fit are equally fast: {same}", names.len()),
        };
    };
    let against = |(run, value): &(&RunSummary, f64)| {
        let evidence = evidence(first, fastest, run, *value, speed);
        format!("{} faster than {} ({evidence})", quantity::gain(fastest / value), run.variant)
    };
    let faster = match slower.len() {
        1 => against(next),
        _ => format!("{} and {}", against(next), against(last)),
    };
    match (names.len(), ranked.len()) {
        (1, 2) => format!("{} is {faster}", names[0]),
        (1, all) => format!("{} is the fastest of {all}: {faster}", names[0]),
        _ => format!("{} are equally fast and {faster}", list(&names)),
    }
}

/// `12.1 s against 15.9 s`, or the two speeds where the steps do different amounts of work.
fn evidence(first: &RunSummary, fastest: f64, other: &RunSummary, value: f64, speed: Speed) -> String {
    let times = first.step_time().zip(other.step_time());
    match times.filter(|(a, b)| ((b / a) / (fastest / value) - 1.0).abs() < 1e-3) {
        Some((a, b)) => format!("{} against {}", quantity::seconds(a), quantity::seconds(b)),
        None => format!("{} against {}", speed.text(fastest), speed.text(value)),
    }
}

fn nothing_fits(point: &Point<'_>) -> String {
    let short = |run: &RunSummary| run.failure.as_ref().and_then(|failure| failure.short_bytes);
    if let [run] = point.runs[..] {
        return format!("{} {}", run.variant, verdict(run));
    }
    let closest =
        point.runs.iter().filter_map(|run| Some((*run, short(run)?))).min_by_key(|(_, bytes)| *bytes);
    match closest {
        Some((run, _)) => format!("No variant fits; the closest is {}, which {}", run.variant, verdict(run)),
        None => format!("No variant can be run; {}", failures(point)),
    }
}

/// `a and b do not fit, c deadlocks`.
fn failures(point: &Point<'_>) -> String {
    let mut by_kind: IndexMap<FailureKind, Vec<&str>> = IndexMap::new();
    for run in point.runs.iter().filter(|run| run.step_time().is_none()) {
        let kind = run.failure.as_ref().map(|failure| failure.kind).unwrap_or_default();
        by_kind.entry(kind).or_default().push(&run.variant);
    }
    let clause = |(kind, names): (FailureKind, Vec<&str>)| {
        format!("{} {}", list(&names), failed(kind, names.len() == 1))
    };
    by_kind.into_iter().map(clause).collect::<Vec<_>>().join(", ")
}

fn one_variant(points: &[Point<'_>], speed: Speed) -> String {
    let name = &points[0].runs[0].variant;
    let mut ranked: Vec<_> =
        points.iter().filter_map(|point| Some((point, point.ranked(speed).first()?.1))).collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
    let missing = points.len() - ranked.len();
    let Some(((top, fastest), (bottom, slowest))) = ranked.first().zip(ranked.last()) else {
        return format!("{name} does not run at any of the {} points", points.len());
    };
    let mut text = match tied(*fastest, *slowest) {
        true => format!("{name} runs at {} wherever it runs", speed.text(*fastest)),
        false => format!(
            "{name} is fastest at {} with {}, {} faster than at {} with {}",
            top.label(),
            speed.text(*fastest),
            quantity::gain(fastest / slowest),
            bottom.label(),
            speed.text(*slowest)
        ),
    };
    if missing > 0 {
        text += &format!("; it does not run at {missing} of the {} points", points.len());
    }
    text
}

fn sweep(points: &[Point<'_>], axes: &[String], speed: Speed) -> String {
    let winners: Vec<Option<&str>> =
        points.iter().map(|point| point.ranked(speed).first().map(|(run, _)| run.variant.as_str())).collect();
    let mut wins: IndexMap<&str, usize> = IndexMap::new();
    for winner in winners.iter().flatten() {
        *wins.entry(winner).or_default() += 1;
    }
    wins.sort_by(|_, a, _, b| b.cmp(a));
    let leader = wins.first().map_or("", |(name, _)| *name);
    let ran: usize = wins.values().sum();
    let everywhere = if ran == points.len() {
        format!("all {ran} points")
    } else {
        format!("all {ran} points where one runs")
    };
    let mut text = match wins.len() {
        0 => return format!("No variant runs at any of the {} points", points.len()),
        1 => match margins(points, speed) {
            Some((_, most)) if tied(most, 1.0) => {
                format!("The variants that run are equally fast at {everywhere}")
            }
            Some(range) => format!("{leader} is the fastest at {everywhere}, {}", over_the_next(range)),
            None => format!("Only {leader} runs, at {ran} of the {} points", points.len()),
        },
        _ => crossover(points, &winners, axes).unwrap_or_else(|| {
            let counts: Vec<_> = wins.iter().map(|(name, count)| format!("{name} at {count}")).collect();
            format!("Of {} points {} is the fastest", points.len(), list_owned(&counts))
        }),
    };
    if let Some((point, run)) = best(points, speed).filter(|_| speed != Speed::Steps) {
        let value = speed.value(run).unwrap_or_default();
        text +=
            &format!("; the best of all is {} at {} with {}", run.variant, point.label(), speed.text(value));
    }
    if ran < points.len() && wins.len() > 1 {
        text += &format!("; at {} of the points no variant runs", points.len() - ran);
    }
    text
}

/// The smallest and largest lead of the winner over the next, where there is a next.
fn margins(points: &[Point<'_>], speed: Speed) -> Option<(f64, f64)> {
    let leads = points.iter().filter_map(|point| {
        let ranked = point.ranked(speed);
        Some(ranked.first()?.1 / ranked.get(1)?.1)
    });
    leads.fold(None, |range, lead| {
        let (low, high) = range.unwrap_or((lead, lead));
        Some((f64::min(low, lead), f64::max(high, lead)))
    })
}

fn over_the_next((low, high): (f64, f64)) -> String {
    match (tied(low, 1.0), tied(high / low, 1.0)) {
        (true, _) => format!("by up to {} over the next", quantity::gain(high)),
        (false, true) => format!("by {} over the next", quantity::gain(high)),
        (false, false) => format!("by {} to {} over the next", quantity::gain(low), quantity::gain(high)),
    }
}

/// Along one numeric axis on which every winner wins one stretch: `a is the fastest up to rate 50 GB/s, b from rate
/// 100 GB/s on`.
fn crossover(points: &[Point<'_>], winners: &[Option<&str>], axes: &[String]) -> Option<String> {
    let [axis] = axes else { return None };
    let mut along = Vec::new();
    for (point, winner) in points.iter().zip(winners) {
        let written = point.values.get(axis)?;
        along.push((axis::number(written)?, written.as_str(), (*winner)?));
    }
    along.sort_by(|a, b| a.0.total_cmp(&b.0));
    let stretches: Vec<_> = along.chunk_by(|a, b| a.2 == b.2).collect();
    let distinct: BTreeSet<&str> = along.iter().map(|(_, _, winner)| *winner).collect();
    if distinct.len() != stretches.len() {
        return None;
    }
    let last = stretches.len() - 1;
    let name = short_path(axis);
    let clauses = stretches.iter().enumerate().map(|(index, stretch)| {
        let (from, to, winner) = (stretch[0].1, stretch[stretch.len() - 1].1, stretch[0].2);
        match index {
            0 => format!("{winner} is the fastest up to {name} {to}"),
            _ if index == last => format!("{winner} from {name} {from} on"),
            _ if from == to => format!("{winner} at {name} {from}"),
            _ => format!("{winner} from {name} {from} to {to}"),
        }
    });
    Some(clauses.collect::<Vec<_>>().join(", "))
}

/// `98.6 samples/s (1.46 s a step)`, or the step time alone.
fn speed_and_time(run: &RunSummary, value: f64, speed: Speed) -> String {
    let step = format!("{} a step", quantity::seconds(run.step_time().unwrap_or(f64::NAN)));
    match speed {
        Speed::Tokens | Speed::Samples => format!("{} ({step})", speed.text(value)),
        Speed::MicroBatches | Speed::Steps => step,
    }
}

fn failed(kind: FailureKind, one: bool) -> &'static str {
    match (kind, one) {
        (FailureKind::OutOfMemory, true) => "does not fit",
        (FailureKind::OutOfMemory, false) => "do not fit",
        (FailureKind::Deadlock, true) => "deadlocks",
        (FailureKind::Deadlock, false) => "deadlock",
        (FailureKind::Limit, true) => "reached its limit",
        (FailureKind::Limit, false) => "reached their limits",
        (FailureKind::Infeasible, true) => "is impossible",
        (FailureKind::Infeasible, false) => "are impossible",
    }
}

/// `a, b and c`; of many, the first few and how many more.
fn list(names: &[&str]) -> String {
    const NAMED: usize = 4;
    if names.len() > NAMED + 1 {
        return format!("{} and {} others", names[..NAMED].join(", "), names.len() - NAMED);
    }
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [head @ .., last] => format!("{} and {last}", head.join(", ")),
    }
}

fn list_owned(names: &[String]) -> String {
    list(&names.iter().map(String::as_str).collect::<Vec<_>>())
}
