//! What a comparison over a sweep found: who wins where, by how much, and what never runs.

use std::collections::BTreeSet;

use indexmap::IndexMap;

use super::{failure, list, list_owned};
use crate::axis;
use crate::quantity;
use crate::ranking::{Comparison, Point, Speed, tied};
use crate::summary::RunSummary;

pub(super) fn one_variant(all: &Comparison<'_>) -> String {
    let (points, speed) = (&all.points, all.speed);
    let name = &points[0].runs[0].variant;
    let mut ranked: Vec<_> =
        points.iter().filter_map(|point| Some((point, point.ranked(speed).first()?.1))).collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
    let missing = points.len() - ranked.len();
    let Some(((top, fastest), (bottom, slowest))) = ranked.first().zip(ranked.last()) else {
        return format!("{name} does not run at any of the {} settings", points.len());
    };
    let mut text = match tied(*fastest, *slowest) {
        true => format!("{name} runs at {} wherever it runs", speed.text(*fastest)),
        false => format!(
            "{name} is fastest at {} with {}, {} faster than at {} with {}",
            all.label(top),
            speed.text(*fastest),
            quantity::gain(fastest / slowest),
            all.label(bottom),
            speed.text(*slowest)
        ),
    };
    if missing > 0 {
        text += &format!("; it does not run at {missing} of the {} settings", points.len());
    }
    text
}

pub(super) fn several_variants(all: &Comparison<'_>) -> String {
    let (points, speed) = (&all.points, all.speed);
    let winners: Vec<Option<&str>> =
        points.iter().map(|point| point.ranked(speed).first().map(|(run, _)| run.variant.as_str())).collect();
    let mut wins: IndexMap<&str, usize> = IndexMap::new();
    for winner in winners.iter().flatten() {
        *wins.entry(winner).or_default() += 1;
    }
    wins.sort_by(|_, a, _, b| b.cmp(a));
    let ran: usize = wins.values().sum();
    let best = all.best().filter(|_| speed != Speed::Steps);
    // The sentence begins with the best run, where there is one.
    let of = if best.is_some() { "of" } else { "Of" };
    let mut clauses = vec![match wins.first() {
        None => return format!("No variant runs at any of the {} settings", points.len()),
        Some((leader, _)) if wins.len() == 1 => one_leader(all, leader, ran),
        Some(_) => crossover(all, &winners).unwrap_or_else(|| {
            let mut counts = wins.iter().map(|(name, count)| (*name, *count));
            let (leader, most) = counts.next().unwrap_or_default();
            let others: Vec<_> = counts.map(|(name, count)| format!("{name} at {count}")).collect();
            format!(
                "{of} the {} settings tried {leader} is the fastest at {most}, {}",
                points.len(),
                list_owned(&others)
            )
        }),
    }];
    if let Some((point, run)) = best {
        let (value, place) = (speed.text(speed.value(run).unwrap_or_default()), all.label(point));
        match wins.len() {
            1 => clauses.push(format!("its best is {value} at {place}")),
            _ => {
                let rivals = rivals(point, run, speed);
                clauses
                    .insert(0, format!("The fastest run is {} at {place} with {value}{rivals}", run.variant));
            }
        }
    }
    if ran < points.len() && wins.len() > 1 {
        clauses.push(format!("at {} of the settings no variant runs", points.len() - ran));
    }
    clauses.push(nowhere(all));
    clauses.retain(|clause| !clause.is_empty());
    clauses.join("; ")
}

