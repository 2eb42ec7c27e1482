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

/// Decides all that the techniques of a scenario leave open; where no way fits, for the first.
///
/// # Errors
/// A mistake in foretrain, in words.
pub(super) fn decided(scenario: &Scenario, seed: u64) -> Result<Decided<'_>, String> {
    let ways = scenario.techniques.alternatives();
    let count = ways.len();
    let mut best: Option<(f64, String, Techniques)> = None;
    for (name, techniques) in ways.iter().cloned() {
        // One step of one seed tells which is the fastest.
        let way = Scenario { techniques, run: Run::default(), ..scenario.clone() };
        let time = one::attempt(&way, seed)?.and_then(|run| run.step_time());
        if let Some(time) = time.filter(|time| best.as_ref().is_none_or(|(least, ..)| time < least)) {
            best = Some((time, name, way.techniques));
        }
    }
    let note = best.as_ref().map(|(time, name, _)| {
        format!(
            "of {count} ways to swap the fastest was taken, {name}: {} per step",
            quantity::seconds(*time)
        )
    });
    let first = ways.into_iter().next().map(|(_, techniques)| techniques);
    let techniques = best.map(|(.., techniques)| techniques).or(first);
    let scenario = match techniques {
        Some(techniques) => Cow::Owned(Scenario { techniques, ..scenario.clone() }),
        None => Cow::Borrowed(scenario),
    };
    Ok(Decided { scenario, note })
}
