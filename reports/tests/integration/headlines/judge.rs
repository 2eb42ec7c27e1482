//! Derives every claim of a headline again from the rows of `results.csv`.

use indexmap::IndexMap;
use reports::finding::{Claim, Range, Rate, Saving, Setting};
use reports::summary::FailureKind;

use super::table::{ALIKE, Best, Row, Table, leanest};

/// Compares what is told with what is found.
macro_rules! same {
    ($told:expr, $found:expr) => {
        match (&$told, &$found) {
            (told, found) => holds(told == found, &format!("told {told:?}, found {found:?}")),
        }
    };
}

/// Checks one claim; an error says what was found instead.
pub(super) fn judge(claim: &Claim, table: &Table) -> Result<(), String> {
    let cases = table.cases();
    let standings: Vec<(Vec<Best>, Vec<Best>)> =
        cases.iter().map(|case| table.stand(&table.within(case))).collect();
    let running: Vec<&(Vec<Best>, Vec<Best>)> =
        standings.iter().filter(|(tied, _)| !tied.is_empty()).collect();
    let whole = || standings.first().cloned().unwrap_or_default();
    let failing = || table.rows.iter().filter(|row| table.value(row).is_none());
    match claim {
        Claim::NothingRan => same!(table.rows.len(), 0),
        Claim::Interrupted { ended, planned } => {
            same!(*ended, table.rows.len() as u64)?;
            holds(planned > ended, "it is complete")
        }
        Claim::Alone { name, rate } => {
            same!(table.rows.len(), 1)?;
            same!(name.as_str(), table.rows[0].variant())?;
            is_rate(table, &table.rows[0], rate)
        }
        Claim::Recorded { name, share } => {
            let row = table.rows.iter().find(|row| row.variant() == name.split(" (").next().unwrap_or(name));
            same!(row.and_then(|row| row.number("replay.host_share")), Some(*share))
        }
        Claim::Mostly { state, share } => {
            let parts = times(&table.rows[0]);
            let all: f64 = parts.values().sum();
            let largest = parts.values().copied().fold(0.0, f64::max);
            near(*share, largest / all)?;
            near(parts[state], largest)
        }
        Claim::Peak { device, bytes, .. } => {
            let row = &table.rows[0];
            same!(row.number("peak_memory_bytes"), Some(*bytes as f64))?;
            same!(row.text("peak_memory_device"), Some(device.as_str()))
        }
        Claim::Only { best, rate, fits } => {
            let (tied, slower) = whole();
            same!((cases.len(), tied.len(), slower.len()), (1, 1, 0))?;
            is_best(table, best, rate, &tied[0])?;
            let memory = failing().all(|row| row.text("failure.kind") == Some("out-of-memory"));
            same!(*fits, memory)
        }
        Claim::Faster { best, over, ratio, rates } => {
            let (tied, slower) = whole();
            same!((cases.len(), tied.len(), slower.len()), (1, 1, 1))?;
            is_best(table, best, &rates[0], &tied[0])?;
            same!(over, &slower[0].name)?;
            near(rates[1].value, slower[0].value)?;
            near(*ratio, tied[0].value / slower[0].value)
        }
        Claim::Fastest { best, rate, of, over } => {
            let (tied, slower) = whole();
            same!((cases.len(), tied.len(), slower.len() + 1), (1, 1, *of))?;
            is_best(table, best, rate, &tied[0])?;
            let bound = |first: f64, pick: fn(f64, f64) -> f64| {
                tied[0].value / slower.iter().map(|best| best.value).fold(first, pick)
            };
            over.first().map_or(Ok(()), |(_, ratio)| near(*ratio, bound(0.0, f64::max)))?;
            over.get(1).map_or(Ok(()), |(_, ratio)| near(*ratio, bound(f64::INFINITY, f64::min)))?;
            over.iter().try_for_each(|(name, ratio)| {
                let found = slower.iter().find(|best| best.name == *name).ok_or("a stranger is slower")?;
                near(*ratio, tied[0].value / found.value)
            })
        }
        Claim::Tie { best, with, rate, apart: told, saving, .. } => {
            let (tied, _) = whole();
            same!(cases.len(), 1)?;
            same!(*told, apart([&tied]))?;
            is_best(table, best, rate, &tied[0])?;
            same!(sorted(with), sorted(&names(&tied[1..])))?;
            is_saving(saving, with, |other| {
                let other = tied.iter().find(|best| best.name == *other).expect("it ties");
                savings(&tied[0], std::slice::from_ref(other))
            })
        }
        Claim::Slower { names: told, by } => {
            let ever_tied =
                |name: &str| running.iter().any(|(tied, _)| tied.iter().any(|best| best.name == name));
            let ratios = running.iter().flat_map(|(tied, slower)| {
                let slower = slower.iter().filter(|best| !ever_tied(&best.name));
                slower.map(|best| (best.name.clone(), tied[0].value / best.value))
            });
            let (slower, ratios): (Vec<String>, Vec<f64>) = ratios.unzip();
            same!(sorted(told), sorted(&slower))?;
            is_range(Some(*by), Some(ratios))
        }
        Claim::Failed { names: told, kind, everywhere } => {
            let fails = |name: &String| table.of(name).iter().all(|row| table.value(row).is_none());
            let never: Vec<String> = table.contenders().into_iter().filter(fails).collect();
            let alike: Vec<String> = never.into_iter().filter(|name| why(table, name) == *kind).collect();
            same!(sorted(told), sorted(&alike))?;
            same!(*everywhere, told.iter().any(|name| table.of(name).len() > 1))
        }
        Claim::Fails { name, kind, .. } => {
            same!(table.rows.len(), 1)?;
            holds(table.value(&table.rows[0]).is_none(), "it runs")?;
            same!(*kind, why(table, name))
        }
        Claim::NoneRuns { fits, points } => {
            same!(running.len(), 0)?;
            same!(*fits, table.rows.iter().all(|row| row.text("failure.kind") == Some("out-of-memory")))?;
            let tried: std::collections::BTreeSet<Vec<_>> =
                table.rows.iter().map(|row| row.point.values().collect()).collect();
            same!(*points, tried.len())
        }
        Claim::Closest { store, short, .. } => {
            same!((cases.len(), running.len()), (1, 0))?;
            let least =
                table.rows.iter().filter_map(|row| row.number("failure.short_bytes")).reduce(f64::min);
            same!(Some(*short as f64), least)?;
            let found = table.rows.iter().find(|row| row.number("failure.short_bytes") == least);
            same!(found.and_then(|row| row.text("failure.store")), Some(store.as_str()))
        }
        Claim::Holders(_) => holds(running.is_empty(), "something runs"),
        Claim::Between { name, low, high, cases: told, .. } => {
            same!(table.contenders(), vec![name.clone()])?;
            same!(*told, running.len())?;
            let speeds: Vec<f64> = running.iter().map(|(tied, _)| tied[0].value).collect();
            is_range(Some(Range { low: low.0.value, high: high.0.value }), Some(speeds))?;
            [low, high].into_iter().try_for_each(|(rate, at)| {
                let case = cases.iter().find(|case| table.case_name(case) == *at).ok_or("an unknown case")?;
                near(rate.value, table.stand(&table.within(case)).0[0].value)
            })
        }
        Claim::NotIn { cases: without, of } => {
            same!((*without, *of), (cases.len() - running.len(), cases.len()))
        }
        Claim::WinsAll { name, cases: told, of, gain } => {
            same!((*told, *of), (running.len(), cases.len()))?;
            let wins = |(tied, _): &&(Vec<Best>, Vec<Best>)| tied.len() == 1 && tied[0].name == *name;
            holds(running.iter().all(wins), "it does not win all")?;
            gain.map_or(Ok(()), |gain| is_range(Some(gain), leads(&running)))
        }
        Claim::Unbeaten { name, cases: told, of, alone, gain } => {
            same!((*told, *of), (running.len(), cases.len()))?;
            let ties = |(tied, _): &&(Vec<Best>, Vec<Best>)| tied.iter().any(|best| best.name == *name);
            holds(running.iter().copied().all(|standing| ties(&standing)), "it is beaten")?;
            let won: Vec<_> = running.iter().copied().filter(|(tied, _)| tied.len() == 1).collect();
            same!(*alone, won.len())?;
            gain.map_or(Ok(()), |gain| is_range(Some(gain), leads(&won)))
        }
        Claim::TiesAll { name, with, cases: told, of, apart: farthest, saving, .. } => {
            same!((*told, *of), (running.len(), cases.len()))?;
            let always =
                |name: &String| running.iter().all(|(tied, _)| tied.iter().any(|best| best.name == *name));
            let all: Vec<String> = table.contenders().into_iter().filter(always).collect();
            same!(sorted(&[std::slice::from_ref(name), with].concat()), sorted(&all))?;
            let of_all = |(tied, _): &&(Vec<Best>, Vec<Best>)| {
                tied.iter().filter(|best| all.contains(&best.name)).cloned().collect::<Vec<_>>()
            };
            same!(*farthest, apart(&running.iter().map(of_all).collect::<Vec<_>>()))?;
            is_saving(saving, with, |other| {
                let of_case = |(tied, _): &&(Vec<Best>, Vec<Best>)| {
                    let find =
                        |name: &String| tied.iter().find(|best| best.name == *name).expect("it ties").clone();
                    savings(&find(name), &[find(other)])
                };
                let shares: Option<Vec<Vec<f64>>> = running.iter().map(of_case).collect();
                Some(shares?.concat())
            })
        }
        Claim::Where { fastest, gain, cases: told, apart: farthest, .. } => {
            let standings: Vec<_> = told.iter().map(|case| table.stand(&table.within(case))).collect();
            for (tied, _) in &standings {
                same!(sorted(&names(tied)), sorted(fastest))?;
            }
            same!(*farthest, apart(standings.iter().map(|(tied, _)| tied)))?;
            match gain {
                Some(_) => is_range(*gain, leads(&standings.iter().collect::<Vec<_>>())),
                None => Ok(()),
            }
        }
        Claim::Counts { of, wins, others, ties, nothing } => {
            same!(*of, cases.len())?;
            same!(*ties, standings.iter().filter(|(tied, _)| tied.len() > 1).count())?;
            same!(*nothing, cases.len() - running.len())?;
            same!(wins.iter().map(|wins| wins.cases).sum::<usize>() + others + ties + nothing, *of)?;
            wins.iter().try_for_each(|wins| {
                let won = |(tied, _): &&&(Vec<Best>, Vec<Best>)| tied.len() == 1 && tied[0].name == wins.name;
                let won: Vec<_> = running.iter().filter(won).copied().collect();
                same!(wins.cases, won.len())?;
                wins.gain.map_or(Ok(()), |gain| is_range(Some(gain), leads(&won)))
            })
        }
        Claim::LeastMemory { name, cases: told } => {
            let leaner = |(tied, _): &(Vec<Best>, Vec<Best>)| {
                tied.iter().all(|best| best.peak.is_some()).then_some(())?;
                let least = &tied[leanest(tied)];
                worth_a_word(savings(least, tied)).map(|_| least.name.clone())
            };
            let leaders: Vec<String> = running.iter().copied().filter_map(leaner).collect();
            let count = |name: &String| leaders.iter().filter(|leader| *leader == name).count();
            same!(*told, count(name))?;
            holds(leaders.iter().all(|other| count(other) <= *told), "another leads more often")
        }
    }
}

