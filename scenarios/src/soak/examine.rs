//! Reads, sizes up and runs a scenario, and says what does not hold.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use reports::summary::{FailureKind, RunSummary, Summary};

use super::{floors, properties, ratios};
use crate::run::{Options, Plan, Unwatched, execute, plan};
use crate::{Experiment, Failure, load};

/// What must hold and does not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{property}: {detail}")]
pub struct Breach {
    /// The property, in a few words that are the same for every case.
    pub property: &'static str,
    /// The run, and the numbers that contradict it.
    pub detail: String,
}

/// How far a scenario came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Refused when it was read, with all problems.
    Refused(String),
    /// Refused when it was sized up, or too large to be run here.
    NotRun(String),
    /// Run.
    Ran(Verdicts),
    /// Ended by a panic.
    Panicked,
}

/// Number of runs by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdicts {
    /// With a step time.
    pub fit: u64,
    /// Out of memory.
    pub short: u64,
    /// Points whose sizes do not multiply.
    pub infeasible: u64,
    /// None of these.
    pub other: u64,
}

/// An examined scenario.
#[derive(Clone, Debug)]
pub struct Examined {
    /// How far it came.
    pub outcome: Outcome,
    /// What does not hold.
    pub breaches: Vec<Breach>,
}

/// Activities of a changed library file, at most, that is run: a fraction of a second.
const CHEAP_ACTIVITIES: u64 = 30_000;
/// Runs of such a file at most.
const CHEAP_RUNS: u64 = 4;

/// Examines a scenario that should be valid: it is run in several ways that must give one result.
pub fn examine(text: &str) -> Examined {
    sized(text, |experiment, sized, breaches| {
        let Some((summary, verdicts)) = run(experiment, sized, breaches) else {
            return Outcome::Ran(Verdicts::default());
        };
        repeat(text, experiment, &summary, breaches);
        Outcome::Ran(verdicts)
    })
}

/// Examines a changed library file, which may be refused: it is run if that is cheap, and then once.
pub fn examine_changed(text: &str) -> Examined {
    sized(text, |experiment, sized, breaches| {
        if sized.activities > CHEAP_ACTIVITIES || sized.runs + sized.infeasible > CHEAP_RUNS {
            return Outcome::NotRun("not cheap".to_owned());
        }
        let outcome = run(experiment, sized, breaches);
        Outcome::Ran(outcome.map_or_else(Verdicts::default, |(_, verdicts)| verdicts))
    })
}

/// Reads a scenario, sizes it up and goes on with it, unless it is refused before.
fn sized(text: &str, go_on: impl FnOnce(&Experiment, &Plan, &mut Vec<Breach>) -> Outcome) -> Examined {
    guarded(|breaches| {
        let experiment = match read(text, &[]) {
            Ok(experiment) => experiment,
            Err(failure) => return refused(&failure, breaches),
        };
        match plan(&experiment, &options(1), &Unwatched) {
            Ok(sized) => go_on(&experiment, &sized, breaches),
            Err(refusal) => Outcome::NotRun(refusal.to_string()),
        }
    })
}

/// Turns a panic into a breach.
fn guarded(work: impl FnOnce(&mut Vec<Breach>) -> Outcome) -> Examined {
    let mut breaches = Vec::new();
    match catch_unwind(AssertUnwindSafe(|| work(&mut breaches))) {
        Ok(outcome) => Examined { outcome, breaches },
        Err(panic) => {
            let words = panic.downcast_ref::<String>().cloned();
            let words = words.or_else(|| panic.downcast_ref::<&str>().map(|&word| word.to_owned()));
            let detail = words.unwrap_or_else(|| "without words".to_owned());
            breaches.push(Breach { property: "no panic", detail });
            Examined { outcome: Outcome::Panicked, breaches }
        }
    }
}

fn read(text: &str, settings: &[&str]) -> Result<Experiment, Failure> {
    let files = BTreeMap::from([("soak.yaml".to_owned(), text.as_bytes().to_vec())]);
    let settings: Vec<String> = settings.iter().map(|&setting| setting.to_owned()).collect();
    load(&files, "soak.yaml", &settings)
}

