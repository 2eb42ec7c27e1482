//! Plans beside the best one: without each of its techniques, and by rules of thumb.

use reports::summary::{Alternative, AlternativePlan, Ratio, RunSummary};

use super::super::Refusal;
use super::best::Found;
use super::goal::Figures;
use super::group::{Place, splits};
use super::hunt::Hunt;
use super::rules;
use crate::experiment::sweep::Axis;

/// Values that leave out what a setting would do.
const PLAIN: [&str; 2] = ["none", "false"];

/// Plans beside the best one of a hunt that has ended; `best` is its run.
///
/// # Errors
/// A mistake in foretrain.
pub(super) fn alternatives(hunt: &mut Hunt<'_>, best: &RunSummary) -> Result<Vec<Alternative>, Refusal> {
    let mut all = Vec::new();
    for (axis, name) in used(hunt, best) {
        let space = hunt.space;
        let plain = move |place: Place| is_plain(&space.experiment.axes()[axis], space.digits(place)[axis]);
        let found = hunt.part(Box::new(plain))?;
        all.push(told(
            hunt,
            best,
            Alternative { name: format!("without {name}"), ..Alternative::default() },
            found,
        )?);
    }
    all.extend(rules::plans(hunt, best)?);
    Ok(all)
}

/// Axes whose techniques the best plan uses and may do without, with their names.
fn used(hunt: &Hunt<'_>, best: &RunSummary) -> Vec<(usize, String)> {
    let axes = hunt.space.experiment.axes().iter().enumerate();
    let used = |(number, axis): (usize, &Axis)| {
        let [path] = &axis.paths[..] else { return None };
        let may_be_plain = (0..axis.len()).any(|digit| is_plain(axis, digit));
        let uses = !PLAIN.contains(&best.point.get(path)?.as_str());
        (uses && may_be_plain && !splits(path))
            .then(|| (number, path.rsplit('.').next().unwrap_or(path).to_owned()))
    };
    axes.filter_map(used).collect()
}

fn is_plain(axis: &Axis, digit: u64) -> bool {
    axis.value(digit).iter().all(|node| PLAIN.contains(&node.value.plain().as_str()))
}

/// A kind of alternative with the best plan that there is of it. `None`: the search was stopped before.
pub(super) fn told(
    hunt: &Hunt<'_>,
    best: &RunSummary,
    alternative: Alternative,
    found: Option<Option<Found>>,
) -> Result<Alternative, Refusal> {
    let Some(found) = found else { return Ok(Alternative { stopped: true, ..alternative }) };
    let Some(Found { place, figures, .. }) = found else { return Ok(alternative) };
    let Ok(scenario) = hunt.space.scenario(place) else { return Ok(alternative) };
    let run = hunt.space.run(&scenario).map_err(|reason| hunt.space.broken(place, reason))?;
    let of_run = |run: Box<RunSummary>| plan(&hunt.space.named(place, *run), &figures, best);
    Ok(Alternative { plan: run.map(of_run), ..alternative })
}

/// A plan beside another that is better.
pub(super) fn plan(run: &RunSummary, figures: &Figures, best: &RunSummary) -> AlternativePlan {
    AlternativePlan {
        variant: run.variant.clone(),
        point: run.point.clone(),
        step_time_s: run.step_time().unwrap_or_default(),
        objective: figures[0],
        relative_to_best: Ratio::of(run, best),
    }
}