fn is_best(table: &Table, told: &Setting, rate: &Rate, found: &Best) -> Result<(), String> {
    same!(&told.name, &found.name)?;
    near(rate.value, found.value)?;
    let rows = table.of(&told.name);
    let row = rows.iter().find(|row| row.point == told.point).ok_or("no such point")?;
    let at = if table.has_variants() { table.setting_name(row) } else { String::new() };
    same!(told.chosen, !at.is_empty())?;
    holds(told.at.is_empty() || told.at == at, "it is elsewhere")?;
    is_rate(table, row, rate)
}

fn is_rate(table: &Table, row: &Row, rate: &Rate) -> Result<(), String> {
    same!(rate.speed, table.speed)?;
    near(rate.value, table.value(row).unwrap_or(f64::NAN))?;
    near(rate.step_time_s, row.step_time().unwrap_or(f64::NAN))
}

/// Speed of the fastest over that of the slowest of contenders that only their errors let tie.
fn apart<'b>(tied: impl IntoIterator<Item = &'b Vec<Best>>) -> Option<f64> {
    tied.into_iter().flatten().filter_map(|best| best.apart).reduce(f64::max)
}

/// Memory saved against each other contender; `None` if one is not known.
fn savings(best: &Best, others: &[Best]) -> Option<Vec<f64>> {
    others.iter().map(|other| Some(1.0 - best.peak? / other.peak?)).collect()
}