/// A refusal names a place and a remedy for every problem.
fn refused(failure: &Failure, breaches: &mut Vec<Breach>) -> Outcome {
    let mut wrong = |detail: &str| {
        breaches.push(Breach { property: "problems have place and remedy", detail: detail.to_owned() });
    };
    if failure.problems.is_empty() {
        wrong("a failure without problem");
    }
    for problem in &failure.problems {
        if problem.notes.is_empty() || problem.help.is_none() {
            wrong(&problem.message);
        }
    }
    if failure.render(true).is_empty() {
        wrong("a failure without words");
    }
    Outcome::Refused(failure.render(false))
}

/// Runs what was sized up, and checks every result.
fn run(experiment: &Experiment, sized: &Plan, breaches: &mut Vec<Breach>) -> Option<(Summary, Verdicts)> {
    let mut wrong = |property, detail| breaches.push(Breach { property, detail });
    let summary = match execute(experiment, &options(1), &Unwatched) {
        Ok(summary) => summary,
        Err(refusal) => {
            wrong("check and run agree", refusal.to_string());
            return None;
        }
    };
    let verdicts = tally(&summary.variants);
    if verdicts.infeasible != sized.infeasible {
        let reasons = summary.variants.iter().filter_map(|run| run.failure.as_ref());
        let reasons: Vec<&str> = reasons.map(|failure| failure.message.as_str()).collect();
        let detail = format!(
            "{} runs are impossible, not {}: {}",
            verdicts.infeasible,
            sized.infeasible,
            reasons.join("; ")
        );
        wrong("check and run agree", detail);
    }
    let simulated: u64 = summary.variants.iter().filter_map(|run| run.activities).sum();
    if simulated > sized.activities {
        let detail = format!("{simulated} activities, estimated at most {}", sized.activities);
        wrong("the estimate is an upper bound", detail);
    }
    for run in &summary.variants {
        breaches.extend(properties::breaches(run));
    }
    breaches.extend(floors::breaches(experiment, &summary.variants));
    let value = reports::json::value(&summary).unwrap_or_default();
    breaches.extend(
        ratios::outside(&value).into_iter().map(|detail| Breach { property: "ratios from 0 to 1", detail }),
    );
    Some((summary, verdicts))
}

fn tally(runs: &[RunSummary]) -> Verdicts {
    let mut verdicts = Verdicts::default();
    for run in runs {
        let count = match run.failure.as_ref().map(|failure| failure.kind) {
            None if run.step_time().is_some() => &mut verdicts.fit,
            Some(FailureKind::OutOfMemory) => &mut verdicts.short,
            Some(FailureKind::Infeasible) => &mut verdicts.infeasible,
            _ => &mut verdicts.other,
        };
        *count += 1;
    }
    verdicts
}

/// Every rank and every operation simulated, and several runs at a time, change no result.
fn repeat(text: &str, experiment: &Experiment, summary: &Summary, breaches: &mut Vec<Breach>) {
    let mut compare = |property, other: Summary| {
        let detail = summary.variants.iter().zip(&other.variants).find_map(|(a, b)| difference(a, b));
        breaches.extend(detail.map(|detail| Breach { property, detail }));
    };
    for (property, setting) in
        [("the same unfolded", "run.fold=never"), ("the same without segments", "run.segments=never")]
    {
        if let Ok(other) = read(text, &[setting])
            && let Ok(other) = execute(&other, &options(1), &Unwatched)
        {
            compare(property, other);
        }
    }
    if summary.variants.len() > 1
        && let Ok(other) = execute(experiment, &options(4), &Unwatched)
    {
        compare("the same on 4 threads", other);
    }
}

/// The first field in which two runs differ. Activities are counted as they are simulated.
fn difference(a: &RunSummary, b: &RunSummary) -> Option<String> {
    let value = |run: &RunSummary| reports::json::value(&RunSummary { activities: None, ..run.clone() });
    let (Ok(a_value), Ok(b_value)) = (value(a), value(b)) else { return Some(a.label()) };
    if a_value == b_value {
        return None;
    }
    let (a_fields, b_fields) = (a_value.as_object()?, b_value.as_object()?);
    let mut names = a_fields.keys().chain(b_fields.keys());
    let field = names.find(|&name| a_fields.get(name) != b_fields.get(name))?;
    let told = |value: Option<&serde_json::Value>| {
        value.map_or_else(|| "absent".to_owned(), ToString::to_string).chars().take(200).collect::<String>()
    };
    Some(format!("{}: {field} {} and {}", a.label(), told(a_fields.get(field)), told(b_fields.get(field))))
}

fn options(jobs: usize) -> Options {
    Options { seed: 1, jobs: Some(jobs), variants: Vec::new(), reproduce: String::new() }
}
