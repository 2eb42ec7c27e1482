//! The answer in one sentence, also when the answer is no.

mod failure;
mod sweep;

pub use failure::verdict;
pub(crate) use failure::{brief_verdict, failed_briefly};

use crate::quantity;
use crate::ranking::{Comparison, Point, Speed, tied};
use crate::summary::{IdleGpus, RunSummary};

/// What the comparison of `runs` over the swept `axes` found, as one sentence with its full stop.
#[must_use]
pub fn finding(runs: &[RunSummary], axes: &[String]) -> String {
    let all = Comparison::of(runs, axes);
    let sentence = match all.points.as_slice() {
        [] => "Nothing was run".to_owned(),
        [point] => one_point(point, all.speed),
        _ if all.variants().len() == 1 => sweep::one_variant(&all),
        _ => sweep::several_variants(&all),
    };
    format!("{sentence}.")
}

/// What the step of a run rests on, as a line: `62.0 % measured elsewhere, 38.0 % data sheet`; none if that is one thing.
pub(crate) fn rests_on(run: &RunSummary) -> Option<String> {
    let mut shares: Vec<_> =
        run.provenance.iter().filter(|(_, share)| share.is_finite() && **share > 0.0).collect();
    shares.sort_by(|a, b| b.1.total_cmp(a.1));
    let text = |(origin, share): &(&String, &f64)| format!("{} {origin}", quantity::percent(**share));
    (shares.len() > 1).then(|| shares.iter().map(text).collect::<Vec<_>>().join(", "))
}

/// Which runs have a step time that is a mean over different steps, as a sentence; none if all settled.
pub(crate) fn unsteady(all: &Comparison<'_>) -> Option<String> {
    let runs = all.points.iter().flat_map(|point| &point.runs).filter(|run| run.steady == Some(false));
    let names: Vec<String> = runs.map(|run| all.naming.run(run)).collect();
    (!names.is_empty()).then(|| {
        format!(
            "Successive steps of {} did not take equally long: the step time is a mean over them",
            list_owned(&names)
        )
    })
}

/// Which GPUs no rank runs on, as a sentence; none if all runs use all.
pub(crate) fn idle(all: &Comparison<'_>) -> Option<String> {
    let runs = || all.points.iter().flat_map(|point| &point.runs);
    let mut groups: Vec<(&IdleGpus, Vec<String>)> = Vec::new();
    for (idle, name) in runs().filter_map(|run| Some((run.idle_gpus.as_ref()?, all.naming.run(run)))) {
        match groups.iter_mut().find(|(known, _)| *known == idle) {
            Some((_, names)) => names.push(name),
            None => groups.push((idle, vec![name])),
        }
    }
    let everywhere = matches!(&groups[..], [(_, names)] if names.len() == runs().count());
    let told = |(idle, names): &(&IdleGpus, Vec<String>)| {
        let IdleGpus { count, first, last } = idle;
        let gpus = match count {
            1 => format!("1 GPU is idle, {first}"),
            _ => format!("{count} GPUs are idle, {first} to {last}"),
        };
        if everywhere { gpus } else { format!("{gpus}, in {}", list_owned(names)) }
    };
    (!groups.is_empty()).then(|| groups.iter().map(told).collect::<Vec<_>>().join("; "))
}

/// Which variants are said to fit without the allocator's verdict, by the reason, as a sentence; `None`: it judged all. They are ranked
/// with the others. Segments had 2.8 to 9.3 % more than tensors when measured (`simumax-memory`), 0.3 to 3.6 % in replays.
pub(crate) fn without_allocator(all: &Comparison<'_>) -> Option<String> {
    let runs = || all.points.iter().flat_map(|point| &point.runs);
    let mut groups: Vec<(&str, Vec<String>)> = Vec::new();
    for (reason, run) in runs().filter_map(|run| Some((run.fits_without_allocator()?, run))) {
        match groups.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, names)) if names.contains(&run.variant) => {}
            Some((_, names)) => names.push(run.variant.clone()),
            None => groups.push((reason, vec![run.variant.clone()])),
        }
    }
    let told = |(reason, names): &(&str, Vec<String>)| format!("{} ({reason})", list_owned(names));
    let groups_told = groups.iter().map(told).collect::<Vec<_>>().join("; ");
    let counted =
        if runs().any(|run| run.is_judged_by_allocator()) { "; for the other variants they are" } else { "" };
    (!groups.is_empty()).then(|| {
        format!(
            "Memory is judged without the allocator for {groups_told}: fragments, typically 1 to 9 %, are not counted{counted}"
        )
    })
}

/// Which variants fit only as their allocator waits for the GPU and returns what is free (`cudaMalloc` retries of PyTorch), as a
/// sentence; `None`: none does.
pub(crate) fn retrying(all: &Comparison<'_>) -> Option<String> {
    let mut names: Vec<String> = Vec::new();
    let runs = all.points.iter().flat_map(|point| &point.runs);
    for run in runs.filter(|run| run.allocator.iter().any(|stage| stage.retries > 0)) {
        if !names.contains(&run.variant) {
            names.push(run.variant.clone());
        }
    }
    (!names.is_empty()).then(|| {
        format!(
            "The step of {} is longer than simulated where its allocator waits for the GPU to return memory (retries)",
            list_owned(&names)
        )
    })
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
    let why = |run: &RunSummary| {
        let holders = run.failure.as_ref().and_then(failure::who_holds);
        format!("{}{}", verdict(run), holders.map(|holders| format!("; {holders}")).unwrap_or_default())
    };
    if let [run] = point.runs[..] {
        return format!("{} {}", run.variant, why(run));
    }
    let closest =
        point.runs.iter().filter_map(|run| Some((*run, short(run)?))).min_by_key(|(_, bytes)| *bytes);
    match closest {
        Some((run, _)) => format!("No variant fits; the closest is {}, which {}", run.variant, why(run)),
        None => format!("No variant can be run; {}", failures(point)),
    }
}

/// `a and b do not fit, c deadlocks`.
fn failures(point: &Point<'_>) -> String {
    let failed = point.runs.iter().filter(|run| run.step_time().is_none());
    failure::by_kind(failed.copied(), "")
}

/// `98.6 samples/s (1.46 s a step)`, or the step time alone.
fn speed_and_time(run: &RunSummary, value: f64, speed: Speed) -> String {
    let step = format!("{} a step", quantity::seconds(run.step_time().unwrap_or(f64::NAN)));
    match speed {
        Speed::Tokens | Speed::Samples => format!("{} ({step})", speed.text(value)),
        Speed::MicroBatches | Speed::Steps => step,
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
