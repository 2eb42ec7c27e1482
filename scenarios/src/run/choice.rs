//! Decisions that techniques leave open are taken by simulation: each way is tried, and the fastest
//! that fits is run.

use std::borrow::Cow;

use reports::quantity;

use super::one;
use crate::schema::{Run, Scenario, Techniques};

/// A scenario that leaves nothing open.
pub(super) struct Decided<'a> {
    pub(super) scenario: Cow<'a, Scenario>,
    /// A note on the decision and its reason.
    pub(super) note: Option<String>,
}

/// Decides all that the techniques of a scenario leave open; where no way fits, for the last.
///
/// # Errors
/// A mistake in foretrain, in words.
pub(super) fn decided(scenario: &Scenario, seed: u64) -> Result<Decided<'_>, String> {
    let fastest = fastest(scenario, seed)?;
    let fewer = fastest.scenario.techniques.instead();
    if fewer.is_empty() || time(&fastest.scenario, seed)?.is_some() {
        return Ok(fastest);
    }
    let mut best: Option<(f64, (String, Scenario))> = None;
    for (name, techniques) in fewer {
        let way = Scenario { techniques, ..fastest.scenario.as_ref().clone() };
        best = faster(best, time(&way, seed)?, (name, way));
    }
    Ok(best.map_or(fastest, |(_, (name, way))| {
        let note = format!("what was written does not fit: {name} was taken, the fastest that does");
        Decided { scenario: Cow::Owned(way), note: Some(note) }
    }))
}

/// The fastest way to do what the techniques of a scenario leave open.
fn fastest(scenario: &Scenario, seed: u64) -> Result<Decided<'_>, String> {
    let mut ways = scenario.techniques.alternatives();
    let count = ways.len();
    let Some(last) = ways.pop() else {
        return Ok(Decided { scenario: Cow::Borrowed(scenario), note: None });
    };
    let with = |techniques| Scenario { techniques, ..scenario.clone() };
    let mut best: Option<(f64, (String, Techniques))> = None;
    for way in ways {
        best = faster(best, time(&with(way.1.clone()), seed)?, way);
    }
    // Where no other fits it is the last, which the run itself tells about.
    if best.is_some() {
        best = faster(best, time(&with(last.1.clone()), seed)?, last.clone());
    }
    let note = best.as_ref().map(|(time, (name, _))| {
        let time = quantity::seconds(*time);
        format!("of {count} ways the fastest that fits was taken, {name}: {time} per step")
    });
    let (_, techniques) = best.map_or(last, |(_, way)| way);
    // That a technique has nothing to do is no choice to tell about.
    let note = note.filter(|_| count > 2);
    Ok(Decided { scenario: Cow::Owned(with(techniques)), note })
}

/// The faster of two ways.
fn faster<W>(best: Option<(f64, W)>, time: Option<f64>, way: W) -> Option<(f64, W)> {
    match (best, time) {
        (Some((least, best)), Some(time)) if time >= least => Some((least, best)),
        (_, Some(time)) => Some((time, way)),
        (best, None) => best,
    }
}

/// Step time of a scenario that leaves nothing open, where it fits; one step of one seed tells.
fn time(scenario: &Scenario, seed: u64) -> Result<Option<f64>, String> {
    let once = Scenario { run: Run::default(), ..scenario.clone() };
    Ok(one::attempt(&once, seed)?.and_then(|run| run.step_time()))
}
