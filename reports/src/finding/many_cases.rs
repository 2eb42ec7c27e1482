//! Headlines over several cases: who wins each, never who is best of all.

use std::collections::BTreeMap;

use indexmap::{IndexMap, IndexSet};

use super::claim::{Claim, Range, Rate, Wins};
use super::one_case::{against_first, apart, never, nothing_runs, rate, saving, with_and_without};
use super::{Draft, NAMED};
use crate::axis;
use crate::case::Case;
use crate::ranking::{ALIKE, Comparison};
use crate::standing::{Entry, Standing};

pub(super) fn draft(all: &Comparison<'_>) -> Draft {
    let contenders: IndexSet<String> = all.contenders().into_keys().collect();
    let outcome = |case| Outcome::of(case, all.standing(case), &contenders);
    let cases: Vec<Outcome<'_>> = all.cases.iter().map(outcome).collect();
    let running: Vec<&Standing<'_>> =
        cases.iter().map(|case| &case.standing).filter(|standing| standing.leader().is_some()).collect();
    if running.is_empty() {
        return nothing_runs(all, &all.cases[0]);
    }
    if contenders.len() == 1 {
        let without = cases.len() - running.len();
        let tail = (without > 0).then_some(Claim::NotIn { cases: without, of: cases.len() });
        return Draft { heads: between(all, &cases), tails: tail.into_iter().collect() };
    }
    let everywhere = wins_all(&running, cases.len()).or_else(|| ties_all(&contenders, &running, cases.len()));
    let (heads, lean) = match everywhere {
        Some(heads) => (heads, None),
        None => (
            places(all, &cases).into_iter().chain(unbeaten(&contenders, &running, cases.len())).collect(),
            least_memory(&running),
        ),
    };
    Draft {
        heads: heads.into_iter().chain(counts(&cases)).collect(),
        tails: lean.into_iter().chain(never(all)).collect(),
    }
}

/// A case and how its contenders stand.
struct Outcome<'a> {
    case: &'a Case<'a>,
    standing: Standing<'a>,
    /// The contenders that nothing is faster than, in the order of the file; empty if nothing runs.
    fastest: Vec<String>,
}

/// One contender: its speeds, which are those of different work.
fn between(all: &Comparison<'_>, cases: &[Outcome<'_>]) -> Vec<Vec<Claim>> {
    let speeds = cases.iter().filter_map(|case| {
        let leader = case.standing.leader()?;
        Some((leader.name.clone(), rate(all, leader), all.case_naming.point(&case.case.values)))
    });
    let mut speeds: Vec<(String, Rate, String)> = speeds.collect();
    speeds.sort_by(|a, b| a.1.value.total_cmp(&b.1.value));
    let Some(((name, low, low_at), (_, high, high_at))) = speeds.first().zip(speeds.last()) else {
        return Vec::new();
    };
    let (low, high) = ((*low, low_at.clone()), (*high, high_at.clone()));
    vec![vec![Claim::Between { name: name.clone(), low, high, cases: speeds.len() }]]
}

