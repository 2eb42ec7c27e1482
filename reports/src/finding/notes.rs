//! Notes to the finding: evidence, steps and bandwidth shares that did not settle, idle GPUs, what runs say of themselves.

use indexmap::{IndexMap, IndexSet};

use super::{NAMED, list};
use crate::quantity;
use crate::ranking::Comparison;
use crate::summary::{DriveState, IdleGpus, NewDrives, RunSummary, Summary};

/// Key of estimates among the kinds of evidence of a run.
const ESTIMATE: &str = "estimate";

/// Evidence of a step, as a line: `62.0 % measured elsewhere, 38.0 % data sheet`. `None`: one kind.
pub(crate) fn rests_on(run: &RunSummary) -> Option<String> {
    let mut shares: Vec<_> =
        run.provenance.iter().filter(|(_, share)| share.is_finite() && **share > 0.0).collect();
    shares.sort_by(|a, b| b.1.total_cmp(a.1));
    let text = |(origin, share): &(&String, &f64)| format!("{} {origin}", quantity::percent(**share));
    (shares.len() > 1).then(|| shares.iter().map(text).collect::<Vec<_>>().join(", "))
}

/// Conditions of the verdict, with the evidence where most of it is estimated.
pub(crate) fn conditions(summary: &Summary, all: &Comparison<'_>) -> String {
    let sentences = [Some(summary.conditions.clone()), mostly_estimated(all)].into_iter().flatten();
    sentences.filter(|sentence| !sentence.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Share of a step that rests on estimates where that is more than half, as a sentence beside the
/// headline.
fn mostly_estimated(all: &Comparison<'_>) -> Option<String> {
    let (_, run) = all.shown()?;
    let share = run.provenance.get(ESTIMATE).copied().filter(|share| *share > 0.5)?;
    let step = match all.runs().count() {
        1 => "the step",
        _ => "the best step",
    };
    Some(format!("{} of {step} rests on estimates.", quantity::percent(share)))
}

/// Names runs whose step time is a mean over different steps. `None`: all settled.
pub(crate) fn unsteady(all: &Comparison<'_>) -> Option<String> {
    let names = named(all, |run| run.steady == Some(false))?;
    Some(format!(
        "Steps of {names} do not repeat: they took unequally long, or did not leave memories and drives as they \
         found them; the step time is a mean over them"
    ))
}

/// Tells in which state drives are, where steps of new ones do not repeat, as sentences.
pub(crate) fn drive_states(all: &Comparison<'_>) -> Vec<String> {
    let states: Vec<(&RunSummary, &DriveState)> =
        all.runs().filter_map(|run| Some((run, run.drive_state.as_ref()?))).collect();
    let named = |lasting: bool| {
        let names = states.iter().filter(|(_, state)| state.lasting == lasting);
        let names: Vec<String> = names.map(|(run, _)| all.naming.run(run)).collect();
        (!names.is_empty()).then(|| list(&names, NAMED))
    };
    let of_new = |ratio: fn(&RunSummary, &NewDrives) -> Option<f64>| {
        let ratios = states.iter().filter_map(|(run, state)| ratio(run, state.new.as_ref()?));
        let ratios: Vec<f64> = ratios.filter(|ratio| ratio.is_finite()).collect();
        let [least, most] = [f64::min, f64::max].map(|of| ratios.iter().copied().reduce(of));
        let [least, most] = [format!("{:.2}", least?), format!("{:.2}", most?)];
        Some(if least == most { format!("{least} times") } else { format!("{least} to {most} times") })
    };
    let lasting = named(true).map(|names| {
        let time = of_new(|run, new| Some(new.step_time_s? / run.step_time_s?));
        let time = time.map_or_else(String::new, |times| format!("; a step of new ones takes {times} as long"));
        let years = of_new(|run, new| Some(new.drive_lifetime_years? / run.drive_lifetime_years?));
        let years = years.map_or_else(String::new, |times| format!(", and they would last {times} as long"));
        format!(
            "Drives of {names} are as long training leaves them, their write caches used up or their chips hot as \
             steps keep them{time}{years}"
        )
    });
    let new = named(false).map(|names| {
        format!(
            "Drives of {names} are new, and steps use up their write caches or heat them: \
             `run: {{ drives: lasting }}` tells what lasts"
        )
    });
    lasting.into_iter().chain(new).collect()
}

/// Names runs whose bandwidth shares did not converge. `None`: all did.
pub(crate) fn approximate(all: &Comparison<'_>) -> Option<String> {
    let names = named(all, |run| run.unsettled.is_some())?;
    Some(format!(
        "Bandwidth shares did not converge in {names}: the times of some concurrent transfers are approximate"
    ))
}

/// Names the runs of which something is true. `None`: of none.
fn named(all: &Comparison<'_>, is_so: impl Fn(&RunSummary) -> bool) -> Option<String> {
    let names: Vec<String> = all.runs().filter(|run| is_so(run)).map(|run| all.naming.run(run)).collect();
    (!names.is_empty()).then(|| list(&names, NAMED))
}

/// Notes that runs carry, each once, with the runs that it is about unless these are all.
pub(crate) fn notes(all: &Comparison<'_>) -> Vec<String> {
    let mut groups: IndexMap<&str, Vec<String>> = IndexMap::new();
    for (note, run) in all.runs().flat_map(|run| run.notes.iter().map(move |note| (note, run))) {
        groups.entry(note).or_default().push(all.naming.run(run));
    }
    let count = all.runs().count();
    let worded = |(note, names): (&str, Vec<String>)| match names.len() == count {
        true => note.to_owned(),
        false => format!("{}: {note}", list(&names, NAMED)),
    };
    groups.into_iter().map(worded).collect()
}

/// Names GPUs without a rank. `None`: all runs use all GPUs.
pub(crate) fn idle(all: &Comparison<'_>) -> Option<String> {
    let mut groups: IndexMap<&IdleGpus, Vec<String>> = IndexMap::new();
    for (idle, name) in all.runs().filter_map(|run| Some((run.idle_gpus.as_ref()?, all.naming.run(run)))) {
        groups.entry(idle).or_default().push(name);
    }
    let everywhere = groups.len() == 1 && groups[0].len() == all.runs().count();
    let told = |(IdleGpus { count, first, last }, names): (&&IdleGpus, &Vec<String>)| {
        let gpus = match count {
            1 => format!("1 GPU is idle, {first}"),
            _ => format!("{count} GPUs are idle, {first} to {last}"),
        };
        if everywhere { gpus } else { format!("{gpus}, in {}", list(names, NAMED)) }
    };
    (!groups.is_empty()).then(|| groups.iter().map(told).collect::<Vec<_>>().join("; "))
}

/// Which variants are said to fit without the allocator's verdict, by the reason, as a sentence; `None`: it judged all. They are ranked
/// with the others. Segments had 2.8 to 9.3 % more than tensors when measured (`simumax-memory`), 0.3 to 3.6 % in replays.
pub(crate) fn without_allocator(all: &Comparison<'_>) -> Option<String> {
    let mut groups: IndexMap<&str, IndexSet<&str>> = IndexMap::new();
    for (reason, run) in all.runs().filter_map(|run| Some((run.fits_without_allocator()?, run))) {
        groups.entry(reason).or_default().insert(&run.variant);
    }
    let told = |(reason, names): (&&str, &IndexSet<&str>)| {
        format!("{} ({reason})", list(&names.iter().collect::<Vec<_>>(), NAMED))
    };
    let groups_told = groups.iter().map(told).collect::<Vec<_>>().join("; ");
    let counted = if all.runs().any(RunSummary::is_judged_by_allocator) {
        "; for the other variants they are"
    } else {
        ""
    };
    (!groups.is_empty()).then(|| {
        format!(
            "Memory is judged without the allocator for {groups_told}: fragments, typically 1 to 9 %, are not counted{counted}"
        )
    })
}

/// Price of the step that variants pay for fitting, as their allocator waits for the GPU and
/// returns what is free (`cudaMalloc` retries of PyTorch), as a sentence; `None`: none does. Of
/// runs whose price is not simulated it names only the variants.
pub(crate) fn retrying(all: &Comparison<'_>) -> Option<String> {
    let (mut priced, retrying): (Vec<_>, Vec<_>) = all
        .runs()
        .filter(|run| run.allocator.iter().any(|stage| stage.retries > 0))
        .partition(|run| run.retries_s.is_some());
    if retrying.is_empty() {
        let cost = |run: &RunSummary| run.retries_s.unwrap_or(0.0) / run.step_time_s.unwrap_or(f64::INFINITY);
        priced.sort_by(|a, b| cost(b).total_cmp(&cost(a)));
        return priced.first().filter(|run| cost(run) > 0.0).map(|run| {
            format!(
                "Memory that its allocator returns and asks for again in every step (retries) takes {} of that of {}",
                quantity::percent(cost(run)),
                run.variant
            )
        });
    }
    let names: IndexSet<&String> = retrying.iter().map(|run| &run.variant).collect();
    (!names.is_empty()).then(|| {
        format!(
            "The step of {} is longer than simulated where its allocator waits for the GPU to return memory (retries)",
            list(&names.iter().collect::<Vec<_>>(), NAMED)
        )
    })
}
