//! Headlines where there is one problem to solve: the best of all contenders, by how much, and at
//! what setting.

use indexmap::IndexMap;

use super::claim::{Claim, Range, Rate, Saving, Setting};
use super::{Draft, NAMED, failure};
use crate::case::Case;
use crate::ranking::{ALIKE, Comparison};
use crate::standing::{Entry, Standing};
use crate::summary::{FailureKind, RunSummary};

pub(super) fn draft(all: &Comparison<'_>, case: &Case<'_>) -> Draft {
    let standing = all.standing(case);
    if standing.tied.is_empty() {
        return nothing_runs(all, case);
    }
    if let [run] = case.runs[..] {
        return alone(run, &standing.tied[0], all);
    }
    Draft { heads: heads(all, case, &standing), tails: never(all) }
}

/// Ways to say who is best, the longest first.
fn heads(all: &Comparison<'_>, case: &Case<'_>, standing: &Standing<'_>) -> Vec<Vec<Claim>> {
    let Standing { tied, slower } = standing;
    let first = &tied[0];
    let (best, rate) = (setting(all, first), rate(all, first));
    // Shorter: without the setting.
    let bare = Setting { at: String::new(), ..best.clone() };
    let over = |entry: &Entry<'_>| (entry.name.clone(), first.value / entry.value);
    let fastest =
        |best: &Setting, over| vec![Claim::Fastest { best: best.clone(), rate, of: slower.len() + 1, over }];
    match (&tied[1..], &slower[..]) {
        ([], []) => {
            let mut others = case.runs.iter().filter(|run| all.speed.value(run).is_none());
            let fits = others.all(|run| kind(run) == Some(FailureKind::OutOfMemory));
            [best, bare].map(|best| vec![Claim::Only { best, rate, fits }]).to_vec()
        }
        ([], [other]) => {
            let (ratio, rates) = (first.value / other.value, [rate, self::rate(all, other)]);
            let faster = |best| vec![Claim::Faster { best, over: other.name.clone(), ratio, rates }];
            vec![faster(best), faster(bare.clone()), fastest(&bare, Vec::new())]
        }
        ([], [next, .., last]) => vec![
            fastest(&best, vec![over(next), over(last)]),
            fastest(&best, vec![over(next)]),
            fastest(&bare, vec![over(next)]),
            fastest(&bare, Vec::new()),
        ],
        (others, _) => {
            let saving = saving(&[(first, others.iter().collect())]);
            let with =
                against_first(others.iter().map(|entry| entry.name.clone()).collect(), saving.as_ref());
            let apart = apart(standing);
            let tie = |best: &Setting, named, saving| {
                let (best, with) = (best.clone(), with.clone());
                Claim::Tie { best, with, named, rate, apart, saving }
            };
            let ways = [
                tie(&best, NAMED, saving.clone()),
                tie(&best, 1, saving.clone()),
                tie(&bare, 1, saving),
                tie(&bare, 1, None),
            ];
            with_and_without(&ways, slower_than_ties(standing).as_ref())
        }
    }
}

/// Each of some ways to say a thing, first with what follows it, if there is anything.
pub(super) fn with_and_without(ways: &[Claim], then: Option<&Claim>) -> Vec<Vec<Claim>> {
    let alone = ways.iter().map(|way| vec![way.clone()]);
    let followed = then.into_iter().flat_map(|then| ways.iter().map(|way| vec![way.clone(), then.clone()]));
    followed.take(2).chain(alone).collect()
}

/// One run that has a step time: how long, what most of it goes to, and what it needs.
fn alone(run: &RunSummary, entry: &Entry<'_>, all: &Comparison<'_>) -> Draft {
    let step = run.time_breakdown_s.values().sum::<f64>();
    let largest = run.time_breakdown_s.iter().max_by(|a, b| a.1.total_cmp(b.1)).filter(|_| step > 0.0);
    let mostly = largest.map(|(state, time)| Claim::Mostly { state: state.clone(), share: time / step });
    let peak = run.worst_device().and_then(|device| {
        let (bytes, capacity) = (device.peak_bytes, device.capacity_bytes?);
        Some(Claim::Peak { device: device.device.clone(), bytes, capacity })
    });
    let head = Claim::Alone { name: run.variant.clone(), rate: rate(all, entry) };
    Draft { heads: vec![vec![head]], tails: mostly.into_iter().chain(peak).collect() }
}

/// Contenders that are slower than several that tie.
fn slower_than_ties(standing: &Standing<'_>) -> Option<Claim> {
    let (first, slower) = (standing.leader()?, &standing.slower);
    let by = Range::of(slower.iter().map(|entry| first.value / entry.value))?;
    Some(Claim::Slower { names: slower.iter().map(|entry| entry.name.clone()).collect(), by })
}

