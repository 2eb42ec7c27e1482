//! Decisions that techniques leave open are taken by simulation: each way is tried, and the fastest
//! that fits is run.

use std::borrow::Cow;

use reports::quantity;

use super::one::{self, Ran};
use crate::schema::{Run, Scenario};

/// A scenario that leaves nothing open.
pub(super) struct Decided<'a> {
    pub(super) scenario: Cow<'a, Scenario>,
    /// A note on the decision and its reason.
    pub(super) note: Option<String>,
    /// The run that was tried, if it was as the scenario says.
    pub(super) tried: Option<Ran>,
}

/// Decides all that the techniques of a scenario leave open; where no way fits, for the last.
///
/// # Errors
/// A mistake in foretrain, in words.
pub(super) fn decided(scenario: &Scenario, seed: u64) -> Result<Decided<'_>, String> {
    let mut decided = fastest(scenario, seed)?;
    let fewer = decided.scenario.techniques.instead();
    if decided.tried.is_none() && !fewer.is_empty() {
        decided.tried = attempt(&decided.scenario, seed)?;
    }
    if decided.tried.is_none() {
        let mut best = None;
        for (name, techniques) in fewer {
            let way = Scenario { techniques, ..decided.scenario.as_ref().clone() };
            best = faster(best, attempt(&way, seed)?, (name, way));
        }
        if let Some((run, (name, way))) = best {
            let note = format!("what was written does not fit: {name} was taken, the fastest that does");
            decided = Decided { scenario: Cow::Owned(way), note: Some(note), tried: Some(run) };
        }
    }
    decided.tried = decided.tried.filter(|_| scenario.run == once(scenario));
    Ok(decided)
}

/// The fastest way to do what the techniques of a scenario leave open.
fn fastest(scenario: &Scenario, seed: u64) -> Result<Decided<'_>, String> {
    let mut ways = scenario.techniques.alternatives();
    let count = ways.len();
    let Some(last) = ways.pop() else {
        return Ok(Decided { scenario: Cow::Borrowed(scenario), note: None, tried: None });
    };
    let with = |techniques| Scenario { techniques, ..scenario.clone() };
    let mut best = None;
    for way in ways {
        best = faster(best, attempt(&with(way.1.clone()), seed)?, way);
    }
    // Where no other fits it is the last, which the run itself tells about.
    if best.is_some() {
        best = faster(best, attempt(&with(last.1.clone()), seed)?, last.clone());
    }
    let Some((tried, (name, techniques))) = best else {
        return Ok(Decided { scenario: Cow::Owned(with(last.1)), note: None, tried: None });
    };
    let time = quantity::seconds(tried.summary.step_time().unwrap_or_default());
    let note = format!("of {count} ways the fastest that fits was taken, {name}: {time} per step");
    // That a technique has nothing to do is no choice to tell about.
    let note = Some(note).filter(|_| count > 2);
    Ok(Decided { scenario: Cow::Owned(with(techniques)), note, tried: Some(tried) })
}

/// The faster of two ways, each with its run; the first if they are equal.
fn faster<W>(best: Option<(Ran, W)>, run: Option<Ran>, way: W) -> Option<(Ran, W)> {
    match (best, run) {
        (Some((best, first)), Some(run)) if best.summary.step_time() <= run.summary.step_time() => {
            Some((best, first))
        }
        (_, Some(run)) => Some((run, way)),
        (best, None) => best,
    }
}

/// The run of a scenario that leaves nothing open, where it fits.
fn attempt(scenario: &Scenario, seed: u64) -> Result<Option<Ran>, String> {
    one::attempt(&Scenario { run: once(scenario), ..scenario.clone() }, seed)
}

/// One step of one seed tells which way is the fastest, with drives in the same state.
fn once(scenario: &Scenario) -> Run {
    Run { drives: scenario.run.drives, ..Run::default() }
}