/// How the fastest run of a point stands to the others there: `, as fast as a and 1.28× faster than b`.
fn rivals(point: &Point<'_>, fastest: &RunSummary, speed: Speed) -> String {
    let others = point.ranked(speed);
    let Some(best) = speed.value(fastest) else { return String::new() };
    let (equal, slower): (Vec<_>, Vec<_>) = others
        .iter()
        .filter(|(run, _)| !std::ptr::eq(*run, fastest))
        .partition(|(_, value)| tied(best, *value));
    let names: Vec<&str> = equal.iter().map(|(run, _)| run.variant.as_str()).collect();
    let equal = (!names.is_empty()).then(|| format!("as fast as {}", list(&names)));
    let slower = slower
        .first()
        .map(|(run, value)| format!("{} faster than {}", quantity::gain(best / value), run.variant));
    let clauses: Vec<_> = equal.into_iter().chain(slower).collect();
    if clauses.is_empty() {
        ", the only one that runs there".to_owned()
    } else {
        format!(", {}", clauses.join(" and "))
    }
}

/// One variant is the fastest at all `ran` points where any runs.
fn one_leader(all: &Comparison<'_>, leader: &str, ran: usize) -> String {
    let everywhere = if ran == all.points.len() {
        format!("all {ran} settings")
    } else {
        format!("all {ran} settings where one runs")
    };
    match margins(&all.points, all.speed) {
        Some((_, most)) if tied(most, 1.0) => {
            format!("The variants that run are equally fast at {everywhere}")
        }
        Some(range) => format!("{leader} is the fastest at {everywhere}, {}", over_the_next(range)),
        None => format!("Only {leader} runs, at {ran} of the {} settings", all.points.len()),
    }
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
        (true, _) => format!("by up to {} over the next best", quantity::gain(high)),
        (false, true) => format!("by {} over the next best", quantity::gain(high)),
        // Both ends in one unit.
        (false, false) if high >= 1.1 => {
            format!("by {} to {} over the next best", quantity::times(low), quantity::times(high))
        }
        (false, false) => {
            format!("by {} to {} over the next best", quantity::gain(low), quantity::gain(high))
        }
    }
}

/// Along one numeric axis on which every winner wins one stretch: where the winner changes.
fn crossover(all: &Comparison<'_>, winners: &[Option<&str>]) -> Option<String> {
    let mut paths = all.naming.paths();
    let (Some((path, name)), None) = (paths.next(), paths.next()) else { return None };
    let mut along = Vec::new();
    for (point, winner) in all.points.iter().zip(winners) {
        let written = point.values.get(path)?;
        along.push((axis::number(written)?, written.as_str(), (*winner)?));
    }
    along.sort_by(|a, b| a.0.total_cmp(&b.0));
    let stretches: Vec<_> = along.chunk_by(|a, b| a.2 == b.2).collect();
    let distinct: BTreeSet<&str> = along.iter().map(|(_, _, winner)| *winner).collect();
    if distinct.len() != stretches.len() {
        return None;
    }
    let ends = |stretch: &[(f64, &'_ str, &'_ str)]| {
        (stretch[0].1.to_owned(), stretch[stretch.len() - 1].1.to_owned())
    };
    let last = stretches.len() - 1;
    let clauses = stretches.iter().enumerate().map(|(index, stretch)| {
        let ((from, to), winner) = (ends(stretch), stretch[0].2);
        match index {
            0 if from == to => format!("{winner} is the fastest at {name} {to}"),
            0 => format!("{winner} is the fastest up to {name} {to}"),
            _ if index == last && from == to => format!("{winner} at {name} {from}"),
            _ if index == last => format!("{winner} from {name} {from} on"),
            _ if from == to => format!("{winner} at {name} {from}"),
            _ => format!("{winner} from {name} {from} to {to}"),
        }
    });
    Some(clauses.collect::<Vec<_>>().join(", "))
}

/// `a and b do not fit at any setting, c deadlocks at any setting`; empty if every variant runs somewhere.
fn nowhere(all: &Comparison<'_>) -> String {
    let runs = || all.points.iter().flat_map(|point| point.runs.iter().copied());
    let running: BTreeSet<&str> =
        runs().filter(|run| run.step_time().is_some()).map(|run| run.variant.as_str()).collect();
    let mut seen = BTreeSet::new();
    let never = runs().filter(|run| !running.contains(run.variant.as_str()) && seen.insert(&run.variant));
    failure::by_kind(never, " at any setting")
}