fn worth_a_word(shares: Option<Vec<f64>>) -> Option<Vec<f64>> {
    shares.filter(|shares| shares.iter().any(|share| *share >= ALIKE))
}

/// Checks a saving against the contender it names, which is the first of the others.
fn is_saving(
    told: &Option<Saving>,
    with: &[String],
    against: impl Fn(&String) -> Option<Vec<f64>>,
) -> Result<(), String> {
    let Some(Saving { against: other, share }) = told else { return Ok(()) };
    same!(Some(other), with.first())?;
    holds(share.high >= ALIKE, "that is nothing")?;
    is_range(Some(*share), against(other))
}

/// Speed of the only fastest over the next best, wherever there is a next.
fn leads(standings: &[&(Vec<Best>, Vec<Best>)]) -> Option<Vec<f64>> {
    let lead = |(tied, slower): &&(Vec<Best>, Vec<Best>)| {
        let next = slower.iter().map(|best| best.value).reduce(f64::max)?;
        (tied.len() == 1).then(|| tied[0].value / next)
    };
    let leads: Vec<f64> = standings.iter().filter_map(lead).collect();
    (!leads.is_empty()).then_some(leads)
}

/// Reason of a contender's failed rows, if all have the same.
fn why(table: &Table, contender: &str) -> Option<FailureKind> {
    let kinds: Vec<Option<&str>> = table.of(contender).iter().map(|row| row.text("failure.kind")).collect();
    let kind = match kinds[0]? {
        "out-of-memory" => FailureKind::OutOfMemory,
        "deadlock" => FailureKind::Deadlock,
        "limit" => FailureKind::Limit,
        "infeasible" => FailureKind::Infeasible,
        other => panic!("an unknown kind of failure, {other}"),
    };
    kinds.iter().all(|other| *other == kinds[0]).then_some(kind)
}