/// Speed of the fastest over that of the slowest that ties with it. `None`: all are as fast.
pub(super) fn apart(standing: &Standing<'_>) -> Option<f64> {
    let close = standing.tied.iter().filter(|entry| entry.is_close());
    close.filter_map(|entry| Some(entry.behind?.ratio)).reduce(f64::max)
}

/// Peak memory that the first of each pair saves, against the first of the others that needs more.
/// The others are the same contenders in every case. `None`: unknown, or too little to mention.
pub(super) fn saving(cases: &[(&Entry<'_>, Vec<&Entry<'_>>)]) -> Option<Saving> {
    let others = cases.first().map_or(0, |(_, others)| others.len());
    let against = |place: usize| {
        let shares: Option<Vec<f64>> =
            cases.iter().map(|(first, others)| first.saves_against(others[place])).collect();
        Some(Saving { against: cases[0].1[place].name.clone(), share: Range::of(shares?)? })
    };
    let savings: Option<Vec<Saving>> = (0..others).map(against).collect();
    savings?.into_iter().find(|saving| saving.share.high >= ALIKE)
}

/// Names in their order, but for the one that memory is saved against, which comes first.
pub(super) fn against_first(mut names: Vec<String>, saving: Option<&Saving>) -> Vec<String> {
    if let Some(place) = saving.and_then(|saving| names.iter().position(|name| *name == saving.against)) {
        names[..=place].rotate_right(1);
    }
    names
}

/// Contenders that run nowhere, by the reason.
pub(super) fn never(all: &Comparison<'_>) -> Vec<Claim> {
    let mut failed: IndexMap<Option<FailureKind>, (Vec<String>, bool)> = IndexMap::new();
    for (name, runs) in all.contenders() {
        if runs.iter().any(|run| all.speed.value(run).is_some()) {
            continue;
        }
        let (names, everywhere) = failed.entry(common_kind(&runs)).or_default();
        names.push(name);
        *everywhere |= runs.len() > 1;
    }
    let claim = |(kind, (names, everywhere))| Claim::Failed { names, kind, everywhere };
    failed.into_iter().map(claim).collect()
}

/// No run has a step time: what comes closest, or why not.
pub(super) fn nothing_runs(all: &Comparison<'_>, case: &Case<'_>) -> Draft {
    if let ([run], 1) = (&case.runs[..], all.cases.len()) {
        return fails(run);
    }
    let runs = || all.cases.iter().flat_map(|case| case.runs.iter().copied());
    let fits = runs().all(|run| kind(run) == Some(FailureKind::OutOfMemory));
    let short = |run: &RunSummary| {
        let failure = run.failure.as_ref()?;
        Some((failure.store.clone()?, failure.short_bytes?))
    };
    // Over several cases no run is close to what another one needs.
    let closest = runs().filter(|_| all.cases.len() == 1).filter_map(|run| Some((run, short(run)?)));
    let closest = closest.min_by_key(|(_, (_, short))| *short);
    let mut tails = Vec::new();
    match closest {
        Some((run, (store, short))) => {
            tails.push(Claim::Closest { name: all.naming.run(run), store, short });
            let holders = run.failure.as_ref().and_then(failure::who_holds);
            tails.extend(holders.map(Claim::Holders));
        }
        None => tails.extend(never(all)),
    }
    Draft { heads: vec![vec![Claim::NoneRuns { fits, points: all.points.len() }]], tails }
}

/// The only run has none.
fn fails(run: &RunSummary) -> Draft {
    let fails = |reason| Claim::Fails { name: run.variant.clone(), kind: kind(run), reason };
    let reason = run.failure.as_ref().map(failure::reason);
    let holders = run.failure.as_ref().and_then(failure::who_holds);
    Draft {
        heads: vec![vec![fails(reason)], vec![fails(None)]],
        tails: holders.map(Claim::Holders).into_iter().collect(),
    }
}

fn kind(run: &RunSummary) -> Option<FailureKind> {
    run.failure.as_ref().map(|failure| failure.kind)
}

/// Reason of failed runs, if all have the same.
fn common_kind(runs: &[&RunSummary]) -> Option<FailureKind> {
    let first = kind(runs.first()?)?;
    runs.iter().all(|run| kind(run) == Some(first)).then_some(first)
}

fn setting(all: &Comparison<'_>, entry: &Entry<'_>) -> Setting {
    let at = if all.is_of_variants { all.setting_naming.point(&entry.run.point) } else { String::new() };
    Setting { name: entry.name.clone(), chosen: !at.is_empty(), at, point: entry.run.point.clone() }
}

pub(super) fn rate(all: &Comparison<'_>, entry: &Entry<'_>) -> Rate {
    let step_time_s = entry.run.step_time().unwrap_or(f64::NAN);
    Rate { speed: all.speed, value: entry.value, step_time_s }
}
