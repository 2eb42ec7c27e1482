//! Plans beside the best one: of other variants, without each of its techniques, by rules of thumb,
//! and by a closed form.

use reports::summary::{Alternative, AlternativePlan, Ratio, RunSummary};

use super::super::Refusal;
use super::best::Found;
use super::goal::Figures;
use super::group::{Place, splits};
use super::hunt::Hunt;
use super::rules;
use super::space::Space;
use crate::experiment::sweep::Axis;

/// Values that leave out what a setting would do.
const PLAIN: [&str; 3] = ["none", "false", "even"];

const BY_BOUNDS: &str = "a closed form: operators of the slowest stage, fill and drain, where nothing waits or shares a \
                         link; the first plan by it that fits";

/// Plans beside the best one of a hunt that has ended, which is at a place and has a run.
///
/// # Errors
/// A mistake in foretrain.
pub(super) fn alternatives(
    hunt: &mut Hunt<'_>,
    (place, best): (Place, &RunSummary),
) -> Result<Vec<Alternative>, Refusal> {
    let mut all = Vec::new();
    let variants = hunt.space.variants.iter().filter(|variant| **variant != hunt.space.variant(place));
    for variant in variants.copied().collect::<Vec<_>>() {
        let space = hunt.space;
        let found = hunt.part(Box::new(move |place| space.variant(place) == variant))?;
        let other = Alternative { name: format!("variant {variant}"), ..Alternative::default() };
        all.push(told(hunt.space, best, other, found)?);
    }
    for (axis, name) in used(hunt.space.experiment.axes(), &hunt.space.digits(place)) {
        let space = hunt.space;
        let plain = move |place: Place| is_plain(&space.experiment.axes()[axis], space.digits(place)[axis]);
        let found = hunt.part(Box::new(plain))?;
        let name = match name.as_str() {
            "stage_layers" => "with as many layers on all stages".to_owned(),
            technique => format!("without {technique}"),
        };
        let without = Alternative { name, ..Alternative::default() };
        all.push(told(hunt.space, best, without, found)?);
    }
    all.extend(rules::plans(hunt, (place, best))?);
    if let Some(found) = hunt.of_least_bound() {
        let by_bounds = Alternative {
            name: "by bounds, without simulations".to_owned(),
            source: Some(BY_BOUNDS.to_owned()),
            ..Alternative::default()
        };
        all.push(told(hunt.space, best, by_bounds, Some(Some(found)))?);
    }
    Ok(all)
}

/// Numbers of the axes whose techniques a plan with these digits uses and may do without, with their
/// names.
pub(super) fn used(axes: &[Axis], digits: &[u64]) -> Vec<(usize, String)> {
    let axes = axes.iter().zip(digits.iter().copied()).enumerate();
    let used = |(number, (axis, digit)): (usize, (&Axis, u64))| {
        let [path] = &axis.paths[..] else { return None };
        let may_be_plain = (0..axis.len()).any(|digit| is_plain(axis, digit));
        (!is_plain(axis, digit) && may_be_plain && !splits(path))
            .then(|| (number, path.rsplit('.').next().unwrap_or(path).to_owned()))
    };
    axes.filter_map(used).collect()
}

pub(super) fn is_plain(axis: &Axis, digit: u64) -> bool {
    axis.value(digit).iter().all(|node| PLAIN.contains(&node.value.plain().as_str()))
}

/// A kind of alternative with the best plan that there is of it. `None`: the search was stopped before.
pub(super) fn told(
    space: &Space<'_>,
    best: &RunSummary,
    alternative: Alternative,
    found: Option<Option<Found>>,
) -> Result<Alternative, Refusal> {
    let Some(found) = found else { return Ok(Alternative { stopped: true, ..alternative }) };
    let Some(Found { place, figures, run }) = found else { return Ok(alternative) };
    let simulated = || {
        let Ok(scenario) = space.scenario(place) else { return Ok(None) };
        space.run(&scenario).map_err(|reason| space.broken(place, reason))
    };
    let run = run.map_or_else(simulated, |run| Ok(Some(run)))?;
    Ok(Alternative { plan: run.map(|run| plan((space, place), &run, &figures, best)), ..alternative })
}

/// A plan beside another that is better.
pub(super) fn plan(
    (space, place): (&Space<'_>, Place),
    run: &RunSummary,
    figures: &Figures,
    best: &RunSummary,
) -> AlternativePlan {
    AlternativePlan {
        variant: space.variant(place).to_owned(),
        point: space.values(place),
        step_time_s: run.step_time().unwrap_or_default(),
        objective: figures[0],
        relative_to_best: Ratio::of(run, best),
    }
}