/// The step by cause.
fn times(row: &Row) -> IndexMap<String, f64> {
    let part = |(title, text): (&str, &str)| {
        Some((title.strip_prefix("time_breakdown_s.")?.to_owned(), text.parse().ok()?))
    };
    row.cells().filter_map(part).collect()
}

fn names(bests: &[Best]) -> Vec<String> {
    bests.iter().map(|best| best.name.clone()).collect()
}

fn sorted(names: &[String]) -> Vec<String> {
    let mut names = names.to_vec();
    names.sort();
    names.dedup();
    names
}

fn is_range(told: Option<Range>, found: Option<Vec<f64>>) -> Result<(), String> {
    match (told, found) {
        (None, None) => Ok(()),
        (Some(Range { low, high }), Some(found)) if !found.is_empty() => {
            near(low, found.iter().copied().fold(f64::INFINITY, f64::min))?;
            near(high, found.iter().copied().fold(f64::NEG_INFINITY, f64::max))
        }
        (told, found) => Err(format!("told {told:?}, found {found:?}")),
    }
}

fn near(told: f64, found: f64) -> Result<(), String> {
    holds((told - found).abs() <= found.abs().max(1e-9) * 1e-9, &format!("told {told}, found {found}"))
}

fn holds(is: bool, otherwise: &str) -> Result<(), String> {
    if is { Ok(()) } else { Err(otherwise.to_owned()) }
}