/// One contender is the fastest wherever any runs.
fn wins_all(running: &[&Standing<'_>], of: usize) -> Option<Vec<Vec<Claim>>> {
    let name = &running.first()?.winner()?.name;
    let wins = |standing: &&Standing<'_>| standing.winner().is_some_and(|winner| winner.name == *name);
    let gain = Range::of(running.iter().filter_map(|standing| lead(standing)));
    let claim = |gain| vec![Claim::WinsAll { name: name.clone(), cases: running.len(), of, gain }];
    running.iter().all(wins).then(|| vec![claim(gain), claim(None)])
}

/// One contender is the fastest or ties wherever any runs, which is said where it wins some.
fn unbeaten(contenders: &IndexSet<String>, running: &[&Standing<'_>], of: usize) -> Vec<Vec<Claim>> {
    let ties = |name: &str, standing: &Standing<'_>| standing.tied.iter().any(|entry| entry.name == name);
    let always = |name: &&String| running.iter().all(|standing| ties(name, standing));
    let Some(name) = contenders.iter().find(always) else { return Vec::new() };
    // Nothing ties where it wins, so there is at most one such contender.
    let won: Vec<_> = running.iter().filter(|standing| standing.tied.len() == 1).collect();
    if won.is_empty() {
        return Vec::new();
    }
    let (cases, alone) = (running.len(), won.len());
    let gain = Range::of(won.iter().filter_map(|standing| lead(standing)));
    let claim = |gain| vec![Claim::Unbeaten { name: name.clone(), cases, of, alone, gain }];
    vec![claim(gain), claim(None)]
}

/// Several contenders are as fast as the fastest wherever any runs: these, and which others are
/// slower wherever they run.
fn ties_all(contenders: &IndexSet<String>, running: &[&Standing<'_>], of: usize) -> Option<Vec<Vec<Claim>>> {
    // One entry for each case.
    let entries = |name: &String| -> Option<Vec<&Entry<'_>>> {
        running.iter().map(|standing| standing.tied.iter().find(|entry| entry.name == *name)).collect()
    };
    let mut ties: Vec<(&String, Vec<&Entry<'_>>)> =
        contenders.iter().filter_map(|name| Some((name, entries(name)?))).collect();
    if ties.len() < 2 {
        return None;
    }
    let (name, best) = ties.remove(leanest(&ties));
    let others = |case: usize| ties.iter().map(|(_, entries)| entries[case]).collect();
    let pairs: Vec<_> = best.iter().enumerate().map(|(case, first)| (*first, others(case))).collect();
    let saving = saving(&pairs);
    let with = against_first(ties.iter().map(|(name, _)| (*name).clone()).collect(), saving.as_ref());
    let close = ties.iter().flat_map(|(_, entries)| entries).chain(&best).filter(|entry| entry.is_close());
    let apart = close.filter_map(|entry| Some(entry.behind?.ratio)).reduce(f64::max);
    let tie = |named, saving| {
        let (name, with, cases) = (name.clone(), with.clone(), running.len());
        Claim::TiesAll { name, with, named, cases, of, apart, saving }
    };
    let ways = [tie(NAMED, saving.clone()), tie(1, saving), tie(1, None)];
    Some(with_and_without(&ways, always_slower(running).as_ref()))
}

/// The place of the contender that needs least memory in all cases together; the first where memory
/// is alike or not known.
fn leanest(contenders: &[(&String, Vec<&Entry<'_>>)]) -> usize {
    let peaks = |entries: &[&Entry<'_>]| entries.iter().map(|entry| Some(entry.peak()? as f64)).sum();
    let peaks: Option<Vec<f64>> = contenders.iter().map(|(_, entries)| peaks(entries)).collect();
    let Some(peaks) = peaks else { return 0 };
    let least = peaks.iter().copied().fold(f64::INFINITY, f64::min);
    peaks.iter().position(|peak| *peak <= least * (1.0 + ALIKE)).unwrap_or_default()
}

/// Contenders that never are as fast as the fastest, with the range of how many times as fast that
/// is.
fn always_slower(running: &[&Standing<'_>]) -> Option<Claim> {
    let tied: IndexSet<&str> =
        running.iter().flat_map(|standing| &standing.tied).map(|entry| entry.name.as_str()).collect();
    let mut ratios: IndexMap<&str, Vec<f64>> = IndexMap::new();
    for standing in running {
        let Some(leader) = standing.leader() else { continue };
        for entry in standing.slower.iter().filter(|entry| !tied.contains(entry.name.as_str())) {
            ratios.entry(&entry.name).or_default().push(leader.value / entry.value);
        }
    }
    let by = Range::of(ratios.values().flatten().copied())?;
    Some(Claim::Slower { names: ratios.keys().map(|name| (*name).to_owned()).collect(), by })
}

/// The fastest contenders by place, if there are few places: with gains, and without.
fn places(all: &Comparison<'_>, cases: &[Outcome<'_>]) -> Vec<Vec<Claim>> {
    let groups = stretches(all, cases).or_else(|| few(all, cases));
    let claim = |(members, place): &(Vec<&Outcome<'_>>, String), with_gain: bool| Claim::Where {
        fastest: members[0].fastest.clone(),
        apart: members.iter().filter_map(|case| apart(&case.standing)).reduce(f64::max),
        gain: Range::of(members.iter().filter_map(|case| lead(&case.standing))).filter(|_| with_gain),
        cases: members.iter().map(|case| case.case.values.clone()).collect(),
        place: place.clone(),
    };
    let told = |mut groups: Vec<(Vec<&Outcome<'_>>, String)>| {
        // The verdict is where most is gained.
        groups.sort_by(|(a, _), (b, _)| most_gained(b).total_cmp(&most_gained(a)));
        [true, false].map(|with_gain| groups.iter().map(|group| claim(group, with_gain)).collect()).to_vec()
    };
    groups.map(told).unwrap_or_default()
}

/// The largest speed over that of the next best; 1 where several tie, 0 where nothing runs.
fn most_gained(members: &[&Outcome<'_>]) -> f64 {
    let least = if members[0].fastest.is_empty() { 0.0 } else { 1.0 };
    members.iter().filter_map(|case| lead(&case.standing)).fold(least, f64::max)
}

/// Along one numeric axis on which every outcome has one stretch: these.
fn stretches<'c, 'a>(
    all: &Comparison<'_>,
    cases: &'c [Outcome<'a>],
) -> Option<Vec<(Vec<&'c Outcome<'a>>, String)>> {
    let mut paths = all.case_naming.paths();
    let (Some((path, name)), None) = (paths.next(), paths.next()) else { return None };
    let written = |case: &Outcome<'_>| case.case.values.get(path).cloned();
    let number = |case: &'c Outcome<'a>| Some((axis::number(&written(case)?)?, case));
    let mut along: Vec<(f64, &Outcome<'_>)> = cases.iter().map(number).collect::<Option<_>>()?;
    along.sort_by(|a, b| a.0.total_cmp(&b.0));
    let runs: Vec<_> = along.chunk_by(|a, b| a.1.fastest == b.1.fastest).collect();
    let distinct: IndexSet<&Vec<String>> = cases.iter().map(|case| &case.fastest).collect();
    let last = runs.len() - 1;
    let stretch = |(index, members): (usize, &&[(f64, &'c Outcome<'a>)])| {
        let members: Vec<_> = members.iter().map(|(_, case)| *case).collect();
        let (from, to) = (written(members[0])?, written(members[members.len() - 1])?);
        let place = match index {
            _ if from == to => format!("at {name} {from}"),
            0 => format!("up to {name} {to}"),
            _ if index == last => format!("from {name} {from} on"),
            _ => format!("from {name} {from} to {to}"),
        };
        Some((members, place))
    };
    (distinct.len() == runs.len()).then(|| runs.iter().enumerate().map(stretch).collect())?
}

/// Few cases of any kind: all of them, by outcome.
fn few<'c, 'a>(
    all: &Comparison<'_>,
    cases: &'c [Outcome<'a>],
) -> Option<Vec<(Vec<&'c Outcome<'a>>, String)>> {
    let mut groups: IndexMap<&Vec<String>, Vec<&Outcome<'_>>> = IndexMap::new();
    for case in cases {
        groups.entry(&case.fastest).or_default().push(case);
    }
    let told = |members: Vec<&'c Outcome<'a>>| {
        let labels: Vec<String> =
            members.iter().map(|case| all.case_naming.point(&case.case.values)).collect();
        (members, format!("at {}", labels.join(" and ")))
    };
    (cases.len() <= NAMED).then(|| groups.into_values().map(told).collect())
}

/// Cases won by contender, the longest text first.
fn counts(cases: &[Outcome<'_>]) -> Vec<Vec<Claim>> {
    let mut gains: IndexMap<&str, (usize, Vec<f64>)> = IndexMap::new();
    for case in cases {
        if let Some(winner) = case.standing.winner() {
            let (won, by) = gains.entry(&winner.name).or_default();
            *won += 1;
            by.extend(lead(&case.standing));
        }
    }
    gains.sort_by(|_, a, _, b| b.0.cmp(&a.0));
    let tied = cases.iter().filter(|case| case.standing.tied.len() > 1).count();
    let nothing = cases.iter().filter(|case| case.standing.tied.is_empty()).count();
    let told = |named: usize, with_gain: usize| {
        let win = |(place, (name, (cases, gains))): (usize, (&&str, &(usize, Vec<f64>)))| Wins {
            name: (*name).to_owned(),
            cases: *cases,
            gain: Range::of(gains.iter().copied()).filter(|_| place < with_gain),
        };
        let others = gains.values().skip(named).map(|(cases, _)| cases).sum();
        let wins = gains.iter().enumerate().take(named).map(win).collect();
        vec![Claim::Counts { of: cases.len(), wins, others, ties: tied, nothing }]
    };
    let all = gains.len();
    [(all, all), (all, 2), (all, 0), (2, 2), (2, 0), (1, 1), (1, 0), (0, 0)]
        .into_iter()
        .filter(|(named, _)| *named <= all)
        .map(|(named, with_gain)| told(named, with_gain))
        .collect()
}

/// The contender that leads most ties by memory.
fn least_memory(running: &[&Standing<'_>]) -> Option<Claim> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for standing in running {
        let peaks: Option<Vec<u64>> = standing.tied.iter().map(Entry::peak).collect();
        let least = peaks.as_ref().and_then(|peaks| peaks.iter().min()).copied().unwrap_or_default();
        let is_lean =
            |entry: &&Entry<'_>| entry.peak().is_some_and(|peak| peak as f64 <= least as f64 * (1.0 + ALIKE));
        let Some(leanest) = standing.tied.iter().find(is_lean).filter(|_| peaks.is_some()) else { continue };
        if standing.tied.iter().any(|other| leanest.saves_against(other).is_some_and(|share| share >= ALIKE))
        {
            *counts.entry(&leanest.name).or_default() += 1;
        }
    }
    let (name, cases) = counts.into_iter().max_by_key(|(_, count)| *count)?;
    Some(Claim::LeastMemory { name: name.to_owned(), cases })
}

/// Speed of the winner over that of the next best, if there is one.
fn lead(standing: &Standing<'_>) -> Option<f64> {
    Some(standing.winner()?.value / standing.slower.first()?.value)
}

impl<'a> Outcome<'a> {
    fn of(case: &'a Case<'a>, standing: Standing<'a>, contenders: &IndexSet<String>) -> Self {
        let ties = |name: &&String| standing.tied.iter().any(|entry| entry.name == **name);
        Outcome { fastest: contenders.iter().filter(ties).cloned().collect(), case, standing }
    }
}
